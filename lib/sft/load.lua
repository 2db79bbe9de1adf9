-- sft.load, see serialize.lua.
return require("sft.serialize").load
