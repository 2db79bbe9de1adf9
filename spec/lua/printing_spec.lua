-- tostring(x), against what PyTorch prints.
-- luacheck: no max line length

local sft = require "sft"
local nan, inf = sft.nan, sft.inf

describe("printing", function()
  local cases = {
    {{{1.0, 2.0}, {3.0, 4.0}}, "float32", [=[tensor([[1., 2.],
        [3., 4.]])]=]},
    {{1.5, 2.25}, "float32", [=[tensor([1.5000, 2.2500])]=]},
    {{0.1234567, 100.5}, "float32", [=[tensor([  0.1235, 100.5000])]=]},
    {{1e-05, 1.0}, "float32", [=[tensor([1.0000e-05, 1.0000e+00])]=]},
    {{10000000000.0, 1.0}, "float32", [=[tensor([1.0000e+10, 1.0000e+00])]=]},
    {{1.0, nan, inf, -inf}, "float32", [=[tensor([1., nan, inf, -inf])]=]},
    {{0.5, nan, -inf}, "float32", [=[tensor([0.5000,    nan,   -inf])]=]},
    {{0.0, 0.0}, "float32", [=[tensor([0., 0.])]=]},
    {{1, 2, -300}, "int64", [=[tensor([   1,    2, -300])]=]},
    {{true, false}, "bool", [=[tensor([ True, False])]=]},
    {{1, 2}, "int32", [=[tensor([1, 2], dtype=sft.int32)]=]},
    {3, "int64", [=[tensor(3)]=]},
    {2.5, "float32", [=[tensor(2.5000)]=]},
    {1e-07, "float64", [=[tensor(1.0000e-07, dtype=sft.float64)]=]},
    {{}, "float32", [=[tensor([])]=]},
    {{{}, {}}, "float32", [=[tensor([], size=[2, 0])]=]},
    {true, "bool", [=[tensor(True)]=]},
    {{1.5, -2.0}, "float16", [=[tensor([ 1.5000, -2.0000], dtype=sft.float16)]=]},
    {{1.5, 3.14}, "bfloat16", [=[tensor([1.5000, 3.1406], dtype=sft.bfloat16)]=]},
    {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}, "int64", [=[tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])]=]},
    {{0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0, 30.0, 31.0, 32.0, 33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0}, "float32", [=[tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,
        28., 29., 30., 31., 32., 33., 34., 35., 36., 37., 38., 39.])]=]},
    {{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}, "int64", [=[tensor([[[1, 2],
         [3, 4]],

        [[5, 6],
         [7, 8]]])]=]},
    {{{{{1.5}}}}, "float64", [=[tensor([[[[1.5000]]]], dtype=sft.float64)]=]},
    {{0.001, 1e-06}, "float32", [=[tensor([1.0000e-03, 1.0000e-06])]=]},
    {{1234567.0, 2.0}, "float32", [=[tensor([1.2346e+06, 2.0000e+00])]=]},
    {{100000000.0, 100000008.0}, "float32", [=[tensor([1.0000e+08, 1.0000e+08])]=]},
    {{200000000.0}, "float32", [=[tensor([2.0000e+08])]=]},
    {{nan, nan}, "float32", [=[tensor([nan, nan])]=]},
    {{-0.0, 1.0}, "float32", [=[tensor([-0., 1.])]=]},
    {{1e-45}, "float32", [=[tensor([1.4013e-45])]=]},
    {255, "uint8", [=[tensor(255, dtype=sft.uint8)]=]},
    {{inf}, "float32", [=[tensor([inf])]=]},
    {{1e+38, -1e+38}, "float64", [=[tensor([ 1.0000e+38, -1.0000e+38], dtype=sft.float64)]=]},
    {{0.001}, "float32", [=[tensor([0.0010])]=]},
    {{1e-05}, "float32", [=[tensor([1.0000e-05])]=]},
  }

  for i, case in ipairs(cases) do
    it("writes case " .. i .. " (" .. case[2] .. ") as PyTorch does", function()
      assert.equal(case[3], tostring(sft.tensor(case[1], {dtype = case[2]})))
    end)
  end

  it("summarises beyond 1000 elements, with the shape", function()
    assert.equal("tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n"
      .. "        1.9990e+03], shape=[2000])", tostring(sft.arange(2000.0)))
    local text = tostring(sft.arange(1200):reshape(30, 40))
    assert.truthy(text:find("[   0,    1,    2,  ...,   37,   38,   39],", 1, true))
    assert.truthy(text:find("\n        ...,\n", 1, true))
    assert.truthy(text:find("shape=[30, 40]", 1, true))
    assert.truthy(#tostring(sft.zeros(100, 100, 100)) < 2000)
  end)

  it("tells gradients", function()
    local x = sft.ones(2, {requires_grad = true})
    assert.equal("tensor([1., 1.], requires_grad=True)", tostring(x))
    assert.equal("tensor([2., 2.], grad_fn=<MulBackward>)", tostring(x * 2))
    assert.truthy(tostring(x:double():log_softmax(1)):find("grad_fn=<LogSoftmaxBackward>", 1, true))
  end)

  it("writes views and what is released", function()
    local x = sft.arange(6):reshape(2, 3)
    assert.equal("tensor([[0, 3],\n        [1, 4],\n        [2, 5]])", tostring(x.T))
    x:release()
    assert.equal("tensor(<released>)", tostring(x))
  end)

  it("writes shapes, dtypes and devices", function()
    local x = sft.zeros(2, 3)
    assert.equal("[2, 3]", tostring(x.shape))
    assert.equal("sft.float32", tostring(x.dtype))
    assert.equal("cpu", tostring(x.device))
    assert.equal("cuda:1", tostring(sft.device("cuda", 1)))
    assert.equal("shape [2, 3]", "shape " .. x.shape)
  end)
end)
