"""Pooling and local response normalization as native steps: numbers of windows that slide over a tensor.

What follows sums is instructions on them before they are stored: operand 0 is the sums, in float32, and operand k from
2 on is the step's input k.  Input 1 is the tensor again, and is not read.  Sums of a quantized tensor are float64, in
which they are exact: whether a mean is above or below a half decides the result.  Then input 1 is the scale, and the
last one the zero point.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import Code, Instruction, Value
from dmlgraph.devices.cpu.parts import Part, Parts, Tensor, operands, packed_step
from dmlgraph.operators.common.windows import Sizes, Windows
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.normalization import LocalResponseNormalization
from dmlgraph.operators.normalization_grad import LocalResponseNormalizationGrad
from dmlgraph.operators.patches import Fold
from dmlgraph.operators.pooling import (
    AveragePooling,
    AveragePooling1,
    AveragePoolingGrad,
    LpPooling,
    LpPooling1,
    MaxPooling,
    MaxPooling1,
    MaxPooling2,
    MaxPoolingGrad,
    MaxUnpooling,
    QuantizedLinearAveragePooling,
)

Payload = tuple[str, Any]

_SUMS = Value(0, DataType.FLOAT32)
_EXACT_SUMS = Value(0, DataType.FLOAT64)  # of a quantized tensor
_OPERAND = 2  # the port of the first one of instructions
_MOST_INDICES = 2**32 - 1  # elements of a plane whose places 32 bits hold
_EXPONENTS = {0.5: ("SQRT",), 1.0: (), 0.75: ("SQRT", "SQRT")}


def _maximum(operator: Any) -> Payload | None:
    x, indices = operator.input, operator.indices_desc
    if indices is not None and math.prod(x.sizes[2:]) >= _MOST_INDICES:
        return None
    code = Code()
    if x.dtype.is_float:
        code.convert(_SUMS, x.dtype)
    window = operator.window
    is_reduction = indices is None and window.taps == x.sizes[2:] and not any((*window.start, *window.end))
    return "native", ("pooling", *_step(window, code, is_maximum=True, from_infinity=is_reduction))


def _average(operator: Any) -> Payload | None:
    x, parts, code = operator.input, Parts(), Code()
    divisors = parts.constant(_divisors(operator.window, x.sizes[2:], operator.include_padding), DataType.FLOAT32)
    code.convert(code.add("DIVIDE", _SUMS, Value(_OPERAND, DataType.FLOAT32)), x.dtype)
    _pool(parts, operator, code, divisors)
    return parts.finish()


def _quantized_average(operator: QuantizedLinearAveragePooling) -> Payload | None:
    dtype, parts, code = operator.output.dtype, Parts(), Code()
    rank = operator.output.rank
    divisors = parts.constant(
        _divisors(operator.window, operator.input.sizes[2:], operator.include_padding), DataType.FLOAT32
    )
    divisor, step = (Value(_OPERAND + k, DataType.FLOAT32) for k in range(2))
    mean = code.add("DIVIDE", code.convert(_EXACT_SUMS, DataType.FLOAT32), divisor)
    read = [divisors, Tensor(_port(operator, "output_scale"), operator.output_scale)]
    if operator.output_zero_point is None:
        # The mean of no elements is the greatest integer: CLIP makes infinity of NaN.
        steps = code.add("CLIP", code.add("DIVIDE", mean, step), immediates=(-math.inf, math.inf))
        code.add("QUANTIZE", steps, Value(_OPERAND + 2, DataType.FLOAT32), result=dtype)
        read.append(parts.number(1, DataType.FLOAT32, rank))
    else:
        code.append(Instruction("QUANTIZE_FROM", (mean.place, step.place, _OPERAND + 2), DataType.FLOAT32, dtype))
        read.append(Tensor(_port(operator, "output_zero_point"), operator.output_zero_point))
    port, zero_point = _port(operator, "input_zero_point"), operator.input_zero_point
    scale = Tensor(_port(operator, "input_scale"), operator.input_scale)
    _pool(parts, operator, code, *read, quantized=(scale, port if zero_point is None else Tensor(port, zero_point)))
    return parts.finish()


def _port(operator: Operator, field: str) -> int:
    return operator.input_fields.index(field)


def _divisors(window: Windows, sizes: Sizes, include_padding: bool) -> Array:
    """The divisors of windows' sums, {1, 1, counts…}, or {1, 1, 1, …} if all are the same.

    They are the number of each window's taps, or of those inside the tensor.
    """
    inside = list(window.inside_counts(sizes))
    if include_padding:
        divisors = np.array(window.tap_count)
    elif all((each == each[0]).all() for each in inside):
        divisors = np.array(math.prod(int(each[0]) for each in inside))
    else:
        divisors = np.asarray(functools.reduce(np.multiply.outer, inside))
    return divisors.reshape(1, 1, *divisors.shape or (1,) * len(sizes))


def _norm(operator: Any) -> Payload | None:
    x, p, parts, code = operator.input, operator.p, Parts(), Code()
    root = _SUMS
    if p == 2:
        root = code.add("SQRT", _SUMS)
    elif p > 2:
        root = code.add("CONSTANT_POW", _SUMS, immediates=(1 / p,))
    code.convert(root, x.dtype)
    _pool(parts, operator, code, power=p)
    return parts.finish()


def _neighbourhood(
    operator: LocalResponseNormalization | LocalResponseNormalizationGrad, x: TensorDesc
) -> Windows | None:
    """The windows whose squares are added.

    Returns None for logarithms of negative numbers, and infinity to the power of 0.
    """
    positive = all(math.isfinite(each) and each >= 0 for each in (operator.alpha, operator.bias))
    if not positive or operator.beta == 0:
        return None
    before, after = (operator.local_size - 1) // 2, operator.local_size // 2
    sizes = x.sizes[1:] if operator.cross_channel else x.sizes[2:]
    extends = [axis in operator.neighbourhood for axis in range(x.rank - len(sizes), x.rank)]
    # Neighbours beyond the tensor add nothing.
    start = tuple(min(before, size - 1) if each else 0 for each, size in zip(extends, sizes, strict=True))
    end = tuple(min(after, size - 1) if each else 0 for each, size in zip(extends, sizes, strict=True))
    taps = tuple(1 + sum(each) for each in zip(start, end, strict=True))
    one = (1,) * len(sizes)
    return Windows(taps, one, one, start, end)


def _local_response(operator: LocalResponseNormalization) -> Payload | None:
    x = operator.input
    window = _neighbourhood(operator, x)
    if window is None:
        return None
    parts, code = Parts(), Code()
    base = code.add("LINEAR", _SUMS, immediates=(operator.alpha_share, operator.bias))
    numerator = code.convert(Value(_OPERAND, x.dtype), DataType.FLOAT32)
    result = code.add("DIVIDE", numerator, _power(code, base, operator.beta))
    code.convert(result, operator.output.dtype)
    _pool(parts, operator, code, Tensor(0, x), window=window, power=2)
    return parts.finish()


def _local_response_gradient(operator: LocalResponseNormalizationGrad) -> Payload | None:
    """g / s^beta − 2 · alpha · beta / size · x · Σ (g / s^beta · x / s), with the sums s of squares."""
    desc = operator.input
    window = _neighbourhood(operator, desc)
    if window is None:
        return None
    parts, whole = Parts(), TensorDesc(dtype=DataType.FLOAT32, sizes=desc.sizes)
    x, gradient = (parts.single(Tensor(port, each)) for port, each in enumerate(operator.input_descs) if each)
    code = Code()
    code.add("LINEAR", _in_range(code, _SUMS, desc.dtype), immediates=(operator.alpha_share, operator.bias))
    base = _sums_of(parts, window, code, x, output=whole, power=2)
    code = Code()
    number, divisor = operands(gradient, base)
    code.add("DIVIDE", number, _power(code, divisor, operator.beta))
    direct = parts.compute(code, gradient, base, output=whole)
    code = Code()
    passed, number, divisor = operands(direct, x, base)
    code.add("MULTIPLY", passed, code.add("DIVIDE", number, divisor))
    products = parts.compute(code, direct, x, base, output=whole)
    code = Code()
    passed, number = (Value(_OPERAND + k, DataType.FLOAT32) for k in range(2))
    share = code.add("LINEAR", number, immediates=(2 * operator.alpha_share * operator.beta, 0.0))
    result = code.add("SUBTRACT", passed, code.add("MULTIPLY", share, _SUMS))
    code.convert(result, operator.output_gradient.dtype)
    _sums_of(parts, window, code, products, direct, x, output=operator.output_gradient)
    return parts.finish()


def _in_range(code: Code, x: Value, dtype: DataType) -> Value:
    """x, but infinite or zero if it is in the type."""
    if dtype is x.dtype:
        return x
    kept = code.convert(code.convert(x, dtype), x.dtype)
    is_infinite = code.add("IS_INFINITY", kept, result=DataType.UINT8, immediates=(0,))
    is_zero = code.add("EQUAL", kept, code.add("LINEAR", kept, immediates=(0.0, 0.0)), result=DataType.UINT8)
    return code.add("IF", code.add("LOGICAL_OR", is_infinite, is_zero), kept, x)


def _sums_of(
    parts: Parts, window: Windows, code: Code, x: Tensor, *read: Tensor, output: TensorDesc, power: int = 0
) -> Tensor:
    """Sums of the windows of a tensor's powers, or of its elements: `read` are operands of the instructions."""
    parameters, epilogue = _step(window, code, power=power)
    return parts.step("pooling", parameters, x, x, *read, output=output, epilogue=epilogue)


def _power(code: Code, base: Value, exponent: float) -> Value:
    if exponent not in _EXPONENTS:
        return code.add("CONSTANT_POW", base, immediates=(exponent,))
    roots = [base]
    for opcode in _EXPONENTS[exponent]:
        roots.append(code.add(opcode, roots[-1]))
    return roots[-1] if len(roots) < 3 else code.add("MULTIPLY", *roots[1:])  # √x · √√x


def _pool(
    parts: Parts,
    operator: Any,
    code: Code,
    *read: Tensor,
    window: Windows | None = None,
    quantized: tuple[Tensor, Tensor | int] | None = None,
    power: int = 0,
) -> None:
    """Sums of the input's windows: `read` are operands of the instructions, `quantized` its scale and zero point."""
    x, output = Tensor(0, operator.input), operator.output
    scale, *zero_point = (x,) if quantized is None else quantized
    repeated = [each._replace(desc=each.desc.broadcast_to(output.sizes)) for each in read]
    parameters, epilogue = _step(window or operator.window, code, power=power)
    parts.step("pooling", parameters, x, scale, *repeated, *zero_point, output=output, epilogue=epilogue)


def _step(window: Windows, code: Code, **more: Any) -> tuple[Mapping[str, Any], tuple[Instruction, ...]]:
    """The parameters of the struct in native/cpu/steps/pooling.h, and the instructions."""
    epilogue = code.finish()
    if epilogue is None:
        raise LookupError("pooling needs a kernel that does not exist")
    return {"is_maximum": False, "from_infinity": False, "power": 0, **_fields(window), **more}, epilogue


def _fields(window: Windows) -> dict[str, Any]:
    return {"taps": window.taps, "strides": window.strides, "dilations": window.dilations, "padding": window.start}


def _maximum_gradient(operator: MaxPoolingGrad) -> Payload | None:
    if math.prod(operator.input.sizes[2:]) >= _MOST_INDICES:
        return None
    return packed_step("pooling_gradient", operator, {"is_maximum": True, **_fields(operator.window)})


def _average_gradient(operator: AveragePoolingGrad) -> Payload | None:
    """The gradient divided by the number of each window's taps, then added at all of them."""
    parts, gradient, output = Parts(), operator.input_gradient, operator.output_gradient
    divisors = parts.constant(_divisors(operator.window, output.sizes[2:], operator.include_padding), gradient.dtype)
    code = Code()
    given = (Tensor(0, gradient), divisors)
    code.add("DIVIDE", *operands(*given))
    shares = parts.compute(code, *given, output=TensorDesc(dtype=gradient.dtype, sizes=gradient.sizes))
    parameters = {"is_maximum": False, **_fields(operator.window)}
    total = parts.step("pooling_gradient", parameters, shares, output=output.like())
    if output.strides is not None:
        parts.copy(total, output)
    return parts.finish()


def _fold(operator: Fold) -> Payload | None:
    """Floats are added in float64, which is rounded once."""
    parts, output = Parts(), operator.output
    is_half = output.dtype is DataType.FLOAT16
    x = Tensor(0, operator.input)
    x = parts.single(x) if is_half else parts.packed(x)
    sums = output.like(strides=None, dtype=DataType.FLOAT64) if is_half else output.like(strides=None)
    parameters = {
        "planes": math.prod(output.sizes[:2]),
        "sizes": output.sizes[2:],
        "blocks": operator.blocks(output.sizes),
        "window": operator.window_sizes,
        "strides": operator.strides,
        "dilations": operator.dilations,
        "padding": operator.start_padding,
    }
    made = parts.step("fold", parameters, x, output=sums)
    if sums != output:
        parts.convert_to(made, output)
    return parts.finish()


def _unpool(operator: MaxUnpooling) -> Payload | None:
    x, indices, output = operator.input, operator.indices, operator.output
    if any(desc.strides is not None for desc in (x, indices, output)):
        return None
    count, size = x.element_count, output.element_count
    zeros = TensorDesc(dtype=x.dtype, sizes=(size,))
    given = tuple([TensorDesc(dtype=desc.dtype, sizes=(count,)) for desc in (indices, x)])
    parameters = {"tuples": count, "slice": 1, "sizes": (size,)}
    return "parts", (
        Part("fill", (), (), zeros, bytes(x.dtype.bits // 8)),
        Part("native", (~0, 1, 0), (zeros, *given), output, ("scatter", parameters)),
    )


WINDOWS: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    **dict.fromkeys((AveragePooling, AveragePooling1), _average),
    **dict.fromkeys((LpPooling, LpPooling1), _norm),
    **dict.fromkeys((MaxPooling, MaxPooling1, MaxPooling2), _maximum),
    QuantizedLinearAveragePooling: _quantized_average,
    MaxPoolingGrad: _maximum_gradient,
    AveragePoolingGrad: _average_gradient,
    MaxUnpooling: _unpool,
    LocalResponseNormalization: _local_response,
    LocalResponseNormalizationGrad: _local_response_gradient,
    Fold: _fold,
}
