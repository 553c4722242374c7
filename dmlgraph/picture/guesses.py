"""Guesses: scopes for a large drawing whose names have none.

The names of the nodes, or of the weights that they read, may say in which part of the model they are, as
`layers_0_attn_q` and `model.layers.0.attn.q.weight` do; parts that repeat are found in the drawing itself.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from dmlgraph.picture.drawing import FROM, Box, Drawing
from dmlgraph.picture.merging import crossing
from dmlgraph.picture.shapes import Kind

Path = list[str]
Codes = np.ndarray[Any, Any]  # an integer for each node, equal for nodes that are alike
Run = tuple[int, int, int]  # where it begins, the nodes of a part, how many parts there are

LEAST_BOXES = 3  # of a numbered part, on average, and of a word in it
LEAST_COPIES = 3  # of a part that repeats
COVERED = 0.5  # the least share of the nodes that a guess puts into scopes
LEAST_RUN = 20  # nodes of all copies of a part
LONGEST_PART = 1_000  # nodes of a part that repeats
REPEATED = "repeated"  # the name of the scope with the parts that repeat

_NUMBERED = re.compile(r"(\D*?)[._]?(\d+)[._](?=.)")
_WORD = re.compile(r"[._]")


def guessed(drawing: Drawing) -> list[Path]:
    """The scopes around each box, from the outermost on; empty where nothing is known."""
    inner = _operators(drawing)
    for guess in (_from_names, _from_repeats, _from_weights):
        paths = guess(drawing)
        if sum(bool(paths[index]) for index in inner) >= COVERED * len(inner):
            return paths
    return [[] for _ in drawing.boxes]


def _operators(drawing: Drawing) -> list[int]:
    return [index for index, box in enumerate(drawing.boxes) if box.kind in (Kind.OPERATOR, Kind.FUSED)]


# From names.


def _from_names(drawing: Drawing) -> list[Path]:
    return _by(drawing, lambda box: [box.name])


def _from_weights(drawing: Drawing) -> list[Path]:
    return _by(drawing, lambda box: [weight.box.name for weight in box.weights])


def _by(drawing: Drawing, names: Callable[[Box], list[str]]) -> list[Path]:
    inner = set(_operators(drawing))
    paths = [
        next(filter(None, (_path(name, box.lines[1]) for name in names(box))), []) if index in inner else []
        for index, box in enumerate(drawing.boxes)
    ]
    members = collections.Counter(tuple(path[:2]) for path in paths if path)
    stems: dict[str, list[int]] = collections.defaultdict(list)
    for (stem, _), count in members.items():
        stems[stem].append(count)
    good = {stem for stem, counts in stems.items() if len(counts) > 1 and sum(counts) >= LEAST_BOXES * len(counts)}
    paths = [path if path and path[0] in good else [] for path in paths]
    words = collections.Counter(tuple(path) for path in paths if len(path) > 2)
    paths = [path if words[tuple(path)] >= LEAST_BOXES else path[:2] for path in paths]
    return _between(drawing, paths)


def _path(name: str, operator: str) -> Path:
    """Its stem, its first number, and the word after that: `layers_0_attn_q` is `q` in layers, 0, attn.

    A word that only says what the operator is, or is counted, is no part: `layers_0_gemm_1` is in layers, 0.
    """
    found = _NUMBERED.match(name)
    if found is None or not found[1]:
        return []
    word, *rest = _WORD.split(name[found.end() :], maxsplit=1)
    is_part = word and rest and not rest[0].isdecimal() and not f"{operator}_".startswith(f"{word}_")
    return [found[1].strip("._"), found[2], *([word] if is_part else [])]


def _between(drawing: Drawing, paths: list[Path]) -> list[Path]:
    """A node without a guess is in what both nodes with one are in, before and after it in execution order."""
    inner = _operators(drawing)
    before: dict[int, Path] = {}
    last: Path = []
    for index in inner:
        last = before[index] = paths[index] or last
    following: Path = []
    for index in reversed(inner):
        following = paths[index] or following
        if not paths[index]:
            before[index] = common(before[index], following)
    return [before.get(index, []) for index in range(len(paths))]


def common(first: Sequence[str], second: Sequence[str]) -> Path:
    """The parts with which both begin."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return [part for part, _ in pairs]


# From repeated parts.


def _from_repeats(drawing: Drawing) -> list[Path]:
    paths: list[Path] = [[] for _ in drawing.boxes]
    order = _operators(drawing)
    kinds: dict[Hashable, int] = {}
    codes = [kinds.setdefault(code(drawing.boxes[index]), len(kinds)) for index in order]
    runs = sorted(_runs(np.array(codes), crossing(drawing, order)))
    for number, (start, length, count) in enumerate(runs, 1):
        name = REPEATED if len(runs) == 1 else f"{REPEATED} {number}"
        for at in range(length * count):
            paths[order[start + at]] = [name, str(at // length)]
    return paths


def code(box: Box) -> Hashable:
    """What is alike in copies of a part: the operator, its fields, and the fields of the weights.

    Not what it was fused from, which are names, nor what an overlay says.
    """
    lines = box.lines[1:] if box.said is None else box.lines[1:-1]
    return tuple(line for line in lines if not line.startswith(FROM)), tuple(weight.line for weight in box.weights)


def _runs(codes: Codes, cuts: Sequence[int]) -> Iterator[Run]:
    """The runs of equal parts, the longest first; `cuts`: how many tensors cross a cut before each node."""
    covered, length, begin, end = max((_longest(codes, length) for length in _lengths(codes)), default=(0, 0, 0, 0))
    if covered < LEAST_RUN:
        return
    length = -length
    begin = min(range(begin, end - covered + 1), key=cuts.__getitem__)
    end = begin + covered
    yield begin, length, covered // length
    yield from _runs(codes[:begin], cuts)
    yield from ((end + start, length, count) for start, length, count in _runs(codes[end:], cuts[end:]))


def _lengths(codes: Codes) -> range:
    return range(1, min(LONGEST_PART, len(codes) // LEAST_COPIES) + 1)


def _longest(codes: Codes, length: int) -> tuple[int, int, int, int]:
    """The longest run of parts of this length: the nodes in whole parts, −length, begin, end; zeros if there is none.

    The run is longer than its whole parts if it ends in the middle of one.  Greater is better.
    """
    differs = np.flatnonzero(np.concatenate(([True], codes[length:] != codes[:-length], [True])))
    same = np.diff(differs) - 1
    longest = int(same.argmax())
    begin, nodes = int(differs[longest]), int(same[longest]) + length
    count = nodes // length
    return (count * length, -length, begin, begin + nodes) if count >= LEAST_COPIES else (0, 0, 0, 0)
