"""Products with weights in blocks: a step multiplies by 4-bit or 8-bit integers, whose floats are never in memory.

It takes the place of a GEMM that reads dequantized weights.  If its rows are 8-bit integers in the same blocks, as they
are rounded at accuracy_level 4 of ONNX Runtime's MatMulNBits, integers are multiplied within a block.  Likewise a GEMM
reads the float16 that a cast makes float32 of.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc, packed_strides
from dmlgraph.devices.cpu.nodes import Lowered, Native, Part
from dmlgraph.devices.cpu.parts import Parts, Tensor, line_of
from dmlgraph.devices.cpu.quantized import block_steps, in_steps
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import MatrixTransform
from dmlgraph.operators.element_wise import Cast
from dmlgraph.operators.matrix import Gemm
from dmlgraph.operators.quantization import Dequantize, DequantizeLinear

_PORTS = 3  # of a GEMM
_LEAST_LINES = 16  # of the native module's panels of 4-bit weights
_MOST_DEPTHS = 256  # of a block, whose sums of integers are exact as float32
_FEW_BITS = (DataType.INT4, DataType.UINT4, DataType.INT8, DataType.UINT8)


def block_product(gemm: Operator, weights: Operator, rows: Operator | None, lowered: Lowered) -> Product | None:
    """The parts of a GEMM whose matrix B is dequantized, from those that read floats.

    The inputs of the dequantization are further ports; then follow those of `rows`, which makes matrix A, if that is
    dequantized so that the product is one of integers.  Returns None if the weights are not of this kind.
    """
    if not isinstance(gemm, Gemm) or not isinstance(weights, Dequantize | DequantizeLinear):
        return None
    if not isinstance(lowered, tuple) or not isinstance(lowered[0].action, Native):
        return None
    blocks = _blocks(weights, gemm.b)
    if blocks is None or math.prod(gemm.a.sizes[:-2]) != 1:
        return None
    is_transposed = (gemm.trans_b is MatrixTransform.TRANSPOSE) is not blocks.is_turned
    has_integers = weights.input.dtype.bits == 4 and _are_integers(gemm, rows, blocks, is_transposed)
    product, *others = lowered
    parts = Parts(gemm)
    integers, scale, *zero_point = _tensors(parts, weights, _PORTS)
    single = scale.single()
    a, _, c = product.inputs
    nothing = _PORTS + len(weights.input_descs)  # a port that has no source
    read = [(0, a), (integers.source, integers.desc), (2, c), (nothing, None), (scale.source, single.desc)]
    read += [(each.source, each.desc) for each in zero_point] or [(nothing, None)]
    if has_integers:
        assert rows is not None
        x, x_scale = _tensors(parts, rows, nothing + 1)
        read[0], read[3] = (x.source, gemm.a.like(dtype=DataType.INT8)), (x_scale.source, x_scale.desc)
    step = cpu_steps.BlockGemm(
        transposes_a=gemm.trans_a is MatrixTransform.TRANSPOSE,
        transposes_b=is_transposed,
        has_four_bits=weights.input.dtype.bits == 4,
        is_signed=weights.input.dtype.is_signed,
        sizes=(blocks.rows, blocks.columns),
        scale=blocks.scale,
        zero_point=blocks.zero_point,
        has_integers=has_integers,
    )
    ports, descs = zip(*read, strict=True)
    made = Part(Native(step, lowered[0].action.followers), ports, descs, product.output)
    return Product(parts.extend([made, *others], {scale.source: single}).finish(), has_integers)


def product_of_halves(gemm: Operator, made: Operator, lowered: Lowered) -> Product | None:
    """The parts of a GEMM whose matrix B is a cast of float16, from those that read floats: they read the float16.

    The input of the cast is a further port.  Returns None if it is not made so.
    """
    if not isinstance(gemm, Gemm) or not isinstance(made, Cast) or not isinstance(lowered, tuple):
        return None
    first, *others = lowered
    is_product = isinstance(first.action, Native) and isinstance(first.action.step, cpu_steps.Gemm)
    is_half = (made.input.dtype, made.output.dtype) == (DataType.FLOAT16, DataType.FLOAT32)
    if not is_product or not is_half or made.input.effective_strides != made.output.effective_strides:
        return None
    halves = gemm.b.like(dtype=DataType.FLOAT16, strides=gemm.b.strides)
    a, _, *rest = first.inputs
    reads = dataclasses.replace(first, sources=(0, _PORTS, *first.sources[2:]), inputs=(a, halves, *rest))
    return Product((reads, *others), False)


class Product(NamedTuple):
    """How a product runs, and whether it reads the integers of matrix A."""

    parts: tuple[Part, ...]
    has_integers: bool


def _tensors(parts: Parts, made: Operator, port: int) -> list[Tensor]:
    """The inputs of a dequantization that are present, each as a line; the first one is at the port."""
    descs = enumerate(made.input_descs)
    return [Tensor(parts, port + index, line_of(desc, desc.dtype)) for index, desc in descs if desc is not None]


@dataclasses.dataclass(frozen=True)
class _Blocks:
    """A matrix in blocks, as it lies in memory.

    Attributes:
        is_turned: whether its rows there are the columns of the product's operand.
        scale: the rows and columns that share a scale, and the steps to the next one along both; also of `zero_point`.
    """

    rows: int
    columns: int
    is_turned: bool
    scale: tuple[int, int, int, int]
    zero_point: tuple[int, int, int, int]


def _are_integers(gemm: Gemm, made: Operator | None, weights: _Blocks, is_transposed: bool) -> bool:
    """Whether the rows are dequantized 8-bit integers whose blocks are those of 4-bit weights, of whole words."""
    words = 8  # depths
    depth_block, line_block = weights.scale[:2][:: -1 if is_transposed else 1]
    depth, lines = (weights.rows, weights.columns)[:: -1 if is_transposed else 1]
    zero_block = weights.zero_point[1 if is_transposed else 0]
    if not isinstance(made, Dequantize | DequantizeLinear) or depth % depth_block:
        return False
    rows = _blocks(made, gemm.a)
    blocks = depth // depth_block
    packed = (1, depth_block, blocks if gemm.output.sizes[-2] > 1 else 0, 1 if blocks > 1 else 0)
    return (
        rows is not None
        and not rows.is_turned
        and gemm.trans_a is MatrixTransform.NONE
        and made.input.dtype is DataType.INT8
        and all(desc is None for desc in made.input_descs[2:])
        and made.output.dtype is DataType.FLOAT32
        and rows.scale == packed
        and (depth_block % words, depth % words, zero_block % depth_block, line_block) == (0, 0, 0, 1)
        and lines >= _LEAST_LINES
        and depth_block <= _MOST_DEPTHS
    )


def _blocks(made: Dequantize | DequantizeLinear, matrix: TensorDesc) -> _Blocks | None:
    """The blocks of what is dequantized and read as a matrix; None if they are not regular, or its type is another."""
    x = made.input
    is_turned = False
    rows, columns = matrix.sizes[-2:]
    if matrix.strides is not None and matrix.strides[-2:] == (1, rows):  # the matrix lies in memory the other way
        rows, columns, is_turned = columns, rows, True
    elif matrix.strides is not None and matrix.effective_strides[-2:] != (columns, 1):
        return None
    packed = all(desc.strides is None for desc in (x, made.output))
    if x.dtype not in _FEW_BITS or not packed or x.element_count != rows * columns:
        return None
    parameters = [desc for desc in made.input_descs[1:] if desc is not None]
    steps = block_steps(x.sizes, parameters)
    if steps is None or not parameters:
        return None
    units = [each.unit * packed_strides(x.sizes)[each.axis] for each in steps]
    blocks = []
    for desc in parameters:
        strides = in_steps(desc, steps, x.sizes).effective_strides
        along = [_Stride(each.number, unit, stride) for each, unit, stride in zip(steps, units, strides, strict=True)]
        down = _regular([each for each in along if each.unit >= columns])
        across = _regular([each for each in along if each.unit < columns])
        if down is None or across is None or math.prod(each.number for each in along if each.unit < columns) != columns:
            return None
        blocks.append((down[0], across[0], down[1], across[1]))
    return _Blocks(rows, columns, is_turned, blocks[0], blocks[-1])


class _Stride(NamedTuple):
    """A number of steps of `unit` weights; each goes `stride` numbers further in a parameter."""

    number: int
    unit: int
    stride: int


def _regular(steps: list[_Stride]) -> tuple[int, int] | None:
    """How many rows or columns share a number, and the step to the next one; None if it is not always the same."""
    steps = [each for each in steps if each.number > 1]
    block = 1
    while steps and steps[-1].stride == 0:
        block *= steps.pop().number
    step = steps[-1].stride if steps else 0
    following = step
    for each in reversed(steps):
        if each.stride != following:
            return None
        following *= each.number
    return block, step
