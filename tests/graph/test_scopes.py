"""Scopes put their names before those of what is made inside."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Generator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlgraph as dg
from dmlgraph.formats.yaml import dumps, loads


def block(g: dg.Graph, x: dg.Value) -> dg.Value:
    w = g.constant("w", np.ones((2, 2), np.float32))
    return dg.activation_relu(dg.gemm(x, w) + 1, name="y")


def names(g: dg.Graph) -> list[str]:
    return [node.name for node in g.nodes]


def test_every_name_made_inside_has_the_scopes_before_it():
    g = dg.Graph()
    x = g.input("x", sizes=[2, 2], dtype="float32")
    with g.scope("encoder") as whole:
        assert whole == "encoder"
        mask = g.input("mask", sizes=[2, 2], dtype="float32")
        with g.scope("0") as inner:
            assert inner == "encoder/0"
            y = block(g, x)
        g.output("y", y * mask)
    z = block(g, y)
    g.output("y", z)
    assert names(g) == [
        "x",
        "encoder/mask",
        "encoder/0/w",
        "encoder/0/gemm",
        "encoder/0/fill_value_constant",
        "encoder/0/add",
        "encoder/0/y",
        "encoder/multiply",
        "w",
        "gemm",
        "fill_value_constant",
        "add",
        "y",
    ]
    assert list(g.outputs) == ["encoder/y", "y"]
    assert g.inputs[1].name == "encoder/mask"


def test_a_scope_may_be_entered_again_and_its_names_stay_unique():
    g = dg.Graph()
    x = g.input("x", sizes=[2, 2], dtype="float32")
    scope = g.scope("a/b")
    for _ in range(2):
        with scope:
            x = dg.exp(x)
    with scope, scope:
        x = dg.exp(x)
    assert names(g)[1:] == ["a/b/exp", "a/b/exp_1", "a/b/a/b/exp"]
    with pytest.raises(dg.GraphError) as caught, scope:
        dg.exp(x, name="exp")
    assert (caught.value.code, caught.value.node) == ("duplicate", "a/b/exp")


def test_errors_inside_have_the_whole_name():
    g = dg.Graph()
    with pytest.raises(dg.DmlGraphError) as caught, g.scope("s"):
        g.input("x", sizes=[0], dtype="float32")
    assert caught.value.node == "s/x"
    assert g.names.scopes == ()


def test_a_scope_left_by_an_exception_is_left():
    g = dg.Graph()
    with pytest.raises(ZeroDivisionError), g.scope("a"), g.scope("b"):
        raise ZeroDivisionError
    assert g.names.scopes == ()
    g.input("x", sizes=[1], dtype="float32")
    assert names(g) == ["x"]


def test_scopes_of_generators_that_are_interleaved_leave_only_themselves():
    g = dg.Graph()

    def inside(name: str) -> Generator[None]:
        with g.scope(name):
            yield

    first, second = inside("a"), inside("b")
    next(first)
    next(second)
    assert g.names.in_scope("x") == "a/b/x"
    first.close()
    assert g.names.in_scope("x") == "b/x"
    second.close()
    assert g.names.in_scope("x") == "x"


@pytest.mark.parametrize("name", ["", "/", "a/", "/a", "a//b", " a", "a /b", "a\n", None, 3])
def test_what_cannot_be_a_scope(name: object):
    with pytest.raises(dg.GraphError) as caught:
        dg.Graph().scope(name)  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.got) == ("name", name)


def test_copies_and_pickles_made_inside_are_outside():
    g = dg.Graph()
    with g.scope("a"):
        x = g.input("x", sizes=[1], dtype="float32")
        other = copy.deepcopy(g)
        assert pickle.loads(pickle.dumps(x)).graph.names.scopes == ()
    other.input("x", sizes=[1], dtype="float32")
    assert names(other) == ["a/x", "x"]


def test_names_with_slashes_and_dots_survive_dims_and_files():
    g = dg.Graph(dims={"n": 2})
    x = g.input("x", sizes=["n"], dtype="float32")
    with g.scope("layer.0"):
        value = dg.top_k1(x, axis=0, k=1, axis_direction="decreasing", name="best.one")
    g.output("index", value.output_index)
    text = dumps(g)
    assert "layer.0/best.one.output_index" in text
    again = loads(text).with_dims({"n": 5})
    assert names(again) == ["x", "layer.0/best.one"]
    np.testing.assert_array_equal(
        again.compile("reference").run({"x": np.arange(5, dtype=np.float32)})["index"].ravel(), [4]
    )


@given(st.recursive(st.integers(0, 2), lambda inner: st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=3)))
def test_names_are_those_of_the_path(tree: object):
    g = dg.Graph()
    expected = []

    def build(part: object, path: str) -> None:
        if isinstance(part, int):
            for _ in range(part):
                g.fill_value_constant(sizes=[1], dtype="float32", value=0)
                expected.append(path)
        else:
            for name, inner in part:  # type: ignore[attr-defined]
                with g.scope(name):
                    build(inner, f"{path}{name}/")

    build(tree, "")
    assert [name.rpartition("fill_value_constant")[0] for name in names(g)] == expected
    assert len(set(names(g))) == len(expected)
