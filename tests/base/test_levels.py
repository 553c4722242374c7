"""Feature levels: their names, their order, and invalid levels."""

from __future__ import annotations

import pytest
from support.problems import raises

from dmlgraph import FeatureLevel, GraphError
from dmlgraph.base.levels import NEWEST

NAMES = ["1.0", "2.0", "2.1", "3.0", "3.1", "4.0", "4.1", "5.0", "5.1", "5.2", "6.0", "6.1", "6.2", "6.3", "6.4"]


def test_the_levels_are_directmls_in_order() -> None:
    assert [str(level) for level in FeatureLevel] == NAMES
    assert sorted(FeatureLevel, reverse=True) == list(FeatureLevel)[::-1]
    assert max(FeatureLevel) is NEWEST
    assert FeatureLevel.V2_1 < FeatureLevel.V3_0 <= FeatureLevel.V3_0
    assert FeatureLevel.V5_2.value == 0x5200  # DML_FEATURE_LEVEL_5_2


@pytest.mark.parametrize("name", NAMES)
def test_a_level_reads_back_from_its_name(name: str) -> None:
    level = FeatureLevel.parse(name)
    assert str(level) == name
    assert FeatureLevel.parse(level) is level
    assert {level: 1}[FeatureLevel.parse(name)] == 1


@pytest.mark.parametrize("value", ["5", "5.00", "v5.0", "", "6.5", 5, None, [5.0], True])
def test_anything_else_is_no_level(value: object) -> None:
    with raises(GraphError, "unknown-level") as caught:
        FeatureLevel.parse(value)
    assert (caught.value.field, caught.value.got) == ("target", value)
    assert caught.value.allowed == ", ".join(NAMES)


def test_a_level_written_as_a_number_is_told_how_to_write_it() -> None:
    with pytest.raises(GraphError) as caught:
        FeatureLevel.parse(5.0)
    assert caught.value.hint == 'write it as text: "5.0"'


@pytest.mark.parametrize("value", ["7.0", "6.5", "12", 7, 6.10e1])
def test_a_level_of_the_future_is_told_the_newest(value: object) -> None:
    with pytest.raises(GraphError) as caught:
        FeatureLevel.parse(value)
    assert caught.value.hint == "the newest that this dmlgraph knows is 6.4"
