"""Beam search: the likeliest text, by candidates that each have a set of states of their own.

    python examples/generate_text/beam_search.py

candidates.yaml gives the likeliest tokens after a text.  Every step goes on with the best of all candidates; one that
goes on in two ways is copied: its set of states, not its graph.  It prints the three likeliest texts it finds.
"""

import pathlib
from typing import NamedTuple

import numpy as np

import dmlgraph as dg
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.states import States

FILE = pathlib.Path(__file__).parent / "candidates.yaml"
FIRST = 31  # the code of token 0, which stands for the end of a line; the others are " " to "~"
WIDTH, STEPS = 3, 16


class Beam(NamedTuple):
    """A text that may go on: its tokens, the logarithm of its probability, and its states after all but the last."""

    tokens: tuple[int, ...]
    score: float
    states: States


def search(read: Executable, one: Executable, prompt: np.ndarray) -> list[Beam]:
    """The best texts; `read` takes the prompt, `one` a token."""
    start = one.new_states()
    beams = extended(Beam((), 0.0, start), read.run({"tokens": prompt}, states=start))[:WIDTH]
    for _ in range(STEPS - 1):
        found = []
        for tokens, score, states in beams:
            own = states.copy()
            results = one.run({"tokens": np.array(tokens[-1:], np.uint32)}, states=own)
            found += extended(Beam(tokens, score, own), results)
        beams = sorted(found, key=lambda beam: -beam.score)[:WIDTH]
    return beams


def extended(beam: Beam, results: dict[str, np.ndarray]) -> list[Beam]:
    """A text with each token that may come next; all share its states until one of them goes on."""
    pairs = zip(results["tokens"].ravel().tolist(), results["scores"].ravel().tolist(), strict=True)
    return [Beam((*beam.tokens, token), beam.score + score, beam.states) for token, score in pairs]


if __name__ == "__main__":
    text = "The following "
    prompt = np.array([ord(each) - FIRST for each in text], np.uint32)
    read, one = (dg.load(FILE, dims={"count": count}).compile() for count in (len(prompt), 1))
    for beam in search(read, one, prompt):
        more = "".join(chr(token + FIRST) if token else "\\n" for token in beam.tokens)
        print(f"{beam.score:6.2f}  {text}{more}")
