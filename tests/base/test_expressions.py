"""Expressions over dims: their values, their text, and what they refuse."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.expressions import MOST_TERMS, Expression, name_of, parse
from dmlgraph.base.report import Report

DIMS = {"N": 8, "heads": 4, "depth": 64, "größe": 3, "in": 5}


def value(text: str) -> int | float:
    return parse(text).value(DIMS)


def refused(text: str, dims: dict[str, int] = DIMS) -> dg.Problem:
    with pytest.raises(dg.GraphError) as error:
        parse(text).value(dims)
    (problem,) = error.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("N", 8),
        ("in * größe", 15),
        ("2 * N + 1", 17),
        ("heads*depth", 256),
        ("N - 2 - 3", 3),
        ("64 / N / 2", 4),
        ("N / 3 * 3", 8),  # exact: a float64 would give 8.0 here, but 1 / 49 * 49 is not 1 in floats
        ("1 / 49 * 49", 1),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("-7 % 4", 1),
        ("7 / 2 % 2", 1.5),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("(-2) ** 2", 4),
        ("2 ** -1", 0.5),
        ("--N", 8),
        ("+N", 8),
        ("2 * -N", -16),
        ("sqrt(depth)", 8),
        ("sqrt(1 / 4)", 0.5),
        ("1 / sqrt(depth)", 0.125),
        ("sqrt(2)", math.sqrt(2)),
        ("depth ** 0.5", 8),
        ("ceil(N / 3)", 3),
        ("floor(-N / 3)", -3),
        ("ceil(log(N) / log(2) - 0.5)", 3),
        ("min(N, heads, 9)", 4),
        ("max(N, heads / 3)", 8),
        ("exp(0)", 1),
        ("2 * pi", 2 * math.pi),
        ("1.5e1 + .5", 15.5),
        ("(N + 1) * (N - 1)", 63),
        ("  N  ", 8),
        ("9007199254740993 * 1", 9007199254740993),  # no float64 holds it
        ("1 ** 5000", 1),
        ("10 ** 400 % 7", 4),
        ("(4)", 4),
        ("sqrt(16)", 4),
    ],
)
def test_values(text: str, expected: float) -> None:
    got = value(text)
    assert got == expected
    assert type(got) is (int if expected == int(expected) else float)


def test_a_dim_hides_pi() -> None:
    assert parse("2 * pi").value({"pi": 3}) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it ends where a number or name is expected, at character 1"),
        ("2 *", "it ends where a number or name is expected, at character 4"),
        ("(N", "')' is expected, not the end, at character 3"),
        ("(N 2", "')' is expected, not '2', at character 4"),
        ("N)", "')' is not expected here, at character 2"),
        ("N N", "'N' is not expected here, at character 3"),
        ("* N", "'*' is not expected here, at character 1"),
        ("N @ 2", "'@' is not expected here, at character 3"),
        ("1..2", "'.2' is not expected here, at character 3"),
        ("2N", "'N' is not expected here, at character 2"),
        ("N, 2", "',' is not expected here, at character 2"),
        ("foo(N)", "'foo' is not a function; did you mean 'floor'?, at character 1"),
        ("N + sqrt(N, 2)", "sqrt takes one number, at character 5"),
        ("min(N)", "min takes two or more numbers, at character 1"),
        ("sqrt()", "')' is not expected here, at character 6"),
        ("(" * 100 + "N" + ")" * 100, "it is nested more than 60 deep"),
        ("-" * 100 + "N", "it is nested more than 60 deep"),
        ("1" * 500, "a number has too many digits, at character 1"),
        ("1e999", "a number is too large, at character 1"),
        ("N " * 5000, "it is too long"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    problem = refused(text)
    assert problem.code == "expression"
    assert message in problem.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("N / (heads - 4)", "divides by zero"),
        ("N // 0", "divides by zero"),
        ("N % 0", "divides by zero"),
        ("0 ** -1", "divides by zero"),
        ("log(0)", "is not a real number"),
        ("sqrt(-N)", "is not a real number"),
        ("(-N) ** 0.5", "is not a real number"),
        ("9 ** 9 ** 9 ** 9", "is too large a number"),
        ("10 ** 4000", "is too large a number"),
        ("exp(1000)", "is too large a number"),
        ("ceil(exp(1000))", "is too large a number"),
        ("1e200 * 1e200", "is too large a number"),
        ("1 / (1e200 * 1e200)", "is too large a number"),  # it is not 0
        ("10 ** 1000 / 3", "is too large a number"),
        ("N * 10 ** 5000", "is too large a number"),
        ("2 ** 2 ** 2 ** 2 ** 2 ** 2", "is too large a number"),
        ("sqrt(10 ** 1000 + 1)", "is too large a number"),
    ],
)
def test_what_has_no_value(text: str, message: str) -> None:
    problem = refused(text)
    assert problem.code == "expression"
    assert problem.message.startswith(message)
    assert str(problem.got).startswith(text)


def test_messages_show_the_sizes() -> None:
    assert refused("N / (heads - 4)").got == "N / (heads - 4) with N = 8, heads = 4"


def test_unknown_names_are_each_a_problem() -> None:
    with pytest.raises(dg.GraphError) as error:
        parse("M * head").value(DIMS)
    problems = error.value.problems
    assert [(each.code, each.got, each.hint) for each in problems] == [
        ("unknown-dim", "M", "dims are declared with the graph, as in dims={'M': 1}"),
        ("unknown-dim", "head", "did you mean 'heads'?"),
    ]


class TestArithmetic:
    N, D = name_of("N"), name_of("depth")

    @pytest.mark.parametrize(
        ("expression", "text", "expected"),
        [
            (N * 2, "N * 2", 16),
            (2 * N, "2 * N", 16),
            (N + 1 - D, "N + 1 - depth", -55),
            (N - (1 - D), "N - (1 - depth)", 71),
            (1 / D**0.5, "1 / depth ** 0.5", 0.125),
            (D / (N / 2), "depth / (N / 2)", 16),
            (D / N / 2, "depth / N / 2", 4),
            ((N + 1) * 3, "(N + 1) * 3", 27),
            (-(N + 1), "-(N + 1)", -9),
            (-N * 2, "-N * 2", -16),
            ((-N) ** 2, "(-N) ** 2", 64),
            (-(N**2), "-N ** 2", -64),
            (2 ** -(N - 9), "2 ** -(N - 9)", 2),
            (2 ** (N**1), "2 ** N ** 1", 256),
            ((2**N) ** 1, "(2 ** N) ** 1", 256),
            (D // N % 3, "depth // N % 3", 2),
            (9 // N, "9 // N", 1),
            (9 % N, "9 % N", 1),
            (9 - N, "9 - N", 1),
            (N * -2, "N * -2", -16),
            (N - -2, "N - -2", 10),
            (N**-1, "N ** -1", 0.125),
            ((0 - N) % 5, "(0 - N) % 5", 2),
            (math.ceil(N / 3), "ceil(N / 3)", 3),
            (math.floor(N / 3) + 1, "floor(N / 3) + 1", 3),
            (+N, "N", 8),
            (np.int64(3) * N, "3 * N", 24),
            (N * np.float32(0.5), "N * 0.5", 4),
        ],
    )
    def test_text_and_value(self, expression: Expression, text: str, expected: float) -> None:
        assert str(expression) == text
        assert expression.value(DIMS) == expected
        assert parse(text).value(DIMS) == expected

    def test_equal_texts_are_equal(self) -> None:
        assert parse("N * 2") == self.N * 2
        assert hash(self.N * 2) == hash(parse("N * 2"))
        assert self.N * 2 != self.N * 3

    @pytest.mark.parametrize("other", ["2", None, [1], True, math.nan, math.inf, 1j, object()])
    def test_other_operands_are_refused(self, other: Any) -> None:
        with pytest.raises(TypeError):
            self.N * other
        with pytest.raises(TypeError):
            other - self.N

    def test_truth_and_conversion_are_refused(self) -> None:
        with pytest.raises(TypeError, match="not known before the graph has its dims"):
            bool(self.N)
        convert: Any
        for convert in (int, float, range, math.sqrt):
            with pytest.raises(TypeError):
                convert(self.N)
        with pytest.raises(TypeError):
            min(self.N, 3)  # type: ignore[call-overload]

    def test_copies_and_pickles(self) -> None:
        expression = 1 / (self.N + 1) ** 0.5
        for again in (pickle.loads(pickle.dumps(expression)), copy.deepcopy(expression)):
            assert again == expression
            assert (again * 2).value(DIMS) == (expression * 2).value(DIMS)

    def test_growth_is_bounded(self) -> None:
        def grown() -> Expression:
            expression = self.N
            while True:
                expression = expression + expression

        with pytest.raises(dg.GraphError, match=f"is too long an expression; allowed: at most {MOST_TERMS} terms"):
            grown()

    @pytest.mark.parametrize(
        "grow",
        [
            lambda e: e + 1,
            lambda e: 1 + e,
            lambda e: 2 - e,
            lambda e: -e,
            lambda e: (e + 1) * 1,
            lambda e: e**1,
            lambda e: 1**e,
            math.ceil,
        ],
    )
    def test_what_can_be_made_can_be_read_and_computed(self, grow: Callable[[Any], Any]) -> None:
        made = [self.N]

        def grow_on() -> None:
            while len(made) < 10_000:
                made.append(grow(made[-1]))

        with pytest.raises(dg.GraphError, match=r"is too long an expression|is nested more than 60 deep"):
            grow_on()
        expression = made[-1]
        again = parse(expression.text)
        assert again.value(DIMS) == expression.value(DIMS)
        assert pickle.loads(pickle.dumps(expression)) == expression
        assert again.replaced({"N": parse("N")}).text == expression.text

    @pytest.mark.parametrize("number", [10**5000, -(10**5000), 10**400, Fraction(10**5000, 3)], ids=range(4))
    def test_numbers_that_cannot_be_written_are_refused(self, number: Any) -> None:
        with pytest.raises(dg.GraphError, match=r"a number has too many digits|is too large a number"):
            self.N * number

    def test_a_dim_whose_name_is_not_a_word_is_not_computed_with(self) -> None:
        size = name_of("batch-size")
        assert pickle.loads(pickle.dumps(size)).value({"batch-size": 3}) == 3
        with raises(dg.GraphError, "name", got="batch-size"):
            size + 1


def test_names_are_replaced_as_operands() -> None:
    expression = parse("2 * N + max(N, NN) - -N ** 2 / sqrt(M)")
    made = expression.replaced({"N": parse("a + b"), "M": parse("16"), "max": parse("1")})
    assert str(made) == "2 * (a + b) + max(a + b, NN) - -(a + b) ** 2 / sqrt(16)"
    assert made.value({"a": 1, "b": 2, "NN": 5}) == 6 + 5 + 9 / 4


SIGNS = ["+", "-", "*", "/", "//", "%"]


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> tuple[Expression, str]:
    """An expression made by Python's operators, and Python's text of the same over fractions."""
    if depth == 0 or draw(st.booleans()):
        if draw(st.booleans()):
            name = draw(st.sampled_from(["N", "heads", "depth"]))
            return name_of(name), f"Fraction({DIMS[name]})"
        number = draw(st.integers(0, 20))
        return parse(str(number)), f"Fraction({number})"
    if draw(st.integers(0, 5)) == 0:
        inner, python = draw(trees(depth - 1))
        return -inner, f"(-{python})"
    (one, left), (other, right) = draw(trees(depth - 1)), draw(trees(depth - 1))
    sign = draw(st.sampled_from(SIGNS))
    made = eval(f"one {sign} other", {"one": one, "other": other})
    return made, f"({left} {sign} {right})"


@given(trees())
def test_arithmetic_is_that_of_fractions(tree: tuple[Expression, str]) -> None:
    """The expression, its text read again, and Python agree."""
    expression, python = tree
    again = parse(str(expression))
    try:
        expected = Fraction(eval(python, {"Fraction": Fraction}))
    except ZeroDivisionError:
        for each in (expression, again):
            with pytest.raises(dg.GraphError, match="divides by zero"):
                each.value(DIMS)
        return
    for each in (expression, again):
        got = each.value(DIMS)
        assert got == (int(expected) if expected.denominator == 1 else float(expected))


@given(st.text(alphabet="N12 .()+-*/%,sqrtminpx\n\té", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    part = Report().at()
    with part:
        parse(text).value({"N": 3})
    assert {each.code for each in part.problems} <= {"expression", "unknown-dim"}
