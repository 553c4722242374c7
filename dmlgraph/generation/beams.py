"""Beam search: of all texts that may come after a prompt, the likeliest are followed, each with a set of states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dmlgraph.devices.states import States
from dmlgraph.generation.decoder import SCORES, TOKEN

if TYPE_CHECKING:
    from dmlgraph.generation.generator import Generator
    from dmlgraph.generation.text import Text


class Beam(NamedTuple):
    """A text after the prompt.

    Attributes:
        tokens: its tokens, without the prompt and the one that ends it.
        score: the logarithm of its probability, divided by the number of tokens, with the one that ends it, to the
            power of the length penalty.
    """

    tokens: list[int]
    score: float


class Live(NamedTuple):
    """A text that may go on; `states` know all of it but its last token."""

    tokens: list[int]
    total: float
    states: States


def search(generator: Generator, text: Text, count: int, length_penalty: float) -> list[Beam]:
    """The `count` best texts after the prompt of `text`, whose states and limits are used; the best first.

    It ends when so many have ended, and none that goes on has a better score now than the worst of them.
    """
    text.read()
    live, done = [Live(text.tokens[-1:], 0.0, text.states)], list[Beam]()
    for length in range(1, text.left + 1):
        found = [each for beam in live for each in _next(generator, beam, len(text.tokens) + length - 1, 2 * count)]
        found.sort(key=lambda each: -each[1])
        done += [
            Beam(beam.tokens[1:], total / length**length_penalty)
            for beam, total, token in found[:count]
            if token in text.stop
        ]
        live = _gone_on([each for each in found if each[2] not in text.stop][:count])
        done = sorted(done, key=lambda each: -each.score)[:count]
        if not live or (len(done) == count and done[-1].score >= live[0].total / length**length_penalty):
            return done
    done += [Beam(beam.tokens[1:], beam.total / text.left**length_penalty) for beam in live if text.left]
    return sorted(done, key=lambda each: -each.score)[:count]


def _next(generator: Generator, beam: Live, rows: int, count: int) -> Iterator[tuple[Live, float, int]]:
    """A text with each of the likeliest tokens: (the text, the score of both, the token); its states know all of it."""
    decoder = generator.decoder
    executable = generator.executable(
        ("search", count), lambda dims: decoder.searcher(dims, count), tokens=1, rows=rows, states=beam.states
    )
    results = executable.run({decoder.input: decoder.given(executable, beam.tokens[-1:])}, states=beam.states)
    for token, score in zip(results[TOKEN].ravel().tolist(), results[SCORES].ravel().tolist(), strict=True):
        yield beam, beam.total + score, token


def _gone_on(chosen: list[tuple[Live, float, int]]) -> list[Live]:
    """Texts with one more token; the first of a text takes over its set of states, others get copies."""
    taken: set[int] = set()
    live = []
    for beam, total, token in chosen:
        states = beam.states.copy() if id(beam) in taken else beam.states
        taken.add(id(beam))
        live.append(Live([*beam.tokens, token], total, states))
    return live
