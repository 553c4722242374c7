"""Matrix products and convolutions of floats as native steps.

What follows the sums, such as a bias and a fused activation, is instructions on them before they are stored: operand 0
is the sums, in float32, and operand k from 2 on is the step's input k.
"""

from __future__ import annotations

import math

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import finished
from dmlgraph.devices.cpu.expressions import Expression, Operand, instructions
from dmlgraph.devices.cpu.large_windows import with_large_windows
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.movement import surrounded
from dmlgraph.devices.cpu.nodes import Lowered, Native, Part
from dmlgraph.devices.cpu.parts import Parts
from dmlgraph.devices.cpu.reduction import REDUCTIONS
from dmlgraph.devices.cpu.windows import placement
from dmlgraph.operators.convolution import Convolution
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode, MatrixTransform
from dmlgraph.operators.matrix import Gemm

SUMS = Operand(0, DataType.FLOAT32)
_ADDEND = 2  # its port


def _gemm(operator: Gemm) -> tuple[Part, ...] | None:
    activation = operator.fused_activation
    if activation is not None and activation.operator in REDUCTIONS:
        return _followed(operator, activation)
    result = _scaled(SUMS, operator.alpha)
    if operator.c is not None:
        addend = Operand(_ADDEND, operator.c.dtype).convert(DataType.FLOAT32)
        result = result + _scaled(addend, operator.beta)
    step = cpu_steps.Gemm(
        transposes_a=operator.trans_a is MatrixTransform.TRANSPOSE,
        transposes_b=operator.trans_b is MatrixTransform.TRANSPOSE,
    )
    return _step(step, operator, operator.input_descs, result)


def _followed(operator: Gemm, activation: FusedActivation) -> tuple[Part, ...] | None:
    """The product in float32, then the parts of the activation, a softmax or hardmax."""
    sums = TensorDesc(dtype=DataType.FLOAT32, sizes=operator.output.sizes)
    first = _gemm(operator.replace(output=sums, fused_activation=None))
    then = REDUCTIONS[activation.operator](activation.on(sums).replace(output=operator.output))
    if first is None or not isinstance(then, tuple):
        return None
    parts = Parts(operator)
    product = parts.extend(first)
    return parts.extend(then, {0: product}).finish()


def _scaled(x: Expression, factor: float) -> Expression:
    return x if factor == 1 else x.linear(factor)


def _convolution(operator: Convolution) -> Lowered | None:
    """The convolution, then its output's padding, which is zeros that are activated too."""
    more, output = operator.output_padding, operator.output
    if not any(more):
        return _of_single_elements(operator) or with_large_windows(operator) or _unpadded(operator)
    activation = operator.fused_activation
    spatial = (size - each for size, each in zip(output.sizes[2:], more, strict=True))
    dtype = output.dtype if activation is None else DataType.FLOAT32
    inner = TensorDesc(dtype=dtype, sizes=(*output.sizes[:2], *spatial))
    first = _unpadded(operator.replace(output=inner, fused_activation=None))
    if first is None:
        return None
    parts = Parts(operator)
    convolved = parts.extend(first)
    whole = output if activation is None else TensorDesc(dtype=dtype, sizes=output.sizes)
    zeros = surrounded((0,) * output.rank, inner.sizes, output.sizes, bytes(dtype.bits // 8))
    padded = parts.add(zeros, [convolved], whole)
    if activation is not None:
        activated = finished(activation, padded, output.dtype)
        if activated is None:
            return None
        parts.store(activated, output)
    return parts.finish()


def _of_single_elements(operator: Convolution) -> Lowered | None:
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
    parts = Parts(operator)
    sums = parts.step(
        cpu_steps.Gemm(transposes_a=False, transposes_b=False),
        parts.input("input").as_desc(x.like(sizes=(count, channels))),
        parts.input("filter").as_desc(filters.like(sizes=(channels, columns))),
        output=TensorDesc(dtype=DataType.FLOAT32, sizes=(count, columns)),
    ).as_desc(TensorDesc(dtype=DataType.FLOAT32, sizes=output.sizes))
    result: Expression = sums
    if operator.bias is not None:
        bias = parts.input("bias").as_desc(operator.bias.broadcast_to(output.sizes))
        result = sums + bias.convert(DataType.FLOAT32)
    activated = finished(operator.fused_activation, result, output.dtype)
    return parts.result(activated, output)


def _unpadded(operator: Convolution) -> tuple[Part, ...] | None:
    result: Expression = SUMS
    bias = operator.bias
    if bias is not None:
        bias = bias.broadcast_to(operator.output.sizes)
        result = result + Operand(_ADDEND, bias.dtype).convert(DataType.FLOAT32)
    step = cpu_steps.Convolution(
        groups=operator.group_count,
        mirrored=operator.mode is ConvolutionMode.CONVOLUTION,
        backward=operator.direction is ConvolutionDirection.BACKWARD,
        **placement(operator.window),
    )
    return _step(step, operator, (operator.input, operator.filter, bias), result)


def _step(
    step: cpu_steps.Step, operator: Gemm | Convolution, inputs: tuple[TensorDesc | None, ...], result: Expression
) -> tuple[Part, ...] | None:
    """The step and what follows its sums; None if the fused activation has no instructions, as softmax."""
    activated = finished(operator.fused_activation, result, operator.output.dtype)
    followers = None if activated is None else instructions(activated)
    if followers is None:
        return None
    return (Part(Native(step, followers), tuple(range(len(inputs))), inputs, operator.output),)


PRODUCTS: Lowerings = {**lowers(_gemm, Gemm), **lowers(_convolution, Convolution)}
