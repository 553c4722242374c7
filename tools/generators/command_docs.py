"""Makes docs/commands.md: every command with what `--help` says about it.

commands.md beside it is the text above the commands.
"""

from __future__ import annotations

import inspect
import pathlib
import re
from collections.abc import Iterator

import click

from dmlgraph.cli.commands import main

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "commands.md"

BEFORE = pathlib.Path(__file__).with_name("commands.md").read_text(encoding="utf-8")


def page() -> str:
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield BEFORE
    context = click.Context(main, info_name="dmlgraph")
    yield from _commands(main, context)


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from _command(command, click.Context(command, context, info_name=name))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {context.command_path}\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):  # tells click to keep the lines of the paragraph
            title, *lines = paragraph.removeprefix("\b").strip().splitlines()
            yield f"{title}\n\n```text\n" + "\n".join(line.strip() for line in lines) + "\n```\n"
        else:
            yield f"{paragraph}\n"
    if isinstance(command, click.Group):
        yield from _commands(command, context)
        return
    yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    rows = [record for option in options if (record := option.get_help_record(context)) is not None]
    if rows:
        yield "| option | |\n|---|---|"
        for names, text in rows:
            yield f"| `{_cell(names)}` | {_cell(text)} |"
        yield ""


def _cell(text: str) -> str:
    """A text in a table: one line, with escaped bars."""
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


def files() -> dict[pathlib.Path, str]:
    return {PAGE: page()}
