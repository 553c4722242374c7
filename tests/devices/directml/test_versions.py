"""Which DirectML comes with which Windows, and how to get a newer one."""

from __future__ import annotations

import json
import pathlib

import pytest

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.devices.directml import versions


@pytest.mark.parametrize(
    ("build", "directml"),
    [(17763, None), (18363, "1.0"), (19045, "1.1"), (22000, "1.6"), (22621, "1.8"), (26100, "1.8")],
)
def test_windows_has_the_version_of_its_build(build: int, directml: str | None) -> None:
    found = versions.in_box(build)
    assert (found and found.directml) == directml


def test_hint_names_this_windows_and_the_remedy() -> None:
    hint = versions.how_to_get_newer(FeatureLevel.V2_0, 19045, from_system=True)
    assert hint == (
        "Windows 10 2004 has DirectML 1.1 (feature level 2.0) and keeps it; "
        "'dmlgraph directml install' fetches DirectML 1.15 (feature level 6.4)"
    )
    other = versions.how_to_get_newer(FeatureLevel.V6_2, 19045, from_system=False)
    assert other == "'dmlgraph directml install' fetches DirectML 1.15 (feature level 6.4)"


@pytest.mark.parametrize(("level", "build"), [(FeatureLevel.V6_4, 26100), (FeatureLevel.V6_2, None)])
def test_no_hint_where_there_is_no_newer_one(level: FeatureLevel, build: int | None) -> None:
    assert versions.how_to_get_newer(level, build, from_system=False) is None


REFERENCE = pathlib.Path(__file__).parents[2] / "reference" / "directml_enums.json"


def test_each_level_has_its_first_directml() -> None:
    levels = json.loads(REFERENCE.read_text(encoding="utf-8"))["feature_levels"]
    first = {each["value"]: each["first_directml_version"].removesuffix(".0") for each in levels}
    assert {level.value: version for level, version in versions.FIRST.items()} == first


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (FeatureLevel.V4_0, "DirectML 1.6 or newer (that of Windows 11 21H2 or newer)"),
        (FeatureLevel.V4_1, "DirectML 1.7 or newer (that of Windows 11 22H2 or newer)"),
        (FeatureLevel.V6_2, "DirectML 1.13 or newer ('dmlgraph directml install' fetches a newer one)"),
    ],
)
def test_what_a_graph_needs(level: FeatureLevel, text: str) -> None:
    assert versions.needed_by(level) == text


def test_a_description_says_which_directml_is_used() -> None:
    assert versions.used("1.8.0.0", "the system") == " of DirectML 1.8.0.0 (the system)"
    assert versions.used("", "the system") == ""
