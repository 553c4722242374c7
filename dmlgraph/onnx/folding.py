"""Nodes whose results are known: they are computed on the host, by ONNX's own reference implementation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from dmlgraph.onnx.refusals import Refusal
from dmlgraph.onnx.tensors import Array, type_name

MOST_ELEMENTS = 1 << 20  # of a result that is computed on the host


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


# A bound for the number of elements of a result, by operator.  Operators that are not here become nodes.
_BROADCAST = (
    "Abs Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Cos Div Equal Exp Floor Greater "
    "GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Mean Min Mod Mul Neg Not Or Pow Reciprocal Relu Round "
    "Sigmoid Sign Sin Sqrt Sub Sum Tanh Where Xor"
)
_SHORTER = (
    "ArgMax ArgMin Cast CastLike Compress Concat CumSum Flatten Identity NonZero ReduceL1 ReduceL2 ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape ScatterElements ScatterND Slice Split Squeeze "
    "Transpose Trilu Unique Unsqueeze"
)
_GATHERED = "Gather GatherElements GatherND"
_BOUNDS: dict[str, Callable[[Sequence[Array | None]], int]] = {
    **dict.fromkeys(_BROADCAST.split(), _broadcast),
    **dict.fromkeys(_SHORTER.split(), _sum),
    **dict.fromkeys(_GATHERED.split(), _product),
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


class GatherElements(OpRun):
    """ONNX's own fails where the indices have fewer elements than the data."""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        axis %= data.ndim
        part = tuple(slice(None) if d == axis else slice(size) for d, size in enumerate(indices.shape))
        return (np.take_along_axis(data[part], indices, axis),)


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


def _is_large_fill(array: Array) -> bool:
    """Whether an array is one number many times, of which nothing but a copy would be large."""
    return array.size > MOST_ELEMENTS and not any(array.strides)


def can_fold(domain: str, operator: str, inputs: Sequence[Array | None]) -> bool:
    """Whether a node with known inputs is computed on the host."""
    if domain or not inputs:
        return False
    if operator in _FORMS:
        return not any(each is not None and _is_large_fill(each) for each in inputs)
    bound = _BOUNDS.get(operator)
    return bound is not None and _sum(inputs) <= MOST_ELEMENTS and bound(inputs) <= MOST_ELEMENTS


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
            made = ReferenceEvaluator(function, new_ops=[GatherElements, Slice]).run(None, feeds, attributes={})
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
