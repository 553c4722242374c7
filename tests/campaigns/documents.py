"""Damaged documents: graph files, models of DxDispatch, .npy and safetensors files, broken as accidents and people do.

Reading one gives a legal graph, or an error all of whose problems have a location in the file: never another
exception, and never in more time or memory than the document's length allows.  A case is a batch of documents; a
failure names the document's number in it, and `document(seed, number)` makes it again.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import io
import json
import math
import pathlib
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import yaml

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.base.errors import Problem
from dmlgraph.base.report import Report
from dmlgraph.cli.messages import lines as told
from dmlgraph.formats import dxdispatch, safetensors
from dmlgraph.formats.yaml.writer import dumps
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example

BATCH = 100  # documents in a case
LONGEST = 6000  # the most characters of a damaged document
SECONDS = 1.0  # processor time that an empty document may take
SECONDS_PER_MEGABYTE = 2.0  # a second, doubled for a shared processor
MEGABYTES = 400  # the peak of memory for an empty document
MEGABYTES_PER_MEGABYTE = 1500

_TESTS = pathlib.Path(__file__).parent.parent
_EXAMPLES = _TESTS.parent / "examples"


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A document's text or bytes, how it is read, and how it was damaged."""

    kind: str  # "graph", "model", "array" or "weights"
    content: str | bytes
    damage: tuple[str, ...]


# ---- Whole documents


TEMPLATES = """dmlgraph: 1
dims: {N: 3, M: 2}
templates:
  inner:
    dims: {N: 1, w: N + 1}
    inputs: [x]
    states: {rows: {dtype: float32, sizes: [3 * M + 9, 9], grows: 0, append: x}, s: {dtype: int8, sizes: [w], next: s}}
    nodes: {y: {op: subscript, input: x, index: "..., :w, -N:"}}
    outputs: [y]
  outer:
    dims: {M: 2 * M}
    inputs: [x]
    nodes:
      u: {use: inner, repeat: N, x: x, dims: {N: "M - {index}", w: [1, 2, M]}}
      y: {op: broadcast_to, input: u, sizes: ["max(M, 4)", M, "2 * M - 3"]}
    outputs: {y: y}
inputs: {x: {dtype: float32, sizes: [9, 9]}}
nodes: {u: {use: outer, x: x, dims: {M: M + 1}}}
outputs: [u.y]
tests: {a: {dims: {M: 3}, inputs: {x: {value: 1}}, expect: {u.y: {same_as: reference}}, absolute: 1e-3}}
"""


@functools.cache
def graph_files() -> tuple[str, ...]:
    """The graph files of the examples and of every operator, and the files broken by hand."""
    files = [*_EXAMPLES.rglob("*.yaml"), *(_TESTS / "formats" / "yaml" / "documents" / "broken").glob("*.yaml")]
    texts = [path.read_text("utf-8") for path in sorted(files)]
    operators = [dumps(dg.loads(example(each))) for each in REGISTRY.values()]
    return tuple(text for text in [*texts, *operators, TEMPLATES] if len(text) < LONGEST)


@functools.cache
def models() -> tuple[str, ...]:
    """The model of every graph that can be exported."""
    made = []
    for text in graph_files():
        try:
            made.append(dxdispatch.dumps(dg.loads(text)))
        except dg.DmlGraphError:
            continue
    return tuple(text for text in made if len(text) < LONGEST)


@functools.cache
def arrays() -> tuple[bytes, ...]:
    """The bytes of .npy files."""
    made = []
    for dtype in ("float32", "float16", "uint8", "int64", "bool", "complex64", "U3", ">i2", "M8[s]"):
        stream = io.BytesIO()
        np.save(stream, np.zeros((2, 3), dtype))
        made.append(stream.getvalue())
    return tuple(made)


@functools.cache
def weights() -> tuple[bytes, ...]:
    """The bytes of safetensors files."""
    made = []
    for shapes in ({"a": (2, 3)}, {"a": (1,), "b": (2, 2)}, {"b": (1,), "a": (3,), "c": (1, 1, 1)}):
        stream = io.BytesIO()
        safetensors.write(stream, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
        made.append(stream.getvalue())
    return tuple(made)


# ---- Numbers and expressions without bounds


def immoderate(chance: random.Random) -> str:
    """An expression that is too large, too deep or too long, or only looks so."""
    deep = chance.choice((3, 55, 60, 61, 70, 500, 3000))
    big = str(chance.choice((7, 400, 1000, 4000, 5000, 10**9)))
    return chance.choice(
        (
            *(f"10**{big}", f"10**{big}/3", f"N*10**{big}", f"N*10**{big} % 7", f"sqrt(10**{big})", f"1**{big}"),
            *("(4)", "sqrt(16)", "2**2**2**2**2**2", "N//0", "N % (N - N)", "exp(1000)", "1e308*10", "log(0)"),
            *("9" * int(chance.choice(("30", "399", "400", "401", "5000"))), "N" * deep, "-N", "1" + "+1" * deep),
            *("-" * deep + "N", "(" * deep + "N" + ")" * deep, "ceil(" * deep + "N" + ")" * deep, "1+(" * deep + "N"),
            *(f":10**{big}", f"N:{'9' * deep}", "1:N", "::-N", "0:(N", f"{'-' * deep}1:"),
        )
    )


# ---- Damage to text

_WORDS = (
    *("{", "}", "[", "]", ":", ": ", ",", "- ", "#", "&a ", "*a", "*b", "!", "!!str ", "|", ">", "'", '"', "%TAG ! x"),
    *(
        "\n",
        "\r\n",
        "\r",
        "\t",
        "  ",
        "\0",
        "\x1b",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeff",
        "\ufffe",
        "é",
        "入",
        "😀",
        "\u202e",
    ),
    *(
        "---\n",
        "...\n",
        "? ",
        "<<: ",
        "@",
        "`",
        "~",
        "null",
        "true",
        "yes",
        ".inf",
        "-.inf",
        ".nan",
        "0x",
        "0o9",
        "1_0",
    ),
    *(
        "-1",
        "0",
        "1",
        "2",
        "4294967295",
        "4294967296",
        "18446744073709551616",
        "-9223372036854775809",
        "1e308",
        "1e999",
    ),
    *("-0.0", "0.5", "9" * 30, "9" * 500, "1e-400", "float32", "int4", "uint64", "x", "y", "N", "x.y", "x.output", "."),
    *("sizes", "strides", "dtype", "owned", "op", "input", "output", "outputs", "file: ..", "file", "data", "dims"),
)


def _place(chance: random.Random, text: Sequence[Any]) -> int:
    return chance.randrange(len(text) + 1)


def _span(chance: random.Random, text: Sequence[Any], longest: int = 40) -> tuple[int, int]:
    start = _place(chance, text)
    return start, min(len(text), start + chance.randint(1, longest))


def insert(chance: random.Random, text: str) -> str:
    at = _place(chance, text)
    return text[:at] + chance.choice(_WORDS) + text[at:]


def replace(chance: random.Random, text: str) -> str:
    start, stop = _span(chance, text, 8)
    return text[:start] + chance.choice(_WORDS) + text[stop:]


def replace_word(chance: random.Random, text: str) -> str:
    """A number or name is replaced."""
    words = list(re.finditer(r"[\w.+-]+", text))
    if not words:
        return text
    word = chance.choice(words)
    other = chance.choice([chance.choice(_WORDS), chance.choice(words)[0]])
    return text[: word.start()] + other + text[word.end() :]


def misspell(chance: random.Random, text: str) -> str:
    at = _place(chance, text)
    return text[:at] + chance.choice("abcdefghijklmnopqrstuvwxyz_.0123456789 ") + text[at + chance.randint(0, 1) :]


def remove(chance: random.Random, text: str) -> str:
    start, stop = _span(chance, text)
    return text[:start] + text[stop:]


def double(chance: random.Random, text: str) -> str:
    start, stop = _span(chance, text, 200)
    return text[:stop] + text[start:stop] * chance.choice((1, 1, 2, 10)) + text[stop:]


def move(chance: random.Random, text: str) -> str:
    start, stop = _span(chance, text)
    rest = text[:start] + text[stop:]
    at = _place(chance, rest)
    return rest[:at] + text[start:stop] + rest[at:]


def truncate(chance: random.Random, text: str) -> str:
    return text[: _place(chance, text)]


def shuffle_lines(chance: random.Random, text: str) -> str:
    """A line is moved, doubled, removed, or indented differently."""
    lines = text.splitlines(keepends=True) or [""]
    line = lines.pop(chance.randrange(len(lines)))
    at = _place(chance, lines)
    line = chance.choice(("", line, line * 2, " " * chance.randint(0, 4) + line.lstrip(" "), line.lstrip(" ")))
    return "".join([*lines[:at], line, *lines[at:]])


def nest(chance: random.Random, text: str) -> str:
    at = _place(chance, text)
    opening, closing = chance.choice((("[", "]"), ("{a: ", "}"), ('{"a": ', "}"), ("[", ""), ("- ", "")))
    depth = chance.choice((3, 30, 63, 64, 65, 200, 3000))
    return text[:at] + opening * depth + "1" + closing * depth + text[at:]


def repeat(chance: random.Random, text: str) -> str:
    """A part is repeated many times."""
    start, stop = _span(chance, text, 30)
    count = chance.choice((100, 1000, 10_000))
    return text[:stop] + text[start:stop] * count + text[stop:]


_TEXT = (insert, replace, replace_word, replace_word, misspell, misspell, remove, double, move, shuffle_lines)
_RARE = (truncate, nest, insert)


def damaged_bytes(chance: random.Random, content: bytes) -> bytes:
    """Bytes are flipped, removed, inserted, doubled or cut off."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        start, stop = _span(chance, data, 12)
        match chance.randrange(6):
            case 0 if start < len(data):
                data[start] ^= 1 << chance.randrange(8)
            case 1:
                data[start:stop] = b""
            case 2:
                data[start:start] = chance.randbytes(chance.randint(1, 8))
            case 3:
                data[stop:stop] = data[start:stop]
            case 4 if chance.random() < 0.3:
                del data[start:]
            case _:
                data[start:stop] = chance.randbytes(stop - start)
    return bytes(data)


# ---- Damage to trees


def _strange(chance: random.Random) -> Any:
    """A value that is rarely legal."""
    return chance.choice(
        (
            *(
                immoderate(chance),
                immoderate(chance),
                [immoderate(chance)],
                {"N": immoderate(chance)},
                10**399,
                -(10**399),
            ),
            *(None, True, False, 0, 1, 2, -1, 8, 9, 255, 2**31, 2**32, 2**63, 2**64, -(2**63) - 1, 10**40, 0.5, -0.0),
            *(math.inf, -math.inf, math.nan, 1e308, 1e-320, "", " ", "x", "y", "N", "float32", "int4", "a.b", "x.0"),
            *([], {}, [1], [[1]], [None], ["x"], [1] * 9, [2.5, "two"], {"op": "relu"}, {"bits": "0x7f"}, {"a": 1}),
            *(
                [2**32 - 1],
                [65536, 65536],
                [4, 4, 4, 4],
                {"dtype": "int8", "sizes": [1]},
                {"scale": 1},
                "é\u202e",
                "\0",
            ),
            *("activation_relu", "sum", "../x.npy", "a" * 300, "/", "x.npy"),
        )
    )


_Slot = tuple[Any, Any]  # a list or dict, and an index or key of it


def _slots(tree: Any) -> list[_Slot]:
    """Every slot of a tree that holds a value."""
    found: list[_Slot] = []
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        found += [(each, key) for key in keys]
        waiting += [each[key] for key in keys]
    return found


_CHANGES = (
    *("replace", "replace", "nudge", "nudge", "swap", "share", "copy", "remove", "add", "rename", "wrap", "unwrap"),
    "graft",
)


def _change_tree(chance: random.Random, tree: Any) -> str:
    """Makes one change, and returns its name."""
    slots = _slots(tree)
    if not slots:
        return "nothing"
    holder, key = chance.choice(slots)
    other, other_key = chance.choice(slots)
    what = chance.choice(_CHANGES)
    if what == "replace":
        holder[key] = _strange(chance)
    elif what == "nudge":
        value = holder[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        half = value / 2 if is_number and abs(value) < 2**60 else value
        holder[key] = chance.choice((value - 1, value + 1, value * 2, -value, half)) if is_number else f"{value}_"
    elif what == "graft":  # a part of another document
        _, other_tree = chance.choice(_SOURCES)(chance)
        others = _slots(other_tree) or [({"x": None}, "x")]
        other, other_key = next((each for each in others if each[1] == key), chance.choice(others))
        holder[key] = copy.deepcopy(other[other_key])
    elif what == "wrap":
        holder[key] = chance.choice(([holder[key]], {key: holder[key]}))
    elif what == "unwrap" and isinstance(holder[key], list | dict) and holder[key]:
        holder[key] = next(iter(holder[key].values() if isinstance(holder[key], dict) else holder[key]))
    elif what == "swap":
        holder[key], other[other_key] = copy.deepcopy((other[other_key], holder[key]))
    elif what == "share":  # becomes an alias in YAML
        holder[key] = other[other_key]
        if _is_endless(tree):
            holder[key] = _strange(chance)
    elif what == "copy":
        holder[key] = copy.deepcopy(other[other_key])
    elif what == "remove":
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, _strange(chance))
    elif what == "add":
        name = chance.choice([other_key if isinstance(other_key, str) else "x", f"{key}_", f"{key}.0", "axis"])
        holder[name] = _strange(chance)
    else:
        name = chance.choice(
            [other_key if isinstance(other_key, str) else "x", f"{key}s", str(key)[1:], str(key).upper()]
        )
        holder[name] = holder.pop(key)
    return what


def _is_endless(tree: Any) -> bool:
    try:
        json.dumps(tree, default=str)
    except (ValueError, RecursionError):
        return True
    return False


def damaged_tree(chance: random.Random, tree: Any, write: Callable[[Any], str]) -> tuple[str, list[str]]:
    tree = copy.deepcopy(tree)
    done = [_change_tree(chance, tree) for _ in range(chance.choice((1, 1, 1, 2, 3, 5)))]
    return write(tree), done


@functools.cache
def _yaml_tree(text: str) -> Any:
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return None


@functools.cache
def _json_tree(text: str) -> Any:
    return json.loads(text)


def _random_graph(chance: random.Random) -> tuple[str, Any]:
    text = chance.choice(graph_files())
    return text, _yaml_tree(text)


def _random_model(chance: random.Random) -> tuple[str, Any]:
    text = chance.choice(models())
    return text, _json_tree(text)


_SOURCES = (_random_graph, _random_model)


def _to_yaml(tree: Any) -> str:
    return yaml.dump(tree, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, allow_unicode=True)


# ---- Cases


def document(seed: int, number: int) -> Document:
    """Makes a document of the batch of a seed."""
    chance = random.Random(f"{seed}/{number}")
    kind = chance.choices(("graph", "model", "array", "weights"), (70, 22, 4, 4))[0]
    if kind == "array":
        content = chance.choice(arrays())
        if chance.random() < 0.5:
            header = chance.choice((_TEXT[0], *_TEXT))(chance, content[10:].decode("latin1")).encode("utf-8")
            content = content[:8] + len(header).to_bytes(4, "little")[:2] + header
            return Document(kind, content, ("header",))
        return Document(kind, damaged_bytes(chance, content), ("bytes",))
    if kind == "weights":
        return Document(kind, *_damaged_weights(chance))
    text, tree = _random_graph(chance) if kind == "graph" else _random_model(chance)
    done: list[str] = []
    if tree is not None and chance.random() < 0.6:
        text, done = damaged_tree(chance, tree, _to_yaml if kind == "graph" else json.dumps)
    if not done or chance.random() < 0.15:
        for _ in range(chance.choice((1, 1, 1, 2, 4, 8))):
            damage = chance.choice(_RARE if chance.random() < 0.1 else _TEXT)
            text = damage(chance, text)
            done.append(damage.__name__)
        if chance.random() < 0.004:
            text = repeat(chance, text)[:400_000]
            done.append("repeat")
    if chance.random() < 0.05:
        return Document(kind, damaged_bytes(chance, text.encode("utf-8", "replace")), (*done, "bytes"))
    return Document(kind, text, tuple(done))


def _damaged_weights(chance: random.Random) -> tuple[bytes, tuple[str, ...]]:
    """A safetensors file with another header, or with other bytes."""
    content = chance.choice(weights())
    if chance.random() < 0.3:
        return damaged_bytes(chance, content), ("bytes",)
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].decode()
    if chance.random() < 0.6:
        header, done = damaged_tree(chance, json.loads(header), json.dumps)
    else:
        damage = chance.choice(_TEXT)
        header, done = damage(chance, header), [damage.__name__]
    text = header.encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + content[8 + length :], tuple(done)


def one_case(seed: int) -> str | None:
    with tempfile.TemporaryDirectory(prefix="documents") as name:
        folder = pathlib.Path(name)
        for number in range(BATCH):
            each = document(seed, number)
            problem = check(each, folder)
            if problem is not None:
                content = each.content if len(each.content) < 4000 else each.content[:4000]
                return f"document {number}, {each.kind}, {', '.join(each.damage)}: {problem}\n{content!r}"
    return None


def check(each: Document, folder: pathlib.Path) -> str | None:
    """Reads a document; returns what is wrong with that, or None."""
    megabytes = len(each.content) / 1e6
    memory = _most_kilobytes()
    begin = time.process_time()
    problem = _read(each, folder)
    seconds = time.process_time() - begin
    grown = (_most_kilobytes() - memory) / 1e3
    if problem is None and seconds > SECONDS + SECONDS_PER_MEGABYTE * megabytes:
        return f"took {seconds:.1f} s"
    if problem is None and grown > MEGABYTES + MEGABYTES_PER_MEGABYTE * megabytes:
        return f"took {grown:.0f} MB"
    return problem


def _most_kilobytes() -> int:
    """The most memory this process had at once; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _read(each: Document, folder: pathlib.Path) -> str | None:
    text, file = each.content, "<text>"
    try:
        if each.kind == "array":
            assert isinstance(text, bytes)
            (folder / "x.npy").write_bytes(text)
            text = "dmlgraph: 1\nconstants: {c: {file: x.npy}}\noutputs: [c]\n"
            graph = dg.loads(text, folder=folder)
        elif each.kind == "weights":
            assert isinstance(text, bytes)
            (folder / "x.safetensors").write_bytes(text)
            text = "dmlgraph: 1\nconstants: {c: {file: x.safetensors, tensor: a}}\noutputs: [c]\n"
            graph = dg.loads(text, folder=folder)
        elif isinstance(text, bytes):
            path = folder / "document"
            path.write_bytes(text)
            file, text = str(path), text.decode("utf-8-sig", "replace")
            graph = dg.load(path) if each.kind == "graph" else dxdispatch.load(path)
        else:
            graph = (dg.loads if each.kind == "graph" else dxdispatch.loads)(text, folder=folder)
    except dg.DmlGraphError as error:
        assert isinstance(text, str)
        return _without_place(error.problems, text, file, _BREAKS[each.kind])
    return _use(graph, text, file, is_read=each.kind == "graph")


# The characters at which YAML and JSON begin a new line.
_BREAKS = {**dict.fromkeys(("graph", "array", "weights"), "\r\n|[\n\r\x85\u2028\u2029]"), "model": "\n"}


def _use(graph: dg.Graph, text: str, file: str, *, is_read: bool) -> str | None:
    """Checks a legal graph as `dmlgraph check` does, writes it, and reads it again."""
    try:
        with Report(place=graph.origin.located):
            graph.lower(fuse=False)
    except dg.DmlGraphError as error:
        if is_read:
            return _without_place(error.problems, text, file, _BREAKS["graph"])
    graph.warnings()
    try:
        again = dumps(graph)
    except dg.DmlGraphError as error:
        return None if error.code == "no-folder" else f"cannot be written: {error}"
    if dumps(dg.loads(again)) != again:
        return "is another graph when it is written and read again"
    return None


def _without_place(problems: Sequence[Problem], text: str, file: str, breaks: str) -> str | None:
    for problem in problems[:50]:
        # Bytes that are no text are found before it is known what breaks lines.
        by = "\n" if "not UTF-8 text" in problem.message else breaks
        lines = re.split(by, text.removeprefix("\ufeff"))
        place = problem.location
        if place is None:
            return f"no place: {problem}"
        inside = place.file == file and 1 <= place.line <= len(lines)
        if not inside or not 1 <= place.column <= len(lines[place.line - 1]) + 2:
            return f"no place in the file: {place}: {problem}"
        written = "\n".join(told(problem))
        if not written.strip() or len(written) > 20_000:
            return f"not a message: {written[:1000]}"
    return None


CAMPAIGN = Campaign(
    "documents",
    f"damaged graph files, models, .npy and safetensors files, {BATCH} a case: a message with a place each",
    one_case,
    600,
)
