"""Generator: what a decoder writes after a prompt, token by token.

generator = Generator(graph, device="cpu")
for token in generator([1, 15, 8], max_new_tokens=100, temperature=0.7, stop=[2]):
    ...
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import BindingError, GraphError, ModelError
from dmlgraph.devices import choose
from dmlgraph.devices.ladder import Ladder
from dmlgraph.devices.names import DeviceName
from dmlgraph.devices.states import States
from dmlgraph.generation.batch import Batch, Member
from dmlgraph.generation.beams import Beam, search
from dmlgraph.generation.caches import CacheType, checked
from dmlgraph.generation.decoder import CAPACITY, TOKENS, Decoder, Make
from dmlgraph.generation.drafts import Drafter, Writer, draft
from dmlgraph.generation.folder import Model, opened
from dmlgraph.generation.sampling import Sampling
from dmlgraph.generation.text import Text, checked_count
from dmlgraph.graph.graph import Graph

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable

GREEDY = Sampling(temperature=0)
FIRST_CAPACITY, GROWTH = 256, 4  # of the ladder of a device whose steps cost as much as the capacity
DRAFTS = 4  # of another decoder
PADDED = 100  # models of a family pad the tables of their tokens to different sizes, by less than a 100th


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """An executable that is right as long as the states know so many rows, `first` to `last`."""

    executable: Executable
    first: int
    last: int


class Generator:
    """Writes texts with a decoder.

    Args:
        model: a decoder graph with dims for its tokens and its capacity, the file of one, an ONNX model, the folder of
            a model, what `folder.opened` makes of these, or what makes the graph of sizes by name.
        device, threads, metacommands, half_precision: as in `Graph.compile`.
        capacity: the most tokens of a text; by default the graph's, or for a model its own, at most 2048.
        chunks: by how many tokens a prompt is read; more are read at once where the prompt has as many.
        steps: tokens to a wait.
        drafts: how many tokens are guessed and verified at once; 0: none.  None: 4 if there is a `draft`, else 0.
        draft: the generator, or the model, of a smaller decoder with the same tokens, which guesses; None: guessed are
            the tokens that came where the text was the same before.
        cache: what keys and values of float32 are held as: "float16", or "int8" with a scale for each row; None: as
            they are.

    Attributes:
        sampling: how tokens are chosen if a call does not say it.
        stop: the tokens that end a text if a call does not say it.

    Raises:
        GraphError: it is not a decoder graph: says what it lacks; or `draft` has other tokens, or cannot rewind.
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
        drafts: int | None = None,
        draft: Generator | Graph | Make | Model | str | os.PathLike[str] | None = None,
        cache: CacheType | None = None,
        threads: int | None = None,
        metacommands: bool = True,
        half_precision: bool = False,
    ) -> None:
        if isinstance(model, (str, os.PathLike)):
            model = opened(model, target=choose(device, threads=threads).device.level)
        known = model if isinstance(model, Model) else Model(model)
        if capacity is not None:
            known = dataclasses.replace(known, capacity=checked_count("capacity", capacity))
        self._cache = checked(cache)
        self.decoder = Decoder.of(known.make, known.capacity, self._cache)
        self.sampling, self.stop = known.sampling or GREEDY, tuple(known.stop)
        self.chunks = sorted({checked_count("chunks", each) for each in chunks})
        self.steps = checked_count("steps", steps) if self.decoder.can_rewind else 1
        self.drafts = checked_count("drafts", (0 if draft is None else DRAFTS) if drafts is None else drafts, least=0)
        self._how: dict[str, Any] = {
            "device": device,
            "threads": threads,
            "metacommands": metacommands,
            "half_precision": half_precision,
        }
        self._ladders: dict[object, Ladder] = {}
        self._served: dict[tuple[object, int], Served] = {}
        self._padded = known.padded
        self._draft = None if draft is None else self._checked_draft(draft, capacity)

    def _checked_draft(self, given: Any, capacity: int | None) -> Generator:
        """The generator of a smaller decoder.

        Raises:
            GraphError: it has other tokens, or one of both cannot be rewound.
        """
        made = given if isinstance(given, Generator) else Generator(given, capacity=capacity, **self._how)
        fewer, more = sorted((made.decoder.vocabulary, self.decoder.vocabulary))
        if more - fewer > more // PADDED:
            raise GraphError(
                "drafts must be of the same tokens",
                code="conflict",
                field="draft",
                got=f"{made.decoder.vocabulary} tokens",
                allowed=f"{self.decoder.vocabulary} tokens, or less than 1 % more or fewer",
            )
        if not (made.decoder.can_rewind and self.decoder.can_rewind):
            message = "drafts must be rewound, which a decoder with states that are updated whole cannot"
            raise GraphError(message, code="states", field="draft")
        return made

    def drafter(self) -> Drafter:
        """What guesses the tokens of a text."""
        return draft if self._draft is None else Writer(self._draft, self.decoder.vocabulary)

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
        served = self._served.get((key, tokens))
        if served is None or not served.first <= rows <= served.last:
            served = self._served[key, tokens] = self._serve(key, make, tokens, rows, rungs)
        if states is not None:
            states.fit(served.executable.graph)
        return served.executable

    def _serve(self, key: object, make: Make, tokens: int, rows: int, rungs: Sequence[int]) -> Served:
        if key not in self._ladders:
            dims = {TOKENS: rungs or [tokens], CAPACITY: self.capacities}
            self._ladders[key] = Ladder(make, dims=dims, **self._how)
        ladder = self._ladders[key]
        executable = ladder.at({TOKENS: tokens, CAPACITY: rows})
        capacity, soon = (
            ladder.sizes({CAPACITY: size})[CAPACITY] for size in (rows, min(rows + rows // 3, self.capacity))
        )
        if soon != capacity:
            ladder.prepare({TOKENS: tokens, CAPACITY: soon})
        first = 1 + max((each for each in self.capacities if each < capacity), default=0)
        has_prepared = soon != capacity or capacity == self.capacities[-1]
        return Served(executable, first, capacity if has_prepared else max(rows, capacity * 3 // 4))

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
        return self._begun(Text, ids, max_new_tokens, stop, self._sampling(sampling))

    def _sampling(self, given: Mapping[str, Any]) -> Sampling:
        """How tokens are chosen."""
        known = {field.name for field in dataclasses.fields(Sampling)}
        for name in given.keys() - known:
            allowed = ", ".join(sorted(known))
            raise GraphError("is not a field of Sampling", code="unknown-field", field=name, allowed=allowed)
        how = dataclasses.replace(self.sampling, **given)
        if self.drafts and how.repetition_penalty is not None:
            message = "drafts cannot be verified with a penalty that depends on them"
            raise GraphError(message, code="conflict", field="repetition_penalty", hint="drafts=0")
        return how

    def _begun(
        self,
        make: Callable[[Generator, list[int], Sampling, frozenset[int], int | None], Text],
        ids: Sequence[int],
        most: int | None,
        stop: Collection[int] | None,
        how: Sampling,
    ) -> Text:
        """A text after a prompt."""
        prompt = self.checked(ids)
        if not prompt:
            raise BindingError("the prompt has no tokens", code="count", field="ids", allowed="at least 1")
        return make(self, prompt, how, frozenset(self.stop if stop is None else self.checked(stop, "stop")), most)

    @functools.cached_property
    def shared(self) -> Decoder | None:
        """The decoder whose runs texts of different lengths share; None if there is no such one.

        It has the input `padding`.  A model that counts positions from the size of its past cannot have it.
        """
        if self.decoder.is_shared:
            return self.decoder
        if self._padded is None:
            return None
        try:
            made = Decoder.of(self._padded, self.capacity, self._cache)
        except ModelError:
            return None
        return made if made.is_shared else None

    def together(
        self,
        prompts: Iterable[Sequence[int]],
        *,
        at_once: int = 4,
        max_new_tokens: int | None = None,
        stop: Collection[int] | None = None,
        **sampling: Any,
    ) -> Iterator[tuple[int, int]]:
        """What comes after several prompts, as (the number of the prompt, token).

        Texts share runs if `shared` is there and no drafts are made; otherwise they take turns, and each has a set of
        states of its own.  The tokens are those that each has alone.

        Args:
            prompts: of any lengths; a new one begins when another has ended.
            at_once: how many texts are written at the same time.
            max_new_tokens, stop, sampling: as in a call, for every text.

        Raises:
            BindingError, GraphError: as a call, when the prompt begins.
        """
        how = self._sampling(sampling)
        waiting, texts = enumerate(prompts), dict[int, Text]()
        begun = list(itertools.islice(waiting, checked_count("at_once", at_once)))
        make: Callable[..., Text] = Text
        if len(begun) > 1 and not self.drafts and self.shared is not None:
            make = functools.partial(Member, Batch(self, self.shared, len(begun), how.structure))
        while begun or texts:
            for number, ids in begun:
                texts[number] = self._begun(make, ids, max_new_tokens, stop, how)
            for number, text in list(texts.items()):
                token = next(text, None)
                if token is None:
                    del texts[number]
                else:
                    yield number, token
            begun = list(itertools.islice(waiting, at_once - len(texts)))

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
        return search(self, text, checked_count("count", count), length_penalty)

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
        self._served.clear()
        for each in self._ladders.values():
            each.close()
