-- sft.save, see serialize.lua.
return require("sft.serialize").save
