"""Makes docs/reports.md: what commands print for programs, from `dmlgraph.cli.reports`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from dmlgraph.cli.reports import SHAPES

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "reports.md"
HEAD = """\
# Reports for programs

`check`, `lower`, `devices`, `operators`, `bench` and `run` print a report as JSON with `--json`, on standard output and
with nothing else; messages for people go to standard error. Keys are added, never renamed or removed: programs should
ignore those that they do not know. Numbers of seconds and bytes have no prefix. `test --jsonl` and `train --json` write
a line of JSON for each result or step. [Offline and in CI](ci.md) shows them in use.

`check` has two more forms: `--format github` prints the annotations of GitHub's workflows, and `--format sarif` a log
of SARIF 2.1.0 for code scanning.
"""


def page() -> str:
    return "\n".join([HEAD, *_tables()])


def _tables() -> Iterator[str]:
    for name, keys in SHAPES.items():
        title = f"`dmlgraph {name} --json`" if "report" in keys else f"The shape *{name}*"
        rows = (f"| `{key}` | {meaning} |" for key, meaning in keys.items())
        yield "\n".join([f"## {title}\n\n| key | meaning |\n|---|---|", *rows, ""])


def files() -> dict[pathlib.Path, str]:
    return {PAGE: page()}
