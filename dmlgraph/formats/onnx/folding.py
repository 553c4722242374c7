"""Nodes whose results are known: they are computed on the host.

What shapes are usually computed with is, as soon as its inputs are known, by ONNX's own reference implementation, which
takes all types.  Any other value that depends on constants only is computed when a rule needs its numbers, by the nodes
that it has become, on the device `reference`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source
from dmlgraph.compiler.passes.canonical.constants import work
from dmlgraph.compiler.views import remove_views
from dmlgraph.devices import choose
from dmlgraph.devices.compile import compile_ir
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.tensors import Array, Tensor, type_name
from dmlgraph.graph.nodes import InputNode, OperatorNode, StateNode
from dmlgraph.operators.random import RandomGenerator

MOST_ELEMENTS = 1 << 20  # of a result that ONNX's implementation computes
MOST_WORK = 1 << 28  # operations, roughly, of a value that the nodes in the graph compute


def _broadcast(inputs: Sequence[Array | None]) -> int:
    try:
        return math.prod(np.broadcast_shapes(*(each.shape for each in inputs if each is not None)))
    except ValueError:
        return 0  # the evaluation says what is wrong


def _sum(inputs: Sequence[Array | None]) -> int:
    return sum(each.size for each in inputs if each is not None)


def _mel(inputs: Sequence[Array | None]) -> int:
    """The size of MelWeightMatrix: spectrogram bins times mel bins."""
    bins, length = (0 if each is None else int(each.max(initial=0)) for each in inputs[:2])
    return (length // 2 + 1) * bins


def _product(inputs: Sequence[Array | None]) -> int:
    return math.prod(max(each.size, 1) for each in inputs if each is not None)


def _tiled(inputs: Sequence[Array | None]) -> int:
    data, repeats = inputs[:2]
    return 0 if data is None or repeats is None else data.size * math.prod(max(int(each), 1) for each in repeats.flat)


def _padded(inputs: Sequence[Array | None]) -> int:
    """A bound: each dimension with all the padding, whose axes may be another input.

    Before opset 11 the padding is an attribute; then the node's rule serves.
    """
    data, pads = (*inputs, None)[:2]
    if data is None or pads is None:
        return MOST_ELEMENTS + 1
    added = sum(max(int(each), 0) for each in pads.flat)
    return math.prod(size + added for size in data.shape)


# A bound for the number of elements of a result, by operator.  Operators that are not here become nodes.
_BROADCAST = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Cos "
    "Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Min Mod Mul Neg Not "
    "Or PRelu Pow Reciprocal Relu Round Sigmoid Sign Sin Sinh Sqrt Sub Sum Tan Tanh Where Xor"
)
_SHORTER = (
    "ArgMax ArgMin Cast CastLike Compress Concat CumProd CumSum DepthToSpace EyeLike Flatten Identity NonZero "
    "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape "
    "ReverseSequence ScatterElements ScatterND Slice SpaceToDepth Split Squeeze TopK Transpose Trilu Unique "
    "Unsqueeze"
)
_PRODUCTS = "Einsum Gather GatherElements GatherND Gemm MatMul MatMulInteger"
_BOUNDS: dict[str, Callable[[Sequence[Array | None]], int]] = {
    **dict.fromkeys(_BROADCAST.split(), _broadcast),
    **dict.fromkeys(_SHORTER.split(), _sum),
    **dict.fromkeys(_PRODUCTS.split(), _product),
    "Pad": _padded,
    "Tile": _tiled,
    "MelWeightMatrix": _mel,
}
# Weights are given another form on the host whatever their size: nothing is copied, or the copy replaces them.
_FORMS = frozenset(
    [
        "BitCast",
        "Cast",
        "CastLike",
        "Flatten",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)


def _within(indices: Array, size: int) -> Array:
    """Indices of a dimension.

    Raises:
        Refusal: one is outside.
    """
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        got = [int(indices.min()), int(indices.max())]
        raise Refusal("an index is outside", code="range", field="indices", got=got, allowed=f"{-size} to {size - 1}")
    return indices


class Gather(OpRun):
    """As ONNX's own, with the bounds in the error."""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        return (np.take(data, _within(indices, data.shape[axis]), axis),)


class GatherElements(OpRun):
    """ONNX's own fails where the indices have fewer elements than the data."""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        axis %= data.ndim
        part = tuple(slice(None) if d == axis else slice(size) for d, size in enumerate(indices.shape))
        return (np.take_along_axis(data[part], _within(indices, data.shape[axis]), axis),)


class Slice(OpRun):
    """ONNX's own takes no element where a start before the first one goes backwards; the specification the first."""

    def _run(self, data: Array, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> tuple[Array]:
        axes = range(len(starts)) if axes is None else axes
        steps = [1] * len(starts) if steps is None else steps
        part = [slice(None)] * data.ndim
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            size = data.shape[axis]
            first, last = (each + size if each < 0 else each for each in (int(start), int(end)))
            if step < 0:
                last = min(max(last, -1), size - 1)
                part[axis] = slice(min(max(first, 0), size - 1), None if last < 0 else last, step)
            else:
                part[axis] = slice(min(max(first, 0), size), min(max(last, 0), size), step)
        return (data[tuple(part)],)


class Pad(OpRun):
    """ONNX's own does not take negative padding, which cuts."""

    def _run(self, data: Array, pads: Array, value: Any = None, axes: Any = None, mode: str = "constant") -> Any:
        axes = range(data.ndim) if axes is None else [int(each) for each in axes]
        widths, part = [(0, 0)] * data.ndim, [slice(None)] * data.ndim
        for axis, before, after in zip(axes, *np.split(np.asarray(pads).astype(int), 2), strict=True):
            size = data.shape[axis]
            part[axis] = slice(max(-before, 0), size - max(-after, 0))
            widths[axis] = max(before, 0), max(after, 0)
        if mode != "constant" and any(widths[axis] != (0, 0) and not data.shape[axis] for axis in range(data.ndim)):
            message = "a tensor without elements has no element to repeat"
            raise Refusal(message, code="empty-tensor", field="mode", got=mode, allowed="constant")
        fill = {"constant_values": 0 if value is None else np.asarray(value).item()} if mode == "constant" else {}
        return (np.pad(data[tuple(part)], widths, mode=mode, **fill),)  # type: ignore[call-overload]


_OWN = [Gather, GatherElements, Pad, Slice]


def _is_large_fill(array: Array) -> bool:
    """Whether an array is one number many times, of which nothing but a copy would be large."""
    return array.size > MOST_ELEMENTS and not any(array.strides)


def is_folded(domain: str, operator: str) -> bool:
    """Whether nodes of an operator are computed on the host if their inputs are known."""
    return not domain and (operator in _FORMS or operator in _BOUNDS)


def can_fold(domain: str, operator: str, inputs: Sequence[Array | None]) -> bool:
    """Whether a node with known inputs is computed on the host."""
    if domain or not inputs:
        return False
    if operator in _FORMS:
        return not any(each is not None and _is_large_fill(each) for each in inputs)
    bound = _BOUNDS.get(operator)
    return bound is not None and _sum(inputs) <= MOST_ELEMENTS and bound(inputs) <= MOST_ELEMENTS


def numbers(tensor: Tensor) -> Array | None:
    """The numbers of a tensor, if they are known or depend on constants only; from then on it is a known one.

    Raises:
        Refusal: to compute them takes more than MOST_WORK.
    """
    value = tensor.made
    if tensor.known is not None or value is None:
        return tensor.known
    graph = value.graph
    needed = graph.upstream(value.node)
    nodes = [each for each in graph.nodes if each.name in needed]
    if any(isinstance(each, (InputNode, StateNode)) for each in nodes):
        return None
    operators = [each.operator for each in nodes if isinstance(each, OperatorNode)]
    if any(isinstance(each, RandomGenerator) for each in operators):
        return None
    taken = sum(map(work, operators))
    if taken > MOST_WORK:
        message = "its numbers are needed when the model is imported, and computing them is too much work"
        raise Refusal(message, code="too-large", got=f"{taken} operations", allowed=f"{MOST_WORK}")
    reference = choose("reference")
    part = IrGraph(graph.name, graph.level, reference.device.target)
    part.assemble(((each, graph.sources(each.name)) for each in nodes), {"known": Source(value.node, value.port)})
    remove_views(part)
    result = compile_ir(part, reference).run({})["known"]
    tensor.known = result.reshape(tensor.shape).astype(tensor.dtype)
    return tensor.known


def evaluate(node: onnx.NodeProto, opset: int, inputs: Sequence[Array | None]) -> list[Array]:
    """The outputs of a node with known inputs.

    Raises:
        Refusal: the node is wrong.
    """
    feeds = {name: each for name, each in zip(node.input, inputs, strict=True) if each is not None}
    function = onnx.helper.make_function(
        "dmlgraph", "folded", list(feeds), [name for name in node.output if name], [node], [_opset(opset)]
    )
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = ReferenceEvaluator(function, new_ops=_OWN).run(None, feeds, attributes={})
    except (MemoryError, Refusal):
        raise
    except Exception:  # NumPy's and ONNX's, of many kinds, whose words say nothing of the model
        given = [None if each is None else f"{type_name(each.dtype)}{list(each.shape)}" for each in inputs]
        message = "cannot be computed: the numbers, sizes or attributes do not fit"
        raise Refusal(message, code="evaluation", got=given) from None
    results = iter(np.asarray(each) for each in made)
    return [next(results) if name else np.empty(0) for name in node.output]


def _opset(version: int) -> onnx.OperatorSetIdProto:
    return onnx.helper.make_opsetid("", version)
