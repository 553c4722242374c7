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

from dmlgraph.devices.cpu.element_wise import Code, Instruction, Value
from dmlgraph.devices.cpu.parts import Part, Tensor
from dmlgraph.operators.common.windows import Sizes, Windows
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.normalization import LocalResponseNormalization
from dmlgraph.operators.pooling import (
    AveragePooling,
    AveragePooling1,
    LpPooling,
    LpPooling1,
    MaxPooling,
    MaxPooling1,
    MaxPooling2,
    MaxUnpooling,
    QuantizedLinearAveragePooling,
)
from dmlgraph.tensor import DataType, TensorDesc

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
    return "native", _step(window, code, is_maximum=True, from_infinity=is_reduction)


def _average(operator: Any) -> Payload | None:
    x = operator.input
    divisors = _divisor_part(operator, x.dtype)
    code = Code()
    # The sum is rounded to the tensor's type before it is divided, as it is stored there.
    code.add("DIVIDE", code.convert(_SUMS, x.dtype), Value(_OPERAND, x.dtype))
    return "parts", (divisors, _part(operator, code, operator.window, ~0, divisors.output))


def _quantized_average(operator: QuantizedLinearAveragePooling) -> Payload | None:
    dtype, zero_point = operator.output.dtype, operator.output_zero_point
    divisors = _divisor_part(operator, DataType.FLOAT32)
    before = [divisors]
    code = Code()
    mean = code.add("DIVIDE", code.convert(_EXACT_SUMS, DataType.FLOAT32), Value(_OPERAND, DataType.FLOAT32))
    scale = Value(_OPERAND + 1, DataType.FLOAT32)
    read = [Tensor(~0, divisors.output), _tensor(operator, "output_scale")]
    if zero_point is None:
        # The mean of no elements is the greatest integer: CLIP makes infinity of NaN.
        steps = code.add("CLIP", code.add("DIVIDE", mean, scale), immediates=(-math.inf, math.inf))
        one = TensorDesc(dtype=DataType.FLOAT32, sizes=(1,) * operator.output.rank)
        before.append(Part("fill", (), (), one, np.float32(1).tobytes()))
        read.append(Tensor(~1, one))
        code.add("QUANTIZE", steps, Value(_OPERAND + 2, DataType.FLOAT32), result=dtype)
    else:
        read.append(_tensor(operator, "output_zero_point"))
        code.append(Instruction("QUANTIZE_FROM", (mean.place, scale.place, _OPERAND + 2), DataType.FLOAT32, dtype))
    read = [each._replace(desc=each.desc.broadcast_to(operator.output.sizes)) for each in read]
    given = [Tensor(0, operator.input), _tensor(operator, "input_scale"), *read]
    sources = (*[each.source for each in given], operator.input_fields.index("input_zero_point"))
    descs = (*[each.desc for each in given], operator.input_zero_point)
    return "parts", (*before, Part("native", sources, descs, operator.output, _step(operator.window, code)))


def _tensor(operator: Operator, field: str) -> Tensor:
    return Tensor(operator.input_fields.index(field), getattr(operator, field))


def _divisor_part(operator: Any, dtype: DataType) -> Part:
    """The divisors of the windows' sums, as a constant {1, 1, counts…}, or {1, 1, 1, …} if they are the same."""
    x, window = operator.input, operator.window
    divisors = _divisors(window, x.sizes[2:]) if not operator.include_padding else np.array(window.tap_count)
    with np.errstate(over="ignore"):
        divisors = divisors.astype(dtype.numpy).reshape(1, 1, *divisors.shape or (1,) * (x.rank - 2))
    constant = TensorDesc(dtype=dtype, sizes=divisors.shape)
    return Part("constant", (), (), constant, divisors.tobytes().ljust(constant.total_bytes, bytes(1)))


def _divisors(window: Windows, sizes: Sizes) -> Array:
    """The number of each window's taps inside the tensor: {counts…}, or one number if all have the same."""
    inside = list(window.inside_counts(sizes))
    if all((each == each[0]).all() for each in inside):
        return np.array(math.prod(int(each[0]) for each in inside))
    return np.asarray(functools.reduce(np.multiply.outer, inside))


def _norm(operator: Any) -> Payload | None:
    x, p = operator.input, operator.p
    code = Code()
    total = code.convert(_SUMS, x.dtype)
    if p == 2:
        code.add("SQRT", total)
    elif p > 2:
        root = code.add("CONSTANT_POW", code.convert(total, DataType.FLOAT32), immediates=(1 / p,))
        code.convert(root, x.dtype)
    return "parts", (_part(operator, code, operator.window, power=p),)


def _local_response(operator: LocalResponseNormalization) -> Payload | None:
    positive = all(math.isfinite(each) and each >= 0 for each in (operator.alpha, operator.bias))
    if not positive or operator.beta == 0:
        return None  # logarithms of negative numbers, and infinity to the power of 0
    x = operator.input
    before, after = (operator.local_size - 1) // 2, operator.local_size // 2
    sizes = x.sizes[1:] if operator.cross_channel else x.sizes[2:]
    extends = [axis in operator.neighbourhood for axis in range(x.rank - len(sizes), x.rank)]
    # Neighbours beyond the tensor add nothing.
    start = tuple(min(before, size - 1) if each else 0 for each, size in zip(extends, sizes, strict=True))
    end = tuple(min(after, size - 1) if each else 0 for each, size in zip(extends, sizes, strict=True))
    taps = tuple(1 + sum(each) for each in zip(start, end, strict=True))
    one = (1,) * len(sizes)
    code = Code()
    base = code.add("LINEAR", _SUMS, immediates=(operator.alpha_share, operator.bias))
    numerator = code.convert(Value(_OPERAND, x.dtype), DataType.FLOAT32)
    result = code.add("DIVIDE", numerator, _power(code, base, operator.beta))
    code.convert(result, operator.output.dtype)
    return "parts", (_part(operator, code, Windows(taps, one, one, start, end), 0, x, power=2),)


def _power(code: Code, base: Value, exponent: float) -> Value:
    if exponent not in _EXPONENTS:
        return code.add("CONSTANT_POW", base, immediates=(exponent,))
    roots = [base]
    for opcode in _EXPONENTS[exponent]:
        roots.append(code.add(opcode, roots[-1]))
    return roots[-1] if len(roots) < 3 else code.add("MULTIPLY", *roots[1:])  # √x · √√x


def _part(
    operator: Any, code: Code, window: Windows, source: int | None = None, desc: TensorDesc | None = None, **more: Any
) -> Part:
    """Sums of the input's windows; `source` and `desc` are the operand of the instructions, if they have one."""
    sources: tuple[int, ...] = (0,)
    descs: tuple[TensorDesc, ...] = (operator.input,)
    if source is not None and desc is not None:
        sources, descs = (0, 0, source), (*descs, operator.input, desc.broadcast_to(operator.output.sizes))
    return Part("native", sources, descs, operator.output, _step(window, code, **more))


def _step(window: Windows, code: Code, **more: Any) -> tuple[Any, ...]:
    """The step; its parameters are those of the struct in native/cpu/steps/pooling.h."""
    epilogue = code.finish()
    if epilogue is None:
        raise LookupError("pooling needs a kernel that does not exist")
    defaults = {"is_maximum": False, "from_infinity": False, "power": 0}
    fields = {"taps": window.taps, "strides": window.strides, "dilations": window.dilations, "padding": window.start}
    return "pooling", defaults | fields | more, epilogue


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
    MaxUnpooling: _unpool,
    LocalResponseNormalization: _local_response,
}
