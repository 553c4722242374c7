"""The driver: runs the passes in order, each to a fixed point, and all of them until nothing changes."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Sequence

from dmlgraph.base.memory import collector_paused, enough_memory
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Kind, Signature
from dmlgraph.compiler.record import Entry
from dmlgraph.compiler.rewriting import apply
from dmlgraph.compiler.rule import Declined, Rule
from dmlgraph.compiler.target import Target
from dmlgraph.compiler.views import remove_views
from dmlgraph.graph.graph import Graph

MAX_ROUNDS = 8  # walks over the whole pipeline
REWRITES_PER_NODE = 16  # of the source graph; rules that undo one another would never end


class Record:
    """What was done, in order, and the last reason why a rule declined."""

    def __init__(self) -> None:
        self._applied: list[Entry] = []
        self._declined: dict[tuple[str, str], Entry] = {}

    def applied(self, entry: Entry) -> None:
        self._applied.append(entry)

    def declined(self, rule: str, node: str, why: str) -> None:
        self._declined[rule, node] = Entry(rule, node, why, applied=False)

    def entries(self, ir: IrGraph) -> tuple[Entry, ...]:
        """All applied rules, then the declined ones at nodes that still exist."""
        refused = (entry for entry in self._declined.values() if entry.node in ir)
        return (*self._applied, *refused)

    def __len__(self) -> int:
        return len(self._applied)


@dataclasses.dataclass(frozen=True)
class Pass:
    """A pass: rules that look at one node each, with one worklist; a rewrite queues the nodes around it."""

    name: str
    rules: Sequence[Rule]

    def run(self, ir: IrGraph, record: Record, enabled: frozenset[str], budget: int) -> None:
        """Rewrites to a fixed point by the enabled rules, at most `budget` times."""
        fitting = _Fitting([rule for rule in self.rules if rule.name in enabled], ir)
        fit = {signature for signature in ir.signatures if fitting.at(signature)}
        if not fit:
            return
        waiting = collections.deque([node.name for node in ir.in_order() if node.signature in fit])
        queued = set(waiting)
        while waiting and budget:
            name = waiting.popleft()
            queued.discard(name)
            if name not in ir:
                continue
            node = ir[name]
            for rule in fitting.at(node.signature):
                touched = _try(ir, record, rule, node)
                if touched is None:
                    continue
                budget -= 1
                for each in touched:
                    if each not in queued:
                        queued.add(each)
                        waiting.append(each)
                fitting.update()
                break


class _Fitting:
    """Which rules can apply in an IR, by its kinds of nodes, and at a node, by what it reads."""

    def __init__(self, rules: Sequence[Rule], ir: IrGraph) -> None:
        self._all, self._ir = rules, ir
        self._kinds: set[Kind] = set()
        self._fitting: list[Rule] = []
        self._by_signature: dict[Signature, list[Rule]] = {}
        self.update()

    def update(self) -> None:
        """Must be called after the IR has changed: it may have a new kind of node."""
        if not self._kinds >= self._ir.kinds.keys():
            self._kinds |= self._ir.kinds.keys()
            self._fitting = [rule for rule in self._all if rule.may_fit(self._kinds)]
            self._by_signature = {}

    def at(self, signature: Signature) -> list[Rule]:
        """The rules that look at such a node and fit what it reads; those that look at every kind come last."""
        found = self._by_signature.get(signature)
        if found is None:
            kind, reads = signature
            fits = [rule for rule in self._fitting if not rule.after or not rule.after.isdisjoint(reads)]
            anchored = [rule for rule in fits if kind in rule.anchors]
            found = self._by_signature[signature] = [*anchored, *(rule for rule in fits if not rule.anchors)]
        return found


def _try(ir: IrGraph, record: Record, rule: Rule, node: IrNode) -> list[str] | None:
    """The nodes to look at again after a rule's rewrite; None if it did nothing."""
    name = node.name
    try:
        rewrite = rule.function(ir, node)
        if rewrite is None:
            return None
        if (rewrite.node or name) in ir.kept:
            raise Declined("a workaround keeps the node")
        around = [source.node for source in node.sources if source is not None]
        change = apply(ir, node if rewrite.node is None else ir[rewrite.node], rewrite)
    except Declined as declined:
        record.declined(rule.name, name, declined.why)
        return None
    record.applied(Entry(rule.name, name, rewrite.why, change.gone, change.standing))
    return [*change.touched, *around]


@dataclasses.dataclass(frozen=True)
class Fused:
    """A graph after the passes.

    Attributes:
        graph: with the same inputs and outputs; it is read as a `Graph` is.
        record: what was done, in order, then what was not, with the reasons.
        origins: node of `graph` → the nodes of the source graph that went into it.
    """

    graph: IrGraph
    record: tuple[Entry, ...]
    origins: dict[str, tuple[str, ...]]

    def explain(self) -> str:
        """The record as text, one line per entry."""
        return "".join(f"{entry}\n" for entry in self.record)


def fuse(
    graph: Graph,
    target: Target,
    enabled: frozenset[str] | None = None,
    check: Callable[[IrGraph], None] | None = None,
    kept: Collection[str] = (),
) -> Fused:
    """Makes the IR of a graph, removes its views, and runs a target's passes over it.

    Args:
        graph: with its dims resolved; one that was saved after fusion stays as it is.
        target: where the graph will run.
        enabled: the names of the rules that may run; by default those of the target that are on by default.
        check: called with the IR after each pass; raises where something is wrong.
        kept: names of nodes that stay as they are, and whose outputs are computed.

    Raises:
        NotEnoughMemoryError: there is not enough memory.
    """
    if graph.origin.fused:
        enabled = frozenset()
    elif enabled is None:
        enabled = frozenset(rule.name for each in target.passes for rule in each.rules if rule.default)
    with enough_memory("fuse", graph), collector_paused():
        ir = IrGraph.of(graph, target)
        copies = remove_views(ir)
        with ir.keeping(kept):
            return _fuse(ir, copies, enabled, check)


def _fuse(
    ir: IrGraph,
    copies: tuple[Entry, ...],
    enabled: frozenset[str],
    check: Callable[[IrGraph], None] | None,
) -> Fused:
    record = Record()
    limit = REWRITES_PER_NODE * max(len(ir), 1)
    settled: dict[str, int] = {}  # pass → length of the record when it last reached its fixed point
    for _ in range(MAX_ROUNDS if enabled else 0):
        before = len(record)
        for each in ir.target.passes:
            if settled.get(each.name) != len(record):
                each.run(ir, record, enabled, limit - len(record))
                settled[each.name] = len(record)
                if check is not None:
                    check(ir)
        if len(record) in (before, limit):
            break
    return Fused(ir, (*copies, *record.entries(ir)), ir.origins)
