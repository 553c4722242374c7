"""When the steps of a plan run, as the text of the plan tells: what is computed again late, next values early."""

from __future__ import annotations

from support.cpu.plans import check_plan, check_steps

import dmlgraph as dg
from dmlgraph.graph.value import Value

SIZES = [64, 64]


def inputs(g: dg.Graph, names: str) -> list[Value]:
    return [g.input(name, sizes=SIZES, dtype="float32") for name in names]


def computed_once_or_again(scope: str) -> dg.Graph:
    """A product of three inputs, which the last region reads; the first one reads the same inputs."""
    g = dg.Graph()
    a, b, c, w = inputs(g, "abcw")
    h = dg.gemm(dg.subtract(dg.subtract(a, b, name="less"), c, name="rest"), w, name="first")
    h = dg.gemm(h, w, name="second")
    product = dg.multiply(dg.multiply(a, b, name=f"{scope}ab"), c, name=f"{scope}abc")
    g.output("y", dg.subtract(product, h, name="y"))
    g.output("z", dg.gemm(h, w, name="z"))
    return g


def test_what_is_computed_again_runs_with_its_reader() -> None:
    """Otherwise it would run where its inputs are read first, and be kept until then."""
    check_plan(
        computed_once_or_again(""),
        """
        arena: 49152 bytes
        region [less, rest, ab, abc]: a, b, c -> #1, #4
        gemm [first]: #1, w -> #2
        gemm [second]: #2, w -> #3
        gemm [z]: #3, w -> z
        region [y]: #4, #3 -> y
        """,
    )
    check_plan(
        computed_once_or_again("gradient/again/"),
        """
        arena: 32768 bytes
        region [less, rest]: a, b, c -> #1
        gemm [first]: #1, w -> #2
        gemm [second]: #2, w -> #3
        region [gradient/again/ab, gradient/again/abc, y]: a, b, c, #3 -> y
        gemm [z]: #3, w -> z
        """,
    )


def read_by_a_product(scope: str) -> dg.Graph:
    g = dg.Graph()
    a, w = inputs(g, "aw")
    h = dg.gemm(dg.abs(a, name="abs"), w, name="first")
    h = dg.gemm(h, w, name="second")
    again = dg.activation_relu(a, name=f"{scope}relu")
    g.output("y", dg.gemm(h, again, name="y"))
    return g


def test_what_is_computed_again_for_a_product_runs_right_before_it() -> None:
    check_steps(
        read_by_a_product(""),
        """
        region [abs, relu]: a -> #1, #4
        gemm [first]: #1, w -> #2
        gemm [second]: #2, w -> #3
        gemm [y]: #3, #4 -> y
        """,
    )
    check_steps(
        read_by_a_product("gradient/again/"),
        """
        region [abs]: a -> #1
        gemm [first]: #1, w -> #2
        gemm [second]: #2, w -> #3
        region [gradient/again/relu]: a -> #4
        gemm [y]: #3, #4 -> y
        """,
    )


def trained(reader: str) -> dg.Graph:
    """A state that the first product reads and, maybe, the third one; its next value is the last node of the graph."""
    g = dg.Graph()
    (x,) = inputs(g, "x")
    w = g.state("w", sizes=SIZES, dtype="float32")
    first = dg.gemm(x, w, name="first")
    second = dg.gemm(first, x, name="second")
    third = dg.gemm(second, w if reader == "third" else x, name="third")
    g.output("y", dg.gemm(third, x, name="last"))
    g.update(w, dg.subtract(w, dg.activation_relu(first, name="relu"), name="next"))
    return g


def test_a_next_value_comes_as_soon_as_nothing_reads_the_state_any_more() -> None:
    check_steps(
        trained("first"),
        """
        gemm [first]: x, w -> #1
        region [relu, next]: #1, w -> w.next
        gemm [second]: #1, x -> #2
        gemm [third]: #2, x -> #3
        gemm [last]: #3, x -> y
        """,
    )
    check_steps(
        trained("third"),
        """
        gemm [first]: x, w -> #1
        gemm [second]: #1, x -> #2
        gemm [third]: #2, w -> #3
        gemm [last]: #3, x -> y
        region [relu, next]: #1, w -> w.next
        """,
    )


def fed() -> dg.Graph:
    """What the next value reads is made of an input alone, at the end of the graph."""
    g = dg.Graph()
    x, rate = inputs(g, "xr")
    w = g.state("w", sizes=SIZES, dtype="float32")
    first = dg.gemm(x, w, name="first")
    second = dg.gemm(first, x, name="second")
    third = dg.gemm(second, x, name="third")
    made = dg.gemm(rate, rate, name="made")
    g.update(w, dg.gemm(first, made, name="next"))
    g.output("y", dg.gemm(third, x, name="last"))
    return g


def test_what_only_next_values_and_outputs_read_comes_right_before_them() -> None:
    check_steps(
        fed(),
        """
        gemm [first]: x, w -> #1
        gemm [made]: r -> #4
        gemm [next]: #1, #4 -> w.next
        gemm [second]: #1, x -> #2
        gemm [third]: #2, x -> #3
        gemm [last]: #3, x -> y
        """,
    )
