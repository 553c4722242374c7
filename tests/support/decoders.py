"""A decoder graph: the transformer of examples/generate_text, whose weights were trained on Python's documentation."""

from __future__ import annotations

import pathlib
import runpy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from support.text_model import Model

import dmlgraph as dg
from dmlgraph.formats import safetensors

_NAMES = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "examples" / "generate_text" / "generate_text.py"))
VOCABULARY = 96
tokens_of: Callable[[str], np.ndarray[Any, Any]] = _NAMES["tokens_of"]
text_of: Callable[[Any], str] = _NAMES["text_of"]


def weights() -> dict[str, np.ndarray[Any, Any]]:
    return safetensors.load(_NAMES["FOLDER"] / "weights.safetensors", _NAMES["NAMES"])


def decoder(capacity: int = 64, *, dtype: Any = "int64", last_only: bool = False) -> dg.Graph:
    """The graph for input_ids [1, count]."""
    return made({"count": 1, "capacity": capacity}, dtype=dtype, last_only=last_only)


def made(dims: Mapping[str, int], *, dtype: Any = "int64", last_only: bool = False) -> dg.Graph:
    g = dg.Graph("decoder", target="5.1", dims=dims)
    ids = g.input("input_ids", sizes=[1, "count"], dtype=dtype)
    caches = _NAMES["new_caches"](g)
    known = {name: g.constant(name, array) for name, array in weights().items()}
    x = dg.gather(known["embedding"], dg.cast(ids, dtype="uint32").reshape("count"), axis=0)
    biases = _NAMES["biases"](caches[0][0].length, "count")
    for number, cache in enumerate(caches):
        own = {name: known[f"layer.{number}.{name}"] for name in ("qkv", "out", "up", "down")}
        x = _NAMES["layer"](x, biases, cache, own)
    logits = dg.gemm(_NAMES["norm"](x[-1:] if last_only else x), known["head"])
    g.output("logits", logits.reshape(1, 1 if last_only else "count", VOCABULARY))
    return g


class Reader:
    """The same in NumPy: logits after each token of a text."""

    def __init__(self) -> None:
        self.model = Model(weights())

    def after(self, tokens: Sequence[int]) -> np.ndarray[Any, Any]:
        """The logits after some more tokens."""
        return [self.model.read(int(token)) for token in tokens][-1]


def greedy(prompt: Sequence[int], count: int) -> list[int]:
    """The likeliest tokens after a prompt."""
    reader, tokens, last = Reader(), [], list(prompt)
    for _ in range(count):
        tokens.append(int(reader.after(last).argmax()))
        last = tokens[-1:]
    return tokens
