"""The pages of the documentation, and the results of running their code blocks.

A page is run from top to bottom in its own folder, which holds examples/ and rules/:

- `python`: is run, all blocks of a page in one namespace; the `text` block right below it shows what it prints.
- `yaml`: a graph file, which is checked and run on random inputs.
- `console`: lines `$ dmlgraph …`, each followed by its output; `$ echo $?` shows the last exit status, and `> file`
  writes to a file.
- `json`, and every block with a `title="name"`: is first written to a file of that name.
- `text` elsewhere, `mermaid` and `cpp`: are not run.

A comment right above a block changes that, and says why: `<!-- not run: … -->`, `<!-- numbers vary: … -->` (only
the words are compared) or `<!-- refused: … -->` (a graph file that must not load).  `…` matches any text in a line,
a line with only `…` any lines.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import shlex
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.measure.inputs import complete

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
COPIED = {"examples": ROOT / "examples", "rules": DOCS / "rules"}
LANGUAGES = {"python", "yaml", "console", "json", "text", "mermaid", "cpp"}

_NOTE = re.compile(r"<!-- (not run|numbers vary|refused): (.+) -->")
_NUMBERS = re.compile(r"\d[\d.,]*(?:e[+-]\d+)?(?: (?:[nµm]?s|[KMG]?i?B(?:/s)?)\b)?")  # with units of time and memory


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: the first word after the fence.
        text: the block's content.
        line: the fence's line, from 1.
        title: the name of its file, if any.
        note: the comment above it, if any.
        output: the output that the next block shows; None if the next block is not its output.
    """

    language: str
    text: str
    line: int
    title: str | None = None
    note: str | None = None
    output: str | None = None


def paths() -> list[pathlib.Path]:
    """Every page."""
    return sorted(DOCS.rglob("*.md"))


def blocks(text: str) -> list[Block]:
    """The blocks of a page, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    index, between = 0, [""]  # the lines since the last block
    while index < len(lines):
        if not lines[index].lstrip().startswith("```"):
            between.append(lines[index])
            index += 1
            continue
        fence = lines[index]
        assert fence.startswith("```"), f"line {index + 1}: fences are not indented"
        end = lines.index("```", index + 1)
        content = "".join(f"{line}\n" for line in lines[index + 1 : end])
        language, _, rest = fence[3:].partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        above = [line for line in between if line]
        note = _NOTE.fullmatch(above[-1]) if above else None
        if language == "text" and not above and found and found[-1].language == "python":
            found[-1] = dataclasses.replace(found[-1], output=content)
        found.append(Block(language, content, index + 1, title[1] if title else None, note[1] if note else None))
        index, between = end + 1, []
    return found


@dataclasses.dataclass
class Answer:
    """The output of a block, or of a command in it; `shown` is the output on the page."""

    block: Block
    shown: str
    printed: str
    command: str | None = None

    def check(self) -> None:
        told = self.command or f"the block at line {self.block.line}"
        if not is_shown(self.shown, self.printed, numbers=self.block.note != "numbers vary"):
            pytest.fail(f"{told} prints\n{self.printed}\nand not\n{self.shown}")


def run(text: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answer]:
    """Runs a page's blocks in an empty folder."""
    for name, source in COPIED.items():
        shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(text):
        if block.note == "not run":
            continue
        if block.title is not None:
            pathlib.Path(block.title).write_text(block.text, encoding="utf-8")
        match block.language:
            case "python":
                yield Answer(block, block.output or "", _printed(block, names))
            case "yaml":
                _run_graph(block)
            case "json":
                json.loads(block.text)
            case "console":
                yield from _commands(block)


def _printed(block: Block, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * block.line + block.text, block.title or "<page>", "exec"), names)
    return printed.getvalue()


def _run_graph(block: Block) -> None:
    path = pathlib.Path(block.title or "graph.yaml")
    path.write_text(block.text, encoding="utf-8")
    if block.note == "refused":
        with pytest.raises(dg.DmlGraphError):
            dg.load(path)
        return
    graph = dg.load(path)
    inputs, _ = complete(graph, {})
    results = graph.compile("reference").run(inputs)
    assert list(results) == list(graph.outputs)


def _commands(block: Block) -> Iterator[Answer]:
    assert block.text.startswith("$ "), f"line {block.line}: no command"
    status = 0
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = re.sub(r" *\\\n *", " ", part).partition("\n")
        words = shlex.split(command)
        if words == ["echo", "$?"]:
            yield Answer(block, shown, f"{status}\n", command)
            continue
        environment = dict(words.pop(0).split("=", 1) for _ in range(len(words)) if "=" in words[0])
        file = words[words.index(">") + 1] if ">" in words else None
        assert words[0] == "dmlgraph", f"line {block.line}: {command}"
        arguments = words[1 : words.index(">") if file else None]
        result = CliRunner(env=environment).invoke(main, arguments, prog_name="dmlgraph")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        status = result.exit_code
        printed = result.output
        if file is not None:
            pathlib.Path(file).write_text(result.stdout, encoding="utf-8")
            printed = ""
        yield Answer(block, shown, _without_folder(printed), command)


def _without_folder(text: str) -> str:
    return text.replace(f"{os.getcwd()}{os.sep}", "")


def is_shown(shown: str, printed: str, *, numbers: bool = True) -> bool:
    """Whether a page shows what was printed; `…` matches anything."""
    shown, printed = _trimmed(shown, numbers), _trimmed(printed, numbers)
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else ".*?".join(map(re.escape, line.split("…"))) + r"\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


def _trimmed(text: str, numbers: bool) -> str:
    """The text without spaces at line ends, without blank lines at its end, and without numbers if these vary."""
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    if not numbers:
        lines = [re.sub(r"\s+", " ", _NUMBERS.sub("0", line)) for line in lines]
    return "".join(f"{line}\n" for line in lines)
