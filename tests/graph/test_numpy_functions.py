"""NumPy's functions of values compute what they compute of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.problems import raises

import dmlgraph as dg
from dmlgraph.graph import numpy_functions

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)

FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: np.sum(x, axis=1),
    lambda x, y: np.mean(x, axis=(0, 2), keepdims=True),
    lambda x, y: np.max(x, -1) - np.amin(y, -1),
    lambda x, y: np.var(x, axis=-1, keepdims=True),
    lambda x, y: np.std(x, 1),
    lambda x, y: np.argmax(x, axis=-1),
    lambda x, y: np.argmin(x, axis=0, keepdims=True),
    lambda x, y: np.concatenate([x, y], axis=-1),
    lambda x, y: np.concatenate([x, np.ones((1, 3, 4), np.float32)]),
    lambda x, y: np.stack([x, y, x], axis=1),
    lambda x, y: np.split(x, 2, axis=2)[1],
    lambda x, y: np.split(x, [1, 3], axis=-1)[1],
    lambda x, y: np.where(x > y, x, np.float32(0)),
    lambda x, y: np.clip(x, -0.5, 0.25),
    lambda x, y: np.clip(x, None, 0),
    lambda x, y: np.dot(np.reshape(x, (6, 4)), np.transpose(np.reshape(y, (6, 4)))),
    lambda x, y: np.transpose(x, (2, 0, 1)),
    lambda x, y: np.swapaxes(np.expand_dims(x, 0), 1, 2),
    lambda x, y: np.squeeze(np.max(x, axis=1, keepdims=True)),
    lambda x, y: np.broadcast_to(x[:1], (2, 3, 4)) + np.ravel(y)[:4],
    lambda x, y: np.full_like(x, 3) + np.ones_like(y) * np.shape(x)[1] - np.zeros_like(x) * np.ndim(x) * np.size(x),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_result_is_that_of_arrays(function: Callable[[Any, Any], Any]) -> None:
    g = dg.Graph()
    x, y = (g.input(name, sizes=X.shape, dtype="float32") for name in "xy")
    g.output("z", function(x, y))
    with g.compile("cpu") as executable:
        np.testing.assert_allclose(executable.run({"x": X, "y": Y})["z"], function(X, Y), rtol=1e-5, atol=1e-6)


UFUNCS = sorted(
    {each for each in vars(np).values() if isinstance(each, np.ufunc) and each.nout == 1 and each.signature is None},
    key=str,
)
NUMBERS: dict[str, list[float]] = {
    "float32": [-2.5, -1, -0.75, 0.25, 0.5, 1, 3],
    "float16": [-2, -0.5, 0.25, 1, 2.5],
    "int32": [-7, -3, -1, 1, 2, 5],
    "uint32": [1, 2, 3, 9],
    "uint8": [1, 2, 3],
}


def computed(made: Callable[..., Any], arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """What a graph computes: the outputs of a function of values."""
    g = dg.Graph()
    values = [g.input(f"x{place}", sizes=array.shape, dtype=array.dtype) for place, array in enumerate(arrays)]
    results = made(*values)
    for place, result in enumerate(results if isinstance(results, list) else [results]):
        g.output(f"y{place}", result)
    read = {node.name for node in g.inputs}
    with g.compile("reference") as exe:
        got = exe.run({f"x{place}": array for place, array in enumerate(arrays) if f"x{place}" in read})
    return list(got.values())


def assert_numpys(got: list[np.ndarray[Any, Any]], expected: Any) -> None:
    """The same sizes, but one element for a number, and the same numbers."""
    several = expected if isinstance(expected, list) else [expected]
    assert [each.shape for each in got] == [np.shape(each) or (1,) for each in several]
    for mine, numpys in zip(got, several, strict=True):
        accuracy = 4e-3 if mine.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(mine, np.asarray(numpys).reshape(mine.shape), rtol=accuracy, atol=accuracy)


@given(st.data())
def test_a_function_of_elements_is_numpys_or_refused_with_what_to_write(data: st.DataObject) -> None:
    function: np.ufunc = data.draw(st.sampled_from(UFUNCS))
    dtype = data.draw(st.sampled_from(sorted(NUMBERS)))
    numbers = st.sampled_from(NUMBERS[dtype])
    x = np.array(data.draw(st.lists(numbers, min_size=6, max_size=6)), dtype).reshape(2, 3)
    other: Any = data.draw(st.one_of(numbers, st.lists(numbers, min_size=3, max_size=3)))
    if isinstance(other, list) or data.draw(st.booleans()):
        other = np.array(other, dtype)
    left = data.draw(st.booleans())
    silent: dict[str, Any] = data.draw(st.sampled_from([{}, {"out": None}, {"where": True}, {"casting": "same_kind"}]))

    def call(value: Any) -> Any:
        if function.nin == 1:
            return function(value, **silent)
        return function(value, other, **silent) if left else function(other, value, **silent)

    try:
        got = computed(call, [x])
    except dg.DmlGraphError as error:
        problem = error.problems[0]
        others = ("level", "sizes", "kind", "does-not-fit")
        assert problem.hint if problem.code == "unknown-operator" else problem.code in others
        return
    try:
        with np.errstate(all="ignore"):
            expected = call(x)
    except (TypeError, ValueError):  # NumPy has no bits of floats, and no 2 ** -1 of integers
        assert function in (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.bitwise_count, np.power)
        return
    if function is np.true_divide and x.dtype.kind != "f":
        expected = np.trunc(expected)
    assert_numpys(got, expected)


def axes() -> st.SearchStrategy[Any]:
    """None, one axis or several of three, from either end."""
    several = st.lists(st.sampled_from([0, 1, 2]), min_size=1, unique=True)
    ends = st.booleans()
    return st.one_of(
        st.none(),
        st.integers(-3, 2),
        st.tuples(several, ends).map(lambda drawn: tuple(axis - 3 * drawn[1] for axis in drawn[0])),
    )


AXIS, KEEPDIMS, ORDER = st.integers(-3, 2), st.booleans(), st.permutations(range(3))
REDUCED = {"axis": axes(), "keepdims": KEEPDIMS, "out": st.none(), "where": st.just(True)}
ONE_AXIS = {"axis": st.one_of(st.none(), AXIS), "keepdims": KEEPDIMS}
BOUNDS = st.one_of(st.none(), st.sampled_from([-0.5, 0.25, np.float32(0.75), np.array(0.5, np.float32)]), st.just(Y))
SHAPES = st.sampled_from([(6, 4), (2, -1), [4, 6], -1, 24, np.array([3, 8])])

# By function: what its arguments after x, and those by keyword, are drawn from.
CALLS: dict[Any, tuple[tuple[st.SearchStrategy[Any], ...], dict[str, st.SearchStrategy[Any]]]] = {
    **dict.fromkeys(
        (np.sum, np.mean, np.prod), ((), REDUCED | {"dtype": st.sampled_from([None, "float32", "float16"])})
    ),
    **dict.fromkeys((np.max, np.amax, np.min, np.amin), ((), REDUCED)),
    **dict.fromkeys((np.var, np.std), ((), REDUCED | {"ddof": st.just(0)})),
    **dict.fromkeys((np.argmax, np.argmin), ((), ONE_AXIS)),
    np.split: ((st.one_of(st.just(1), st.sampled_from([[1], (1,), np.array([-1])])), AXIS), {}),
    np.clip: ((BOUNDS, BOUNDS), {"out": st.none()}),
    np.dot: ((st.sampled_from([2.5, Y[0, 0], np.array(2, np.float32)]),), {}),
    **dict.fromkeys((np.round, np.around), ((), {"decimals": st.just(0)})),
    np.reshape: ((SHAPES,), {"order": st.just("C")}),
    np.ravel: ((), {"order": st.just("C")}),
    np.transpose: ((), {"axes": st.one_of(st.none(), ORDER)}),
    np.swapaxes: ((AXIS, AXIS), {}),
    np.moveaxis: ((ORDER, ORDER), {}),
    np.expand_dims: ((st.sampled_from([0, -1, (0, 2), [-1, 1]]),), {}),
    np.broadcast_to: ((st.sampled_from([(2, 3, 4), (5, 2, 3, 4)]),), {"subok": st.just(False)}),
    np.full_like: ((st.sampled_from([2, np.float32(0.5)]),), {"shape": st.sampled_from([None, 3, (2, 2)])}),
    **dict.fromkeys((np.zeros_like, np.ones_like), ((), {"dtype": st.sampled_from([None, "int32", np.float16])})),
    np.linalg.matmul: ((st.sampled_from([Y[0, 0], Y[0].T, Y.transpose(0, 2, 1)]),), {}),
}
# Those of lists, of conditions, and that give no tensor have tests of their own.
OTHERS = {np.concatenate, np.stack, np.where, np.squeeze, np.shape, np.ndim, np.size}


def test_every_function_is_compared() -> None:
    assert set(numpy_functions._FUNCTIONS) == set(CALLS) | OTHERS


@given(st.data())
def test_a_function_gives_what_numpy_gives(data: st.DataObject) -> None:
    function = data.draw(st.sampled_from(list(CALLS)))
    places, keywords = CALLS[function]
    given_ = [data.draw(each) for each in places]
    named = {name: data.draw(each) for name, each in keywords.items() if data.draw(st.booleans())}
    if function is np.clip and all(each is None for each in given_):
        return
    with np.errstate(all="ignore"):
        expected = function(X, *given_, **named)
    assert_numpys(computed(lambda x: function(x, *given_, **named), [X]), expected)


@given(st.data())
def test_lists_of_values_and_arrays_are_joined_as_by_numpy(data: st.DataObject) -> None:
    function, axis = data.draw(
        st.sampled_from(
            [(np.concatenate, None), *((each, axis) for each in (np.concatenate, np.stack) for axis in range(-3, 3))]
        )
    )
    order = data.draw(st.permutations([0, 1, 2]))

    def call(x: Any, y: Any) -> Any:
        return function([[x, Y, y][place] for place in order], axis=axis)

    assert_numpys(computed(call, [X, X + 1]), call(X, X + 1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: np.where(x > y, x, y),
        lambda x, y: np.where(x, x, y),
        lambda x, y: np.where(Y > 0, 1, x),
        lambda x, y: np.where(x > 0, X, np.float32(2)),
        lambda x, y: np.squeeze(x[:1], 0) + np.squeeze(y[:1]),
        lambda x, y: np.matmul(x, Y[0, 0]) + Y[0, 0] @ y.transpose(0, 2, 1),
        lambda x, y: x[0, 0] @ y[0, 1],
        lambda x, y: np.dot(x[0], y[0, 0]),
        lambda x, y: (x > 0) & np.array([True, False, True, True]),
        lambda x, y: np.array([True, False, True, True]) | (x > 0),
        lambda x, y: ~(x > y),
        lambda x, y: np.isfinite(x / (y * 0)),
        lambda x, y: (x // y, y // 0.5, 2 // x)[1] + +x,
        lambda x, y: (x - 0.5).astype(bool),
        lambda x, y: np.clip(x, max=0.5, min=-0.5),
        lambda x, y: np.clip(x, 1, 0),
        lambda x, y: np.maximum(*np.split(x, [2], axis=-1)),
        lambda x, y: x.max(1, None, True) + x.sum(1, None, None, True),
    ],
)
def test_what_is_written_with_values_is_what_is_written_with_arrays(function: Callable[..., Any]) -> None:
    with np.errstate(all="ignore"):
        expected = function(X, Y)
    assert_numpys(computed(function, [X, Y]), expected)


def test_sizes_of_numpy_follow_dims() -> None:
    g = dg.Graph(dims={"N": 4})
    x: Any = g.input("x", sizes=["N", 6], dtype="float32")
    split: Any = np.split
    g.output("first", split(x, 2, axis=0)[1] / np.size(x))
    g.output("rest", split(x, [1], axis=0)[1] * np.size(x, 0))
    results = g.compile("reference", dims={"N": 8}).run({"x": np.ones((8, 6), np.float32)})
    np.testing.assert_allclose(results["first"], np.full((4, 6), 1 / 48), rtol=1e-6)
    np.testing.assert_array_equal(results["rest"], np.full((7, 6), 8))


REFUSED: list[tuple[Callable[[Any], Any], str, str | None, str]] = [
    (lambda x: np.pad(x, 1), "unknown-operator", None, "dg.padding"),
    (lambda x: np.hstack([x, x]), "unknown-operator", None, "np.concatenate"),
    (np.linalg.norm, "unknown-operator", None, "np.sqrt(np.sum(x * x"),
    (lambda x: np.einsum("ij->ji", x), "unknown-operator", None, "gemm"),
    (np.median, "unknown-operator", None, "dmlgraph operators"),
    (np.expm1, "unknown-operator", None, "np.exp(x) - 1"),
    (np.log1p, "unknown-operator", None, "np.log(x + 1)"),
    (np.add.reduce, "unknown-operator", None, "np.sum(x, axis=0)"),
    (lambda x: np.exp(x, where=x > 0), "unknown-operator", None, "np.where("),
    (lambda x: np.add(x, x, out=x), "unknown-operator", None, "take the result"),
    (lambda x: np.add(x, x, dtype="float16"), "unknown-operator", None, "astype"),
    (lambda x: np.sum(x, where=x > 0), "unknown-field", "where", "np.where("),
    (lambda x: np.max(x, initial=3), "unknown-field", "initial", "np.maximum"),
    (lambda x: np.std(x, ddof=1), "unknown-field", "ddof", "n / (n - ddof)"),
    (lambda x: np.reshape(x, (6, 4), order="F"), "unknown-field", "order", "x.T.reshape"),
    (lambda x: np.round(x, 2), "unknown-field", "decimals", "np.round(x * 100) / 100"),
    (np.where, "missing", "x", "dg.if_"),
    (lambda x: np.where(x > 0, 1.0, 0.0), "undetermined", "x", "dg.if_"),
    (lambda x: np.dot(x, x), "rank", None, "a @ b"),
    (lambda x: np.add(x, [1, 2, 3, 4]), "kind", "b", "np.array"),
    (lambda x: np.concatenate([x, [[[1.0]]]]), "not-a-value", "inputs.1", "np.array"),
    (lambda x: np.sum(x > 0), "level", "input.dtype", "cast"),
]


@pytest.mark.parametrize(("function", "code", "field", "written"), REFUSED)
def test_what_no_operators_compute_is_an_error_with_what_to_write(
    function: Callable[[Any], Any], code: str, field: str | None, written: str
) -> None:
    x = dg.Graph().input("x", sizes=X.shape, dtype="float32")
    with raises(dg.DmlGraphError, code, field=field) as caught:
        function(x)
    assert written in str(caught.value.problems[0].hint)


@pytest.mark.parametrize(
    ("function", "field"),
    [
        (lambda x: np.split(x, 4, axis=1), "sizes"),
        (lambda x: np.split(x, [1, 1], axis=1), "indices"),
        (lambda x: np.split(x, 2, axis=3), "axis"),
        (lambda x: np.moveaxis(x, [0, 1], [1]), "destination"),
        (lambda x: np.moveaxis(x, 0, 3), "destination"),
        (lambda x: np.size(x, 3), "axis"),
        (lambda x: dg.layer_norm(x, axes=5), "axes"),
    ],
)
def test_places_that_are_not_there_are_named(function: Callable[[Any], Any], field: str) -> None:
    x = dg.Graph().input("x", sizes=X.shape, dtype="float32")
    with pytest.raises(dg.DmlGraphError) as caught:
        function(x)
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["var", "clip", "argmax", "ravel", "round", "prod"])
def test_a_method_that_is_a_function_here_is_named(name: str) -> None:
    x = dg.Graph().input("x", sizes=X.shape, dtype="float32")
    with pytest.raises(AttributeError, match=rf"write np\.{name}\(value"):
        getattr(x, name)


def test_a_value_is_no_number_or_array() -> None:
    x = dg.Graph().input("x", sizes=[2, 2], dtype="float32")
    for function in (np.asarray, np.array, float):
        with pytest.raises(TypeError, match="has numbers only when it runs"):
            function(x)
    with pytest.raises(TypeError, match=r"value\.sizes"):
        len(x)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x.sum(dim=1), r"Value\.sum\(\) .*did you mean 'axis'"),
        (lambda x: x.mean(1, keepdim=True), r"Value\.mean\(\) .*did you mean 'keepdims'"),
        (lambda x: x.max(keepdim=True), r"Value\.max\(\) .*did you mean 'keepdims'"),
    ],
)
def test_pytorchs_names_of_arguments_are_answered(function: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        function(dg.Graph().input("x", sizes=X.shape, dtype="float32"))


def test_transpose_of_two_axes_names_swapaxes() -> None:
    x = dg.Graph().input("x", sizes=X.shape, dtype="float32")
    with raises(dg.OperatorError, "count", field="permutation", hint="in Python value.swapaxes(1, 2) swaps two"):
        x.transpose(1, 2)
    assert np.transpose(x, None).sizes == (4, 3, 2)  # type: ignore[attr-defined]
