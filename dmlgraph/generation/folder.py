"""Models in files and folders: what their tools write beside them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

from dmlgraph.formats.load_save import load
from dmlgraph.generation.decoder import Make
from dmlgraph.generation.sampling import Sampling
from dmlgraph.graph.graph import Graph

CAPACITY = 2048  # of a model that does not say how long its texts may be


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """A decoder, and what is known of it.

    Attributes:
        make: the decoder graph, or what makes it of sizes by name.
        capacity: the most tokens of a text; None: as the graph says.
        sampling: how its tokens are chosen; None if nothing says it.
        stop: the tokens that end a text.
        tokenizer: the file of the tokenizer.
    """

    make: Graph | Make
    capacity: int | None = None
    sampling: Sampling | None = None
    stop: Sequence[int] = ()
    tokenizer: pathlib.Path | None = None


def opened(path: str | os.PathLike[str]) -> Model:
    """The model in a file."""
    return Model(load(path))
