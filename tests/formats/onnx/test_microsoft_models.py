"""Models that ONNX Runtime's optimizer has rewritten with operators of com.microsoft."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnxruntime

import dmlgraph as dg

B, S, N, H, WIDE = 2, 5, 3, 4, 20
D = N * H

TRANSFORMER = f"""<ir_version: 10, opset_import: ["" : 17]>
g (float[{B}, {S}, {D}] x, float[{B}, 1, 1, {S}] mask) => (float[{B}, {S}, {D}] y) {{
    q0 = MatMul (x, wq)
    q1 = Add (q0, bq)
    k0 = MatMul (x, wk)
    k1 = Add (k0, bk)
    v0 = MatMul (x, wv)
    v1 = Add (v0, bv)
    heads = Constant <value_ints = [0, 0, {N}, {H}]> ()
    flat = Constant <value_ints = [0, 0, {D}]> ()
    q2 = Reshape (q1, heads)
    k2 = Reshape (k1, heads)
    v2 = Reshape (v1, heads)
    q = Transpose <perm = [0, 2, 1, 3]> (q2)
    k = Transpose <perm = [0, 2, 3, 1]> (k2)
    v = Transpose <perm = [0, 2, 1, 3]> (v2)
    s0 = MatMul (q, k)
    root = Constant <value_float = {H**0.5}> ()
    s1 = Div (s0, root)
    s2 = Add (s1, mask)
    p = Softmax <axis = -1> (s2)
    a0 = MatMul (p, v)
    a1 = Transpose <perm = [0, 2, 1, 3]> (a0)
    a2 = Reshape (a1, flat)
    a3 = MatMul (a2, wo)
    a4 = Add (a3, bo)
    r0 = Add (a4, x)
    n0 = LayerNormalization (r0, g0, b0)
    f0 = MatMul (n0, w1)
    f1 = Add (f0, b1)
    two = Constant <value_float = 1.4142135>()
    e0 = Div (f1, two)
    e1 = Erf (e0)
    one = Constant <value_float = 1.0>()
    e2 = Add (e1, one)
    e3 = Mul (f1, e2)
    half = Constant <value_float = 0.5>()
    e4 = Mul (e3, half)
    f2 = MatMul (e4, w2)
    f3 = Add (f2, b2)
    r1 = Add (f3, n0)
    y = LayerNormalization (r1, g1, b3)
}}"""
WEIGHTS = {
    **{f"w{name}": (D, D) for name in "qkvo"},
    **{f"b{name}": (D,) for name in "qkvo"},
    **dict.fromkeys(("g0", "b0", "g1", "b3", "b2"), (D,)),
    "w1": (D, WIDE),
    "b1": (WIDE,),
    "w2": (WIDE, D),
}


def with_weights(text: str, sizes: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(text)
    for name, shape in sizes.items():
        weights = (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return model


def optimized(model: onnx.ModelProto, path: pathlib.Path) -> set[str]:
    """Writes the model as ONNX Runtime's optimizer makes it; gives its operators of com.microsoft."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {node.op_type for node in onnx.load(path).graph.node if node.domain == "com.microsoft"}


def test_an_optimized_transformer_gives_what_the_original_gives(tmp_path: pathlib.Path) -> None:
    model = with_weights(TRANSFORMER, WEIGHTS)
    fused = optimized(model, tmp_path / "model.onnx")
    assert fused >= {"Gelu", "SkipLayerNormalization"}
    rng = np.random.default_rng(1)
    feeds = {"x": rng.normal(size=(B, S, D)).astype(np.float32)}
    feeds["mask"] = np.where(rng.integers(0, 2, (B, 1, 1, S)) == 0, -1e4, 0).astype(np.float32)
    feeds["mask"][..., 0] = 0
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    graph = dg.load(tmp_path / "model.onnx")
    for device in ("cpu", "reference"):
        (got,) = graph.compile(device).run(feeds).values()
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def quantized(name: str, scale: str) -> str:
    """Lines that quantize a value, and give it back as numbers: its name with a d in front."""
    return f"""
    q{name} = QuantizeLinear ({name}, {scale}, zero)
    d{name} = DequantizeLinear (q{name}, {scale}, zero)"""


NETWORK = f"""<ir_version: 10, opset_import: ["" : 13]>
g (float[1, 4, 8, 8] x) => (float[1, 16, 4, 4] y) {{{quantized("x", "s0")}
    dw = DequantizeLinear (qw, sw, zw)
    c = Conv <pads = [1, 1, 1, 1]> (dx, dw){quantized("c", "s1")}
    l = LeakyRelu <alpha = 0.2> (dc){quantized("l", "s0")}
    t = Sigmoid (dc){quantized("t", "s2")}
    a = Add (dl, dt){quantized("a", "s0")}
    m = Mul (dl, da){quantized("m", "s1")}
    j = Concat <axis = 1> (da, dm){quantized("j", "s1")}
    p = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (dj){quantized("p", "s0")}
    z = GlobalAveragePool (dp){quantized("z", "s3")}
    y = Mul (dp, dz)
}}"""


def test_an_optimized_quantized_network_gives_what_onnx_runtime_gives(tmp_path: pathlib.Path) -> None:
    model = onnx.parser.parse_model(NETWORK)
    rng = np.random.default_rng(0)
    scales = {"s0": 0.05, "s1": 0.08, "s2": 0.01, "s3": 0.02, "sw": 0.003}
    known = {name: np.array(each, np.float32) for name, each in scales.items()}
    known |= {"zero": np.array(100, np.uint8), "zw": np.array(0, np.int8)}
    known["qw"] = rng.integers(-63, 64, (8, 4, 3, 3)).astype(np.int8)  # 7 bits, as Chance.weights
    model.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in known.items())
    fused = optimized(model, tmp_path / "model.onnx")
    assert fused >= {"QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearLeakyRelu", "QLinearSigmoid"}
    x = rng.normal(size=(1, 4, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(onnx.load(tmp_path / "model.onnx").SerializeToString())
    (expected,) = session.run(None, {"x": x})
    graph = dg.load(tmp_path / "model.onnx")
    for device in ("cpu", "reference"):
        (got,) = graph.compile(device).run({"x": x}).values()
        away = np.abs(got - expected)
        assert away.max() <= scales["s0"] * np.abs(expected).max()  # a step or less
        assert (away > 1e-6).mean() < 0.1
