"""Names, numbers and texts in C++."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.cpp.text import Identifiers, comment, data, floating, identifier, integer, quoted


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("x", "x"),
        ("encoder/w.0", "encoder_w_0"),
        ("class", "class_"),
        ("near", "near_"),  # a macro of windows.h
        ("__Init", "Init"),
        ("a__b", "a_b"),
        ("0", "n0"),
        ("größe", "gr_e"),
        ("→", "n"),
        ("a" * 200, "a" * 100),
    ],
)
def test_identifiers(name: str, written: str) -> None:
    assert identifier(name) == written


def test_different_names_are_different_identifiers() -> None:
    identifiers = Identifiers()
    assert [identifiers.take(name) for name in ("a.b", "a/b", "a_b", "int", "int_")] == [
        *("a_b", "a_b_1", "a_b_2"),
        *("int_", "int__1"),
    ]


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', r'"a\042b\134c"'),
        ("what??/", r'"what\077\077/"'),  # else a trigraph
        ("ü1", r'"\303\2741"'),
        ("\n", r'"\012"'),
    ],
)
def test_quoted(text: str, literal: str) -> None:
    assert quoted(text) == literal


def test_a_comment_does_not_go_on_in_the_next_line() -> None:
    assert comment("a\nb\\") == "a?b?"


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (0.1, "0.1f"),
        (-0.0, "-0.0f"),
        (1e-45, "1e-45f"),
        (3.4028235e38, "3.4028235e+38f"),
        (math.inf, "std::numeric_limits<FLOAT>::infinity()"),
        (-math.inf, "-std::numeric_limits<FLOAT>::infinity()"),
        (math.nan, "std::numeric_limits<FLOAT>::quiet_NaN()"),
    ],
)
def test_floating(value: float, literal: str) -> None:
    assert floating(value) == literal
    if math.isfinite(value):
        assert np.float32(literal[:-1]).tobytes() == np.float32(value).tobytes()


def test_a_nan_with_other_bits_is_refused() -> None:
    with raises(dg.OperatorError, "does-not-fit", got="0x7fc00001"):
        floating(float(np.uint32(0x7FC00001).view(np.float32)))


def test_integers() -> None:
    assert (integer(-3), integer(-(2**31))) == ("-3", "-2147483647 - 1")


def test_data() -> None:
    assert data(b"\x00\xff") == "0x00, 0xff"
