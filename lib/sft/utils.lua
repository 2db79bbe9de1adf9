-- sft.utils: helpers that belong to no other part.

return {
  progress = require "sft.progress",
  ordered = require "sft.ordered",
  json = require "sft.json",
  options = require "sft.options",
}
