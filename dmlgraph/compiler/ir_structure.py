"""The structure of an IR: its nodes, who reads what, and changes of that.

Nodes refer to one another by name.  Whoever changes a node does so here, so that the lists of users, and what helps to
search for nodes, always agree with the nodes.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir_node import Content, IrNode, Kind, Operand, Signature, Source, Use, same, with_operator
from dmlgraph.graph.nodes import InputNode

Reading = tuple[IrNode, int, Operand]  # what an input of a node is to read


class IrStructure:
    """Nodes, and the outputs of the graph.

    Args:
        input_type: of the nodes that stay though nothing reads them; a lowered graph has its own.

    Attributes:
        outputs: graph output → its value.
        layouts: graph output → how it is read, if not with the sizes that its node writes.
        names: which new nodes do not take.
        is_changed: whether a node was changed, inserted or removed since the graph was made.
        kinds: the number of nodes of each kind.
        signatures: the number of nodes of each signature.
    """

    def __init__(self, input_type: type[Content] = InputNode) -> None:
        self._input_type = input_type
        self.names: set[str] = set()
        self._clear()

    def _clear(self) -> None:
        self.outputs: dict[str, Source] = {}
        self.layouts: dict[str, TensorDesc] = {}
        self.is_changed = False
        self.kinds: collections.Counter[Kind] = collections.Counter()
        self.signatures: collections.Counter[Signature] = collections.Counter()
        self._nodes: dict[str, IrNode] = {}  # not in execution order
        self._order: list[IrNode] | None = None
        self._before: dict[str, list[str]] = {}  # node → those that were inserted before it
        self._users: dict[Source, dict[tuple[str, int], None]] = {}
        self._output_users: dict[Source, list[str]] = {}
        self._alike: dict[Any, dict[str, None]] = {}

    # Looking up.

    def __getitem__(self, name: str) -> IrNode:
        return self._nodes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __iter__(self) -> Iterator[IrNode]:
        """All nodes, in the order in which they were inserted."""
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def in_order(self) -> list[IrNode]:
        """All nodes, each after the nodes it reads."""
        if self._order is not None:
            return self._order
        order: list[IrNode] = []
        done: set[str] = set()
        for name in self._nodes:
            stack = [name]
            while stack:
                current = stack[-1]
                if current in done:
                    stack.pop()
                    continue
                node = self._nodes[current]
                first = [each for each in self._before.get(current, ()) if each in self._nodes and each not in done]
                waiting = first + [each.node for each in node.sources if each and each.node not in done]
                if waiting:
                    stack.extend(reversed(waiting))
                else:
                    stack.pop()
                    done.add(current)
                    order.append(node)
        self._order = order
        return order

    def desc(self, name: str, port: int) -> TensorDesc:
        """The description of an output of a node."""
        return self._nodes[name].output_desc(port)

    def users(self, source: Source) -> list[tuple[IrNode, int]]:
        """The operators that read a value, with their input ports."""
        return [(self._nodes[name], port) for name, port in self._users.get(source, ())]

    def uses(self) -> Iterator[tuple[Use, Source]]:
        """All inputs of nodes, each with what it reads."""
        for node in self:
            for port, source in enumerate(node.sources):
                if source is not None:
                    yield Use(node.name, port), source

    def source(self, use: Use) -> Source:
        """What an input reads."""
        source = self._nodes[use.node].sources[use.port]
        if source is None:
            raise LookupError(f"'{use.node}' is without input {use.port}")
        return source

    def read_desc(self, use: Use) -> TensorDesc:
        """The description by which an input reads."""
        desc = self._nodes[use.node].computation.input_descs[use.port]
        if desc is None:
            raise LookupError(f"'{use.node}' is without input {use.port}")
        return desc

    def use_count(self, source: Source) -> int:
        """Reads by operators and graph outputs."""
        return len(self._users.get(source, ())) + len(self._output_users.get(source, ()))

    def is_output(self, source: Source) -> bool:
        return source in self._output_users

    def twin(self, node: IrNode) -> IrNode | None:
        """An earlier node that computes the same from the same values."""
        for name in self._alike.get(node.likeness, ()):
            # Only earlier ones: merging the first into the second, and so on, would move the readers again and again.
            if name == node.name:
                return None
            other = self._nodes[name]
            if same(node.content, other.content):
                return other
        return None

    # Changing.

    def replace(
        self,
        node: IrNode,
        new: Iterable[tuple[Content, list[Source | None]]],
        moves: Sequence[tuple[Source, Operand]],
        readings: Sequence[Reading],
    ) -> list[IrNode]:
        """Replaces outputs of a node; returns the nodes that this removes: the node, and what only it needed.

        Args:
            node: the node, of which nothing else is read.
            new: the nodes to insert, each with its sources.
            moves: the outputs, each with the operand that takes its place.
            readings: what the inputs that read one of the outputs read then.
        """
        outputs = {old: self._output_users.pop(old) for old, _ in moves if old in self._output_users}
        for old, _ in moves:
            self._users.pop(old, None)
        self._remove(node)
        # Before new nodes are inserted: a new node of the same name may read the same values.
        unread = self._stop_reading(node)
        for content, sources in new:
            self._insert(content, sources)
        for user, port, operand in readings:
            self._read(user, port, operand)
        for name in {user.name for user, _, _ in readings}:
            self._sign_again(self._nodes[name])
        for old, instead in moves:
            for name in outputs.get(old, ()):
                self.set_output(name, instead.source, self.layouts.pop(name, None) or instead.desc)
        return [node, *self._drop_unused(unread)]

    def set_output(self, name: str, source: Source, desc: TensorDesc | None = None) -> None:
        """Makes a value an output of the graph, read by a description if that is not the one it is written with."""
        old = self.outputs.get(name, source)
        others = [each for each in self._output_users.pop(old, ()) if each != name]
        if others:
            self._output_users[old] = others
        self.outputs[name] = source
        self.layouts.pop(name, None)
        if desc is not None and desc != self.desc(*source):
            self.layouts[name] = desc
        self._output_users.setdefault(source, []).append(name)

    def remove_output(self, name: str) -> None:
        """Makes a value no output of the graph any more; its node stays."""
        source = self.outputs.pop(name)
        self.layouts.pop(name, None)
        self._output_users[source] = [each for each in self._output_users[source] if each != name]
        if not self._output_users[source]:
            del self._output_users[source]

    def insert(self, content: Content, sources: list[Source | None], *, before: str | None = None) -> Source:
        """Inserts a node, at the end or before another one; returns its first output, which nothing reads yet."""
        self._insert(content, sources)
        if before is not None:
            self._before.setdefault(before, []).append(content.name)
        return Source(content.name, 0)

    def read(self, use: Use, source: Source | None) -> None:
        """Makes an input read another value in the same way, or nothing.  What it read stays."""
        node = self._nodes[use.node]
        self._forget(node)
        old, node.sources[use.port] = node.sources[use.port], source
        if old is not None:
            del self._users[old][node.name, use.port]
        if source is not None:
            self._users.setdefault(source, {})[node.name, use.port] = None
        self._put(node, node.content)

    def replace_all_uses(self, old: Source, new: Source) -> None:
        """Makes all that reads a value read another one, which has the same description and may be made of it."""
        for user, port in self.users(old):
            if user.name != new.node:
                self.read(Use(user.name, port), new)
        for name in list(self._output_users.get(old, ())):
            self.set_output(name, new, self.layouts.get(name))

    def put(self, name: str, content: Content) -> None:
        """Replaces a node by another one of the same name, whose sources and outputs are the same or unread."""
        node = self._nodes[name]
        self._forget(node)
        self._put(node, content)
        for port in range(node.output_count):
            for user, _ in self.users(Source(name, port)):
                self._sign_again(user)

    def remove_unused(self) -> None:
        """Removes the nodes that no output needs."""
        for node in reversed(self.in_order()):
            if not self._is_used(node):
                self._remove(node)
                self._stop_reading(node)

    def free_name(self, base: str) -> str:
        """The name itself if it is free, else one derived from it."""
        return next(name for name in itertools.chain([base], self.free_names(base)) if name not in self._nodes)

    def free_names(self, base: str) -> Iterator[str]:
        """Names derived from another one, which neither a node has nor a node of the source graph had."""
        for index in itertools.count(1):
            name = f"{base}_{index}"
            if name not in self._nodes and name not in self.names:
                yield name

    def _insert(self, content: Content, sources: list[Source | None]) -> None:
        node = self._nodes[content.name] = IrNode(content, sources)
        self._order, self.is_changed = None, True
        self.kinds[node.kind] += 1
        self._alike.setdefault(node.likeness, {})[content.name] = None
        for port, source in enumerate(sources):
            if source is not None:
                self._users.setdefault(source, {})[content.name, port] = None
        self._sign(node)

    def _read(self, user: IrNode, port: int, operand: Operand) -> None:
        self._forget(user)
        user.sources[port] = operand.source
        self._users.setdefault(operand.source, {})[user.name, port] = None
        content, operator = user.content, user.computation
        if operator.input_descs[port] != operand.desc:
            content = with_operator(content, operator.with_inputs({port: operand.desc}))
        user.put(content)
        self._alike.setdefault(user.likeness, {})[user.name] = None

    def _remove(self, node: IrNode) -> None:
        self._forget(node)
        del self._nodes[node.name]
        self._order, self.is_changed = None, True
        _count_down(self.kinds, node.kind)
        _count_down(self.signatures, node.signature)

    def _put(self, node: IrNode, content: Content) -> None:
        """Replaces a node's content after `_forget`."""
        _count_down(self.kinds, node.kind)
        node.put(content)
        self.kinds[node.kind] += 1
        self._alike.setdefault(node.likeness, {})[node.name] = None
        self._sign_again(node)
        self._order, self.is_changed = None, True

    def _sign(self, node: IrNode) -> None:
        """Finds the signature of a new node, whose sources exist."""
        nodes = self._nodes
        reads = frozenset([nodes[source.node].kind for source in node.sources if source is not None])
        node.signature = node.kind, reads
        self.signatures[node.signature] += 1

    def _sign_again(self, node: IrNode) -> None:
        """Finds the signature of a node that has changed, or reads another one."""
        _count_down(self.signatures, node.signature)
        self._sign(node)

    def _forget(self, node: IrNode) -> None:
        """Removes a node from the search for twins, before it changes or is removed."""
        self._alike.get(node.likeness, {}).pop(node.name, None)

    def _stop_reading(self, node: IrNode) -> list[Source]:
        """Removes a node's reads; returns what it read."""
        read = [(port, source) for port, source in enumerate(node.sources) if source is not None]
        for port, source in read:
            self._users.get(source, {}).pop((node.name, port), None)
        return [source for _, source in read]

    def _drop_unused(self, waiting: list[Source]) -> Iterator[IrNode]:
        """Removes the producers of these values that are no longer used, and then their producers."""
        while waiting:
            producer = self._nodes.get(waiting.pop().node)
            if producer is None or self._is_used(producer):
                continue
            self._remove(producer)
            yield producer
            waiting.extend(self._stop_reading(producer))

    def _is_used(self, node: IrNode) -> bool:
        ports = range(node.output_count)
        return isinstance(node.content, self._input_type) or any(
            self.use_count(Source(node.name, port)) for port in ports
        )


def _count_down(counts: collections.Counter[Any], key: Any) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
