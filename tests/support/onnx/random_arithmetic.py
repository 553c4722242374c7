"""Rules for random models: element-wise operators, reductions and quantization."""

from __future__ import annotations

import numpy as np
from onnx import helper
from support.onnx.random_models import Maker, Sample, makes

UNARY = """
    Abs Acos:cosine Acosh:above_one Asin:cosine Asinh Atan Atanh:cosine Ceil Cos Cosh Elu Erf Exp Floor HardSigmoid
    HardSwish Identity LeakyRelu Log:positive Mish Neg Reciprocal:positive Relu Round Selu Sigmoid Sign Sin Sinh
    Softplus Softsign Sqrt:positive Tan Tanh ThresholdedRelu Celu Gelu
"""
BINARY = "Add Sub Mul Div:positive Pow:positive PRelu Mod:integers"
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, -0.5, 7.0, np.inf, -np.inf, np.nan]
COMPARISONS = "Equal Greater Less GreaterOrEqual LessOrEqual"
REDUCTIONS = "Sum Mean Max Min Prod L1 L2 LogSum:positive LogSumExp SumSquare"


@makes(UNARY)
def _unary(m: Maker) -> Sample:
    x = m.numbers(m.shape(0), m.kind)
    m.give(x)
    alpha = {"Elu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Celu"}
    if m.operator in alpha and m.maybe():
        m.attributes["alpha"] = 0.7
    if m.operator == "HardSigmoid" and m.maybe():
        m.attributes["beta"] = 0.4
    if m.operator == "Gelu" and m.maybe():
        m.attributes["approximate"] = m.one_of("none", "tanh")
    return m.sample()


@makes(BINARY)
def _binary(m: Maker) -> Sample:
    shape = m.shape(0)
    one, other = shape, m.broadcasting(shape)
    if m.operator != "PRelu" and m.maybe():
        one, other = other, one
    dtype = "float32"
    if m.operator in ("Add", "Sub", "Mul") and m.maybe(0.3) and m.opset >= 14:
        dtype = m.one_of("int32", "int64")
    kind = m.kind
    m.give(m.numbers(one, kind, dtype))
    m.give(m.numbers(other, kind, dtype))
    if m.operator == "Mod" and m.maybe(0.3):
        m.attributes["fmod"] = 1
    return m.sample(exact=dtype != "float32")


@makes("Pow", since=12)
def _special_power(m: Maker) -> Sample:
    """Of numbers with rules of their own, or integers to whole powers."""
    shape = m.shape(0)
    if m.maybe(0.3):
        m.give(m.rng.integers(-6, 7, shape).astype("int32"))
        m.give(m.rng.integers(0, 6, m.broadcasting(shape)).astype(m.one_of("int32", "int64", "float32")))
        return m.sample(exact=True)
    m.give(m.rng.choice(SPECIAL, shape).astype(np.float32))
    if m.maybe():
        m.give(m.rng.choice(SPECIAL, m.broadcasting(shape)).astype(np.float32))
    else:
        m.fix(m.one_of(*SPECIAL), "float32")
    return m.sample()


@makes("Shrink", since=9)
def _shrink(m: Maker) -> Sample:
    dtype = m.one_of("float32", "float32", "int32", "int8", "uint8")
    m.give(m.numbers(m.shape(0), dtype=dtype))
    m.attributes = {"lambd": m.one_of(None, -0.5, 0.0, 1.5), "bias": m.one_of(None, 0.75, 2.0)}
    return m.sample()


@makes("Sum Mean Max Min", since=8)
def _variadic(m: Maker) -> Sample:
    shape = m.shape(1)
    for _ in range(m.whole(1, 4)):
        m.give(m.numbers(m.broadcasting(shape)))
    return m.sample()


@makes(COMPARISONS)
def _comparison(m: Maker) -> Sample:
    shape = m.shape(0)
    dtype = m.one_of("float32", "int32", "int64") if m.opset >= 11 else "float32"
    if m.opset < 11 and m.operator == "Equal":
        dtype = "int32"
    m.give(m.numbers(shape, "", dtype).round())
    m.give(m.numbers(m.broadcasting(shape), "", dtype).round())
    return m.sample(exact=True)


@makes("And Or Xor Not")
def _logical(m: Maker) -> Sample:
    shape = m.shape(0)
    m.give(m.numbers(shape, dtype="bool"))
    if m.operator != "Not":
        m.give(m.numbers(m.broadcasting(shape), dtype="bool"))
    return m.sample(exact=True)


@makes("Clip")
def _clip(m: Maker) -> Sample:
    m.give(m.numbers(m.shape(0)))
    if m.opset < 11:
        m.attributes = {"min": m.one_of(None, -0.5), "max": m.one_of(None, 0.5)}
        return m.sample(exact=True)
    for limit in (-0.5, 0.5):
        if m.maybe(0.7):
            m.give(np.float32(limit))
        else:
            m.skip()
    return m.sample(exact=True)


@makes("Cast")
def _cast(m: Maker) -> Sample:
    dtypes = ["float32", "float16", "int32", "int64", "uint8", "int8", "bool", "float64"]
    source, to = m.one_of(*dtypes), m.one_of(*dtypes)
    x = m.numbers(m.shape(0), "positive" if source.startswith("f") else "", source)
    m.give(np.abs(x) if to == "uint8" and source != "bool" else x)
    m.attributes["to"] = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    return m.sample(exact=True)


@makes(" ".join(f"Reduce{each}" for each in REDUCTIONS.split()))
def _reduce(m: Maker) -> Sample:
    shape = m.shape(1)
    x = m.numbers(shape, m.kind)
    if m.operator == "ReduceLogSumExp" and m.maybe():
        x = np.where(m.rng.random(shape) < 0.1, m.one_of(np.inf, -np.inf, np.nan), x * 100).astype(np.float32)
    m.give(x)
    m.attributes["keepdims"] = m.one_of(None, 0, 1)
    axes = m.axes(len(shape)) if m.maybe(0.8) else None
    by_input = m.opset >= (13 if m.operator == "ReduceSum" else 18)
    if by_input:
        if m.maybe(0.3):
            m.attributes["noop_with_empty_axes"] = m.one_of(0, 1)
        if axes is not None:
            m.fix(axes)
    else:
        m.attributes["axes"] = axes
    return m.sample()


@makes("ArgMax ArgMin")
def _arg(m: Maker) -> Sample:
    shape = m.shape(1)
    m.give(m.numbers(shape).round() if m.maybe() else m.numbers(shape))
    m.attributes = {"axis": m.one_of(None, m.axis(len(shape))), "keepdims": m.one_of(None, 0, 1)}
    if m.opset >= 12:
        m.attributes["select_last_index"] = m.one_of(None, 0, 1)
    return m.sample(exact=True)


@makes("CumSum", since=11)
def _cum_sum(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    m.give(m.numbers(shape))
    m.fix(m.axis(len(shape)), m.one_of("int32", "int64"))
    m.attributes = {"exclusive": m.one_of(None, 0, 1), "reverse": m.one_of(None, 0, 1)}
    return m.sample()


@makes("QuantizeLinear DequantizeLinear", since=10)
def _quantize(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    axis = m.axis(len(shape)) if m.opset >= 13 and m.maybe() else None
    kind = m.one_of("uint8", "int8")
    size = [] if axis is None else [shape[axis]]
    m.give(m.numbers(shape) * 20 if m.operator == "QuantizeLinear" else m.numbers(shape, dtype=kind) * 7)
    m.give(m.numbers(size, "positive"))
    if m.maybe(0.7) or kind == "int8":
        m.give(m.rng.integers(0, 9, size).astype(kind))
    m.attributes["axis"] = axis
    return m.sample(exact=m.operator == "QuantizeLinear")


@makes("DynamicQuantizeLinear", since=11)
def _dynamic(m: Maker) -> Sample:
    m.give(m.numbers(m.shape(1, 3)) * 3)
    return m.sample(3)


@makes("BitShift", since=11)
def _bit_shift(m: Maker) -> Sample:
    shape = m.shape(1, 3)
    kind = m.one_of("uint8", "uint32", "uint64")
    m.give(m.rng.integers(0, 200, shape).astype(kind))
    m.give(m.rng.integers(0, 7, m.broadcasting(shape)).astype(kind))
    m.attributes["direction"] = m.one_of("LEFT", "RIGHT")
    return m.sample(exact=True)


@makes("IsNaN IsInf", since=10)
def _is_special(m: Maker) -> Sample:
    x = m.numbers(m.shape(1, 3))
    m.give(np.where(m.rng.random(x.shape) < 0.5, m.one_of(np.nan, np.inf, -np.inf), x).astype(np.float32))
    if m.operator == "IsInf":
        m.attributes = {"detect_negative": m.one_of(None, 0, 1), "detect_positive": m.one_of(None, 0, 1)}
    return m.sample(exact=True)
