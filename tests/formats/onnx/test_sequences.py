"""Sequences whose count is known on import, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from support.onnx.parsed import assert_agrees, imported, model_of, run
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

DEVICES = ["reference", "cpu", "directml:software"]
X = np.arange(12, dtype=np.float32).reshape(4, 3)

pytestmark = pytest.mark.usefixtures("directml_path")

GRAPHS = {
    "built and read": """g (float[4,3] x) => (float[4,3] y, int64 n) <int64 last = {-1}> {
        doubled = Add(x, x)
        s = SequenceConstruct(x, doubled)
        y = SequenceAt(s, last)
        n = SequenceLength(s)
    }""",
    "inserted and erased": """g (float[4,3] x) => (float[N,3] y) <int64 zero = {0}, int64 back = {-1}> {
        doubled = Add(x, x)
        squared = Mul(x, x)
        none = SequenceEmpty()
        one = SequenceInsert(none, x)
        two = SequenceInsert(one, doubled, zero)
        three = SequenceInsert(two, squared, back)
        four = SequenceInsert(three, x)
        less = SequenceErase(four, zero)
        least = SequenceErase(less)
        y = ConcatFromSequence<axis = 0>(least)
    }""",
    "split into parts of one size": """g (float[4,3] x) => (float[1,3] y) <int64 three = {3}, int64 one = {1}> {
        s = SplitToSequence<axis = 0>(x, three)
        y = SequenceAt(s, one)
    }""",
    "split into given parts": """g (float[4,3] x) => (float[4,2] y) <int64[2] parts = {1, 2}, int64 one = {1}> {
        s = SplitToSequence<axis = 1>(x, parts)
        y = SequenceAt(s, one)
    }""",
    "split into rows without their axis": """g (float[4,3] x) => (float[3,4] y) {
        s = SplitToSequence<axis = 0, keepdims = 0>(x)
        y = ConcatFromSequence<axis = -1, new_axis = 1>(s)
    }""",
    "gathered by a loop": """g (float[4,3] x) => (float[4,3] y) <int64 three = {3}> {
        none = SequenceEmpty()
        ignored, all = Loop(three, , x, none) <body = b (int64 i, bool c, float[4,3] h, seq(float[4,3]) s)
            => (bool d, float[4,3] h2, seq(float[4,3]) s2) {
            d = Identity(c)
            h2 = Add(h, h)
            s2 = SequenceInsert(s, h2)
        }>
        two = Constant<value_int = 2>()
        y = SequenceAt(all, two)
    }""",
    "a known choice": """g (float[4,3] x) => (float[N,3] y) <bool yes = {1}> {
        s = If(yes) <
            then_branch = t () => (seq(float[4,3]) a) {a = SequenceConstruct(x, x)},
            else_branch = e () => (seq(float[4,3]) b) {b = SequenceConstruct(x)}
        >
        y = ConcatFromSequence<axis = 0>(s)
    }""",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_results_are_those_of_onnx_runtime(graph: str, device: DeviceName) -> None:
    assert_agrees(model_of(graph), {"x": X}, device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_map_of_two_sequences(device: DeviceName) -> None:
    """ONNX's definition of SequenceMap: the body for each place; what is not a sequence is the same in each."""
    model = model_of(
        """g (float[4,3] x) => (float[4,6] y) {
            doubled = Add(x, x)
            s = SequenceConstruct(x, doubled)
            t = SequenceConstruct(doubled, x)
            m = SequenceMap(s, t, x) <body = b (float[4,3] u, float[4,3] v, float[4,3] w) => (float[4,3] r) {
                d = Sub(u, v)
                r = Add(d, w)
            }>
            y = ConcatFromSequence<axis = 1>(m)
        }"""
    )
    got = run(model, {"x": X}, device)["y"]
    np.testing.assert_array_equal(got, np.concatenate([np.zeros_like(X), 2 * X], axis=1))


def test_outputs_that_are_sequences_have_a_number_each() -> None:
    model = model_of("g (float[4,3] x) => (seq(float[4,3]) s) {y = Neg(x) s = SequenceConstruct(x, y)}")
    got = run(model, {"x": X}, "cpu")
    assert list(got) == ["s.0", "s.1"]
    np.testing.assert_array_equal(got["s.1"], -X)


@pytest.mark.parametrize("device", DEVICES)
def test_an_optional_value_that_is_there(device: DeviceName) -> None:
    model = model_of(
        """g (float[4,3] x) => (float[4,3] y) {
            o = Optional(x)
            has = OptionalHasElement(o)
            y = If(has) <
                then_branch = t () => (float[4,3] a) {e = OptionalGetElement(o) a = Neg(e)},
                else_branch = e () => (float[4,3] b) {b = Identity(x)}
            >
        }"""
    )
    np.testing.assert_array_equal(run(model, {"x": X}, device)["y"], -X)


@pytest.mark.parametrize(
    ("body", "code", "node", "field", "got"),
    [
        ("s = SequenceConstruct(x) y = SequenceAt(s, three)", "range", "y", "input 1", 3),
        ("s = SequenceConstruct(x) y = Relu(s)", "kind", "y", "X", None),
        ("y = SequenceAt(x, three)", "kind", "y", "input 0", [4, 3]),
        ("s = SplitToSequence(x, pair) y = SequenceAt(s, three)", "sizes", "s", None, [1, 1]),
        ("s = SequenceEmpty() y = ConcatFromSequence<axis = 0>(s)", "range", "y", "input 0", None),
        ("s = SequenceConstruct(x) y = ConcatFromSequence<axis = 2>(s)", "range", "y", "axis", 2),
    ],
)
def test_what_does_not_fit_is_refused(body: str, code: str, node: str, field: str | None, got: object) -> None:
    graph = f"g (float[4,3] x) => (float[4,3] y) <int64 three = {{3}}, int64[2] pair = {{1, 1}}> {{{body}}}"
    with raises(dg.ModelError, code, node=node, field=field, got=got) as caught:
        imported(model_of(graph))
    assert caught.value.problems[0].node in ("y", "s")


def test_branches_of_an_unknown_condition_cannot_give_sequences() -> None:
    model = model_of(
        """g (float[4,3] x, bool c) => (float[N,3] y) {
            s = If(c) <
                then_branch = t () => (seq(float[4,3]) a) {a = SequenceConstruct(x, x)},
                else_branch = e () => (seq(float[4,3]) b) {b = SequenceConstruct(x)}
            >
            y = ConcatFromSequence<axis = 0>(s)
        }"""
    )
    with raises(dg.ModelError, "unknown-value", node="s", got=[[], []]):
        imported(model)


def test_an_empty_sequence_is_no_output() -> None:
    """The message names the output; without it the graph would be without outputs."""
    with pytest.raises(dg.ModelError) as caught:
        imported(model_of("g () => (seq(float[2]) y) {y = SequenceEmpty()}"))
    assert (caught.value.code, caught.value.node) == ("count", "y")
