"""The driver: passes in their order, each to a fixed point, all of them until nothing changes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence

from dmlgraph.errors import GraphError, listing, suggestion
from dmlgraph.fusion import Entry
from dmlgraph.graph import Graph
from dmlgraph.levels import FeatureLevel
from dmlgraph.operators.operator import Operator
from dmlgraph.passes.draft import Draft
from dmlgraph.passes.rule import Declined, Objection, Rewrite, Rule

MAX_ROUNDS = 8  # walks over the whole pipeline
REWRITES_PER_NODE = 16  # of the source graph; rules that undo one another would go on for ever


class Record:
    """What was done, in order, and the last reason why something was not."""

    def __init__(self) -> None:
        self._applied: list[Entry] = []
        self._declined: dict[tuple[str, str], Entry] = {}

    def applied(self, entry: Entry) -> None:
        self._applied.append(entry)

    def declined(self, rule: str, node: str, why: str) -> None:
        self._declined[rule, node] = Entry(rule, node, why, applied=False)

    def entries(self, draft: Draft) -> tuple[Entry, ...]:
        """Everything done; then what was declined at nodes that are still there."""
        refused = (entry for entry in self._declined.values() if entry.node in draft.nodes)
        return (*self._applied, *refused)

    def __len__(self) -> int:
        return len(self._applied)


@dataclasses.dataclass(frozen=True)
class Rules:
    """A pass of rules that look at one node each, in one worklist: a rewrite wakes its surroundings."""

    name: str
    rules: Sequence[Rule]

    def run(self, draft: Draft, record: Record, enabled: frozenset[str], budget: int) -> None:
        """Rewrites to a fixed point, by the rules that are enabled, at most `budget` times."""
        by_operator: dict[type[Operator], list[Rule]] = collections.defaultdict(list)
        everywhere = [rule for rule in self.rules if rule.name in enabled and not rule.anchors]
        for rule in self.rules:
            if rule.name in enabled:
                for operator in rule.anchors:
                    by_operator[operator].append(rule)
        if not by_operator and not everywhere:
            return
        waiting = collections.deque(
            node.name for node in draft.in_order() if everywhere or type(node.operator) in by_operator
        )
        queued = set(waiting)
        while waiting and budget:
            name = waiting.popleft()
            queued.discard(name)
            node = draft.nodes.get(name)
            if node is None:
                continue
            found = by_operator.get(type(node.operator), ()) if node.operator is not None else ()
            for rule in (*found, *everywhere):
                touched = _try(draft, record, rule, name)
                if touched is None:
                    continue
                budget -= 1
                for each in touched:
                    if each not in queued:
                        queued.add(each)
                        waiting.append(each)
                break


def _try(draft: Draft, record: Record, rule: Rule, name: str) -> list[str] | None:
    """The nodes that a rule's rewrite gave another look around; None where it did nothing."""
    node = draft[name]
    try:
        outcome = rule.function(draft, node)
        if isinstance(outcome, Rewrite):
            around = [source.node for source in node.sources if source is not None]
            change = draft.apply(node, outcome)
            record.applied(Entry(rule.name, name, outcome.why, change.gone, change.standing))
            return [*change.touched, *around]
    except Declined as declined:
        outcome = declined
    if isinstance(outcome, Declined):
        record.declined(rule.name, name, outcome.why)
    return None


@dataclasses.dataclass(frozen=True)
class Fused:
    """A graph after its passes.

    Attributes:
        graph: with the same inputs and outputs.
        record: what was done, in order, then what was not, with the reasons.
        origins: node of `graph` → the nodes of the source graph that went into it.
    """

    graph: Graph
    record: tuple[Entry, ...]
    origins: dict[str, tuple[str, ...]]

    def explain(self) -> str:
        """The record as text, a line an entry."""
        return "".join(f"{entry}\n" for entry in self.record)


def fuse(
    graph: Graph,
    pipeline: Sequence[Rules],
    *,
    level: FeatureLevel | None = None,
    rules: bool | Iterable[str] = True,
    objection: Objection | None = None,
    check: Callable[[Draft], None] | None = None,
) -> Fused:
    """Runs a pipeline over a graph, which stays as it is.

    Args:
        graph: with its dims resolved.
        pipeline: the passes in their order.
        level: what is made must be legal at it; by default the graph's own.
        rules: all that are on by default, none, or exactly those of the given names.
        objection: the device's (`Device.objection`), asked about every operator that a rule makes.
        check: called with the draft after each pass; it raises where something is wrong.

    Raises:
        GraphError: there is no rule of a given name.
    """
    enabled = _enabled(pipeline, rules)
    with _collector_paused():
        draft = Draft(graph, min(level, graph.level) if level else graph.level, objection)
        return _fuse(draft, pipeline, enabled, check)


def _fuse(
    draft: Draft,
    pipeline: Sequence[Rules],
    enabled: frozenset[str],
    check: Callable[[Draft], None] | None,
) -> Fused:
    record = Record()
    limit = REWRITES_PER_NODE * max(len(draft.nodes), 1)
    settled: dict[str, int] = {}  # pass → how much had been done when it last found nothing more to do
    for _ in range(MAX_ROUNDS if enabled else 0):
        before = len(record)
        for each in pipeline:
            if settled.get(each.name) != len(record):
                each.run(draft, record, enabled, limit - len(record))
                settled[each.name] = len(record)
                if check is not None:
                    check(draft)
        if len(record) in (before, limit):
            break
    return Fused(draft.finish(), record.entries(draft), draft.origins.names())


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection meanwhile: it walks all nodes again and again, which is not linear in their number."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _enabled(pipeline: Sequence[Rules], asked: bool | Iterable[str]) -> frozenset[str]:
    known = {rule.name: rule for each in pipeline for rule in each.rules}
    if isinstance(asked, bool):
        return frozenset(name for name, rule in known.items() if asked and rule.default)
    if isinstance(asked, str):
        asked = [asked]
    try:
        names = list(asked)
    except TypeError:
        raise GraphError("must be True, False or a list of rules", code="kind", field="fuse", got=asked) from None
    for name in names:
        if name not in known:
            raise GraphError(
                "is not a rule",
                code="unknown-rule",
                field="fuse",
                got=name,
                allowed=listing(known),
                hint=suggestion(str(name), known),
            )
    return frozenset(names)
