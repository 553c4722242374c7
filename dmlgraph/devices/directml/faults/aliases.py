"""Values that DirectML keeps in one buffer, and then reads or writes the wrong part of it.

Measured on DirectML 1.13 (feature level 6.2).  CompileGraph elides copies: the output of an identity is its
input's buffer, a window of a value (a slice along one axis, a used part of a split) lies in the value's buffer, and
the sources of a join are written to their places in its result.  It also runs element-wise operators in place: the
only reader of a value writes its output into the value's buffer.  Three of the combinations are faults:

- Two readers of a graph input read different windows of it, and one of them is the identity that copies it to a
  graph output: the copy writes the other reader's elements only.  An identity that itself reads a window is refused.
- An operator in place on a window: CompileGraph refuses the graph (E_INVALIDARG), because the buffer of the whole
  value does not have the output's size.  This needs a value that a node produces and nothing else reads.
- An operator in place on a join: it overwrites the sources, and later readers of the sources read its result.

DirectML first copies a tensor whose dimensions are in another order: such a copy counts as a value that a node
produces and nothing else reads.

A slice of the whole tensor, unlike an identity, is never elided.  So such a slice is inserted as a copy where one of
these faults would happen, or replaces the identity.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator

from dmlgraph.devices.directml.faults.edit import DescEdit, Port, Value
from dmlgraph.operators import (
    ActivationHardSwish,
    ActivationReluGrad,
    ActivationSwish,
    AdamOptimizer,
    BitCount,
    Cast,
    FillValueSequence,
    Identity,
    If,
    IsInfinity,
    IsNan,
    Join,
    LogicalEquals,
    LogicalGreaterThan,
    LogicalGreaterThanOrEqual,
    LogicalLessThan,
    LogicalLessThanOrEqual,
    Slice,
    Slice1,
    Split,
)
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.tensor import TensorDesc

ALIGNMENT = 16  # bytes: DirectML leaves a part in its buffer if it begins at a multiple of this

# Operators of these families run in place, on each input that has the same desc as their output.
_IN_PLACE_FAMILIES = ("element_wise", "activation", "bitwise", "gradient", "logical", "scan", "trigonometric")
_NEVER_IN_PLACE = (
    *(ActivationHardSwish, ActivationReluGrad, ActivationSwish, BitCount, Cast, If, IsInfinity, IsNan),
    *(LogicalEquals, LogicalGreaterThan, LogicalGreaterThanOrEqual, LogicalLessThan, LogicalLessThanOrEqual),
)
_ADAM_IN_PLACE = (0, 1, 2, 3)  # parameters, moments and gradient: it seems to consist of several operators


def copy_what_other_windows_read(edit: DescEdit) -> None:
    """Replaces an identity by a slice if it reads a window, or copies an input of which others read a window."""
    buffers = _Buffers(edit)
    windows = {reader for reader, value in edit.sources.items() if _is_part(edit, reader, value)}
    read = {buffers.root(edit.sources[reader]) for reader in windows}
    outputs = set(edit.outputs.values())
    for node in range(len(edit.nodes)):
        operator = edit.operator(node)
        if not isinstance(operator, Identity) or not _is_neutral(operator):
            continue
        source = buffers.root(edit.sources[Port(node, 0)])
        copies_input = edit.operator(source.node) is None and Value(node, 0) in outputs
        if Port(node, 0) in windows or (copies_input and source in read):
            edit.replace(node, whole_slice(operator.input, operator.output))


def keep_windows_from_in_place(edit: DescEdit) -> None:
    """Inserts a copy before an operator that would run in place on a window of another value."""
    buffers = _Buffers(edit)
    for reader, value in buffers.in_place():
        desc = edit.needed_desc(reader)
        whole = _windowed(edit, buffers, value, reader.node) if not _is_part(edit, reader, value) else edit.desc(value)
        if whole is not None and _differ_in_size(desc, whole, is_output=buffers.becomes_output(Value(reader.node, 0))):
            _insert_copy(edit, reader)


def keep_joined_values(edit: DescEdit) -> None:
    """Copies an input of a join that an operator would overwrite, if others read this input too.

    If there are several such inputs, the join's result is copied instead, once.  A join of one input needs no copy:
    the operator reads that input directly, and the join is removed.
    """
    buffers = _Buffers(edit)
    for reader, result in buffers.in_place():
        value = result
        if _has_gaps(edit.desc(Value(reader.node, 0))):
            continue
        while isinstance(join := edit.operator(value.node), Join) and not _is_part(edit, reader, value):
            shared = list(_shared(edit, buffers, value.producer, join))
            if not shared:
                break
            if len(join.inputs) > 1:
                _insert_copy(edit, shared[0] if len(shared) == 1 else reader)
                break
            edit.read(reader, edit.sources[Port(value.producer, 0)])
            value = buffers.root(edit.sources[reader])
            if len(buffers.uses(value)) > 1:
                break


def _insert_copy(edit: DescEdit, reader: Port) -> None:
    """Inserts a copy before an input of a node."""
    desc = edit.needed_desc(reader)
    copy = desc.like(strides=desc.strides)  # so that the node's desc stays as it is
    edit.insert(f"{edit.nodes[reader.node].name}.copy", whole_slice(desc, copy), reader)


def whole_slice(source: TensorDesc, target: TensorDesc) -> Slice:
    """A copy that DirectML does not elide, unlike identities, and joins and splits of one tensor."""
    rank = source.rank
    return Slice(input=source, output=target, offsets=(0,) * rank, sizes=source.sizes, strides=(1,) * rank)


class _Buffers:
    """Which values share one buffer, because DirectML elides the nodes between them, and who uses it."""

    def __init__(self, edit: DescEdit) -> None:
        self._edit = edit
        self._roots: dict[Value, Value] = {}
        self._uses: dict[Value, list[Port | None]] = collections.defaultdict(list)
        for reader, value in edit.sources.items():
            if not self._is_left_out(reader.node):
                self._uses[self.root(value)].append(reader)
        for value in edit.outputs.values():
            self._uses[self.root(value)].append(None)

    def root(self, value: Value) -> Value:
        """The first of the values that share a buffer."""
        chain = []
        while value not in self._roots and value.node is not None and self._is_left_out(value.node):
            chain.append(value)
            value = self._edit.sources[Port(value.node, 0)]
        found = self._roots.get(value, value)
        self._roots.update(dict.fromkeys(chain, found))
        return found

    def uses(self, root: Value) -> list[Port | None]:
        """The readers of a buffer; None stands for a graph output."""
        return self._uses.get(root, [])

    def is_made_by_node(self, root: Value) -> bool:
        """Whether an operator writes the buffer at every run.  Sequences are computed at compile time."""
        operator = self._edit.operator(root.node)
        return operator is not None and not isinstance(operator, FillValueSequence)

    def in_place(self) -> Iterator[tuple[Port, Value]]:
        """The inputs that DirectML overwrites with an output, and the values whose buffers they are."""
        for node in range(len(self._edit.nodes)):
            yield from self.in_place_of(node)

    def in_place_of(self, node: int) -> list[tuple[Port, Value]]:
        """The same for one node: if several inputs are possible, DirectML overwrites the last one.

        Whether it overwrites a part of a value depends on how the value is stored, so both the part and the other
        candidates are returned then.
        """
        operator = self._edit.operator(node)
        if operator is None:
            return []
        found = []
        for index in reversed(range(len(operator.input_descs))):
            reader = Port(node, index)
            if reader not in self._edit.sources or not may_run_in_place(operator, index):
                continue
            value = self._edit.sources[reader]
            if not _is_part(self._edit, reader, value) and not _is_packed(operator.input_descs[index]):
                continue  # the output has other strides
            root = self.root(value)
            if self.is_made_by_node(root) and self.uses(root) == [reader]:
                found.append((reader, self._before_splits(root)))
                is_part = isinstance(self._edit.operator(root.node), (Slice, Slice1, Split))
                if not is_part and not isinstance(operator, AdamOptimizer):
                    break
        return found

    def _before_splits(self, root: Value) -> Value:
        """The input of a split into one part, if nothing else reads that input: DirectML elides the split then."""
        while isinstance(split := self._edit.operator(root.node), Split) and len(split.outputs) == 1:
            place = Port(root.producer, 0)
            source = self.root(self._edit.sources[place])
            if not self.is_made_by_node(source) or self.uses(source) != [place]:
                break
            root = source
        return root

    def becomes_output(self, value: Value) -> bool:
        """Whether a value, or what is written over it, is a graph output."""
        while True:
            root = self.root(value)
            uses = self.uses(root)
            if None in uses:
                return True
            use = uses[0] if len(uses) == 1 else None
            if use is None or all(reader != use for reader, _ in self.in_place_of(use.node)):
                return False
            value = Value(use.node, 0)

    def _is_left_out(self, node: int) -> bool:
        """Whether DirectML elides a node and uses its input as its output."""
        operator = self._edit.operator(node)
        if not isinstance(operator, Identity) or not _is_neutral(operator):
            return False
        is_part = _is_part(self._edit, Port(node, 0), self._edit.sources[Port(node, 0)])
        return not is_part and _steps(operator.input) == _steps(operator.output)


def may_run_in_place(operator: Operator, port: int) -> bool:
    """Whether DirectML writes an operator's output over an input that nothing else reads."""
    if isinstance(operator, AdamOptimizer):
        return port in _ADAM_IN_PLACE
    if operator.family not in _IN_PLACE_FAMILIES or isinstance(operator, _NEVER_IN_PLACE):
        return False
    if isinstance(operator, Identity) and _is_neutral(operator):
        return False  # DirectML elides it
    source, target = operator.input_descs[port], operator.first_output
    return source is not None and source.like() == target.like() and source.span == source.element_count


def _shared(edit: DescEdit, buffers: _Buffers, node: int, join: Join) -> Iterator[Port]:
    """The inputs of a join that lie in its result's buffer and that others, which may run later, use too."""
    for index in range(len(join.inputs)):
        port = Port(node, index)
        root = buffers.root(edit.sources[port])
        if not buffers.is_made_by_node(root):
            continue
        uses, producer = buffers.uses(root), edit.operator(root.node)
        if not _lies_in_result(join, index, producer, is_output=None in uses):
            continue
        others = {None if use is None else use.node for use in uses} - {node}
        if not edit.run_before(node, others):
            yield port
        elif isinstance(producer, Join) and root.node is not None:
            yield from _shared(edit, buffers, root.node, producer)


def _lies_in_result(join: Join, index: int, producer: Operator | None, *, is_output: bool) -> bool:
    """Whether a join's input is written to its place in the result, with strides if it is not contiguous there."""
    source, result = join.inputs[index], join.output
    if not _is_packed(source) or not _is_packed(result):
        return False
    outer, inner = math.prod(result.sizes[: join.axis]), math.prod(result.sizes[join.axis + 1 :])
    before = sum(each.sizes[join.axis] for each in join.inputs[:index]) * inner
    span = (outer - 1) * result.sizes[join.axis] * inner + source.sizes[join.axis] * inner
    if is_output and outer > 1 and len(join.inputs) > 1:
        return False  # graph outputs are packed
    is_aligned = isinstance(producer, (Join, Split)) or _bytes(span, source) % ALIGNMENT == 0
    return is_aligned and _bytes(before, source) % ALIGNMENT == 0


def _windowed(edit: DescEdit, buffers: _Buffers, value: Value, user: int) -> TensorDesc | None:
    """The tensor that a value is an aligned part of, if nothing else uses it and `user` writes with the part's strides.

    Returns None otherwise.
    """
    operator, place = edit.operator(value.node), Port(value.producer, 0)
    if isinstance(operator, (Slice, Slice1)):
        source, window = operator.input, operator.output
        offsets = operator.offsets if isinstance(operator, Slice) else operator.input_window_offsets
        if isinstance(operator, Slice1) and operator.input_window_sizes != window.sizes:
            return None  # DirectML does not elide this copy
        if isinstance(operator, Slice) and any(
            step != 1 for step, size in zip(operator.strides, window.sizes, strict=True) if size > 1
        ):
            return None
    elif isinstance(operator, Split):
        used = [port for port in range(len(operator.outputs)) if buffers.uses(Value(value.node, port))]
        if used != [value.port]:
            return None
        source, window = operator.input, operator.outputs[value.port]
        before = sum(each.sizes[operator.axis] for each in operator.outputs[: value.port])
        offsets = tuple(before if axis == operator.axis else 0 for axis in range(source.rank))
    else:
        return None
    cut = [axis for axis in range(source.rank) if source.sizes[axis] != window.sizes[axis]]
    if len(cut) != 1 or not _is_made_for(edit, buffers, place, source):
        return None
    (axis,) = cut
    part = window.like(strides=source.packed_strides)
    if not _is_packed(window) or _steps(part) not in _written(edit, buffers, user):
        return None
    begin = offsets[axis] * math.prod(window.sizes[axis + 1 :])
    return source.like() if _bytes(begin, source) % ALIGNMENT == 0 else None


def _is_made_for(edit: DescEdit, buffers: _Buffers, reader: Port, desc: TensorDesc) -> bool:
    """Whether a buffer is written for one reader only: by a node, or by DirectML to reorder the dimensions."""
    root = buffers.root(edit.sources[reader])
    if buffers.is_made_by_node(root):
        return buffers.uses(root) == [reader]
    strides = [stride for _, stride in _steps(desc)]
    return 0 not in strides and strides != sorted(strides, reverse=True)


def _written(edit: DescEdit, buffers: _Buffers, node: int) -> list[list[tuple[int, int]]]:
    """The sizes and strides with which a node's output may be written: its own, and those of joins that read it."""
    value = Value(node, 0)
    desc, uses = edit.desc(value), buffers.uses(buffers.root(value))
    if not _is_packed(desc):
        return [_steps(desc)] if None in uses else []
    joins = [edit.operator(use.node) for use in uses if use is not None] if None not in uses else []
    results = [join.output for join in joins if isinstance(join, Join) and join.output.rank == desc.rank]
    return [_steps(desc), *(_steps(desc.like(strides=result.effective_strides)) for result in results)]


def _differ_in_size(window: TensorDesc, whole: TensorDesc, *, is_output: bool) -> bool:
    """Whether DirectML gives two tensors buffers of different sizes: it rounds sizes up, except those of outputs."""
    sizes = [_bytes(each.element_count, each) for each in (window, whole)]
    unit = 4 if is_output else ALIGNMENT
    return -(-sizes[0] // unit) != -(-sizes[1] // unit)


def _is_part(edit: DescEdit, reader: Port, value: Value) -> bool:
    """Whether an input reads only some of a value's elements, with strides that skip the rest."""
    desc = edit.read_desc(reader)
    if desc is None:
        return False
    reached = math.prod(
        size for size, stride in zip(desc.sizes, desc.effective_strides, strict=True) if stride or size == 1
    )
    return reached < edit.desc(value).element_count


def _is_neutral(operator: Identity) -> bool:
    """Whether an identity leaves its input's values unchanged: a ScaleBias of 1 and 0 counts as no ScaleBias."""
    both = operator.scale_bias
    return both is None or (both.scale == 1 and both.bias == 0)


def _steps(desc: TensorDesc) -> list[tuple[int, int]]:
    """The sizes and strides of the dimensions that are larger than 1."""
    return [(size, stride) for size, stride in zip(desc.sizes, desc.effective_strides, strict=True) if size > 1]


def _has_gaps(desc: TensorDesc) -> bool:
    """Whether elements lie apart in the order of the dimensions.  In another order, DirectML computes them packed."""
    strides = [stride for _, stride in _steps(desc)]
    return not _is_packed(desc) and strides == sorted(strides, reverse=True)


def _is_packed(desc: TensorDesc | None) -> bool:
    return desc is None or desc.strides is None or _steps(desc) == _steps(desc.like())


def _bytes(elements: int, desc: TensorDesc) -> int:
    return elements * desc.dtype.bits // 8
