"""Graph files that are given to commands: one or standard input, or those of folders."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from dmlgraph.base.errors import (
    ModelError,
)
from dmlgraph.cli.model_options import options_of_models
from dmlgraph.cli.standard_input import STDIN, is_stdin, read_stdin

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.devices import Choice
    from dmlgraph.graph.graph import Graph

    Array = np.ndarray[Any, Any]


def load_graph(
    file: pathlib.Path, dims: Mapping[str, int], devices: Sequence[Choice] = (), training: pathlib.Path | None = None
) -> Graph:
    """The graph in a file or an ONNX model, or with `-` in standard input, which names files in the current folder.

    Without --target, a model is imported for the lowest feature level of the devices on which it will run.  `training`
    is a file that says how the graph is trained.
    """
    from dmlgraph.base.levels import NEWEST
    from dmlgraph.formats.load_save import load
    from dmlgraph.formats.onnx import is_model
    from dmlgraph.formats.text_tree.text import decode
    from dmlgraph.formats.yaml import loads

    of_models = options_of_models()
    if not is_stdin(file):
        level = min((each.device.level for each in devices), default=NEWEST)
        if is_model(file) and level < NEWEST and "target" not in of_models:
            # What `auto` cannot import for its first device may run on the next.
            hopeful = any(each.otherwise is not None for each in devices)
            with contextlib.suppress(*[ModelError] if hopeful else []):
                return load(file, dims=dims, target=level, training=training, **of_models)
        return load(file, dims=dims, training=training, **of_models)
    if training is not None:
        raise click.UsageError("--training needs a graph in a file of its own, rather than in standard input")
    for option in of_models:
        raise click.UsageError(f"--{option.rstrip('s')} is for ONNX models, and standard input holds a graph file")
    return loads(decode(read_stdin("the graph"), STDIN), folder=".", dims=dims, file=STDIN)


def each_graph_file(given: Sequence[pathlib.Path], skip_others: bool) -> list[pathlib.Path]:
    """The graph files among files and folders; prints which files were skipped."""
    return graph_files_of(given, skip_others)[0]


def graph_files_of(given: Sequence[pathlib.Path], skip_others: bool) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """The graph files among files and folders, and what is skipped, which it prints."""
    from dmlgraph.formats.yaml.discover import graph_files

    found, skipped = graph_files(given, skip_others=skip_others)
    for path in skipped:
        click.echo(f"skipped {path}: not a graph file, it has no key 'dmlgraph'", err=True)
    if not found and not skip_others:
        raise click.UsageError(f"there is no graph file in {', '.join(map(str, given))}")
    return found, skipped
