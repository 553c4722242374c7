"""Subscripts against NumPy's basic indexing."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices
from support.problems import raises

import dmlgraph as dg
from dmlgraph.operators.common.subscripts import Mark, Range, as_text, entries, literal, take

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@given(st.data())
@settings(max_examples=500)
def test_it_takes_what_numpy_takes_or_says_that_it_is_empty(data: st.DataObject) -> None:
    sizes = data.draw(SIZES)
    index = data.draw(basic_indices(sizes, allow_newaxis=True, allow_ellipsis=True))
    x = np.arange(np.prod(sizes)).reshape(sizes)
    expected = x[index]
    given_entries = entries(as_text(index), literal)
    if expected.size == 0:
        with pytest.raises(dg.OperatorError, match="takes nothing of dimension"):
            take(given_entries, sizes)
        return
    taken = take(given_entries, sizes)
    shape = expected.shape or (1,)
    assert taken.sizes == shape
    window = x[np.ix_(*(
        start + step * np.arange(count)
        for start, step, count in zip(taken.starts, taken.steps, taken.counts, strict=True)
    ))]  # fmt: skip
    np.testing.assert_array_equal(window.reshape(shape), expected.reshape(shape))


@given(basic_indices((5, 5, 5), allow_newaxis=True))
def test_text_is_pythons(index: Any) -> None:
    text = as_text(index)
    assert ast.unparse(ast.parse(f"x[{text}]"))
    assert entries(text, literal) == entries(as_text(text), literal)


def test_entries() -> None:
    assert entries("1:, None, 0, ..., ::-2", literal) == (Range(1), Mark.NEW, 0, Mark.REST, Range(step=-2))
    assert entries(" : ,", literal) == (Range(),)
    assert entries("f(1, 2):3", len) == (Range(7, 1),)  # a comma in parentheses divides nothing
    assert entries(as_text(()), literal) == (Mark.REST,)


@pytest.mark.parametrize("text", ["", ",", "1,,2", ", 1", "1,,"])
def test_an_entry_is_missing(text: str) -> None:
    with raises(dg.OperatorError, "kind", field="index", got=""):
        entries(text, literal)
