"""Fitting: expressions over dims from the numbers that there are with some of their sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dmlgraph.base.expressions import Expression
from dmlgraph.base.fitting import fitted, probes


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 16, 8), (1, 224, 12), (4, 512, 77)])
@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda a, b, c: 7, "7"),
        (lambda a, b, c: a, "a"),
        (lambda a, b, c: 3 * a - b + 2, "a * 3 + b * -1 + 2"),
        (lambda a, b, c: 4 * a * b, "a * (b * 4)"),
        (lambda a, b, c: a * b * c, "a * (b * c)"),
        (lambda a, b, c: b * (a + c + 1), "b * (a + c + 1)"),
        (lambda a, b, c: a * a, "a * a"),
        (lambda a, b, c: a * b + c * b * a + a % 3, "None"),
    ],
)
def test_an_expression_gives_the_numbers(
    function: Callable[..., int], text: str, sizes: tuple[int, int, int]
) -> None:
    samples = probes(dict(zip("abc", sizes, strict=True)))
    found = fitted(samples, [function(**sample) for sample in samples])
    if isinstance(found, Expression):
        assert [found.value(each) for each in samples] == [function(**each) for each in samples]
        assert found.value({"a": 97, "b": 89, "c": 83}) == function(97, 89, 83)
    assert str(found) == text


@pytest.mark.parametrize("size", [17, 64, 224, 513])
def test_rounded_sizes_are_found_where_they_are_the_only_ones(size: int) -> None:
    samples = probes({"a": size})
    for function, text in (
        (lambda a: a // 2, "a // 2"),
        (lambda a: (a + 1) // 2, "(a + 1) // 2"),
    ):
        found = fitted(samples, [function(**each) for each in samples])
        assert str(found) in (text, "None")
        assert size < 64 or found is not None
    huge = fitted(samples, [each["a"] // 40 for each in samples])
    assert huge is None or isinstance(huge, int | Expression)
