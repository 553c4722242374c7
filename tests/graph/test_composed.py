"""Functions and methods with the names of NumPy and PyTorch, against NumPy's formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")
Array = np.ndarray[Any, Any]
random = np.random.default_rng(5)
X, Y = random.normal(size=(2, 3, 4)).astype(np.float32), random.normal(size=(3, 4)).astype(np.float32)
W, B = random.normal(size=(5, 4)).astype(np.float32), random.normal(size=5).astype(np.float32)
IDS = np.array([[4, 0], [1, 4], [2, 2]], np.int64)
Q, K, V = (random.normal(size=(2, 2, rows, 4)).astype(np.float32) for rows in (3, 5, 5))
MASK = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [1, 1, 1, 1, 1]], np.uint8)


def softmax(x: Array, axis: Any = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    result: Array = powers / powers.sum(axis, keepdims=True)
    return result


def normalized(x: Array, axes: tuple[int, ...]) -> Array:
    result: Array = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return result


def attention(q: Array, k: Array, v: Array, bias: Any, scale: float = 0.5) -> Array:
    result: Array = softmax(q @ k.swapaxes(-1, -2) * scale + bias) @ v
    return result


def hidden(allowed: Array) -> Array:
    return np.where(allowed, 0, -np.inf)


# By name: what is made of x and others, and the same in NumPy.
CASES: dict[str, tuple[Callable[..., dg.Value], Callable[..., Array], tuple[Array, ...]]] = {
    "softmax": (dg.softmax, softmax, (X,)),
    "softmax over two axes": (lambda x: dg.softmax(x, axis=[0, 2]), lambda x: softmax(x, (0, 2)), (X,)),
    "layer_norm": (dg.layer_norm, lambda x, w, b: normalized(x, (2,)) * w + b, (X, W[0], B[:4])),
    "layer_norm over two axes": (
        lambda x, w: dg.layer_norm(x, w, axes=[-2, -1]),
        lambda x, w: normalized(x, (1, 2)) * w,
        (X, Y),
    ),
    "layer_norm without weights": (lambda x: dg.layer_norm(x, axes=1), lambda x: normalized(x, (1,)), (X,)),
    "linear": (dg.linear, lambda x, w, b: x @ w.T + b, (X, W, B)),
    "linear of a matrix": (dg.linear, lambda x, w: x @ w.T, (Y, W)),
    "linear of a vector": (dg.linear, lambda x, w, b: w @ x + b, (Y[0], W, B)),
    "embedding": (lambda t: dg.embedding(t, t.graph.array(IDS)), lambda t: t[IDS], (W,)),
    "attention": (dg.scaled_dot_product_attention, lambda q, k, v: attention(q, k, v, 0), (Q, K, V)),
    "causal attention": (
        lambda q, k, v: dg.scaled_dot_product_attention(q, k, v, is_causal=True, scale=2),
        lambda q, k, v: attention(q, k, v, hidden(np.tri(3, 5, dtype=bool)), 2),
        (Q, K, V),
    ),
    "attention with a mask": (
        dg.scaled_dot_product_attention,
        lambda q, k, v, m: attention(q, k, v, hidden(m != 0)),
        (Q, K, V, MASK),
    ),
    "attention with added numbers": (
        dg.scaled_dot_product_attention,
        attention,
        (Q, K, V, random.normal(size=(2, 1, 3, 5)).astype(np.float32)),
    ),
    "sum": (lambda x: x.sum(1), lambda x: x.sum(1), (X,)),
    "mean": (lambda x: x.mean((0, -1), keepdims=True), lambda x: x.mean((0, -1), keepdims=True), (X,)),
    "max of all": (lambda x: x.max(), lambda x: x.max().reshape(1), (X,)),
    "NumPy's min": (lambda x: np.min(x, axis=0), lambda x: np.min(x, axis=0), (X,)),
    "NumPy's mean": (lambda x: np.mean(x, axis=2), lambda x: np.mean(x, axis=2), (X,)),
    "swapaxes": (lambda x: x.swapaxes(0, -1), lambda x: x.swapaxes(0, -1), (X,)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1), (X,)),
    "astype": (lambda x: (x * 9).astype("int32"), lambda x: (x * 9).astype(np.int32), (X,)),
    "an array on the left": (lambda x: Y - x, lambda x: Y - x, (X,)),
    "an array on the right": (lambda x: x / np.arange(1.0, 5), lambda x: x / np.arange(1, 5, dtype="f"), (X,)),
    "an array without dimensions": (lambda x: np.array(2.0) * x + np.float64(3), lambda x: 2 * x + 3, (X,)),
    "a number of NumPy": (lambda x: np.float32(2) ** x, lambda x: np.float32(2) ** x, (X,)),
    "truth values": (lambda x: (x > 0) & np.array([True, False, True, True]), lambda x: (x > 0) & [1, 0, 1, 1], (X,)),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_formula(name: str) -> None:
    made, formula, arrays = CASES[name]
    g = dg.Graph()
    values = [g.input(f"x{place}", sizes=array.shape, dtype=array.dtype) for place, array in enumerate(arrays)]
    g.output("y", made(*values))
    inputs = {f"x{place}": array for place, array in enumerate(arrays)}
    with np.errstate(all="ignore"):
        expected = formula(*arrays)
    for device in DEVICES:
        with g.compile(device) as exe:
            result = exe.run(inputs)["y"]
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5, err_msg=device)


ONE = "abs ceil cos cosh exp floor log negative positive rint reciprocal sign sin sinh sqrt square tan tanh isnan isinf"
INVERSE = "arccos arcsin arctan arcsinh fabs absolute exp2"
TWO = "add subtract multiply divide true_divide power maximum minimum remainder fmod greater greater_equal less"
TRUTHS = "less_equal equal not_equal arctan2"


@pytest.mark.parametrize("name", f"{ONE} {INVERSE} {TWO} {TRUTHS}".split())
def test_functions_of_elements_are_operators(name: str) -> None:
    function: np.ufunc = getattr(np, name)
    arrays = [np.array([0.25, 0.5, 0.75, 0.5], np.float32), np.array([0.5, 0.5, 0.25, 3], np.float32)][: function.nin]
    g = dg.Graph()
    values = [g.input(f"x{place}", sizes=[4], dtype="float32") for place in range(function.nin)]
    g.output("y", dg.cast(function(*values), dtype="float32"))
    result = g.compile("reference").run({f"x{place}": array for place, array in enumerate(arrays)})["y"]
    np.testing.assert_allclose(result, function(*arrays).astype(np.float32), rtol=1e-6)


def test_functions_of_integers_are_operators() -> None:
    a, b = np.array([12, 7, 0], np.uint32), np.array([3, 2, 1], np.uint32)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"):
        function: np.ufunc = getattr(np, name)
        g = dg.Graph()
        values = [g.input(each, sizes=[3], dtype="uint32") for each in "ab"]
        g.output("y", function(*values[: function.nin]))
        result = g.compile("reference").run({"a": a, "b": b})["y"]
        np.testing.assert_array_equal(result, function(*(a, b)[: function.nin]))


@pytest.fixture
def x() -> dg.Value:
    return dg.Graph().input("x", sizes=[2, 3, 4], dtype="float32")


def test_what_no_operator_computes_is_refused(x: dg.Value) -> None:
    unknown: list[tuple[Callable[[], Any], str, str | None, str | None]] = [
        (lambda: np.cbrt(x), "unknown-operator", None, None),
        (lambda: np.add.reduce(x), "unknown-operator", None, None),
        (lambda: np.exp(x, out=np.zeros((2, 3, 4))), "unknown-operator", None, None),
        (lambda: np.divmod(x, 2), "unknown-operator", None, None),
        (lambda: x.sum(out=np.zeros(3)), "unknown-field", None, "out"),
        (lambda: x.sum(dtype="float"), "unknown-dtype", None, "dtype"),
        (lambda: dg.layer_norm(x, np.ones(3, np.float32)), "sizes", None, "scale"),
        (lambda: dg.layer_norm(x, np.ones(3, np.float32), axes=1), "sizes", None, "scale"),
        (lambda: dg.linear(x, np.ones(4, np.float32)), "rank", None, "weight"),
        (lambda: dg.embedding(x, x), "rank", None, "table"),
        (lambda: x.swapaxes(0, 3), "range", None, "axis"),
        (lambda: x.max(out=np.zeros(3)), "unknown-field", None, "out"),
        (lambda: x.sum(3), "range", "reduce", "axes.0"),
        (lambda: x + np.array(["a"]), "unknown-dtype", "add", "b.dtype"),
        (lambda: x + np.ones(4, np.float16), "dtype", "add", "b"),
        (lambda: x + np.array([1e300]), "does-not-fit", "add", "b"),
        (lambda: x + True, "not-a-value", "add", "b"),
    ]
    before = len(x.graph.nodes)
    for call, code, node, field in unknown:
        with raises(dg.DmlGraphError, code, node=node, field=field):
            call()
    assert len(x.graph.nodes) == before


def test_functions_follow_the_dims() -> None:
    g = dg.Graph(dims={"N": 2, "T": 3, "depth": 4})
    q = g.input("q", sizes=["N", 2, "T", "depth"], dtype="float32")
    g.output("attended", dg.scaled_dot_product_attention(q, q, q, is_causal=True))
    table = g.input("table", sizes=[5, "depth"], dtype="float32")
    ids = g.input("ids", sizes=["N", "T"], dtype="int64")
    weight = g.input("weight", sizes=[6, "depth"], dtype="float32")
    g.output("linear", dg.linear(dg.embedding(table, ids), weight))
    values = random.normal(size=(1, 2, 6, 16)).astype(np.float32)
    others = {"table": np.ones((5, 16), np.float32), "weight": np.ones((6, 16), np.float32)}
    with g.compile("cpu", dims={"N": 1, "T": 6, "depth": 16}) as exe:
        results = exe.run({"q": values, "ids": np.zeros((1, 6), np.int64), **others})
    np.testing.assert_array_equal(results["linear"], np.full((1, 6, 6), 16))
    expected = attention(values, values, values, hidden(np.tri(6, dtype=bool)), 0.25)
    np.testing.assert_allclose(results["attended"], expected, rtol=1e-4, atol=1e-5)


def test_arrays_of_other_kinds_are_constants_and_inputs() -> None:
    g = dg.Graph()
    truth = g.constant("truth", np.array([True, False]))
    one, number = g.constant("one", np.array(3, np.int32)), g.constant("number", 2.5, dtype="float16")
    assert [str(each.desc) for each in (truth, one, number)] == ["uint8 [2]", "int32 [1]", "float16 [1]"]
    m, s = g.input("m", sizes=[2], dtype="uint8"), g.input("s", sizes=[1], dtype="float32")
    g.output("y", dg.if_(m, s, 0.0))
    for device in DEVICES:
        with g.compile(device) as exe:
            y = exe.run({"m": np.array([True, False]), "s": np.array(2, np.float32)})["y"]
        np.testing.assert_array_equal(y, [2, 0])


def test_one_axis_may_stand_for_a_list(x: dg.Value) -> None:
    assert dg.reduce(x, function="sum", axes=1).sizes == (2, 1, 4)
    assert dg.expand_dims(x, axes=-1).sizes == (2, 3, 4, 1)
    assert dg.squeeze(x[:1], axes=0).sizes == (3, 4)
    text = "inputs: {x: {dtype: float32, sizes: [2, 3]}}\nnodes: {y: {op: activation_softmax1, input: x, axes: 0}}"
    graph = dg.loads(f"dmlgraph: 1\n{text}\noutputs: [y]")
    assert "axes: [0]" in dg.formats.yaml.dumps(graph)


@pytest.mark.parametrize(
    "wrong",
    [
        dg.linear,
        lambda x, w: dg.layer_norm(x, np.ones(4, np.float32), name="x"),
        lambda x, w: dg.embedding(w, x),
        lambda x, w: dg.scaled_dot_product_attention(x, x, x, w, is_causal=True),
        lambda x, w: x.sum(1, "float16", name="x"),
        lambda x, w: x.astype(bool, name="x"),
        lambda x, w: w[0] @ x.reshape(3, -1),
        lambda x, w: x // np.ones(7, np.float32),
        lambda x, w: np.concatenate([x, w[None, :, :4], w], axis=0),
        lambda x, w: np.var(x, axis=9),
        lambda x, w: np.clip(x, w, w),
    ],
)
def test_a_function_that_is_refused_leaves_the_graph_as_it_was(wrong: Callable[[dg.Value, dg.Value], object]) -> None:
    g = dg.Graph()
    x, w = g.input("x", sizes=[2, 3, 4], dtype="float32"), g.input("w", sizes=[5, 7], dtype="float32")
    seen = [node.name for node in g.nodes]
    with pytest.raises(dg.DmlGraphError):
        wrong(x, w)
    left = {node.name for node in g.nodes} - {"x", "w"}
    assert {name.partition("_")[0] for name in left} <= {"subscript", "reshape"}, left  # made before, by arguments
    assert [node.name for node in g.nodes][:2] == seen
    assert dg.linear(x, w[:, :4]).sizes == (2, 3, 5)
