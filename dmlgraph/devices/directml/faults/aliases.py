"""Values that DirectML keeps in one buffer, and then reads or writes the wrong part of it.

Measured on DirectML 1.13 (feature level 6.2).  CompileGraph elides copies: the output of an identity is its
input's buffer, a window of a value (a slice along one axis, a used part of a split) lies in the value's buffer, and
the sources of a join are written to their places in its result.  It also runs element-wise operators in place: the
only reader of a value writes its output into the value's buffer.  Four of the combinations are faults:

- Two readers of a graph input read different windows of it, and one of them is an identity that copies it, to a graph
  output or in another order of dimensions: the copy writes the other reader's elements only.  An identity that itself
  reads a window is refused.
- An operator in place on a window: CompileGraph refuses the graph (E_INVALIDARG), because the buffer of the whole
  value does not have the output's size.  This needs a value that a node produces and nothing else reads.
- An operator in place on a join: it overwrites the sources, and later readers of the sources read its result.  It may
  read the join in another order of dimensions, if `orders` has that one.
- An operator in place on all states of a recurrent network of one direction and several steps: output_single is read
  from there afterwards, if its reader runs later.

DirectML first copies a tensor whose dimensions are in another order: such a copy counts as a value that a node
produces and nothing else reads.

Parts of a buffer begin at multiples of 16 bytes, except that identities write to other places in a join, and, with a
ScaleBias, run in place on other windows.

A slice of the whole tensor, unlike an identity, is never elided.  So such a slice is inserted as a copy where one of
these faults would happen, or replaces the identity.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator, Set

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Source, Use
from dmlgraph.devices.directml.faults.edits import insert_before, put
from dmlgraph.devices.directml.faults.orders import (
    CHANNELS_LAST,
    HEADS,
    has_gaps,
    is_dense,
    is_ordered,
    is_reordered,
    stored,
)
from dmlgraph.operators import (
    AdamOptimizer,
    FillValueSequence,
    Gemm,
    Identity,
    Join,
    Reduce,
    Slice,
    Slice1,
    Split,
)
from dmlgraph.operators.common.strided import is_packed, steps
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.recurrent import Recurrent

ALIGNMENT = 16  # bytes: DirectML leaves a part in its buffer if it begins at a multiple of this

_IN_ORDER = (Gemm, Join, Reduce)  # they have what they read in the order of its dimensions
_ADAM_IN_PLACE = (0, 1, 2, 3)  # parameters, moments and gradient: it seems to consist of several operators


def copy_what_other_windows_read(ir: IrGraph) -> int:
    """Replaces an identity by a slice if it reads a window, or copies an input of which others read a window.

    Inserts nothing.
    """
    buffers = _Buffers(ir)
    windows = {reader for reader, value in ir.uses() if _is_part(ir, reader, value)}
    read = {buffers.root(ir.source(reader)) for reader in windows}
    outputs = set(ir.outputs.values())
    for node in ir:
        operator, use = node.operator, Use(node.name, 0)
        if not isinstance(operator, Identity) or not _is_neutral(operator):
            continue
        source = buffers.root(ir.source(use))
        is_copy = Source(node.name, 0) in outputs or not buffers.is_left_out(node)
        copies_input = _is_known(ir, source) and is_copy
        if use in windows or (copies_input and source in read):
            put(ir, node.name, whole_slice(operator.input, operator.output))
    return 0


def _is_known(ir: IrGraph, value: Source) -> bool:
    """Whether no operator writes a value while the graph runs: DirectML computes sequences before."""
    operator = ir[value.node].operator
    return operator is None or isinstance(operator, FillValueSequence)


def keep_windows_from_in_place(ir: IrGraph) -> int:
    """Inserts a copy before an operator that would run in place on a window of another value; returns how many."""
    buffers, copies = _Buffers(ir), 0
    for reader, value in buffers.in_place():
        desc = ir.read_desc(reader)
        whole = _windowed(ir, buffers, value, reader.node) if not _is_part(ir, reader, value) else ir.desc(*value)
        if whole is not None and _differ_in_size(desc, whole):
            copies += _insert_copy(ir, reader)
    return copies


def keep_joined_values(ir: IrGraph) -> int:
    """Copies an input of a join that an operator would overwrite, if others read this input too; returns how many.

    If there are several such inputs, the join's result is copied instead, once.  A join of one input needs no copy:
    the operator reads that input directly, and the join is removed.
    """
    buffers, copies = _Buffers(ir), 0
    for reader, result in buffers.in_place():
        value = result
        if has_gaps(ir.desc(reader.node, 0)):
            continue
        while isinstance(join := ir[value.node].operator, Join) and not _is_part(ir, reader, value):
            shared = list(_shared(ir, buffers, value.node, join))
            if not shared:
                break
            if len(join.inputs) > 1:
                copies += _insert_copy(ir, shared[0] if len(shared) == 1 else reader)
                break
            ir.read(reader, ir.source(Use(value.node, 0)))
            value = buffers.root(ir.source(reader))
            if len(buffers.uses(value)) > 1:
                break
    return copies


def keep_sources_of_reordered_joins(ir: IrGraph) -> int:
    """Copies the inputs of a join whose output has its dimensions in another order, if others use them too.

    They lie in the result, and are copied out of it only at the end, whatever was written there in place.  Returns how
    many copies were inserted.
    """
    buffers, copies = _Buffers(ir), 0
    for node in list(ir):
        if not isinstance(join := node.operator, Join) or is_packed(join.output):
            continue
        for index in range(len(join.inputs)):
            place = Use(node.name, index)
            root = buffers.root(ir.source(place))
            others = [use for use in buffers.uses(root) if use is None or use.node != node.name]
            if buffers.is_made_by_node(root) and others:
                copies += _insert_copy(ir, place)
    return copies


def keep_last_states(ir: IrGraph) -> int:
    """Copies the states of a recurrent network that an operator would overwrite, if others read the last state.

    Returns how many.
    """
    buffers, copies = _Buffers(ir), 0
    for reader, value in buffers.in_place():
        operator = ir[value.node].operator
        if not isinstance(operator, Recurrent) or value.port != 0 or len(operator.backward) > 1:
            continue
        last = operator.output_descs[1]
        others = {None if use is None else use.node for use in buffers.uses(Source(value.node, 1))}
        if last is not None and ir.desc(*value).sizes != last.sizes and not buffers.runs_after(reader.node, others):
            copies += _insert_copy(ir, reader)
    return copies


def _insert_copy(ir: IrGraph, reader: Use) -> int:
    """Inserts a copy before an input of a node; returns 1, the dispatches that it costs."""
    desc = ir.read_desc(reader)
    copy = desc.like(strides=desc.strides)  # so that the node's desc stays as it is
    insert_before(ir, reader, "copy", whole_slice(desc, copy))
    return 1


def whole_slice(source: TensorDesc, target: TensorDesc) -> Slice:
    """A copy that DirectML does not elide, unlike identities, and joins and splits of one tensor."""
    rank = source.rank
    return Slice(input=source, output=target, offsets=(0,) * rank, sizes=source.sizes, strides=(1,) * rank)


class _Buffers:
    """Which values share one buffer, because DirectML elides the nodes between them, and who uses it."""

    def __init__(self, ir: IrGraph) -> None:
        self._ir = ir
        self._place = {node.name: place for place, node in enumerate(ir.in_order())}
        self._roots: dict[Source, Source] = {}
        self._uses: dict[Source, list[Use | None]] = collections.defaultdict(list)
        for reader, value in ir.uses():
            if not self.is_left_out(ir[reader.node]):
                self._uses[self.root(value)].append(reader)
        for value in ir.outputs.values():
            self._uses[self.root(value)].append(None)

    def root(self, value: Source) -> Source:
        """The first of the values that share a buffer."""
        chain = []
        while value not in self._roots and self.is_left_out(self._ir[value.node]):
            chain.append(value)
            value = self._ir.source(Use(value.node, 0))
        found = self._roots.get(value, value)
        self._roots.update(dict.fromkeys(chain, found))
        return found

    def uses(self, root: Source) -> list[Use | None]:
        """The readers of a buffer; None stands for a graph output."""
        return self._uses.get(root, [])

    def is_made_by_node(self, root: Source) -> bool:
        """Whether an operator writes the buffer at every run.  Sequences are computed at compile time."""
        operator = self._ir[root.node].operator
        return operator is not None and not isinstance(operator, FillValueSequence)

    def in_place(self) -> Iterator[tuple[Use, Source]]:
        """The inputs that DirectML overwrites with an output, and the values whose buffers they are."""
        for node in list(self._ir):
            yield from self.in_place_of(node)

    def in_place_of(self, node: IrNode) -> list[tuple[Use, Source]]:
        """The same for one node: if several inputs are possible, DirectML overwrites the last one.

        Whether it overwrites a part of a value depends on how the value is stored, so both the part and the other
        candidates are returned then.
        """
        operator = node.operator
        if operator is None:
            return []
        found: list[tuple[Use, Source]] = []
        for index in reversed(range(len(operator.input_descs))):
            reader, value = Use(node.name, index), node.sources[index]
            if value is None or not self._may_run_in_place(reader, operator):
                continue
            root, desc = self.root(value), self._ir.read_desc(reader)
            found += self._before_reordering(root, desc)
            is_window = isinstance(self._ir[root.node].operator, (Slice, Slice1, Split))
            if not is_window and not _is_part(self._ir, reader, value) and not self._is_order_kept(reader, desc):
                continue  # the output has other strides
            if self.is_made_by_node(root) and self.uses(root) == [reader]:
                found.append((reader, self._before_splits(root)))
                if not is_window and is_packed(desc) and not isinstance(operator, AdamOptimizer):
                    break
        return found

    def _is_order_kept(self, reader: Use, desc: TensorDesc) -> bool:
        """Whether an operator may write its output with the order of dimensions in which it reads an input.

        That depends on what reads the output as it is: neither reshaped nor in another order.
        """
        if is_packed(desc):
            return True
        value, is_copy = Source(reader.node, 0), isinstance(self._ir[reader.node].operator, Identity)
        as_it_is = [
            None if use is None else self._ir[use.node].operator
            for use in self.uses(self.root(value))
            if use is None or self._reads_as_it_is(use, self._ir.desc(*value))
        ]
        if is_ordered(desc, CHANNELS_LAST):  # of four axes, a later input whose order is fixed decides
            return is_copy or (bool(as_it_is) and (desc.rank > 4 or not self._precedes_given_input(reader)))
        return is_ordered(desc, HEADS) and any(
            is_copy or not (each is None or isinstance(each, _IN_ORDER)) for each in as_it_is
        )

    def _reads_as_it_is(self, use: Use, made: TensorDesc) -> bool:
        """Whether an input has the sizes and the order of the value that it reads."""
        desc = self._ir.read_desc(use)
        return desc.sizes == made.sizes and is_packed(desc)

    def _precedes_given_input(self, reader: Use) -> bool:
        """Whether a node has a later input whose order is not DirectML's to choose."""
        later = self._ir[reader.node].sources[reader.port + 1 :]
        return any(_is_known(self._ir, self.root(value)) for value in later if value is not None)

    def _before_reordering(self, root: Source, desc: TensorDesc) -> Iterator[tuple[Use, Source]]:
        """The inputs of identities that reorder what an operator reads, if it can run in place before them.

        DirectML chooses the order of what is between nodes, and may elide such an identity.
        """
        while isinstance(copy := self._ir[root.node].operator, Identity) and _is_neutral(copy):
            place = Use(root.node, 0)
            source, before = self.root(self._ir.source(place)), stored(copy, desc)
            if before is None or len(self.uses(root)) > 1 or not self.is_made_by_node(source):
                return
            if self.uses(source) == [place] and is_packed(before):
                yield place, source
            root, desc = source, before

    def _may_run_in_place(self, reader: Use, operator: Operator) -> bool:
        """Whether an operator may overwrite an input: also one with gaps, if its output gets the same gaps."""
        desc = operator.input_descs[reader.port]
        if desc is None or is_dense(desc):
            return may_run_in_place(operator, reader.port)
        return steps(desc) in _written(self._ir, self, reader.node) and may_run_in_place(
            operator.with_inputs({reader.port: desc.like()}), reader.port
        )

    def _before_splits(self, root: Source) -> Source:
        """The input of a split into one part, if nothing else reads that input: DirectML elides the split then."""
        while isinstance(split := self._ir[root.node].operator, Split) and len(split.outputs) == 1:
            place = Use(root.node, 0)
            source = self.root(self._ir.source(place))
            if not self.is_made_by_node(source) or self.uses(source) != [place]:
                break
            root = source
        return root

    def is_left_out(self, node: IrNode) -> bool:
        """Whether DirectML elides a node and uses its input as its output."""
        operator = node.operator
        if not isinstance(operator, Identity) or not _is_neutral(operator):
            return False
        use = Use(node.name, 0)
        return not _is_part(self._ir, use, self._ir.source(use)) and steps(operator.input) == steps(operator.output)

    def runs_after(self, node: str, others: Set[str | None]) -> bool:
        """Whether a node depends on all the other nodes; None stands for a graph output, which no node depends on."""
        last = len(self._place)  # of nodes that were inserted since: their place is not known
        place = self._place.get(node, last)
        missing: set[str] = set()
        for other in others:
            if other is None or place < self._place.get(other, 0):
                return False
            missing.add(other)
        first = min((self._place.get(other, 0) for other in missing), default=0)  # earlier nodes depend on none of them
        seen, waiting = {node}, [node]
        while waiting and missing:
            for source in self._ir[waiting.pop()].sources:
                if source is None or source.node in seen or self._place.get(source.node, last) < first:
                    continue
                seen.add(source.node)
                missing.discard(source.node)
                waiting.append(source.node)
        return not missing


def may_run_in_place(operator: Operator, port: int) -> bool:
    """Whether DirectML writes an operator's output over an input that nothing else reads."""
    if isinstance(operator, AdamOptimizer):
        return port in _ADAM_IN_PLACE
    if not operator.in_place:
        return False
    if isinstance(operator, Identity) and _is_neutral(operator):
        return False  # DirectML elides it
    source, target = operator.input_descs[port], operator.first_output
    return source is not None and source.like() == target.like() and is_dense(source)


def _shared(ir: IrGraph, buffers: _Buffers, node: str, join: Join) -> Iterator[Use]:
    """The inputs of a join that lie in its result's buffer and that others, which may run later, use too."""
    for index in range(len(join.inputs)):
        port = Use(node, index)
        root = buffers.root(ir.source(port))
        if not buffers.is_made_by_node(root):
            continue
        uses, producer = buffers.uses(root), ir[root.node].operator
        if not _lies_in_result(join, index, producer, is_output=None in uses):
            continue
        others = {None if use is None else use.node for use in uses} - {node}
        if not buffers.runs_after(node, others):
            yield port
        elif isinstance(producer, Join):
            yield from _shared(ir, buffers, root.node, producer)


def _lies_in_result(join: Join, index: int, producer: Operator | None, *, is_output: bool) -> bool:
    """Whether a join's input is written to its place in the result, with strides if it is not contiguous there."""
    source, result = join.inputs[index], join.output
    if not is_packed(source) or not is_packed(result):
        return False
    outer, inner = math.prod(result.sizes[: join.axis]), math.prod(result.sizes[join.axis + 1 :])
    before = sum(each.sizes[join.axis] for each in join.inputs[:index]) * inner
    span = (outer - 1) * result.sizes[join.axis] * inner + source.sizes[join.axis] * inner
    if is_output and outer > 1 and len(join.inputs) > 1:
        return False  # graph outputs are packed
    if isinstance(producer, Identity):
        return True  # it writes wherever that is
    is_aligned = isinstance(producer, (Join, Split)) or _bytes(span, source) % ALIGNMENT == 0
    return is_aligned and _bytes(before, source) % ALIGNMENT == 0


def _windowed(ir: IrGraph, buffers: _Buffers, value: Source, user: str) -> TensorDesc | None:
    """The tensor that a value is an aligned part of, if nothing else uses it and `user` writes with the part's strides.

    Returns None otherwise.
    """
    operator, place = ir[value.node].operator, Use(value.node, 0)
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
        used = [port for port in range(len(operator.outputs)) if buffers.uses(Source(value.node, port))]
        if used != [value.port]:
            return None
        source, window = operator.input, operator.outputs[value.port]
        before = sum(each.sizes[operator.axis] for each in operator.outputs[: value.port])
        offsets = tuple(before if axis == operator.axis else 0 for axis in range(source.rank))
    else:
        return None
    cut = [axis for axis in range(source.rank) if source.sizes[axis] != window.sizes[axis]]
    if len(cut) != 1 or not _is_made_for(ir, buffers, place, source):
        return None
    (axis,) = cut
    written, alignment = _written(ir, buffers, user), 1 if isinstance(ir[user].operator, Identity) else ALIGNMENT
    for strides in _layouts(ir, place, source):
        part = window.like(strides=strides)
        fits = steps(part) in written or (strides != source.packed_strides and is_dense(part))
        if fits and _bytes(offsets[axis] * strides[axis], source) % alignment == 0:
            return ir.desc(*ir.source(place))  # of which the source may be a part
    return None


def _layouts(ir: IrGraph, reader: Use, desc: TensorDesc) -> Iterator[tuple[int, ...]]:
    """The strides that a tensor may have where an input reads it.

    They are packed in the order of its dimensions, or as it is read, or, because DirectML chooses the order of what is
    between nodes, packed in the order in which an operator before reads its own input.
    """
    yield desc.packed_strides
    if not is_packed(desc):
        yield desc.effective_strides
    value = ir.source(reader)
    while (operator := ir[value.node].operator) is not None:
        read = [each for each in operator.input_descs if each is not None and each.rank == desc.rank]
        reordered = [each for each in read if is_reordered(each)]
        for each in reordered:
            strides, step = [0] * desc.rank, 1
            for _, _, axis in sorted(
                zip((n > 1 for n in each.sizes), each.effective_strides, range(desc.rank), strict=True)
            ):
                strides[axis], step = step, step * desc.sizes[axis]
            yield tuple(strides)
        before = ir[value.node].sources[0] if read and not reordered else None
        if before is None:
            return
        value = before


def _is_made_for(ir: IrGraph, buffers: _Buffers, reader: Use, desc: TensorDesc) -> bool:
    """Whether a buffer is written for one reader only: by a node, or by DirectML to reorder the dimensions."""
    root = buffers.root(ir.source(reader))
    if buffers.is_made_by_node(root):
        return buffers.uses(root) == [reader]
    return is_reordered(desc)


def _written(ir: IrGraph, buffers: _Buffers, node: str) -> list[list[tuple[int, int]]]:
    """The sizes and strides with which a node's output may be written: its own, and those of joins that read it."""
    value = Source(node, 0)
    desc, uses = ir.desc(*value), buffers.uses(buffers.root(value))
    if not is_packed(desc):
        packed = [steps(desc.like())] if is_reordered(desc) else []  # it is reordered afterwards
        return [*packed, steps(desc)] if None in uses else packed
    joins = [ir[use.node].operator for use in uses if use is not None] if None not in uses else []
    results = [join.output for join in joins if isinstance(join, Join) and join.output.rank == desc.rank]
    return [steps(desc), *(steps(desc.like(strides=result.effective_strides)) for result in results)]


def _differ_in_size(window: TensorDesc, whole: TensorDesc) -> bool:
    """Whether DirectML may give two tensors buffers of different sizes.

    It rounds the sizes up to 4 bytes for some buffers, and to 16 for most others.
    """
    sizes = [_bytes(each.element_count, each) for each in (window, whole)]
    return -(-sizes[0] // 4) != -(-sizes[1] // 4)


def _is_part(ir: IrGraph, reader: Use, value: Source) -> bool:
    """Whether an input reads only some of a value's elements, with strides that skip the rest."""
    desc = ir.read_desc(reader)
    reached = math.prod(
        size for size, stride in zip(desc.sizes, desc.effective_strides, strict=True) if stride or size == 1
    )
    return reached < ir.desc(*value).element_count


def _is_neutral(operator: Identity) -> bool:
    """Whether an identity leaves its input's values unchanged: a ScaleBias of 1 and 0 counts as no ScaleBias."""
    both = operator.scale_bias
    return both is None or (both.scale == 1 and both.bias == 0)


def _bytes(elements: int, desc: TensorDesc) -> int:
    return elements * desc.dtype.bits // 8
