"""Quantized tensors: operators between DEQUANTIZE_LINEAR and QUANTIZE_LINEAR work on the integers themselves.

Quantized models have this form: each tensor is quantized and dequantized.  A rule applies where all scales are
constants.  Sums of 8-bit integers are exact, while floats are rounded at each step; so results differ, by one, only
where the number lies nearly in the middle between two steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand
from dmlgraph.compiler.passes.canonical.matrix import swapped
from dmlgraph.compiler.passes.quantized.dequantized import (
    FURTHEST,
    GREATEST_SUM,
    Dequantized,
    Parameter,
    along,
    dequantized,
    number_of,
    result_of,
    same_parameters,
    scale_of,
    zero_of,
)
from dmlgraph.compiler.rule import (
    Constant,
    Declined,
    Differs,
    New,
    Outcome,
    Rewrite,
    Tensor,
    Tensors,
    Viewed,
    alone,
    demand,
    later,
    rule,
    through,
    wanted,
)
from dmlgraph.operators.activation import ActivationRelu
from dmlgraph.operators.convolution import Convolution
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode, MatrixTransform
from dmlgraph.operators.element_wise import Add, Clip
from dmlgraph.operators.matrix import Gemm
from dmlgraph.operators.shape import Split
from dmlgraph.operators.view import with_strides

BIAS_TOLERANCE = 2.0**-22  # relative: of a bias's scale from the product of the others
BIAS_SHIFT = 2.0**-8  # the most that rounding a bias of floats may move a result, in its steps
_ONE_ROUNDING = "a step more or less where the number is within a few ULP of the middle between two steps"
_WITH_BIAS = f"{_ONE_ROUNDING}; with a bias of floats, within half the product of the scales"


@rule(later.QuantizeLinear, after=(later.DequantizeLinear,), effect="bit-exact")
def quantize_again(ir: IrGraph, node: IrNode) -> Outcome:
    """quantize(dequantize(q)) with the same scale and zero point → q.

    It is checked that every integer of the data type comes back.
    """
    tensor = dequantized(ir, node.needed("input"))
    if tensor is None:
        return None
    demand(same_parameters(ir, node, tensor), "the scales or zero points are not the same constants")
    return Rewrite.of(tensor.steps, f"these are the integers of '{tensor.steps.source.node}'")


@rule(
    later.QuantizeLinear,
    after=(ActivationRelu, Clip),
    effect="bit-exact, except that NaN becomes the least integer, and CLIP makes its greatest number of it",
    differs=Differs.NAN,
)
def quantize_clipped(ir: IrGraph, node: IrNode) -> Outcome:
    """quantize(relu(x)) → quantize(x), where the range of the integers ends there; the same for clip."""
    read = node.needed("input")
    clip = ir.made_by(read, ActivationRelu, Clip)
    if clip is None:
        return None
    operator = clip.operator
    low, high = (operator.min, operator.max) if isinstance(operator, Clip) else (0.0, math.inf)
    if getattr(operator, "scale_bias", None) is not None:
        return None
    scale, zero = number_of(ir, node.operand("scale")), number_of(ir, node.operand("zero_point"))
    if scale is None or zero is None or not 0 < scale < math.inf:
        raise Declined("the scale and the zero point are not one known number each")
    least, greatest = node.output_desc().dtype.range
    with np.errstate(all="ignore"):
        first, last = (np.rint(np.float32(each) / np.float32(scale)) + zero for each in (low, high))
    is_range = first <= least and last >= greatest and low <= high
    demand(is_range, f"its bounds are the integers {first:g} and {last:g}, not {least} and {greatest}")
    x = through(ir, read, clip.needed("input"))
    alone(ir, read)
    return Rewrite.of(New.like(node, {"input": x}, {}, _typed(node)), f"the integers end where '{clip.name}' clips")


@rule(later.QuantizeLinear, after=(lambda kind: bool(kind.order_preserving),), effect="bit-exact")
def quantized_movement(ir: IrGraph, node: IrNode) -> Outcome:
    """quantize(move(dequantize(q))) with the same scale and zero point → move(q); max pooling, too."""
    read = node.needed("input")
    moved = ir.producer(read)
    operator = moved.operator
    if operator is None or not operator.order_preserving or read.desc != ir.produced(read):
        return None
    is_part = isinstance(operator, Split)
    if read.source.port and not is_part:
        return None
    field = operator.order_preserving
    tensors = [dequantized(ir, each) for each in moved.operands(field)]
    if None in tensors or getattr(operator, "scale_bias", None) is not None:
        return None
    is_same = all(tensor is not None and same_parameters(ir, node, tensor) for tensor in tensors)
    demand(is_same, "the scales or zero points are not the same constants")
    if not is_part and result_of(ir, node, type(operator)) is None:
        return None
    steps: list[Tensor] = [tensor.steps for tensor in tensors if tensor is not None]
    given: Tensors = {field: steps if operator.input_arrays[field] else steps[0]}
    outputs = {}
    if isinstance(operator, Split):
        outputs["outputs"] = [part.sizes[operator.axis] for part in operator.outputs]
    new = New.like(moved, given, {}, outputs, port=read.source.port)
    return Rewrite.of(new, f"'{moved.name}' moves the integers themselves")


@rule(later.QuantizeLinear, after=(Add,), effect=_ONE_ROUNDING, differs=Differs.ROUNDED)
def quantized_sum(ir: IrGraph, node: IrNode) -> Outcome:
    """quantize(dequantize(a) + dequantize(b)) → QUANTIZED_LINEAR_ADD."""
    add = result_of(ir, node, Add)
    terms = [dequantized(ir, add.operand(field)) for field in ("a", "b")] if add else []
    if add is None or None in terms:
        return None
    rank = node.output_desc().rank
    tensors: Tensors = dict(_output(ir, node, rank))
    for name, term in zip("ab", terms, strict=True):
        assert term is not None
        tensors[name] = term.steps
        tensors[f"{name}_scale"] = scale_of(ir, term.scale, None, 0, rank).operand
        tensors[f"{name}_zero_point"] = zero_of(term.zero_point, None, 0, rank)
    return _replaced(node, add, ops.QuantizedLinearAdd, tensors, {})


@rule(
    later.QuantizeLinear,
    after=(later.AveragePooling, later.AveragePooling1),
    effect=_ONE_ROUNDING,
    differs=Differs.ROUNDED,
)
def quantized_mean(ir: IrGraph, node: IrNode) -> Outcome:
    """quantize(average_pooling(dequantize(x))) → QUANTIZED_LINEAR_AVERAGE_POOLING."""
    pooling = result_of(ir, node, ops.AveragePooling, ops.AveragePooling1)
    x = dequantized(ir, pooling.operand("input")) if pooling else None
    if pooling is None or x is None:
        return None
    rank = x.steps.desc.rank
    tensors: Tensors = dict(_output(ir, node, rank))
    demand(tensors["output_zero_point"], "without a zero point a mean of no elements is another number")
    tensors["input"] = x.steps
    tensors["input_scale"] = scale_of(ir, x.scale, None, 1, rank).operand
    tensors["input_zero_point"] = zero_of(x.zero_point, None, 1, rank)
    attributes = {"dilations": [1] * (rank - 2)} | pooling.computation.attributes
    return _replaced(node, pooling, ops.QuantizedLinearAveragePooling, tensors, attributes)


@rule(later.QuantizeLinear, after=(Convolution,), effect=_WITH_BIAS, differs=Differs.ROUNDED)
def quantized_convolution(ir: IrGraph, node: IrNode) -> Outcome:
    """quantize(convolution(dequantize(x), dequantize(w), dequantize(b))) → QUANTIZED_LINEAR_CONVOLUTION.

    The filter may have a scale for each output channel.  A bias is int32, its scale the product of the others, or
    constant floats, which are rounded to that where it hardly moves a result.
    """
    convolution = result_of(ir, node, Convolution)
    if convolution is None:
        return None
    x, w = (dequantized(ir, convolution.operand(field)) for field in ("input", "filter"))
    if x is None or w is None:
        return None
    operator = convolution.computing(Convolution)
    is_plain = operator.fused_activation is None and not any(operator.output_padding)
    is_forward = operator.direction is ConvolutionDirection.FORWARD
    is_correlation = is_plain and is_forward and operator.mode is ConvolutionMode.CROSS_CORRELATION
    demand(is_correlation, f"'{convolution.name}' does more than a forward cross-correlation")
    rank = x.steps.desc.rank
    scales = [scale_of(ir, x.scale, None, 1, rank), scale_of(ir, w.scale, 0, 1, rank)]
    terms = math.prod(w.steps.desc.sizes[1:])
    tensors: Tensors = {
        "input": x.steps,
        "input_zero_point": zero_of(x.zero_point, None, 1, rank),
        "filter": w.steps,
        "filter_zero_point": zero_of(w.zero_point, 0, 1, rank),
        "bias": _bias(ir, node, convolution.operand("bias"), 1, scales, terms),
        **_output(ir, node, rank),
    }
    tensors |= {"input_scale": scales[0].operand, "filter_scale": scales[1].operand}
    kept = ("strides", "dilations", "start_padding", "end_padding", "group_count")
    attributes = {name: operator.attributes[name] for name in kept}
    return _replaced(node, convolution, ops.QuantizedLinearConvolution, tensors, attributes)


@rule(later.QuantizeLinear, after=(Gemm,), effect=_WITH_BIAS, differs=Differs.ROUNDED)
def quantized_product(ir: IrGraph, node: IrNode) -> Outcome:
    """quantize(dequantize(a) · dequantize(b)) → QUANTIZED_LINEAR_MATRIX_MULTIPLY.

    With a C that is a bias for each column it becomes QUANTIZED_LINEAR_CONVOLUTION with windows of one element, which
    has a bias.  B may have a scale for each column.
    """
    gemm = result_of(ir, node, Gemm)
    if gemm is None:
        return None
    operator = gemm.computing(Gemm)
    a, b = (dequantized(ir, gemm.operand(field)) for field in ("a", "b"))
    if a is None or b is None:
        return None
    is_plain = operator.fused_activation is None and operator.alpha == 1.0
    demand(is_plain, f"'{gemm.name}' has an activation or an alpha")
    a = _transposed(a) if operator.trans_a is MatrixTransform.TRANSPOSE else a
    b = _transposed(b) if operator.trans_b is MatrixTransform.TRANSPOSE else b
    if operator.c is not None:
        return _with_bias(ir, node, gemm, a, b)
    rank = a.steps.desc.rank
    _check_sums(a.steps.desc.sizes[-1])
    tensors: Tensors = {
        "a": a.steps,
        "a_scale": scale_of(ir, a.scale, None, 0, rank).operand,
        "a_zero_point": zero_of(a.zero_point, None, 0, rank),
        "b": b.steps,
        "b_scale": scale_of(ir, b.scale, -1, -1, rank).operand,
        "b_zero_point": zero_of(b.zero_point, -1, -1, rank),
        **_output(ir, node, rank),
    }
    return _replaced(node, gemm, ops.QuantizedLinearMatrixMultiply, tensors, {})


@rule(
    Gemm,
    after=(later.DequantizeLinear,),
    effect="bit-exact without a C, which is otherwise added before the product is rounded",
    differs=Differs.ROUNDED,
)
def integers_to_float(ir: IrGraph, node: IrNode) -> Outcome:
    """dequantize(a) · dequantize(b) + c → MATRIX_MULTIPLY_INTEGER_TO_FLOAT, which dequantizes them itself.

    B may have a scale for each column.
    """
    operator = node.computing(Gemm)
    a, b = (dequantized(ir, node.operand(field)) for field in ("a", "b"))
    if a is None or b is None:
        return None
    has_beta = operator.c is not None and operator.beta != 1.0
    is_plain = operator.fused_activation is None and operator.alpha == 1.0 and not has_beta
    demand(is_plain, "it has an activation, an alpha or a beta")
    a = _transposed(a) if operator.trans_a is MatrixTransform.TRANSPOSE else a
    b = _transposed(b) if operator.trans_b is MatrixTransform.TRANSPOSE else b
    rank = a.steps.desc.rank
    tensors: Tensors = {
        "a": a.steps,
        "a_scale": along(a.scale, None, 0, rank),
        "a_zero_point": zero_of(a.zero_point, None, 0, rank),
        "b": b.steps,
        "b_scale": along(b.scale, -1, -1, rank),
        "b_zero_point": zero_of(b.zero_point, -1, -1, rank),
        "bias": node.operand("c"),
    }
    new = New(ops.MatrixMultiplyIntegerToFloat, tensors)
    return Rewrite.of(new, "it dequantizes its operands itself")


def _with_bias(ir: IrGraph, node: IrNode, gemm: IrNode, a: Dequantized, b: Dequantized) -> Outcome:
    """A product with a bias as a convolution: {M, K, 1, 1}, filters {N, K, 1, 1}, bias {1, N, 1, 1}."""
    operator = gemm.computing(Gemm)
    is_plain = operator.beta == 1.0 and math.prod(node.output_desc().sizes[:-2]) == 1
    demand(is_plain, f"'{gemm.name}' has a beta or batches beside its C")
    c = gemm.needed("c")
    scales = [scale_of(ir, a.scale, None, 1, 4), scale_of(ir, b.scale, -1, 1, 4)]
    tensors: Tensors = {
        "input": _as_windows(a.steps),
        "input_scale": scales[0].operand,
        "input_zero_point": zero_of(a.zero_point, None, 1, 4),
        "filter": _as_windows(_swapped(b.steps)),
        "filter_scale": scales[1].operand,
        "filter_zero_point": zero_of(b.zero_point, -1, 1, 4),
        "bias": _bias(ir, node, c, c.desc.rank - 1, scales, a.steps.desc.sizes[-1]),
        **_output(ir, node, 4),
    }
    new = New(ops.QuantizedLinearConvolution, tensors, {}, _typed(node))
    why = f"'{gemm.name}' and its bias compute with the integers"
    return Rewrite.of(Viewed(new, node.output_desc().sizes), why)


def _bias(
    ir: IrGraph, node: IrNode, operand: Operand | None, axis: int, scales: list[Parameter], terms: int
) -> Operand | Constant | None:
    """A bias as int32 {1, C, 1, …}, in units of the product of the scales {1, C, 1, …}; `node` quantizes the result.

    Raises:
        Declined: it is neither dequantized from such integers nor constant floats that may be rounded to them, or a sum
            of so many terms might leave int32.
    """
    if operand is None:
        _check_sums(terms)
        return None
    unit = scales[0].numbers.astype(np.float64) * scales[1].numbers
    bias = dequantized(ir, operand)
    if bias is None:
        return _rounded_bias(ir, node, operand, axis, unit, terms)
    rank = scales[0].operand.desc.rank
    is_integer = bias.steps.desc.dtype is DataType.INT32 and number_of(ir, bias.zero_point) == 0.0
    demand(is_integer, "its bias is not made of int32 without a zero point")
    given = scale_of(ir, bias.scale, axis, 1, rank).numbers.astype(np.float64)
    is_product = (np.abs(given - unit) <= BIAS_TOLERANCE * unit).all()
    demand(is_product, "the scale of its bias is not the product of the other scales")
    steps = along(bias.steps, axis, 1, rank)
    numbers = wanted(ir.values(steps), "its bias is not a constant")
    _check_sums(terms, int(np.abs(numbers.astype(np.int64)).max()))
    return _repeated(steps, bias.steps.desc.sizes[axis])


def _rounded_bias(
    ir: IrGraph, node: IrNode, operand: Operand, axis: int, unit: np.ndarray[Any, Any], terms: int
) -> Constant:
    """Constant floats as multiples of `unit`, which is {1, C or 1, 1, …}."""
    values = ir.values(along(operand, axis, 1, unit.ndim))
    exact = wanted(values, "its bias is neither a constant nor dequantized").astype(np.float64) / unit
    is_finite = (np.abs(exact) <= GREATEST_SUM).all()
    demand(is_finite, "its bias is infinite, NaN, or so large that a sum may leave int32")
    steps = np.rint(exact)
    result_scale = scale_of(ir, node.needed("scale"), None, 1, unit.ndim).numbers.astype(np.float64)
    is_multiple = (np.abs(steps - exact) * unit <= BIAS_SHIFT * result_scale).all()
    demand(is_multiple, "its bias is not a multiple of the product of the scales, nearly enough")
    _check_sums(terms, int(np.abs(steps).max()))
    count = operand.desc.sizes[axis]
    return Constant(np.broadcast_to(steps, (1, count, *unit.shape[2:])).astype(np.int32))


def _repeated(bias: Operand, count: int) -> Operand:
    """{1, C, 1, …} of a bias that may be one number."""
    sizes = (1, count, *(1,) * (bias.desc.rank - 2))
    return bias if bias.desc.sizes == sizes else Operand(bias.source, bias.desc.broadcast_to(sizes))


def _check_sums(terms: int, bias: int = 0) -> None:
    demand(terms * FURTHEST**2 + bias <= GREATEST_SUM, f"a sum of {terms} products may leave int32")


def _output(ir: IrGraph, node: IrNode, rank: int) -> dict[str, Operand | None]:
    """The scale and zero point of a QUANTIZE_LINEAR, one number each, for the operator that takes its place."""
    zero = node.operand("zero_point")
    return {
        "output_scale": scale_of(ir, node.needed("scale"), None, 0, rank).operand,
        "output_zero_point": zero_of(zero, None, 0, rank),
    }


def _typed(node: IrNode) -> dict[str, Any]:
    """The request for an output of the node's data type."""
    return {"output": {"dtype": node.output_desc().dtype}}


def _replaced(
    node: IrNode, made: IrNode, operator: type[Operator], tensors: dict[str, Any], attributes: dict[str, Any]
) -> Rewrite:
    new = New(operator, tensors, attributes, _typed(node))
    return Rewrite.of(new, f"'{made.name}' computes with the integers")


def _transposed(tensor: Dequantized) -> Dequantized:
    """The matrices with their dimensions swapped."""
    steps, scale, zero = tensor
    return Dequantized(_swapped(steps), _swapped(scale), None if zero is None else _swapped(zero))


def _swapped(operand: Operand) -> Operand:
    desc = operand.desc
    packed = TensorDesc(dtype=desc.dtype, sizes=swapped(desc.sizes), owned=desc.owned)
    return Operand(operand.source, with_strides(packed, swapped(desc.effective_strides)))


def _as_windows(matrix: Operand) -> Operand:
    """{…, M, K} as {M, K, 1, 1}."""
    sizes, strides = matrix.desc.sizes[-2:], matrix.desc.effective_strides[-2:]
    packed = TensorDesc(dtype=matrix.desc.dtype, sizes=(*sizes, 1, 1), owned=matrix.desc.owned)
    return Operand(matrix.source, with_strides(packed, (*strides, 1, 1)))


RULES = (
    quantize_again,
    quantize_clipped,
    quantized_movement,
    quantized_sum,
    quantized_convolution,
    quantized_product,
)
MEAN_RULES = (quantized_mean,)
LAST_RULES = (integers_to_float,)  # after those for products that are quantized again
