"""Conditions, loops, sequences of tensors, optional values: what is known when the model is imported decides them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from dmlgraph.base.errors import plural
from dmlgraph.formats.onnx.folding import numbers
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import AlreadyNotedError, Refusal, give_values
from dmlgraph.formats.onnx.shapes import concatenated, sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor, TensorList, parse_dtype

MOST_STEPS = 1000  # of a loop


@imports(how="known conditions: the branch; others: both branches, if_")
def If(node: Node, cond: Tensor, *, then_branch: ir.Graph, else_branch: ir.Graph) -> Result:
    if numbers(cond) is not None:
        return node.run(then_branch if node.scalar(cond) else else_branch)
    hint = give_values(cond.depends)
    try:
        both = [node.run(branch) for branch in (then_branch, else_branch)]
    except AlreadyNotedError:
        message = "a branch cannot be imported, and the condition is not known"
        raise Refusal(message, code="unknown-value", got=cond.name or None, hint=hint) from None
    chosen = []
    for then, other in zip(*both, strict=True):
        is_list = isinstance(then, TensorList) or isinstance(other, TensorList)
        if then.shape != other.shape or then.dtype != other.dtype or is_list:
            message = "the branches give tensors of different shapes, and the condition is not known"
            raise Refusal(message, code="unknown-value", got=[list(then.shape), list(other.shape)], hint=hint)
        one = node.reshaped(cond, (1,) * len(then.sizes))
        chosen.append(Tensor(then.dtype, then.shape, made=node.if_(one, then, other)))
    return chosen


@imports(how="known counts: the steps one after another")
def Loop(node: Node, M: Maybe = None, cond: Maybe = None, *v_initial: Tensor, body: ir.Graph) -> list[Tensor]:
    count = None if M is None else int(node.scalar(M))
    condition = cond
    stacked: list[list[Tensor]] = [[] for _ in range(len(node.outputs) - len(node.inputs[2:]))]
    state = [*v_initial]
    step = 0
    while (count is None or step < count) and (condition is None or _is_true(condition)):
        if step == MOST_STEPS:
            raise Refusal("the loop has too many steps", code="too-large", allowed=f"{MOST_STEPS} steps")
        first = Tensor.of(np.bool_(True)) if condition is None else condition
        results = node.run(body, [Tensor.of(np.int64(step)), first, *state])
        _check_results(results, 1 + len(node.outputs))
        condition = None if cond is None and numbers(results[0]) is None else results[0]
        state, scanned = results[1 : 1 + len(state)], results[1 + len(state) :]
        for each, whole in zip(scanned, stacked, strict=True):
            whole.append(each)
        step += 1
    scanned = [
        joined(node, each) if each else _of_no_step(body, 1 + len(state) + index) for index, each in enumerate(stacked)
    ]
    return [*state, *scanned]


def _check_results(results: list[Tensor], count: int) -> None:
    if len(results) != count:
        message = "the body has another number of outputs than the node's take"
        raise Refusal(message, code="count", field="body", got=len(results), allowed=f"{count}")


def _is_true(condition: Tensor) -> bool:
    known = numbers(condition)
    if known is None:
        raise Refusal(
            "the number of steps is known only when the model runs",
            code="unknown-value",
            hint=give_values(condition.depends),
        )
    return bool(known.reshape(()).item())


def _of_no_step(body: ir.Graph, index: int, axis: int = 0) -> Tensor:
    """What a loop of no steps stacks: its shape is what the body's output declares."""
    output = body.outputs[index]
    if output.shape is None or not output.shape.is_static() or output.dtype is None:
        message = "the loop has no steps, and its body does not declare the shape of an output"
        raise Refusal(message, code="undetermined", got=output.name)
    shape = list(output.shape.numpy())
    shape.insert(at_axis(axis, len(shape) + 1), 0)
    return Tensor.of(np.empty(shape, parse_dtype(output.dtype.name.lower())))


def joined(node: Node, parts: list[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape, stacked along a new axis."""
    axis = at_axis(axis, parts[0].rank + 1)
    if len({each.shape for each in parts}) > 1:
        shapes = [list(each.shape) for each in parts]
        raise Refusal("the steps give tensors of different shapes", code="sizes", got=shapes)
    if all(each.known is not None for each in parts):
        return Tensor.of(np.stack([each.known for each in parts if each.known is not None], axis))
    shape = parts[0].shape
    new = (*shape[:axis], 1, *shape[axis:])
    values = [node.reshaped(each, new) for each in parts]
    made = values[0] if len(values) == 1 else node.join(values, axis=axis)
    return Tensor(parts[0].dtype, (*shape[:axis], len(parts), *shape[axis:]), made=made)


@imports(since=9, how="the steps one after another")
def Scan(
    node: Node,
    *states_and_inputs: Tensor,
    num_scan_inputs: int,
    body: ir.Graph,
    scan_input_axes: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
) -> Result:
    states = len(states_and_inputs) - num_scan_inputs
    if not 1 <= num_scan_inputs <= len(states_and_inputs):
        raise Refusal("there are not so many inputs", code="count", field="num_scan_inputs", got=num_scan_inputs)
    axes = scan_input_axes or [0] * num_scan_inputs
    outputs = len(node.outputs) - states
    axes_out = scan_output_axes or [0] * outputs
    backward_out = scan_output_directions or [0] * outputs
    backward = scan_input_directions or [0] * num_scan_inputs
    state, inputs = [*states_and_inputs[:states]], [*states_and_inputs[states:]]
    for name, given, wanted in (
        ("scan_input_axes", axes, num_scan_inputs),
        ("scan_input_directions", backward, num_scan_inputs),
        ("scan_output_axes", axes_out, outputs),
        ("scan_output_directions", backward_out, outputs),
    ):
        if len(given) != wanted:
            raise Refusal("needs a number for each", code="count", field=name, got=given, allowed=f"{wanted}")
    axes = [at_axis(axis, each.rank) for axis, each in zip(axes, inputs, strict=True)]
    lengths = [each.shape[axis] for axis, each in zip(axes, inputs, strict=True)]
    if len(set(lengths)) > 1:
        raise Refusal("the inputs have different numbers of steps", code="sizes", field="scan_input_axes", got=lengths)
    state, stacked = _scanned(node, body, state, inputs, axes, backward)
    scanned = [
        joined(node, each[::-1] if back else each, axis) if each else _of_no_step(body, states + index, axis)
        for index, (each, axis, back) in enumerate(zip(stacked, axes_out, backward_out, strict=True))
    ]
    return [*state, *scanned]


@imports(since=8, until=8, how="the steps of each sequence one after another")
def Scan_8(
    node: Node,
    sequence_lens: Maybe = None,
    *given: Tensor,
    body: ir.Graph,
    num_scan_inputs: int,
    directions: list[int] | None = None,
) -> list[Tensor]:
    """Inputs: lengths, states {B, …}, sequences {B, T, …}; the body has no batches."""
    count = num_scan_inputs
    states, sequences = given[: len(given) - count], given[len(given) - count :]
    whole = all(each.rank > 1 and each.shape[:2] == sequences[0].shape[:2] for each in sequences)
    if not 1 <= count <= len(given) or not whole or any(each.shape[:1] != sequences[0].shape[:1] for each in states):
        shapes = [[*each.shape] for each in given]
        raise Refusal("needs states {B, …} and sequences {B, T, …}", code="sizes", got=shapes)
    batch, steps = sequences[0].shape[:2]
    lengths = [] if sequence_lens is None else [int(each) for each in node.known(sequence_lens).flat]
    if any(each != steps for each in lengths):
        raise Refusal("sequences of different lengths are not read", field="sequence_lens", got=lengths)
    backward = directions or [0] * count
    results = []
    for index in range(batch):
        first, parts = ([_part(node, each, 0, index) for each in tensors] for tensors in (states, sequences))
        state, stacked = _scanned(node, body, first, parts, [0] * count, backward)
        results.append([*state, *(joined(node, each) for each in stacked)])
    return [joined(node, list(each)) for each in zip(*results, strict=True)]


def _scanned(
    node: Node,
    body: ir.Graph,
    state: list[Tensor],
    inputs: list[Tensor],
    axes: Sequence[int],
    backward: Sequence[int],
) -> tuple[list[Tensor], list[list[Tensor]]]:
    """The last state, and each output's parts in the order of the steps."""
    states = len(state)
    stacked: list[list[Tensor]] = [[] for _ in range(len(node.outputs) - states)]
    steps = inputs[0].shape[axes[0]]
    if steps > MOST_STEPS:
        raise Refusal("the loop has too many steps", code="too-large", allowed=f"{MOST_STEPS} steps")
    for step in range(steps):
        parts = [
            _part(node, each, axis, steps - 1 - step if back else step)
            for each, axis, back in zip(inputs, axes, backward, strict=True)
        ]
        results = node.run(body, [*state, *parts])
        _check_results(results, len(node.outputs))
        state = results[:states]
        for each, whole in zip(results[states:], stacked, strict=True):
            whole.append(each)
    return state, stacked


def _part(node: Node, x: Tensor, axis: int, index: int) -> Tensor:
    """x at an index of an axis."""
    shape = [size for each, size in enumerate(x.shape) if each != axis]
    if x.known is not None:
        return Tensor.of(x.known.take(index, axis))
    places = [slice(index, index + 1) if each == axis else slice(None) for each in range(x.rank)]
    part = sliced(node, x, places)
    return Tensor(x.dtype, tuple(shape), made=node.reshaped(part, tuple(shape) or (1,)))


def _items(given: Tensor, *, least: int = 0) -> list[Tensor]:
    """The tensors of a sequence."""
    if not isinstance(given, TensorList):
        raise Refusal("needs a sequence of tensors", code="kind", field="input 0", got=list(given.shape))
    if len(given.items) < least:
        raise Refusal("the sequence has no tensors", code="range", field="input 0")
    return list(given.items)


def _place(node: Node, position: Maybe, index: int, count: int, default: int | None = None) -> int:
    """A known position in a sequence, input `index`: the numbers below 0 count from the end."""
    place = node.scalar(position, default)
    if not -count <= place < max(count, 1):
        message = "the sequence has no such place"
        raise Refusal(message, code="range", field=f"input {index}", got=place, allowed=plural(count, "tensor"))
    return int(place % count) if count else 0


@imports("SequenceEmpty", "SequenceConstruct", since=11, how="none: a sequence is only known on import")
def SequenceConstruct(node: Node, *inputs: Tensor) -> TensorList:
    return TensorList.of(inputs)


@imports(since=11, how="none: the tensor itself")
def SequenceAt(node: Node, input_sequence: Tensor, position: Tensor) -> Tensor:
    items = _items(input_sequence, least=1)
    return items[_place(node, position, 1, len(items))]


@imports(since=11, how="none: a sequence is only known on import")
def SequenceInsert(node: Node, input_sequence: Tensor, tensor: Tensor, position: Maybe = None) -> TensorList:
    items = _items(input_sequence)
    place = _place(node, position, 2, len(items) + 1, default=len(items))
    if position is not None and node.scalar(position) < 0:  # before the one that it counts, as in Python
        place = int(node.scalar(position)) + len(items)
        if place < 0:
            raise Refusal("the sequence has no such place", code="range", field="input 2", got=node.scalar(position))
    return TensorList.of([*items[:place], tensor, *items[place:]])


@imports(since=11, how="none: a sequence is only known on import")
def SequenceErase(node: Node, input_sequence: Tensor, position: Maybe = None) -> TensorList:
    items = _items(input_sequence, least=1)
    del items[_place(node, position, 1, len(items), default=len(items) - 1)]
    return TensorList.of(items)


@imports(since=11, how="known")
def SequenceLength(node: Node, input_sequence: Tensor) -> Array:
    return np.asarray(len(_items(input_sequence)), np.int64)


@imports(since=11, how="slice1")
def SplitToSequence(node: Node, input: Tensor, split: Maybe = None, *, axis: int = 0, keepdims: int = 1) -> TensorList:
    axis = at_axis(axis, input.rank)
    size = input.shape[axis]
    if split is None:
        sizes: Sequence[int] = [1] * size
    elif node.known(split).ndim == 0:
        part = int(node.scalar(split))
        if part < 1:
            raise Refusal("must be at least 1", code="range", field="split", got=part)
        sizes = [min(part, size - begin) for begin in range(0, size, part)]
    else:
        sizes = [int(each) for each in node.known(split)]
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise Refusal("the parts do not add up to the size", code="sizes", got=list(sizes), allowed=str(size))
    parts, begin = [], 0
    for count in sizes:
        places = [slice(begin, begin + count) if each == axis else slice(None) for each in range(input.rank)]
        part_of = sliced(node, input, places) if input.known is None else Tensor.of(input.known[tuple(places)])
        if split is None and not keepdims:
            part_of = _without(node, part_of, axis)
        parts.append(part_of)
        begin += count
    return TensorList.of(parts)


def _without(node: Node, x: Tensor, axis: int) -> Tensor:
    """Without a dimension of size 1."""
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return Tensor.of(x.known.reshape(shape)) if x.known is not None else node.tensor(x.made, shape)


@imports(since=11, how="join, views")
def ConcatFromSequence(node: Node, input_sequence: Tensor, *, axis: int, new_axis: int = 0) -> Tensor:
    items = _items(input_sequence, least=1)
    is_new = bool(new_axis)
    axis = at_axis(axis, items[0].rank + is_new)
    return joined(node, items, axis) if is_new else concatenated(node, items, axis)


@imports(since=17, how="the steps one after another")
def SequenceMap(node: Node, input_sequence: Tensor, *inputs: Tensor, body: ir.Graph) -> Result:
    count = len(_items(input_sequence))
    given = [each.items if isinstance(each, TensorList) else (each,) * count for each in (input_sequence, *inputs)]
    if any(len(each) != count for each in given):
        message = "the sequences have different counts"
        raise Refusal(message, code="count", got=[len(each) for each in given])
    made = [node.run(body, [each[index] for each in given]) for index in range(count)]
    return [TensorList.of([each[index] for each in made]) for index in range(len(node.outputs))]


@imports("Optional", "OptionalGetElement", since=15, how="none: the tensor itself")
def Optional(node: Node, input: Maybe = None) -> Result:
    if input is None:
        raise Refusal("an optional value that is absent has no counterpart", code="unsupported")
    return input


@imports(since=15, how="known")
def OptionalHasElement(node: Node, input: Maybe = None) -> Result:
    return np.asarray(input is not None)
