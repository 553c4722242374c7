"""Text: what a decoder knows of a text, and how it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dmlgraph.base.errors import BindingError
from dmlgraph.devices.states import States
from dmlgraph.generation.decoder import TOKEN
from dmlgraph.generation.sampling import RANDOM, SEEN, Sampling, counts, random_state

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable
    from dmlgraph.generation.generator import Generator

LENGTH, STOP, FULL = "length", "stop", "capacity"  # why a text ends


class Text(Iterator[int]):
    """A text that goes on: an iterator of its new tokens.

    Attributes:
        tokens: the prompt and the new tokens that were given.
        states: what the decoder knows of the text.
        stop: the tokens that end it.
        left: how many tokens may come.
        reason: why it has ended: "stop", "length" or "capacity"; None if it may go on.
    """

    def __init__(
        self, generator: Generator, prompt: list[int], how: Sampling, stop: frozenset[int], most: int | None
    ) -> None:
        self._generator, self._decoder = generator, generator.decoder
        self._how, self._structure, self.stop = how, how.structure, stop
        self.tokens = prompt
        self.reason: str | None = None
        self._ready: list[int] = []  # new tokens that nobody has taken yet
        self._drawn = 0  # for how many tokens random numbers were used
        self._is_settled = False  # whether the states that do not grow belong to the last token
        self._guess = generator.drafter()
        self.left = self._checked_most(most, len(prompt))
        self.states = self._new_states()

    def _new_states(self) -> States:
        """States that know nothing."""
        return self._stepper(1, None).new_states()

    @property
    def rows(self) -> int:
        """How many tokens the states know."""
        return min(self.states.lengths.values())

    def _checked_most(self, most: int | None, length: int) -> int:
        """How many tokens may come after so many."""
        room = self._generator.capacity - length
        if most is None:
            most = max(room, 0)
        checked_count("max_new_tokens", most, least=0)
        if room < most or room < 0:
            raise BindingError(
                "the text does not fit",
                code="capacity",
                field="max_new_tokens",
                got=f"{length} tokens and {most} new ones",
                allowed=f"a capacity of {self._generator.capacity}",
            )
        return most

    # Going on.

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        if not self._ready and self.reason is None:
            self._advance()
        if not self._ready:
            raise StopIteration
        token = self._ready.pop(0)
        self.tokens.append(token)
        return token

    def extend(self, ids: Sequence[int], *, max_new_tokens: int | None = None) -> None:
        """Puts tokens behind the text, which may then go on: the next turn of a conversation.

        Raises:
            BindingError: as a call of the generator; then nothing has changed.
        """
        self.become(self.tokens + self._generator.checked(ids), max_new_tokens)

    def rewind(self, count: int, *, max_new_tokens: int | None = None) -> None:
        """Takes the last tokens off the text, which may then go on, with other random numbers.

        Raises:
            BindingError: the text has fewer, or the decoder has states that cannot be rewound; nothing has changed.
        """
        most = len(self.tokens) - 1
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 0 <= count <= most:
            raise BindingError(
                "cannot rewind so many tokens", code="range", field="count", got=count, allowed=f"0 to {most}"
            )
        self.become(self.tokens[: len(self.tokens) - count], max_new_tokens)

    def become(self, tokens: list[int], most: int | None) -> None:
        """Makes the text another one, which may go on: what the states know of the beginning of both is not read again.

        Raises:
            BindingError: it does not fit, or the decoder has states that cannot be rewound.
        """
        most = self._checked_most(most, len(tokens))
        pairs = zip(self.tokens, tokens[:-1], strict=False)
        shorter = min(len(self.tokens), len(tokens) - 1)
        self._forget(next((place for place, (one, other) in enumerate(pairs) if one != other), shorter))
        self.tokens, self.left = tokens, most
        self._ready, self.reason, self._is_settled = [], None, False

    def _forget(self, rows: int) -> None:
        """Takes off the states what they know beyond so many tokens."""
        if self.rows > rows:
            if not self._decoder.can_rewind:
                raise BindingError("the decoder has states that cannot be rewound", code="states", field="count")
            self.states.rewind(self.rows - rows)

    def _advance(self) -> None:
        """Makes the next tokens, as many as one wait gives, or ends the text."""
        if self.left == 0:
            self.reason = LENGTH if len(self.tokens) < self._generator.capacity else FULL
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Makes the next tokens."""
        rows, drafts = self.read(), self._generator.drafts
        fits = drafts and self._decoder.can_rewind and rows + drafts + 1 <= self._generator.capacity
        guess = self._guess(self.tokens, drafts) if fits else []
        self.take(self._verified(guess) if guess else self._stepped(rows, min(self._generator.steps, self.left)))
        if self.reason == STOP and self._decoder.can_rewind:
            self._forget(len(self.tokens) + len(self._ready) - 1)

    def take(self, found: list[int]) -> None:
        """Makes tokens those that come next, up to one that ends the text."""
        found = found[: self.left]
        ends = next((place for place, token in enumerate(found) if token in self.stop), None)
        if ends is not None:
            found, self.reason = found[:ends], STOP
        self._drawn += len(found) + (ends is not None)
        self.left -= len(found)
        self._ready += found

    def _stepped(self, rows: int, steps: int) -> list[int]:
        """The next tokens; the states know so many rows, all but the last token."""
        executable = self._stepper(rows + steps, self.states)
        self._settle()
        found: list[int] = executable.run(states=self.states, steps=steps, collect=[TOKEN])[TOKEN].ravel().tolist()
        return found

    def _stepper(self, rows: int, states: States | None) -> Executable:
        structure = self._structure
        key = "step", structure
        return self._generator.executable(
            key, lambda dims: self._decoder.stepper(dims, structure), tokens=1, rows=rows, states=states
        )

    def _verified(self, guess: list[int]) -> list[int]:
        """The tokens after a draft, as far as it was right, and one more."""
        count, structure = self._generator.drafts, self._structure
        guess = guess + guess[-1:] * (count - len(guess))
        executable = self._generator.executable(
            ("verify", structure),
            lambda dims: self._decoder.verifier(dims, structure),
            tokens=count + 1,
            rows=self.rows + count + 1,
            states=self.states,
        )
        self._settle()
        chosen = [int(each) for each in self._run(executable, [self.tokens[-1], *guess])[TOKEN].ravel()]
        pairs = zip(guess, chosen, strict=False)
        right = next((place for place, (one, other) in enumerate(pairs) if one != other), count)
        self._forget(self.rows - (count - right))
        self._is_settled = False
        self._drawn += count - right  # the numbers of the others were used, too
        return chosen[: right + 1]

    # The prompt.

    def read(self) -> int:
        """Reads what the states do not know yet, all tokens but the last; returns how many they know then."""
        chunks, marks = self._generator.chunks, self._how.repetition_penalty is not None
        while (left := len(self.tokens) - 1 - (rows := self.rows)) > 0:
            self._is_settled = False
            room = self._generator.capacity - rows if self._decoder.can_rewind else left
            size = chunk_of(chunks, left, room)
            if size is None:
                self._read_one(rows)
                continue
            executable = self._generator.executable(
                ("read", marks),
                lambda dims: self._decoder.reader(dims, marks=marks),
                tokens=size,
                rows=rows + size,
                states=self.states,
                rungs=chunks,
            )
            part = self.tokens[rows : rows + min(size, left)]
            self._run(executable, part + part[-1:] * (size - len(part)))
            self._forget(rows + len(part))
        return rows

    def _read_one(self, rows: int) -> None:
        """Reads the token after so many by a step, whose choice nobody wants."""
        executable, name = self._stepper(rows + 1, self.states), self._decoder.input
        self.states[name] = np.array([[self.tokens[rows]]], self.states[name].dtype)
        executable.run(states=self.states)

    def _run(self, executable: Executable, tokens: Sequence[int]) -> dict[str, Any]:
        return executable.run({self._decoder.input: self._decoder.given(executable, tokens)}, states=self.states)

    def _settle(self) -> None:
        """Gives the states that do not grow what belongs to the last token, unless the runs before have done so."""
        if self._is_settled:
            return
        for state, value in self.settled().items():
            self.states[state] = value
        self._is_settled = True

    def settled(self) -> dict[str, Any]:
        """What the states that do not grow hold before the last token is read.

        Those of the sequence have the first dimension 1; the others are numbers of the settings, [1].
        """
        how = self._how
        values: dict[str, Any] = dict(how.settings())
        if RANDOM in values:
            each = counts(min(how.top_k or self._decoder.vocabulary, self._decoder.vocabulary))
            values[RANDOM] = random_state(how.seed, self._drawn * each)
        if how.repetition_penalty is not None:
            values[SEEN] = np.zeros((1, self._decoder.vocabulary), np.float32)
            values[SEEN][0, self.tokens[: self.rows]] = 1
        name = self._decoder.input
        return values | {name: np.array([self.tokens[-1:]], self.states[name].dtype)}


def checked_count(field: str, given: object, least: int = 1) -> int:
    """A whole number of at least so many.

    Raises:
        BindingError: it is not.
    """
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < least:
        raise BindingError(
            "is not such a number", code="range", field=field, got=given, allowed=f"a whole number of at least {least}"
        )
    return int(given)


def chunk_of(chunks: Sequence[int], left: int, room: int) -> int | None:
    """By how many tokens a prompt is read on; None if no chunk fits.

    A run of twice as many tokens takes less than twice as long, since both read all weights: it is padded if at least
    half of it is wanted.

    Args:
        chunks: the numbers there are.
        left: how many tokens are wanted.
        room: how many may be read, of which those that are not wanted are rewound.
    """
    fit = [each for each in chunks if each <= room]
    wanted = [each for each in fit if each <= 2 * left]
    return max(wanted, default=min(fit, default=None))
