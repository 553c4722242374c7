"""Which DirectML comes with which Windows, and how to get a newer one."""

from __future__ import annotations

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
