-- What fits no other family.

return function()
  return {}
end
