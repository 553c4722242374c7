"""The text of a release: its section of CHANGELOG.md."""

from __future__ import annotations

import re
import tomllib

from release.build import ROOT
from release.errors import ReleaseError


def version() -> str:
    """The version in pyproject.toml, the only place that has it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def section(of: str, changelog: str) -> str:
    """What a changelog says of a version.

    Raises:
        ReleaseError: it says nothing.
    """
    headings = list(re.finditer(r"^## (\S+).*\n", changelog, re.MULTILINE))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        text = changelog[heading.end() : following.start() if following else None].strip()
        if heading[1] == of and text:
            return text + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section of {of}; it has {', '.join(each[1] for each in headings)}")


def of_tag(tag: str) -> str:
    """The text of the release that a tag such as v1.2.0 marks.

    Raises:
        ReleaseError: the project has another version, or the changelog no section of it.
    """
    if tag != f"v{version()}":
        raise ReleaseError(f"the tag is {tag}, and pyproject.toml has the version {version()}")
    return section(version(), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
