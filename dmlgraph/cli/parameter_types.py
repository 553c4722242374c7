"""The types of arguments and options: numbers in plain words, and files that are to be written."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.base.errors import DmlGraphError, listing


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


class GraphFile(click.Path):
    """A graph file, or `-`; for a folder it says which graph files are in it."""

    def __init__(self) -> None:
        super().__init__(exists=True, allow_dash=True, path_type=pathlib.Path)
        self.name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> pathlib.Path:
        """The path of the file.

        Raises:
            BadParameter: it is a folder.
        """
        path = pathlib.Path(super().convert(value, param, ctx))  # type: ignore[arg-type]
        if path.is_dir() and (ctx is None or not ctx.resilient_parsing):
            from dmlgraph.formats.yaml.discover import graph_files

            found = graph_files([path])[0]
            advice = (
                f"name a graph file in it: {listing(found, at_most=4)}" if found else "there is no graph file in it"
            )
            self.fail(f"'{path}' is a folder; {advice}", param, ctx)
        return path


def no_folder(path: pathlib.Path) -> DmlGraphError:
    """The error for a file whose folder is missing."""
    folder = path.parent
    message = f"cannot write '{path}': there is no folder '{folder}'"
    return DmlGraphError(message, code="unwritable", hint="make the folder, or name another")


FILE = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)
GRAPH = GraphFile()  # `load_graph` reads it
GRAPHS = click.Path(exists=True, allow_dash=True, path_type=pathlib.Path)  # `each_graph_file` finds them
NEW_FILE = NewFile()
NEW_FOLDER = click.Path(file_okay=False, path_type=pathlib.Path)
