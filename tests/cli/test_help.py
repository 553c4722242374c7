"""`--help`: every command has one line in its group's list that says what it does, and shows an example."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from dmlgraph.cli.commands import main


def subcommand(group: click.Group, name: str) -> click.Command:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return command


def commands(
    command: click.Command = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from commands(subcommand(command, name), (*path, name))


ALL = dict(commands())


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_an_example_that_its_options_allow(path: tuple[str, ...]) -> None:
    page = CliRunner().invoke(main, [*path, "--help"])
    assert page.exit_code == 0
    examples = re.findall(r"^ +(?:source <\()?(dmlgraph .*)$", page.stdout.partition("Example")[2], re.MULTILINE)
    assert examples
    for example in examples:
        words = shlex.split(re.split(" [<>] ", example)[0].rstrip(")"))[1:]
        assert tuple(words[: len(path)]) == path
        command: click.Command = main
        inner = words
        while isinstance(command, click.Group):
            command, inner = subcommand(command, inner[0]), inner[1:]
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in inner if word.startswith("-") and word != "-"} <= options


@pytest.mark.parametrize(
    "path", [path for path, command in ALL.items() if isinstance(command, click.Group)], ids=" ".join
)
def test_a_group_says_of_each_command_in_one_line_what_it_does(path: tuple[str, ...]) -> None:
    listed = CliRunner().invoke(main, [*path, "--help"]).stdout.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_and_command_is_explained(path: tuple[str, ...]) -> None:
    command = ALL[path]
    assert command.help
    assert all(each.help for each in command.params if isinstance(each, click.Option))
