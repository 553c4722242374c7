"""Matrix products and convolutions of floats as native steps.

What follows the sums, such as a bias and a fused activation, is instructions on them before they are stored: operand 0
is the sums, in float32, and operand k from 2 on is the step's input k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import Code, Value, activate
from dmlgraph.devices.cpu.movement import surrounded
from dmlgraph.devices.cpu.parts import Part
from dmlgraph.devices.cpu.reduction import REDUCTIONS
from dmlgraph.operators.convolution import Convolution
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode, MatrixTransform
from dmlgraph.operators.matrix import Gemm

Payload = tuple[str, Any]

_SUMS = Value(0, DataType.FLOAT32)
_ADDEND = 2  # its port


def _gemm(operator: Gemm) -> Payload | None:
    activation = operator.fused_activation
    if activation is not None and activation.operator in REDUCTIONS:
        return _followed(operator, activation)
    code = Code()
    result = _scaled(code, _SUMS, operator.alpha)
    if operator.c is not None:
        addend = code.convert(Value(_ADDEND, operator.c.dtype), DataType.FLOAT32)
        result = code.add("ADD", result, _scaled(code, addend, operator.beta))
    return _step(
        "gemm",
        operator,
        operator.input_descs,
        _finished(code, result, operator),
        transposes_a=operator.trans_a is MatrixTransform.TRANSPOSE,
        transposes_b=operator.trans_b is MatrixTransform.TRANSPOSE,
    )


def _followed(operator: Gemm, activation: FusedActivation) -> Payload | None:
    """The product in float32, then the parts of the activation, a softmax or hardmax."""
    sums = TensorDesc(dtype=DataType.FLOAT32, sizes=operator.output.sizes)
    first = _gemm(operator.replace(output=sums, fused_activation=None))
    then = REDUCTIONS[activation.operator](activation.on(sums).replace(output=operator.output))
    if first is None or then is None:
        return None
    return "parts", (*first[1], *(_moved(part, len(first[1])) for part in then[1]))


def _moved(part: Part, places: int) -> Part:
    """The part behind so many others, the last of which gives its operator's input."""
    return part._replace(sources=tuple(~(places - 1) if each >= 0 else each - places for each in part.sources))


def _scaled(code: Code, x: Value, factor: float) -> Value:
    return x if factor == 1 else code.add("LINEAR", x, immediates=(factor, 0.0))


def _convolution(operator: Convolution) -> Payload | None:
    """The convolution, then its output's padding, which is zeros that are activated too."""
    more, output = operator.output_padding, operator.output
    if not any(more):
        return _of_single_elements(operator) or _unpadded(operator)
    activation = operator.fused_activation
    spatial = (size - each for size, each in zip(output.sizes[2:], more, strict=True))
    dtype = output.dtype if activation is None else DataType.FLOAT32
    inner = TensorDesc(dtype=dtype, sizes=(*output.sizes[:2], *spatial))
    first = _unpadded(operator.replace(output=inner, fused_activation=None))
    if first is None:
        return None
    whole = output if activation is None else TensorDesc(dtype=dtype, sizes=output.sizes)
    kind, pieces = surrounded((0,) * output.rank, inner.sizes, output.sizes, bytes(dtype.bits // 8))
    parts = [*first[1], Part(kind, (~0,), (inner,), whole, pieces)]
    if activation is not None:
        code = _finished(Code(), _SUMS, operator)
        instructions = None if code is None else code.finish()
        if instructions is None:
            return None
        parts.append(Part("element_wise", (~1,), (whole,), output, instructions))
    return "parts", tuple(parts)


def _of_single_elements(operator: Convolution) -> Payload | None:
    """A backward convolution of one element a channel, whose output is the filters, weighted and added up.

    That is a product {N, C} · {C, outputs · taps}.  Returns None for other convolutions.
    """
    x, filters, output = operator.input, operator.filter, operator.output
    is_one = (
        operator.direction is ConvolutionDirection.BACKWARD
        and operator.mode is ConvolutionMode.CROSS_CORRELATION
        and operator.group_count == 1
        and math.prod(x.sizes[2:]) == 1
        and output.sizes[2:] == filters.sizes[2:]
        and not any(operator.window.start)
        and all(each == 1 for each in operator.window.dilations)
        and all(each.strides is None for each in (x, filters, output))
    )
    if not is_one:
        return None
    count, channels = x.sizes[:2]
    columns = filters.element_count // channels
    code = Code()
    epilogue = code.finish()
    sums = TensorDesc(dtype=DataType.FLOAT32, sizes=(count, columns))
    given = (x.like(sizes=(count, channels)), filters.like(sizes=(channels, columns)))
    payload = ("gemm", {"transposes_a": False, "transposes_b": False}, epilogue)
    sources, descs, then = [~0], [TensorDesc(dtype=DataType.FLOAT32, sizes=output.sizes)], Code()
    result = Value(0, DataType.FLOAT32)
    if operator.bias is not None:
        bias = operator.bias.broadcast_to(output.sizes)
        sources.append(2)
        descs.append(bias)
        result = then.add("ADD", result, then.convert(Value(1, bias.dtype), DataType.FLOAT32))
    finished = _finished(then, result, operator)
    instructions = None if finished is None else finished.finish()
    if instructions is None:
        return None
    return "parts", (
        Part("native", (0, 1), given, sums, payload),
        Part("element_wise", tuple(sources), tuple(descs), output, instructions),
    )


def _unpadded(operator: Convolution) -> Payload | None:
    code, result, bias = Code(), _SUMS, operator.bias
    if bias is not None:
        bias = bias.broadcast_to(operator.output.sizes)
        result = code.add("ADD", result, code.convert(Value(_ADDEND, bias.dtype), DataType.FLOAT32))
    return _step(
        "convolution",
        operator,
        (operator.input, operator.filter, bias),
        _finished(code, result, operator),
        groups=operator.group_count,
        strides=operator.window.strides,
        dilations=operator.window.dilations,
        padding=operator.window.start,
        mirrored=operator.mode is ConvolutionMode.CONVOLUTION,
        backward=operator.direction is ConvolutionDirection.BACKWARD,
    )


def _finished(code: Code, result: Value, operator: Any) -> Code | None:
    """The code with the fused activation; None if that has no instructions, as softmax."""
    output = operator.output
    if operator.fused_activation is not None:
        activated = activate(code, operator.fused_activation, result, output.dtype)
        if activated is None:
            return None
        result = activated
    code.convert(result, output.dtype)
    return code


def _step(
    name: str, operator: Operator, inputs: tuple[TensorDesc | None, ...], code: Code | None, **parameters: Any
) -> Payload | None:
    """The step; its parameters are those of its struct in native/cpu/steps."""
    epilogue = None if code is None else code.finish()
    if epilogue is None:
        return None
    payload = (name, parameters, epilogue)
    return "parts", (Part("native", tuple(range(len(inputs))), inputs, operator.first_output, payload),)


PRODUCTS: Mapping[type[Operator], Callable[[Any], Payload | None]] = {Gemm: _gemm, Convolution: _convolution}
