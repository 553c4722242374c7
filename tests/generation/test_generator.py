"""Generator: the texts are those of NumPy, whatever the chunks, the steps to a wait, the drafts and the capacities."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from support.decoders import VOCABULARY, Reader, decoder, greedy, made, text_of, tokens_of
from support.problems import raises
from support.sampled import chosen

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.generation import Generator, generator
from dmlgraph.generation.drafts import draft
from dmlgraph.generation.text import Text, chunk_of

DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")
PROMPT = tokens_of("The expression list after it is evaluated to a ").tolist()
NEW = 24

pytestmark = pytest.mark.usefixtures("directml_path")


@pytest.fixture(scope="module")
def expected() -> list[int]:
    return greedy(PROMPT, NEW)


@pytest.fixture(scope="module")
def cpu() -> Iterator[Generator]:
    made = Generator(decoder(), device="cpu", capacity=128)
    yield made
    made.close()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("chunks", "steps"), [((16,), 8), ((1, 4, 32), 1)])
def test_the_tokens_of_numpy(device: DeviceName, chunks: Sequence[int], steps: int, expected: list[int]) -> None:
    text = Generator(decoder(96), device=device, chunks=chunks, steps=steps)(PROMPT, max_new_tokens=NEW)
    assert list(text) == expected
    assert text.tokens == PROMPT + expected
    assert text.reason == "length"
    assert set(text.states.lengths.values()) == {len(PROMPT) + NEW - 1}


@pytest.mark.parametrize(
    ("left", "room", "chunks", "runs"),
    [
        (33, 99, (4, 16), [16, 16, 4]),  # one token, padded
        (40, 99, (4, 16), [16, 16, 16]),  # half of the last one
        (39, 99, (4, 16), [16, 16, 4, 4]),
        (31, 99, (4, 16, 64), [16, 16]),
        (45, 99, (4, 16, 64), [64]),
        (45, 63, (4, 16, 64), [16, 16, 16]),  # 64 does not fit
        (3, 99, (8,), [8]),
        (3, 7, (8,), [None]),
    ],
)
def test_a_prompt_is_read_by_few_runs(left: int, room: int, chunks: Sequence[int], runs: list[int | None]) -> None:
    found: list[int | None] = []
    while left > 0 and None not in found:
        found.append(size := chunk_of(chunks, left, room))
        left, room = left - (size or 0), room - (size or 0)
    assert found == runs


@pytest.mark.parametrize("device", ["cpu", "directml:software"])
def test_a_ladder_of_capacities(device: DeviceName, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "FIRST_CAPACITY", 16)
    writer = Generator(decoder(), device=device, capacity=100, chunks=[8])
    text = writer(PROMPT, max_new_tokens=NEW)
    assert list(text) == expected
    writer.close()
    compiled = collections.Counter(each.dims["capacity"] for each in writer.stats["compiled"])
    assert set(compiled) == ({16, 64, 100} if device == "directml:software" else {100})
    assert any(each.in_background for each in writer.stats["compiled"]) is (device == "directml:software")


def test_a_function_that_makes_the_graph(expected: list[int]) -> None:
    asked = []

    def make(dims: Mapping[str, int]) -> dg.Graph:
        asked.append(dict(dims))
        return made({"count": dims["tokens"], "capacity": dims["capacity"]}, dtype="uint32", last_only=True)

    writer = Generator(make, device="cpu", capacity=90, chunks=[40])
    assert list(writer(PROMPT, max_new_tokens=NEW)) == expected
    assert [each["tokens"] for each in asked] == [1, 40]  # an import of a model takes seconds
    assert asked[0] == {"batch": 1, "tokens": 1, "capacity": 90}


@pytest.mark.parametrize("steps", [1, 8])
@pytest.mark.parametrize(
    "settings", [{"temperature": 0.9, "top_k": 7}, {"temperature": 1.1, "top_p": 0.9, "min_p": 0.02}]
)
def test_sampled_tokens_do_not_depend_on_the_steps_to_a_wait(steps: int, settings: dict[str, Any]) -> None:
    text = Generator(decoder(), device="cpu", steps=steps, capacity=96)(PROMPT, max_new_tokens=12, seed=11, **settings)
    reader, last = Reader(), PROMPT
    for place in range(12):
        token = next(text)
        candidates = settings.get("top_k", VOCABULARY)
        assert token == chosen(reader.after(last), place, 11, candidates=candidates, **settings), place
        last = [token]


def test_a_penalty_for_what_the_text_has(cpu: Generator) -> None:
    text = cpu(PROMPT, max_new_tokens=12, repetition_penalty=1.4)
    reader, last, known = Reader(), PROMPT, list(PROMPT)
    for token in text:
        scores = reader.after(last)
        for each in set(known):
            scores[each] *= 1 / 1.4 if scores[each] > 0 else 1.4
        assert token == scores.argmax()
        last = [token]
        known += last
    text.rewind(12)
    assert text.states["sampling/seen"].sum() == len(set(known[:-1]))  # until the text goes on
    assert next(text) == known[len(PROMPT)]


@pytest.mark.parametrize("drafts", [0, 3])
def test_stop_tokens_and_going_on(expected: list[int], drafts: int) -> None:
    writer = Generator(decoder(), device="cpu", capacity=128, drafts=drafts)
    (ends,) = tokens_of("q").tolist()
    place = expected.index(ends)
    assert place > 8
    text = writer(PROMPT, stop=[ends])
    assert list(text) == expected[:place]
    assert text.reason == "stop"
    assert set(text.states.lengths.values()) == {len(PROMPT) + place - 1}
    more = tokens_of(" and the").tolist()
    text.extend(more, max_new_tokens=7)
    assert text.reason is None
    assert list(text) == greedy(PROMPT + expected[:place] + more, 7)


def test_a_text_is_extended_before_all_its_tokens_were_taken(cpu: Generator, expected: list[int]) -> None:
    """A wait gives several tokens; those that nobody has taken are no part of the text."""
    text, more = cpu(PROMPT, max_new_tokens=NEW), tokens_of(" and the other").tolist()
    assert [next(text) for _ in range(3)] == expected[:3]
    text.extend(more, max_new_tokens=5)
    assert list(text) == greedy(PROMPT + expected[:3] + more, 5)


def test_rewinding(cpu: Generator, expected: list[int]) -> None:
    text = cpu(PROMPT, max_new_tokens=NEW)
    assert [next(text) for _ in range(11)] == expected[:11]
    text.rewind(6, max_new_tokens=19)
    assert text.tokens == PROMPT + expected[:5]
    assert list(text) == expected[5:]
    text.rewind(NEW + len(PROMPT) - 1, max_new_tokens=5)
    assert list(text) == greedy(PROMPT[:1], 5)
    for wrong in (-1, 6, True, "1"):
        with pytest.raises(dg.BindingError) as caught:
            text.rewind(wrong)  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.field) == ("range", "count")
    sampled = cpu(PROMPT, max_new_tokens=20, temperature=1.0)
    first = list(sampled)
    sampled.rewind(20)
    assert list(sampled) != first  # other random numbers
    again = cpu(PROMPT, max_new_tokens=20, temperature=1.0)
    assert list(again) == first


def test_several_texts_of_unlike_lengths(cpu: Generator) -> None:
    prompts = [PROMPT[:5], PROMPT, PROMPT[:20], PROMPT[:1]]
    found: dict[int, list[int]] = collections.defaultdict(list)
    order = []
    for number, token in cpu.together(prompts, at_once=2, max_new_tokens=6):
        found[number].append(token)
        order.append(number)
    assert [found[number] for number in range(4)] == [greedy(prompt, 6) for prompt in prompts]
    assert order[:4] == [0, 1, 0, 1]
    assert order[-4:] == [2, 3, 2, 3]


@pytest.mark.parametrize("device", DEVICES)
def test_drafts_that_are_verified_at_once(device: DeviceName, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = tokens_of("a sequence type is a sequence type is a sequence").tolist()
    verified, original = [], Text._verified

    def counted(self: Text, guess: list[int]) -> list[int]:
        found = original(self, guess)
        verified.append(len(found))
        return found

    monkeypatch.setattr(Text, "_verified", counted)
    text = Generator(decoder(96), device=device, drafts=4)(prompt, max_new_tokens=NEW)
    assert list(text) == greedy(prompt, NEW)
    assert max(verified) >= 3
    assert sum(verified) > len(verified)


def test_drafts_are_what_came_after_the_same_tokens() -> None:
    assert draft([1, 2, 3, 9, 1, 2, 3], 2) == [9, 1]
    assert draft([1, 2, 3, 9, 5, 2, 3, 7, 1, 2, 3], 3) == [9, 5, 2]  # three the same rather than the last two
    assert draft([4, 2, 7, 2, 8, 2], 5) == [8, 2]
    assert draft([1, 2, 3], 2) == draft([1], 2) == draft([1, 1], 0) == []


def smaller(tokens: int = VOCABULARY) -> dg.Graph:
    """Another decoder, which only knows the last token, and is right about a fifth of the tokens."""
    likeliest = [int(Reader().after([token]).argmax()) for token in range(VOCABULARY)]
    g = dg.Graph("smaller", dims={"count": 1, "capacity": 96})
    ids = g.input("ids", sizes=[1, "count"], dtype="uint32")
    g.append(g.state("known", sizes=[1, "capacity"], dtype="uint32", grows=1), ids)
    table = np.eye(tokens, dtype=np.float32)[likeliest[:tokens]]
    logits = dg.gather(g.constant("table", table), ids.reshape("count"), axis=0)
    g.output("logits", logits.reshape(1, "count", tokens))
    return g


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("own", [True, False], ids=["the same decoder", "a smaller one"])
def test_drafts_of_another_decoder(device: DeviceName, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, verified, original = greedy(PROMPT, NEW), [], Text._verified

    def counted(self: Text, guess: list[int]) -> list[int]:
        found = original(self, guess)
        verified.append(len(found))
        return found

    monkeypatch.setattr(Text, "_verified", counted)
    writer = Generator(decoder(96), device=device, draft=decoder(96) if own else smaller())
    assert writer.drafts == 4
    text = writer(PROMPT, max_new_tokens=NEW)
    assert list(text) == expected
    if own:
        assert verified == [5] * 4 + [4 + 1]  # all are right
    else:
        assert min(verified) == 1 < max(verified)
    text.rewind(7, max_new_tokens=4)
    assert list(text) == expected[-7:-3]
    text.extend(PROMPT[:4], max_new_tokens=5)
    assert list(text) == greedy(PROMPT + expected[:-3] + PROMPT[:4], 5)


def test_a_draft_keeps_what_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the prompt once, and later only the tokens that it did not write itself."""
    read, original = [], Text.read

    def counted(self: Text) -> int:
        read.append((self._decoder, len(self.tokens) - 1 - self.rows))
        return original(self)

    monkeypatch.setattr(Text, "read", counted)
    helper = Generator(decoder(96), device="cpu")
    assert list(Generator(decoder(96), device="cpu", draft=helper)(PROMPT, max_new_tokens=NEW)) == greedy(PROMPT, NEW)
    counts = [count for owner, count in read if owner is helper.decoder]
    assert counts == [len(PROMPT) - 1] + [0] * (len(counts) - 1)


def test_a_draft_that_has_less_room_stops_helping(expected: list[int]) -> None:
    writer = Generator(decoder(96), device="cpu", draft=Generator(decoder(len(PROMPT) + 7), device="cpu"))
    assert list(writer(PROMPT, max_new_tokens=NEW)) == expected


def test_drafts_must_have_the_same_tokens_and_be_rewound() -> None:
    with raises(dg.GraphError, "conflict", field="draft", got="90 tokens"):
        Generator(decoder(96), device="cpu", draft=smaller(90))
    for one, other in ((decoder(96), with_a_counter()), (with_a_counter(), decoder(96))):
        with raises(dg.GraphError, "states", field="draft"):
            Generator(one, device="cpu", draft=other)


@pytest.mark.parametrize("tokens", [90, 104])
def test_a_draft_whose_tables_are_padded_otherwise(
    tokens: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens that only one of both knows are no drafts, and nothing is drafted after them."""
    monkeypatch.setattr(generator, "PADDED", 10)
    writer = Generator(decoder(96), device="cpu", draft=smaller(tokens))
    assert list(writer(PROMPT, max_new_tokens=NEW)) == expected
    drafter = writer.drafter()
    assert len(drafter(PROMPT, 3)) == 3
    assert (drafter([*PROMPT, VOCABULARY - 1], 3) == []) is (tokens < VOCABULARY)


@pytest.mark.parametrize("by_decoder", [False, True])
def test_sampled_drafts_have_the_probabilities_of_the_model(by_decoder: bool) -> None:
    """The first token after a draft that is verified: 300 seeds, within four standard deviations."""
    prompt = tokens_of("a sequence type is a sequence").tolist()
    shares = Reader().after(prompt)
    shares = np.exp(shares - shares.max())
    likeliest, share = int(shares.argmax()), shares.max() / shares.sum()
    writer = Generator(decoder(48), device="cpu", drafts=2, draft=smaller() if by_decoder else None)
    found = sum(next(writer(prompt, max_new_tokens=3, temperature=1.0, seed=seed)) == likeliest for seed in range(300))
    assert 0.1 < share < 0.95
    assert abs(found - 300 * share) < 4 * np.sqrt(300 * share * (1 - share))


@pytest.mark.parametrize("stop", [[], [0]])
def test_beams_are_those_of_numpy(cpu: Generator, stop: list[int]) -> None:
    prompt, count, most = tokens_of("if the").tolist(), 3, 5
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[float, list[int]]] = []
    for length in range(1, most + 1):
        more = []
        for total, tokens in live:
            logits = Reader().after(prompt + tokens)
            scores = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            more += [(total + float(scores[token]), [*tokens, token]) for token in range(VOCABULARY)]
        more.sort(reverse=True)
        done += [(total / length, tokens[:-1]) for total, tokens in more[:count] if tokens[-1] in stop]
        live = [each for each in more if each[1][-1] not in stop][:count]
    done += [(total / most, tokens) for total, tokens in live]
    done = sorted(done, reverse=True)[:count]
    found = cpu.beams(prompt, count=count, max_new_tokens=most, stop=stop)
    assert [beam.tokens for beam in found] == [tokens for _, tokens in done]
    np.testing.assert_allclose([beam.score for beam in found], [score for score, _ in done], rtol=1e-4)
    one = cpu.beams(prompt, count=1, max_new_tokens=most)
    assert one[0].tokens == greedy(prompt, most)


def with_a_counter() -> dg.Graph:
    """A decoder that also knows how many runs there were, which cannot be rewound."""
    g = decoder(96)
    runs = g.state("runs", sizes=[1], dtype="float32")
    g.update(runs, runs + 1)
    return g


def test_a_decoder_that_cannot_be_rewound(expected: list[int]) -> None:
    text = Generator(with_a_counter(), device="cpu", chunks=[16], steps=8, drafts=2)(PROMPT, max_new_tokens=NEW)
    assert list(text) == expected
    assert text.states["runs"] == 2 + (len(PROMPT) - 1) % 16 + NEW  # neither a padded chunk nor a step too many
    with pytest.raises(dg.BindingError) as caught:
        text.rewind(1)
    assert caught.value.code == "states"


def test_the_text_ends_where_the_capacity_does(expected: list[int]) -> None:
    text = Generator(decoder(len(PROMPT) + 5), device="cpu")(PROMPT)
    assert list(text) == expected[:5]
    assert text.reason == "capacity"
    assert text_of(np.array(text.tokens)).startswith("The expression list after it is evaluated to a ")


def test_mistakes_of_a_call(cpu: Generator) -> None:
    for ids, keywords, code, field in (
        ([], {}, "count", "ids"),
        ([1, 96], {}, "range", "ids.1"),
        ([-1], {}, "range", "ids.0"),
        ([1.0], {}, "range", "ids.0"),
        (PROMPT, {"max_new_tokens": -1}, "range", "max_new_tokens"),
        (PROMPT, {"max_new_tokens": 1000}, "capacity", "max_new_tokens"),
        ([1] * 129, {}, "capacity", "max_new_tokens"),
        (PROMPT, {"stop": [96]}, "range", "stop.0"),
        (PROMPT, {"top_k": 0}, "range", "top_k"),
        (PROMPT, {"topk": 1}, "unknown-field", "topk"),
    ):
        with pytest.raises(dg.DmlGraphError) as caught:
            cpu(ids, **keywords)  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.field) == (code, field)
    for name in ("steps", "drafts", "capacity", "chunks"):
        with pytest.raises(dg.BindingError) as wrong:
            Generator(decoder(), **{name: [0] if name == "chunks" else -1})  # type: ignore[arg-type]
        assert wrong.value.field == name
    with pytest.raises(dg.GraphError) as conflict:
        Generator(decoder(), device="cpu", drafts=2)(PROMPT, repetition_penalty=1.1)
    assert (conflict.value.code, conflict.value.field) == ("conflict", "repetition_penalty")
    with raises(dg.GraphError, "decoder", field="outputs.logits"):
        list(Generator(decoder(last_only=True), device="cpu", drafts=2)([3, 4, 3, 4], max_new_tokens=4))


def changed(what: str) -> dg.Graph:
    """A decoder graph that lacks something."""
    g = decoder()
    if what == "two inputs":
        g.input("mask", sizes=[1], dtype="float32")
    elif what == "floats":
        g = dg.Graph()
        g.output("logits", g.input("x", sizes=[1, 1], dtype="float32") + 1)
    elif what == "no states":
        g = dg.Graph(dims={"count": 1})
        ids = g.input("x", sizes=[1, "count"], dtype="uint32")
        g.output("logits", dg.cast(ids, dtype="float32").reshape(1, "count", 1))
    elif what == "no logits":
        g.remove_output("logits")
    elif what == "rank":
        logits = g.outputs["logits"]
        g.remove_output("logits")
        g.output("logits", logits.reshape(VOCABULARY))
    elif what == "sequences":
        g = dg.Graph(dims={"count": 1})
        ids = g.input("x", sizes=[2, "count"], dtype="uint32")
        g.append(g.state("k", sizes=[2, 9], dtype="uint32", grows=1), ids)
        g.output("logits", dg.cast(ids, dtype="float32").reshape(2, "count", 1))
    elif what == "fixed tokens":
        g = dg.Graph()
        ids = g.input("x", sizes=[1, 1], dtype="uint32")
        g.output("logits", dg.cast(ids, dtype="float32").reshape(1, 1, 1))
    return g


@pytest.mark.parametrize(
    ("what", "field", "got"),
    [
        ("two inputs", "inputs", "input_ids, mask"),
        ("floats", "x", "float32 [1, 1]"),
        ("no states", "states", None),
        ("no logits", "outputs", "no outputs"),
        ("rank", "outputs.logits", "float32 [96]"),
        ("fixed tokens", "input_ids", "1"),
        ("sequences", "x", "[2, 1]"),
    ],
)
def test_what_is_no_decoder_graph(what: str, field: str, got: object) -> None:
    with raises(dg.GraphError, "decoder", got=got) as caught:
        Generator(changed(what), device="cpu")
    assert (caught.value.code, caught.value.field) == ("decoder", field)
