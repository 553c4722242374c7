"""Generator: what a decoder writes after a prompt, token by token.

generator = Generator(graph, device="cpu")
for token in generator([1, 15, 8], max_new_tokens=100, temperature=0.7, stop=[2]):
    ...
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dmlgraph.base.errors import BindingError, GraphError
from dmlgraph.devices import choose
from dmlgraph.devices.ladder import Ladder
from dmlgraph.devices.names import DeviceName
from dmlgraph.devices.states import States
from dmlgraph.generation.beams import Beam, search
from dmlgraph.generation.decoder import CAPACITY, TOKEN, TOKENS, Decoder, Make
from dmlgraph.generation.drafts import draft
from dmlgraph.generation.folder import Model, opened
from dmlgraph.generation.sampling import RANDOM, SEEN, Sampling, counts, random_state
from dmlgraph.graph.graph import Graph

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable

GREEDY = Sampling(temperature=0)
FIRST_CAPACITY, GROWTH = 256, 4  # of the ladder of a device whose steps cost as much as the capacity
LENGTH, STOP, FULL = "length", "stop", "capacity"  # why a text ends


class Generator:
    """Writes texts with a decoder.

    Args:
        model: a decoder graph with dims for its tokens and its capacity, the file of one, an ONNX model, the folder of
            a model, what `folder.opened` makes of these, or what makes the graph of sizes by name.
        device, threads, metacommands, half_precision: as in `Graph.compile`.
        capacity: the most tokens of a text; by default the graph's, or for a model its own, at most 2048.
        chunks: by how many tokens a prompt is read; more are read at once where the prompt has as many.
        steps: tokens to a wait.
        drafts: how many tokens are guessed and verified at once, where the text was the same before; 0: none.

    Attributes:
        sampling: how tokens are chosen if a call does not say it.
        stop: the tokens that end a text if a call does not say it.

    Raises:
        GraphError: it is not a decoder graph: says what it lacks.
        DmlGraphError: the file or the folder cannot be read.
    """

    def __init__(
        self,
        model: Graph | Make | Model | str | os.PathLike[str],
        *,
        device: DeviceName = "auto",
        capacity: int | None = None,
        chunks: Sequence[int] = (16, 128),
        steps: int = 8,
        drafts: int = 0,
        threads: int | None = None,
        metacommands: bool = True,
        half_precision: bool = False,
    ) -> None:
        if isinstance(model, (str, os.PathLike)):
            model = opened(model, target=choose(device, threads=threads).device.level)
        known = model if isinstance(model, Model) else Model(model)
        if capacity is not None:
            known = dataclasses.replace(known, capacity=_positive("capacity", capacity))
        self.decoder = Decoder.of(known.make, known.capacity)
        self.sampling, self.stop = known.sampling or GREEDY, tuple(known.stop)
        self.chunks = sorted({_positive("chunks", each) for each in chunks})
        self.steps = _positive("steps", steps) if self.decoder.can_rewind else 1
        self.drafts = _positive("drafts", drafts, least=0)
        self._how: dict[str, Any] = {
            "device": device,
            "threads": threads,
            "metacommands": metacommands,
            "half_precision": half_precision,
        }
        self._ladders: dict[object, Ladder] = {}
        self._prepared: set[tuple[object, int, int]] = set()

    @property
    def capacity(self) -> int:
        """The most tokens of a text."""
        return self.decoder.capacity

    @functools.cached_property
    def capacities(self) -> list[int]:
        """Those that are compiled; on a processor only the whole one."""
        name = choose(self._how["device"]).device.name
        found, size = [self.capacity], FIRST_CAPACITY
        if self.decoder.capacities and name not in ("cpu", "reference"):
            while size < self.capacity:
                found.append(size)
                size *= GROWTH
        return sorted(found)

    def executable(
        self,
        key: object,
        make: Make,
        *,
        tokens: int,
        rows: int,
        states: States | None = None,
        rungs: Sequence[int] = (),
    ) -> Executable:
        """The executable of one of the decoder's graphs; the states get its capacity, and the next one is prepared.

        Args:
            key: of the graph.
            make: makes the graph of sizes.
            tokens: how many a run reads.
            rows: how many the states will know.
            states: the set that it will use.
            rungs: all numbers of tokens; by default this one.
        """
        if key not in self._ladders:
            dims = {TOKENS: rungs or [tokens], CAPACITY: self.capacities}
            self._ladders[key] = Ladder(make, dims=dims, **self._how)
        ladder = self._ladders[key]
        executable = ladder.at({TOKENS: tokens, CAPACITY: rows})
        if states is not None:
            states.fit(executable.graph)
        capacity, soon = (
            ladder.sizes({CAPACITY: size})[CAPACITY] for size in (rows, min(rows + rows // 3, self.capacity))
        )
        if soon != capacity and (key, tokens, soon) not in self._prepared:
            self._prepared.add((key, tokens, soon))
            ladder.prepare({TOKENS: tokens, CAPACITY: soon})
        return executable

    @property
    def stats(self) -> dict[str, Any]:
        """What was compiled, as in `Ladder.stats`."""
        found = [each for ladder in self._ladders.values() for each in ladder.stats["compiled"]]
        return {"compiled": sorted(found, key=lambda each: each.at)}

    def __call__(
        self,
        ids: Sequence[int],
        *,
        max_new_tokens: int | None = None,
        stop: Collection[int] | None = None,
        **sampling: Any,
    ) -> Text:
        """What comes after a prompt, token by token.

        Args:
            ids: the tokens of the prompt, at least one.
            max_new_tokens: how many come at most; by default as many as fit.
            stop: the tokens that end the text; they are not given.
            sampling: other values for fields of `Sampling`.

        Raises:
            BindingError: the prompt is empty, has an unknown token, or does not fit with as many new ones.
            GraphError: a field of `Sampling` is outside its range.
        """
        known = {field.name for field in dataclasses.fields(Sampling)}
        for name in sampling.keys() - known:
            allowed = ", ".join(sorted(known))
            raise GraphError("is not a field of Sampling", code="unknown-field", field=name, allowed=allowed)
        how = dataclasses.replace(self.sampling, **sampling)
        if self.drafts and how.repetition_penalty is not None:
            message = "drafts cannot be verified with a penalty that depends on them"
            raise GraphError(message, code="conflict", field="repetition_penalty", hint="drafts=0")
        prompt = self.checked(ids)
        if not prompt:
            raise BindingError("the prompt has no tokens", code="count", field="ids", allowed="at least 1")
        ends = frozenset(self.stop if stop is None else self.checked(stop, "stop"))
        return Text(self, prompt, how, ends, max_new_tokens)

    def together(
        self, prompts: Iterable[Sequence[int]], *, at_once: int = 4, **settings: Any
    ) -> Iterator[tuple[int, int]]:
        """What comes after several prompts, as (the number of the prompt, token); each has a set of states of its own.

        Args:
            prompts: of any lengths; a new one begins when another has ended.
            at_once: how many texts are written at the same time.
            settings: as in a call.

        Raises:
            BindingError, GraphError: as a call, when the prompt begins.
        """
        waiting = enumerate(prompts)
        texts: dict[int, Text] = {}
        _positive("at_once", at_once)
        while True:
            while len(texts) < at_once and (following := next(waiting, None)) is not None:
                texts[following[0]] = self(following[1], **settings)
            if not texts:
                return
            for number, text in list(texts.items()):
                token = next(text, None)
                if token is None:
                    del texts[number]
                else:
                    yield number, token

    def beams(
        self,
        ids: Sequence[int],
        *,
        count: int = 4,
        max_new_tokens: int | None = None,
        stop: Collection[int] | None = None,
        length_penalty: float = 1.0,
    ) -> list[Beam]:
        """The likeliest texts after a prompt, the best first: of all that may come, `count` are followed.

        Args:
            ids, max_new_tokens, stop: as in a call.
            count: how many texts are followed, each with a set of states, and returned.
            length_penalty: a score is divided by the number of tokens to this power.
        """
        text = self(ids, max_new_tokens=max_new_tokens, stop=stop, **dataclasses.asdict(GREEDY))
        return search(self, text, _positive("count", count), length_penalty)

    def checked(self, ids: Iterable[int], field: str = "ids") -> list[int]:
        """Tokens as a list.

        Raises:
            BindingError: one is not a number below the size of the vocabulary.
        """
        tokens = list(ids)
        for place, each in enumerate(tokens):
            whole = isinstance(each, (int, np.integer)) and not isinstance(each, bool)
            if not whole or not 0 <= each < self.decoder.vocabulary:
                allowed = f"0 to {self.decoder.vocabulary - 1}"
                raise BindingError("is not a token", code="range", field=f"{field}.{place}", got=each, allowed=allowed)
        return [int(each) for each in tokens]

    def close(self) -> None:
        """Waits for what is compiled in the background, and forgets the executables."""
        for each in self._ladders.values():
            each.close()


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
        self.left = self._checked_most(most, len(prompt))
        self.states = self._stepper(1, None).new_states()

    @property
    def _rows(self) -> int:
        """How many tokens the states know."""
        return min(self.states.lengths.values())

    def _checked_most(self, most: int | None, length: int) -> int:
        """How many tokens may come after so many."""
        room = self._generator.capacity - length
        if most is None:
            most = max(room, 0)
        _positive("max_new_tokens", most, least=0)
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
        self._restart(self.tokens + self._generator.checked(ids), max_new_tokens)

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
        self._restart(self.tokens[: len(self.tokens) - count], max_new_tokens)

    def _restart(self, tokens: list[int], most: int | None) -> None:
        """Makes the text another one, which may go on: the states then know no more than all of it but the last token.

        Raises:
            BindingError: it does not fit, or the decoder has states that cannot be rewound.
        """
        most = self._checked_most(most, len(tokens))
        self._forget(len(tokens) - 1)
        self.tokens, self.left = tokens, most
        self._ready, self.reason, self._is_settled = [], None, False

    def _forget(self, rows: int) -> None:
        """Takes off the states what they know beyond so many tokens."""
        if self._rows > rows:
            if not self._decoder.can_rewind:
                raise BindingError("the decoder has states that cannot be rewound", code="states", field="count")
            self.states.rewind(self._rows - rows)

    def _advance(self) -> None:
        """Makes the next tokens, as many as one wait gives, or ends the text."""
        if self.left == 0:
            self.reason = LENGTH if len(self.tokens) < self._generator.capacity else FULL
            return
        self.read()
        guess = draft(self.tokens, self._generator.drafts) if self._decoder.can_rewind else []
        fits = self._rows + self._generator.drafts + 1 <= self._generator.capacity
        found = self._verified(guess) if guess and fits else self._stepped(min(self._generator.steps, self.left))
        found = found[: self.left]
        ends = next((place for place, token in enumerate(found) if token in self.stop), None)
        if ends is not None:
            found, self.reason = found[:ends], STOP
            if self._decoder.can_rewind:
                self._forget(len(self.tokens) + ends - 1)
        self._drawn += len(found) + (ends is not None)
        self.left -= len(found)
        self._ready = found

    def _stepped(self, steps: int) -> list[int]:
        executable = self._stepper(self._rows + steps, self.states)
        self._settle()
        result = executable.run(states=self.states, steps=steps, collect=[TOKEN])
        return [int(each) for each in result[TOKEN].ravel()]

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
            rows=self._rows + count + 1,
            states=self.states,
        )
        self._settle()
        chosen = [int(each) for each in self._run(executable, [self.tokens[-1], *guess])[TOKEN].ravel()]
        pairs = zip(guess, chosen, strict=False)
        right = next((place for place, (one, other) in enumerate(pairs) if one != other), count)
        self._forget(self._rows - (count - right))
        self._is_settled = False
        self._drawn += count - right  # the numbers of the others were used, too
        return chosen[: right + 1]

    # The prompt.

    def read(self) -> None:
        """Reads what the states do not know yet, all tokens but the last."""
        chunks, marks = self._generator.chunks, self._how.repetition_penalty is not None
        while (left := len(self.tokens) - 1 - self._rows) > 0:
            self._is_settled = False
            size = max((each for each in chunks if each <= left), default=chunks[0])
            pads = self._decoder.can_rewind and self._rows + size <= self._generator.capacity
            if size > left and not pads:
                self._read_one(self.tokens[self._rows])
                continue
            executable = self._generator.executable(
                ("read", marks),
                lambda dims: self._decoder.reader(dims, marks=marks),
                tokens=size,
                rows=self._rows + size,
                states=self.states,
                rungs=chunks,
            )
            part = self.tokens[self._rows : self._rows + min(size, left)]
            self._run(executable, part + part[-1:] * (size - len(part)))
            self._forget(self._rows - (size - len(part)))

    def _read_one(self, token: int) -> None:
        """Reads a token by a step, whose choice nobody wants."""
        executable, name = self._stepper(self._rows + 1, self.states), self._decoder.input
        self.states[name] = np.array([[token]], self.states[name].dtype)
        executable.run(states=self.states)

    def _run(self, executable: Executable, tokens: Sequence[int]) -> dict[str, Any]:
        return executable.run({self._decoder.input: self._decoder.given(executable, tokens)}, states=self.states)

    def _settle(self) -> None:
        """Gives the states that do not grow what belongs to the last token, unless the runs before have done so."""
        if self._is_settled:
            return
        name, how = self._decoder.input, self._how
        values: dict[str, Any] = dict(how.settings())
        if RANDOM in values:
            each = counts(min(how.top_k or self._decoder.vocabulary, self._decoder.vocabulary))
            values[RANDOM] = random_state(how.seed, self._drawn * each)
        if how.repetition_penalty is not None:
            values[SEEN] = np.zeros((1, self._decoder.vocabulary), np.float32)
            values[SEEN][0, self.tokens[: self._rows]] = 1
        self.states[name] = np.array([self.tokens[-1:]], self.states[name].dtype)
        for state, value in values.items():
            self.states[state] = value
        self._is_settled = True


def _positive(field: str, given: object, least: int = 1) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < least:
        raise BindingError(
            "is not such a number", code="range", field=field, got=given, allowed=f"a whole number of at least {least}"
        )
    return int(given)
