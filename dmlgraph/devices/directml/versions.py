"""Which DirectML comes with which Windows, and how to get a newer one."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dmlgraph.base.levels import FeatureLevel


@dataclass(frozen=True, slots=True)
class InBox:
    """A Windows from its first build on, with the version and feature level of the DirectML that it contains."""

    windows: str
    build: int
    directml: str
    level: FeatureLevel


# Windows updates never bring a newer one.
IN_BOX = (
    InBox("Windows 10 1903", 18362, "1.0", FeatureLevel.V1_0),
    InBox("Windows 10 2004", 19041, "1.1", FeatureLevel.V2_0),
    InBox("Windows 11 21H2", 22000, "1.6", FeatureLevel.V4_0),
    InBox("Windows 11 22H2", 22621, "1.8", FeatureLevel.V5_0),
)

# The first DirectML with each feature level.
FIRST = {
    FeatureLevel.V1_0: "1.0", FeatureLevel.V2_0: "1.1", FeatureLevel.V2_1: "1.2", FeatureLevel.V3_0: "1.4",
    FeatureLevel.V3_1: "1.5", FeatureLevel.V4_0: "1.6", FeatureLevel.V4_1: "1.7", FeatureLevel.V5_0: "1.8",
    FeatureLevel.V5_1: "1.9", FeatureLevel.V5_2: "1.10", FeatureLevel.V6_0: "1.11", FeatureLevel.V6_1: "1.12",
    FeatureLevel.V6_2: "1.13", FeatureLevel.V6_3: "1.15", FeatureLevel.V6_4: "1.15",
}  # fmt: skip

NEWER = "'dmlgraph directml install' fetches a newer one"


def windows_build() -> int | None:
    """The build number of this Windows; None on other systems."""
    if sys.platform == "win32":
        return sys.getwindowsversion().build
    return None


def in_box(build: int) -> InBox | None:
    """What a Windows of this build contains; None if it has no DirectML."""
    return next((each for each in reversed(IN_BOX) if each.build <= build), None)


def used(version: str, origin: str) -> str:
    """What a device's description says of the DirectML that it uses; nothing where the file has no version: Linux.

    Args:
        version: that of the file, as in 1.15.4.0.
        origin: where the library comes from.
    """
    return f" of DirectML {version} ({origin})" if version else ""


def needed_by(level: FeatureLevel) -> str:
    """Which DirectML a graph of a feature level needs, and the first Windows that contains it."""
    windows = next((each.windows for each in IN_BOX if each.level >= level), None)
    return f"DirectML {FIRST[level]} or newer ({f'that of {windows} or newer' if windows else NEWER})"


def how_to_get_newer(level: FeatureLevel, build: int | None, *, from_system: bool) -> str | None:
    """How to get a DirectML with a higher feature level; None if this is the highest, or the system is not Windows.

    Args:
        level: that of the DirectML in use.
        build: `windows_build()`.
        from_system: whether the DirectML in use is that of Windows.
    """
    if build is None or level >= FeatureLevel.V6_4:
        return None
    newer = "'dmlgraph directml install' fetches DirectML 1.15 (feature level 6.4)"
    known = in_box(build) if from_system else None
    if known is None:
        return newer
    return f"{known.windows} has DirectML {known.directml} (feature level {known.level}) and keeps it; {newer}"
