"""How far a fused graph may differ from its source: as far as errors of a few ULP at its nodes propagate.

Inexact rules state their error at the nodes they replace, in units in the last place (ULP) of these nodes' values, and
their effect on NaN, infinities and the sign of zeros.  The source graph shows the effect on the outputs: it runs a few
more times, and each time the values at these nodes are perturbed at random by at least the stated error.  An output of
the fused graph must be in the range of these runs.

This uses only the rules' stated effects, so it cannot repeat their mistakes.  A wrong number is off by
thousands of ULP.  Outputs that do not depend on such nodes, and all outputs of a graph that only exact rules changed,
must be the same to the bit.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.rule import Differs
from dmlgraph.doctor.bounds import hull, ulp
from dmlgraph.graph.nodes import ConstantNode, Node, OperatorNode
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.passes import RULES, Entry, Fused, Rule

Array = np.ndarray[Any, Any]
Outputs = dict[str, Array]

RUNS = 8
NAN_MAY_BE = (np.inf, -np.inf, 0.0, np.nan)  # in turns, one per run
# ULP; the most that a rule's effect says is 4.
AMPLITUDE = {DataType.FLOAT16: 4, DataType.FLOAT32: 4, DataType.FLOAT64: 4}
MARGIN = 2  # ULP beyond the outermost run
# ULP by which DirectML's own approximations may be off at every node.
APPROXIMATIONS = {DataType.FLOAT16: 4, DataType.FLOAT32: 64, DataType.FLOAT64: 64}
# Operator → how far its float32 results on DirectML may be off, as its own tests have it (`ApproximatedTests`).
ERRORS = {"acos": 7e-5, "asin": 7e-5, "atan": 2e-5, "atan_yx": 2e-5}
_SUMS = ("convolution", "matrix", "normalization")  # families whose inputs are also perturbed


def is_exact(rule: Rule) -> bool:
    """Whether a rule keeps every bit on the reference; the bits of a NaN do not count."""
    return not rule.differs


def forgets_nan(rule: Rule) -> bool:
    """Whether NaN may become something else."""
    return Differs.NAN in rule.differs


def is_bounded_by_operands(rule: Rule) -> bool:
    """Whether a bound is in ULP of the nodes' inputs: where terms cancel, the result has no correct digit."""
    return Differs.CANCELS in rule.differs


def forgets_roundings(rule: Rule) -> bool:
    """Whether the steps of a float16 function may be rounded only to float32, so that they no longer overflow."""
    return Differs.WIDENED in rule.differs


def went_into(record: Iterable[Entry], chosen: Callable[[Rule], bool], rules: Mapping[str, Rule] = RULES) -> set[str]:
    """The nodes of the source graph that went into nodes made by these rules."""
    sources: dict[str, set[str]] = collections.defaultdict(set)
    found: set[str] = set()
    for entry in record:
        if entry.applied:
            merged = set().union(*(sources.pop(name, {name}) for name in entry.removed))
            for name in entry.added:
                sources[name] |= merged | ({name} if not sources[name] else set())
            if entry.rule in rules and chosen(rules[entry.rule]):  # else a copy of a view
                found |= merged | {each for name in entry.added for each in sources[name]}
    return found


def inexact(record: Iterable[Entry], rules: Mapping[str, Rule] = RULES) -> set[str]:
    """The nodes that went into nodes made by inexact rules."""
    return went_into(record, lambda rule: not is_exact(rule), rules)


def values(
    graph: dg.Graph | IrGraph,
    inputs: Mapping[str, Array],
    moved: Iterable[str] = (),
    *,
    operands: Iterable[str] = (),
    wide: Iterable[str] = (),
    nan: Iterable[str] = (),
    seed: int = 0,
    amplitude: Mapping[DataType, int] = AMPLITUDE,
    errors: Mapping[str, float] | None = None,
) -> dict[tuple[str, int], Array]:
    """Every value of a graph, as (node, port), with the values of some nodes perturbed at random.

    Nodes in `operands` also read perturbed numbers; nodes in `wide` are computed in float32 at every other seed; nodes
    in `nan` read another number in place of a NaN.  `errors` says of operators how far off they are beside that.
    """
    rng, moved, operands, nan = np.random.default_rng(seed), frozenset(moved), frozenset(operands), frozenset(nan)
    wide = frozenset(wide) if seed % 2 else frozenset()
    buffers: dict[tuple[str, int], Array] = {}
    for node in graph.nodes:
        if not isinstance(node, OperatorNode):
            data = node.data if isinstance(node, ConstantNode) else inputs[node.name]
            buffers[node.name, 0] = node.desc.pack(data)
            continue
        sources = {port: (source, from_port) for source, from_port, port in graph.producers(node.name)}
        arguments = [
            desc.unpack(buffers[sources[port]]) if desc is not None and port in sources else None
            for port, desc in enumerate(node.operator.input_descs)
        ]
        is_moved = node.name in moved
        if node.name in operands or (is_moved and node.operator.family in _SUMS):
            arguments = [None if each is None else _moved(each, rng, amplitude) for each in arguments]
        if node.name in nan:
            arguments = [None if each is None else _without_nan(each, seed) for each in arguments]
        results = iter(evaluated(node.operator, arguments, DataType.FLOAT32 if node.name in wide else None))
        for port, desc in enumerate(node.operator.output_descs):
            if desc is not None:
                value = next(results)
                if is_moved:
                    value = _without_nan(_moved(value, rng, amplitude), seed)
                    error = (errors or {}).get(node.operator.name, 0.0)
                    if error:
                        value = value + np.asarray(rng.uniform(-error, error, value.shape)).astype(value.dtype)
                buffers[node.name, port] = desc.pack(value)
    return {
        (node.name, port): desc.unpack(buffers[node.name, port])
        for node in graph.nodes
        for port, desc in enumerate(node.operator.output_descs if isinstance(node, OperatorNode) else (node.desc,))
        if desc is not None
    }


def is_float16(node: Node) -> bool:
    """Whether a node is an operator that reads and writes only this kind."""
    if not isinstance(node, OperatorNode):
        return False
    descs = (*node.operator.input_descs, *node.operator.output_descs)
    return all(desc is None or desc.dtype is DataType.FLOAT16 for desc in descs)


def evaluated(operator: Operator, arguments: Sequence[Array | None], dtype: DataType | None) -> tuple[Array, ...]:
    """The values of an operator, where it computes in its own types or in another one."""
    if dtype is None:
        return operator.evaluate(*arguments)
    fields = (*operator.input_fields, *operator.output_fields)
    descs = {name: _retyped(getattr(operator, name), dtype) for name in fields}
    with np.errstate(over="ignore"):
        values = operator.replace(**descs).evaluate(
            *(None if each is None else each.astype(dtype.numpy) for each in arguments)
        )
        written = (desc for desc in operator.output_descs if desc is not None)
        return tuple(value.astype(desc.dtype.numpy) for value, desc in zip(values, written, strict=True))


def _retyped(desc: Any, dtype: DataType) -> Any:
    """A field of an operator, which is a desc, several or None, of another type."""
    if isinstance(desc, tuple):
        return tuple(_retyped(each, dtype) for each in desc)
    return desc and desc.model_copy(update={"dtype": dtype})


def run(graph: dg.Graph | IrGraph, inputs: Mapping[str, Array], moved: Iterable[str] = (), **how: Any) -> Outputs:
    """The outputs of a graph, with values perturbed as by `values`."""
    found = values(graph, inputs, moved, **how)
    read = graph.output_descs  # a view of a whole buffer has other sizes than its node writes
    return {
        name: np.array(read[name].unpack(graph.desc(*source).pack(found[source])))
        for name, source in ((name, (value.node, value.port)) for name, value in graph.outputs.items())
    }


def is_finite(graph: dg.Graph, inputs: Mapping[str, Array]) -> bool:
    """Whether a graph has no infinity and no NaN anywhere."""
    return all(np.isfinite(each).all() for each in values(graph, inputs).values() if each.dtype.kind == "f")


def _moved(values: Array, rng: np.random.Generator, amplitude: Mapping[DataType, int]) -> Array:
    """Floats a few ULP away, zeros of any sign; infinities and NaN may become the numbers before the overflow."""
    if values.dtype.kind != "f":
        return values
    reach = amplitude[DataType.parse(values.dtype)]
    greatest = np.finfo(values.dtype).max
    with np.errstate(all="ignore"):
        steps = rng.integers(-reach, reach, values.shape, endpoint=True)
        unit = np.spacing(np.minimum(np.abs(values), greatest / 2))  # of the largest number it would be infinite
        result = np.clip(values + (steps * unit).astype(values.dtype), -greatest, greatest)
        coins = rng.random(values.shape) < 0.5
        result = np.where((values == 0) & coins, -values, result)
        result = np.where(np.isinf(values), np.where(coins, values, np.copysign(greatest, values)), result)
    return np.asarray(result, values.dtype)


def _without_nan(values: Array, seed: int) -> Array:
    """Another number in place of a NaN, or a NaN again."""
    if values.dtype.kind != "f":
        return values
    return np.where(np.isnan(values), values.dtype.type(NAN_MAY_BE[seed % len(NAN_MAY_BE)]), values)


def after(graph: dg.Graph, nodes: Iterable[str]) -> set[str]:
    """Some nodes and all nodes that depend on them."""
    found = set(nodes)
    for node in graph.nodes:
        if any(source in found for source, _, _ in graph.producers(node.name)):
            found.add(node.name)
    return found


def assert_same_bits(got: Array, expected: Array, what: str = "") -> None:
    """The same to the bit; any NaN is as good as another."""
    assert got.dtype == expected.dtype, what
    np.testing.assert_array_equal(got, expected, what)
    if got.dtype.kind == "f":
        minus, minus_expected = (np.signbit(each) & ~np.isnan(each) for each in (got, expected))
        np.testing.assert_array_equal(minus, minus_expected, f"{what}: the sign of a zero")


def assert_within(got: Array, runs: Sequence[Array], what: str = "") -> None:
    """Every element is in the range of some runs, extended by about the width of the range.

    If the runs disagree on whether it is finite, infinite or NaN, any value is accepted.
    """
    low, high, spread = hull(runs)
    margin = spread + MARGIN * ulp(np.fmax(np.abs(low), np.abs(high)), got.dtype)
    with np.errstate(invalid="ignore"):
        inside = (got >= low - margin) & (got <= high + margin)
    if got.dtype.kind == "f":
        is_nan, finite = np.isnan(runs), np.isfinite(runs)
        inside |= (is_nan.any(0) & ~is_nan.all(0)) | (finite.any(0) & ~finite.all(0)) | (is_nan.all(0) & np.isnan(got))
    if not inside.all():
        at = tuple(map(int, np.argwhere(~inside)[0]))
        raise AssertionError(f"{what}: {got[at]!r} at {at}, not between {low[at]!r} and {high[at]!r}; runs:\n{runs}")


def approximated(
    graph: dg.Graph, inputs: Mapping[str, Array], amplitude: Mapping[DataType, int] = APPROXIMATIONS
) -> list[Outputs]:
    """Some runs of a graph, each with DirectML's possible errors at every node; the last one is the reference's."""
    every = [node.name for node in graph.nodes if isinstance(node, OperatorNode)]
    runs = [run(graph, inputs, every, nan=every, seed=seed, amplitude=amplitude, errors=ERRORS) for seed in range(4)]
    return [*runs, run(graph, inputs)]


def assert_near(got: Array, expected: Array, runs: Sequence[Array], what: str) -> None:
    """Two results of a device differ by no more than approximations at every node allow, estimated by some runs."""
    low, high, spread = hull(runs)
    if got.dtype.kind != "f":
        differs = np.abs(got.astype(object) - expected.astype(object)) > spread
    else:
        # Values that are not finite in some run are covered by the bit patterns of other tests.
        settled = np.isfinite(runs).all(0) & np.isfinite(got) & np.isfinite(expected)
        with np.errstate(invalid="ignore"):
            distance = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        differs = settled & (distance > 2 * spread + 4 * ulp(np.fmax(np.abs(low), np.abs(high)), got.dtype))
    assert not differs.any(), f"{what}:\n{got}\n{expected}"


def assert_fused(graph: dg.Graph, inputs: Mapping[str, Array], fused: Fused, rules: Mapping[str, Rule] = RULES) -> None:
    """A fused graph has the outputs of its source, on the reference."""
    got = run(fused.graph, inputs)
    expected = run(graph, inputs)
    moved = inexact(fused.record, rules)
    operands = went_into(fused.record, is_bounded_by_operands, rules)
    forgetful = went_into(fused.record, forgets_roundings, rules)  # also copies of views, which the source has not
    wide = {node.name for node in graph.nodes if node.name in forgetful and is_float16(node)}
    nan = went_into(fused.record, forgets_nan, rules)
    reached = after(graph, moved)
    seeds = range(RUNS if moved else 0)
    runs = [run(graph, inputs, moved, operands=operands, wide=wide, nan=nan, seed=seed) for seed in seeds]
    for name, value in graph.outputs.items():
        if value.node in reached:
            assert_within(got[name], [expected[name], *(each[name] for each in runs)], f"output '{name}'")
        else:
            assert_same_bits(got[name], expected[name], f"output '{name}'")
