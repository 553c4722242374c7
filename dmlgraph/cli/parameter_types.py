"""The types of arguments and options: numbers in plain words, and files that are to be written."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.base.errors import DmlGraphError


class Whole(click.IntRange):
    """A whole number."""

    name = "whole number"


class Number(click.FloatRange):
    """A number."""

    name = "number"


class NewFile(click.Path):
    """A file that is written at the end, whose folder must be there at the beginning."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=pathlib.Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> pathlib.Path:
        """The path of the file.

        Raises:
            DmlGraphError: its folder is missing.
        """
        path = pathlib.Path(super().convert(value, param, ctx))  # type: ignore[arg-type]
        if not path.parent.is_dir() and (ctx is None or not ctx.resilient_parsing):
            raise no_folder(path)
        return path


def no_folder(path: pathlib.Path) -> DmlGraphError:
    """The error for a file whose folder is missing."""
    folder = path.parent
    message = f"cannot write '{path}': there is no folder '{folder}'"
    return DmlGraphError(message, code="unwritable", hint="make the folder, or name another")


FILE = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)
GRAPH = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=pathlib.Path)  # `load_graph` reads it
GRAPHS = click.Path(exists=True, allow_dash=True, path_type=pathlib.Path)  # `each_graph_file` finds them
NEW_FILE = NewFile()
NEW_FOLDER = click.Path(file_okay=False, path_type=pathlib.Path)
