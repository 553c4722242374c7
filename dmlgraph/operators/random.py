"""Random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dmlgraph.base.errors import Problem
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.declaration.constraints import sizes_are
from dmlgraph.operators.declaration.fields import Input, OptionalOutput, Output, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome, asked_sizes
from dmlgraph.operators.directml_enums import RandomGeneratorType

_COUNTER_WORDS, _KEY_WORDS = 4, 2
_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32)


class RandomGenerator(Operator, dml="RANDOM_GENERATOR"):
    """Random bits, evenly distributed, and the next state.

    The state has six uint32, {1, …, 6}: a 128-bit counter, its lowest word first, and a 64-bit key.  Philox 4x32-10
    makes four words from each count: output[4i … 4i + 3] are those of counter + i, in row-major order.  The new state's
    counter is the old one plus ⌈elements / 4⌉; `output_state: false` leaves it out.  The output's sizes must be given,
    because nothing determines them.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
    """

    meanings: ClassVar = {
        "input_state": "The state of the generator: a counter and a key.",
        "output_state": "The state of the generator after the numbers were drawn.",
        "type": "The generator's algorithm.",
    }
    heavy: ClassVar = True
    output_keywords: ClassVar = ("sizes",)
    example: ClassVar = "input_state: [1, 1, 1, 6], output: {sizes: [1, 1, 2, 4]}"

    input_state: Input
    output: Output = inferred()
    output_state: OptionalOutput = inferred()
    type: RandomGeneratorType = RandomGeneratorType.PHILOX_4X32_10

    def infer(self, given: Given) -> Outcome:
        return {
            "output": TensorDesc(dtype=DataType.UINT32, sizes=asked_sizes(given, "output")),
            "output_state": self.input_state.like() if self.wants(given, "output_state") else None,
        }

    def constraints(self) -> Iterator[Problem]:
        words = _COUNTER_WORDS + _KEY_WORDS
        expected = (1,) * (self.input_state.rank - 1) + (words,)
        return sizes_are("input_state", self.input_state, expected, f"the state has {words} words")

    def evaluate(self, state: Array) -> tuple[Array, ...]:
        words = [int(word) for word in state.ravel()]
        counter = sum(word << 32 * place for place, word in enumerate(words[:_COUNTER_WORDS]))
        blocks = -(-self.output.element_count // 4)
        random = _philox(counter, words[_COUNTER_WORDS:], blocks).ravel()[: self.output.element_count]
        if self.output_state is None:
            return (random.reshape(self.output.sizes),)
        following = [(counter + blocks) >> 32 * place & 0xFFFFFFFF for place in range(_COUNTER_WORDS)]
        new_state = np.array([*following, *words[_COUNTER_WORDS:]], np.uint32)
        return random.reshape(self.output.sizes), new_state.reshape(self.output_state.sizes)


def _philox(counter: int, key: list[int], blocks: int) -> Array:
    """Four random words for each of the counts from `counter` on, {blocks, 4}."""
    c0, c1, c2, c3 = _counts(counter, blocks)
    k0, k1 = (np.uint64(word) for word in key)
    for _ in range(_ROUNDS):
        # Products of two words fit in 64 bits: the upper half is the word that is mixed, the lower half is kept.
        left, right = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = right >> _WORD ^ c1 ^ k0, right & _LOW, left >> _WORD ^ c3 ^ k1, left & _LOW
        k0, k1 = k0 + _KEY_STEPS[0] & _LOW, k1 + _KEY_STEPS[1] & _LOW
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def _counts(counter: int, blocks: int) -> list[Array]:
    """The words, lowest first, of the 128-bit numbers from `counter` on."""
    words = []
    carry = np.arange(blocks, dtype=np.uint64)
    for place in range(_COUNTER_WORDS):
        total = carry + np.uint64(counter >> 32 * place & 0xFFFFFFFF)
        words.append(total & _LOW)
        carry = total >> _WORD
    return words
