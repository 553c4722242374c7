"""Models in files and folders, with what their tools write beside them.

A folder of onnxruntime-genai has `genai_config.json`, which names the model, the tokens that end a text and how tokens
are chosen, and `tokenizer.json`.  Without it, a folder has one model.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dmlgraph.base.errors import DocumentError, GraphError, listing
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats.dxdispatch.text import parse
from dmlgraph.formats.load_save import holds_model, load
from dmlgraph.formats.text_tree.text import read_text
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.generation.decoder import Make
from dmlgraph.generation.sampling import Sampling
from dmlgraph.graph.graph import Graph

CONFIG, TOKENIZER = "genai_config.json", "tokenizer.json"
CAPACITY = 2048  # of a model whose texts may be longer, or that does not say it
_STATES: tuple[Literal["auto", "padded"], ...] = ("auto", "padded")  # of a model: its caches, for one text or several
_SUFFIXES = (".onnx", ".yaml", ".yml")
_OTHER_PARTS = ("encoder", "embedding", "vision", "speech", "audio")
_WITHOUT = {"top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}  # what leaves a step of `Sampling` out


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """A decoder, and what is known of it.

    Attributes:
        make: the decoder graph, or what makes it of sizes by name.
        padded: what makes it with the input `padding`; None if `make` says all.
        capacity: the most tokens of a text; None: as the graph says.
        sampling: how its tokens are chosen; None if nothing says it.
        stop: the tokens that end a text.
        beams: how many texts are followed at once.
        tokenizer: the file of the tokenizer, which may be missing.
    """

    make: Graph | Make
    capacity: int | None = None
    sampling: Sampling | None = None
    stop: Sequence[int] = ()
    beams: int = 1
    tokenizer: pathlib.Path | None = None
    padded: Make | None = None


def opened(
    path: str | os.PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    target: FeatureLevel | None = None,
) -> Model:
    """The model in a file or a folder.

    Args:
        path: a graph file, an ONNX model, or the folder of one.
        dims: other sizes for its dims.
        target: the feature level for which an ONNX model is imported.

    Raises:
        DocumentError: something is missing in the folder, or wrong in a file: says where.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        return _in_file(path, dims or {}, target)
    if (path / CONFIG).exists():
        return _configured(path, dims or {}, target)
    found = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file())
    if len(found) != 1:
        raise DocumentError(
            f"the folder '{path}' has neither {CONFIG} nor one model",
            code="folder",
            got=listing(each.name for each in found) or "no file that ends in .onnx or .yaml",
        )
    return _in_file(found[0], dims or {}, target)


def _in_file(path: pathlib.Path, dims: Mapping[str, int], target: FeatureLevel | None) -> Model:
    tokenizer = path.parent / TOKENIZER
    if not holds_model(path):
        return Model(load(path, dims=dims), tokenizer=tokenizer)

    def make(states: Literal["auto", "padded"], sizes: Mapping[str, int]) -> Graph:
        return load(path, dims={**dims, **sizes}, target=target, states=states)

    auto, padded = (functools.partial(make, states) for states in _STATES)
    return Model(auto, capacity=dims.get("capacity", CAPACITY), tokenizer=tokenizer, padded=padded)


def _configured(folder: pathlib.Path, dims: Mapping[str, int], target: FeatureLevel | None) -> Model:
    """The model of a folder with a genai_config.json."""
    file = folder / CONFIG
    config = Config(parse(read_text(file), os.fspath(file)))
    for part in _OTHER_PARTS:
        if part in config.section("model").value:
            raise config.wrong(f"model.{part}", "unsupported", "only models that are a decoder alone can generate")
    name = config.get("model.decoder.filename", str)
    path = folder / name
    if pathlib.PurePath(name).name != name or not path.is_file():
        message = "the folder does not have the model"
        raise config.wrong("model.decoder.filename", "unreadable", message, got=name)
    known = _in_file(path, dims, target)
    longest = config.get("search.max_length", int, config.get("model.context_length", int, CAPACITY))
    return dataclasses.replace(
        known,
        capacity=dims.get("capacity", min(longest, CAPACITY)) if known.capacity else None,
        sampling=_sampling(config),
        stop=config.tokens("model.eos_token_id"),
        beams=config.get("search.num_beams", int, 1),
        tokenizer=folder / TOKENIZER,
    )


def _sampling(config: Config) -> Sampling:
    """How the configuration chooses tokens: without `do_sample` the likeliest."""
    fields: dict[str, Any] = {"temperature": 0}
    if config.get("search.do_sample", bool, False):
        fields["temperature"] = config.get("search.temperature", float, 1.0)
    for name, without in _WITHOUT.items():
        given = config.get(f"search.{name}", type(without), without)
        if given != without:
            fields[name] = given
    for name, given in fields.items():
        try:
            Sampling(**{name: given})
        except GraphError as error:
            problem = error.problems[0]
            raise config.wrong(f"search.{name}", "range", problem.message, got=given, allowed=problem.allowed) from None
    return Sampling(**fields)


class Config:
    """A genai_config.json; what is wrong in it is an error at its place."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def wrong(self, path: str, code: str, message: str, **fields: Any) -> DocumentError:
        """The error of what stands under a path, or is missing there."""
        at = self._tree.find(path).location
        return DocumentError(message, field=path, code=code, location=at, **fields)

    def section(self, path: str) -> Tree:
        """The mapping under a path.

        Raises:
            DocumentError: it is missing, or something else.
        """
        tree = self._tree
        for key in path.split("."):
            if not isinstance(tree.value, dict) or key not in tree.value:
                raise self.wrong(path, "missing", "is missing")
            tree = tree.value[key]
        if not isinstance(tree.value, dict):
            raise self.wrong(path, "kind", "must be a mapping", got=tree.plain)
        return tree

    def get(self, path: str, kind: type, default: Any = None) -> Any:
        """What stands under a path; without a default it must be there.

        Raises:
            DocumentError: it is missing, or has another type.
        """
        above, _, key = path.rpartition(".")
        if default is not None and above not in self._tree.value:
            return default
        values = self.section(above).value
        if key not in values or (default is not None and values[key].value is None):
            if default is None:
                raise self.wrong(path, "missing", "is missing")
            return default
        given = values[key].plain
        kinds = (int, float) if kind is float else kind
        if not isinstance(given, kinds) or (isinstance(given, bool) and kind is not bool):
            raise self.wrong(path, "kind", f"must be {_KINDS[kind]}", got=given)
        return given

    def tokens(self, path: str) -> list[int]:
        """A token or a list of tokens; none if it is missing."""
        above, _, key = path.rpartition(".")
        tree = self.section(above).value.get(key)
        given = [] if tree is None or tree.plain is None else tree.plain
        found = given if isinstance(given, list) else [given]
        if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in found):
            raise self.wrong(path, "kind", "must be a token, or a list of tokens", got=given)
        return found


_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
