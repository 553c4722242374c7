"""Matrix products and convolutions of floats as native steps.

What follows the sums, such as a bias and a fused activation, is instructions on them before they are stored: operand 0
is the sums, in float32, and operand k from 2 on is the step's input k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.devices.cpu.element_wise import Code, Value, activate
from dmlgraph.devices.cpu.movement import surrounded
from dmlgraph.devices.cpu.parts import Part
from dmlgraph.operators.convolution import Convolution
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode, MatrixTransform
from dmlgraph.operators.matrix import Gemm
from dmlgraph.tensor import DataType, TensorDesc

Payload = tuple[str, Any]

_SUMS = Value(0, DataType.FLOAT32)
_ADDEND = 2  # its port
THIN = 2  # rows or columns
LARGE = 1 << 19  # elements of a matrix; smaller ones are in the cache


def _gemm(operator: Gemm) -> Payload | None:
    if _is_thin(operator):
        return None
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


def _is_thin(operator: Gemm) -> bool:
    """Whether a row or a column meets a large matrix across its memory, which BLAS does in a fraction of the time.

    A large matrix whose lines lie side by side is multiplied as it is read; of another one, panels would be packed.
    """
    rows, columns = operator.output.sizes[-2:]
    transposed_a, transposed_b = (each is MatrixTransform.TRANSPOSE for each in (operator.trans_a, operator.trans_b))
    inner = operator.a.sizes[-2 if transposed_a else -1]
    if min(rows, columns) >= THIN or max(rows, columns) * inner <= LARGE:
        return False
    large, lines = (operator.b, -2 if transposed_b else -1) if rows < THIN else (operator.a, -1 if transposed_a else -2)
    return large.effective_strides[lines] != 1


def _scaled(code: Code, x: Value, factor: float) -> Value:
    return x if factor == 1 else code.add("LINEAR", x, immediates=(factor, 0.0))


def _convolution(operator: Convolution) -> Payload | None:
    """The convolution, then its output's padding, which is zeros that are activated too."""
    more, output = operator.output_padding, operator.output
    if not any(more):
        return _unpadded(operator)
    activation = operator.fused_activation
    spatial = (size - each for size, each in zip(output.sizes[2:], more, strict=True))
    dtype = output.dtype if activation is None else DataType.FLOAT32
    inner = TensorDesc(dtype=dtype, sizes=(*output.sizes[:2], *spatial))
    first = _unpadded(operator.model_copy(update={"output": inner, "fused_activation": None}))
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
