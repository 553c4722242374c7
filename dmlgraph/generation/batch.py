"""Batch: texts whose runs are shared, each a sequence of the decoder's batch, whatever its length.

All sequences of the states end at the same row.  What a text does not fill is padding, before its rows:

    row         0 1 2 3 4 5
    one text    . . a b c d
    another     a b c d e f
    nobody      . . . . . .

A text that begins takes a free sequence.  Its prompt is read alone, by the graphs of single texts, and what they know
of it is put where the others end.  These move only where it is longer, where the capacity ends, or where less than half
of the rows are still needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import GraphError
from dmlgraph.devices.states import States
from dmlgraph.generation.decoder import BATCH, PADDING, TOKEN, Decoder
from dmlgraph.generation.sampling import Sampling
from dmlgraph.generation.text import Text

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable
    from dmlgraph.generation.generator import Generator


class Batch:
    """Texts that go on together.

    Args:
        generator: whose texts they are.
        decoder: the one that has the input `padding`.
        size: the most texts at once.
        structure: of how their tokens are chosen.
    """

    def __init__(self, generator: Generator, decoder: Decoder, size: int, structure: Sampling) -> None:
        self._generator, self._decoder, self._structure = generator, decoder, structure
        self._texts: list[Text | None] = [None] * size
        self._padding = np.zeros(size, np.uint32)
        self._waiting: list[Text] = []
        self._length = 0  # of all sequences, with padding
        self._caches: list[Cache] = []
        self._spare: list[States] = []  # of single texts, which know nothing
        self._states = self._executable(1, None).new_states()

    def join(self, text: Text) -> None:
        """Lets a text take part from the next run on; fewer than `size` texts go on at that time."""
        self._waiting.append(text)

    def spare(self) -> States | None:
        """States for the prompt of a text; None if there are no spare ones."""
        return self._spare.pop() if self._spare else None

    def advance(self) -> None:
        """Makes the next tokens of all texts, as many as one wait gives."""
        self._seat()
        live = [(place, text) for place, text in enumerate(self._texts) if text is not None]
        steps = min(self._generator.steps, *(text.left for _, text in live))
        if self._length + steps > self._generator.capacity:
            self._lay_out({})
        executable = self._executable(self._length + steps, self._states)
        found = executable.run(states=self._states, steps=steps, collect=[TOKEN])[TOKEN]
        self._length += steps
        for place, text in live:
            text.take(found[:, place, 0].tolist())
            if text.left == 0 or text.reason is not None:
                self._texts[place] = None

    def _seat(self) -> None:
        """Gives free sequences to the texts that wait."""
        free = (place for place, text in enumerate(self._texts) if text is None)
        new = {next(free): text for text in self._waiting if text.left}
        self._waiting.clear()
        if not new:
            return
        for text in new.values():
            text.read()
        self._lay_out(new)
        for place, text in new.items():
            for name, value in text.settled().items():
                array = value
                if value.ndim > 1:  # of the sequence
                    array = self._states[name]
                    array[place] = value[0]
                self._states[name] = array
            text.states.rewind(text.rows)
            self._spare.append(text.states)
            text.states, self._texts[place] = self._states, text

    def _lay_out(self, new: Mapping[int, Text]) -> None:
        """Gives new texts their rows, and moves the others where that is needed; all end at one row."""
        known = {place: self._length - int(self._padding[place]) for place, text in enumerate(self._texts) if text}
        most = max((*known.values(), *(text.rows for text in new.values())))
        end = self._length
        moves = not (new and most <= end < 2 * most)
        self._length = most if moves else end
        executable = self._executable(max(end, self._length), self._states) if moves else None
        if not self._caches:
            executable = executable or self._executable(self._length, self._states)
            self._caches = caches(executable, next(iter(new.values())).states, len(self._texts))
        for cache in self._caches:
            for place, count in known.items() if moves else ():
                to = cache.rows(place, self._length - count, self._length)
                self._states.put(cache.name, to, self._states, cache.rows(place, end - count, end))
            for place, text in new.items():
                to = cache.rows(place, self._length - text.rows, self._length)
                self._states.put(cache.name, to, text.states, cache.rows(0, 0, text.rows))
        known |= {place: text.rows for place, text in new.items()}
        self._states.stretch(self._length)
        for place in range(len(self._texts)):
            self._padding[place] = self._length - known.get(place, 0)
        self._states[PADDING] = self._padding

    def _executable(self, rows: int, states: States | None) -> Executable:
        structure, size = self._structure, len(self._texts)
        return self._generator.executable(
            ("shared", size, structure),
            lambda dims: self._decoder.stepper({**dims, BATCH: size}, structure),
            tokens=1,
            rows=rows,
            states=states,
        )


class Member(Text):
    """A text that goes on with the others of a batch."""

    def __init__(self, batch: Batch, *arguments: Any) -> None:
        self._batch = batch
        super().__init__(*arguments)
        batch.join(self)

    def _new_states(self) -> States:
        return self._batch.spare() or super()._new_states()

    def _go_on(self) -> None:
        self._batch.advance()


@dataclasses.dataclass(frozen=True, slots=True)
class Cache:
    """A growing state of a batch.

    Attributes:
        name: of the state.
        rank: how many axes it has.
        grows: the axis of its rows.
        across: the axis of the sequences.
        share: how many elements of that axis belong to a sequence.
    """

    name: str
    rank: int
    grows: int
    across: int
    share: int

    def rows(self, place: int, first: int, end: int) -> tuple[slice, ...]:
        """Where some rows of a sequence are."""
        at = [slice(None)] * self.rank
        at[self.across] = slice(place * self.share, (place + 1) * self.share)
        at[self.grows] = slice(first, end)
        return tuple(at)


def caches(executable: Executable, alone: States, size: int) -> list[Cache]:
    """The growing states of an executable with a batch of a size, and the axis along which they have its sequences.

    Args:
        alone: the states of one sequence.

    Raises:
        GraphError: a state has not as many times the elements of one sequence, along one axis.
    """
    found = []
    for state, desc in executable.graph.held:
        if state.grows is None:
            continue
        one = alone[state.name].shape
        wider = [axis for axis in range(desc.rank) if axis != state.grows and desc.sizes[axis] == size * one[axis]]
        same = [axis for axis in range(desc.rank) if axis != state.grows and desc.sizes[axis] == one[axis]]
        if len(wider) != 1 or len(same) != desc.rank - 2:
            raise GraphError(
                "the state does not hold the sequences of the batch along one axis",
                code="decoder",
                field=state.name,
                got=list(desc.sizes),
                allowed=f"{size} times {list(one)}, along one axis",
            )
        found.append(Cache(state.name, desc.rank, state.grows, wider[0], one[wider[0]]))
    return found
