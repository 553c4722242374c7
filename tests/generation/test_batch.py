"""Texts that share runs: the tokens are those of each text alone, whatever the lengths, and whoever comes later."""

from __future__ import annotations

import collections
import itertools
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from support.decoders import decoder
from support.onnx import decoders, language_models
from support.onnx.language_models import Form
from support.problems import raises

import dmlgraph as dg
from dmlgraph.generation import Generator, generator
from dmlgraph.generation.batch import Batch
from dmlgraph.generation.text import Text

# Caches in shared buffers (GroupQueryAttention), pasts of MultiHeadAttention, and past and new rows that are joined.
FAMILIES: dict[str, Callable[[], onnx.ModelProto]] = {
    "GroupQueryAttention": language_models.genai,
    "GroupQueryAttention, 4 bits, window": lambda: language_models.genai(Form(bits=4, packed=True, shared=4, window=6)),
    "MultiHeadAttention": decoders.multi_head,
    "concatenation": decoders.pytorch,
    "positions from the mask": decoders.positions_from_the_mask,
}
LENGTHS = (3, 14, 1, 9, 5)

pytestmark = pytest.mark.usefixtures("directml_path")


def prompts(lengths: Iterable[int] = LENGTHS) -> list[list[int]]:
    return [np.random.default_rng(length).integers(0, decoders.VOCABULARY, length).tolist() for length in lengths]


def written(model: onnx.ModelProto, folder: pathlib.Path) -> pathlib.Path:
    onnx.save_model(model, folder / "model.onnx")
    return folder / "model.onnx"


def together(writer: Generator, texts: Sequence[list[int]], **settings: Any) -> list[list[int]]:
    """The tokens of each text."""
    found: dict[int, list[int]] = collections.defaultdict(list)
    for number, token in writer.together(texts, **settings):
        found[number].append(token)
    return [found[number] for number in range(len(texts))]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts took part in each run of a text alone, or of several."""
    found: list[int] = []
    alone = Text._go_on
    shared = Batch.advance

    def one(self: Text) -> None:
        found.append(1)
        alone(self)

    def several(self: Batch) -> None:
        found.append(sum(text is not None for text in self._texts) + len(self._waiting))
        shared(self)

    monkeypatch.setattr(Text, "_go_on", one)
    monkeypatch.setattr(Batch, "advance", several)
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_texts_of_unlike_lengths_share_runs(name: str, tmp_path: pathlib.Path, runs: list[int]) -> None:
    writer = Generator(written(FAMILIES[name](), tmp_path), device="cpu", capacity=40, steps=3)
    expected = [list(writer(prompt, max_new_tokens=7)) for prompt in prompts()]
    runs.clear()
    assert together(writer, prompts(), at_once=3, max_new_tokens=7) == expected
    assert max(runs) == 3
    assert len(runs) < 3 * len(expected)  # of each alone, three


def test_directml_shares_them_too(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its capacities grow, and shrink for a new batch."""
    monkeypatch.setattr(generator, "FIRST_CAPACITY", 8)
    path = written(language_models.genai(Form(shared=4, packed=True)), tmp_path)
    texts = prompts((3, 6, 2))
    alone = Generator(path, device="cpu", capacity=32)
    writer = Generator(path, device="directml:software", capacity=32, steps=3, chunks=[4])
    expected = [list(alone(prompt, max_new_tokens=6)) for prompt in texts]
    assert together(writer, texts, at_once=2, max_new_tokens=6) == expected
    writer.close()


def test_rows_move_where_the_capacity_ends(tmp_path: pathlib.Path) -> None:
    """Five prompts, one after the other, in two sequences: together they have more rows than the capacity."""
    writer = Generator(written(decoders.pytorch(), tmp_path), device="cpu", capacity=16, steps=2)
    texts, most = prompts((6, 2, 9, 3, 5)), 7
    expected = [list(writer(prompt, max_new_tokens=most)) for prompt in texts]
    assert together(writer, texts, at_once=2, max_new_tokens=most) == expected
    assert sum(map(len, texts)) + most * len(texts) > 2 * 16
    whole = [list(writer(prompt)) for prompt in texts]
    assert [len(each) for each in whole] == [16 - len(prompt) for prompt in texts]
    assert together(writer, texts, at_once=3) == whole


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 0.9, "top_k": 7, "seed": 3}, {"temperature": 1.2, "repetition_penalty": 1.4, "seed": 4}],
)
def test_sampled_tokens_are_those_of_each_text_alone(settings: dict[str, Any], tmp_path: pathlib.Path) -> None:
    writer = Generator(written(language_models.genai(), tmp_path), device="cpu", capacity=40, steps=4)
    expected = [list(writer(prompt, max_new_tokens=9, **settings)) for prompt in prompts()]
    assert len({tuple(each) for each in expected}) > 2
    assert together(writer, prompts(), at_once=2, max_new_tokens=9, **settings) == expected


def test_texts_that_end_at_unlike_times(tmp_path: pathlib.Path) -> None:
    writer = Generator(written(language_models.genai(), tmp_path), device="cpu", capacity=40, steps=5)
    whole = [list(writer(prompt, max_new_tokens=12)) for prompt in prompts()]
    stop = {whole[0][2], whole[1][7]}
    expected = [list(itertools.takewhile(lambda token: token not in stop, each)) for each in whole]
    assert len({len(each) for each in expected}) > 1
    assert together(writer, prompts(), at_once=4, max_new_tokens=12, stop=stop) == expected
    assert together(writer, prompts(), at_once=4, max_new_tokens=0) == [[]] * len(LENGTHS)


def test_a_model_that_does_not_know_of_padding_takes_turns(tmp_path: pathlib.Path, runs: list[int]) -> None:
    writer = Generator(written(decoders.positions_from_the_past(), tmp_path), device="cpu", capacity=30)
    assert writer.shared is None
    expected = [list(writer(prompt, max_new_tokens=4)) for prompt in prompts()]
    assert together(writer, prompts(), at_once=3, max_new_tokens=4) == expected
    assert set(runs) == {1}


def with_padding() -> dg.Graph:
    """A decoder graph: the logits are those of the mean of a text's tokens."""
    rng, width = np.random.default_rng(6), 8
    g = dg.Graph("mean", dims={"sequences": 1, "count": 1, "capacity": 24})
    ids = g.input("ids", sizes=["sequences", "count"], dtype="uint32")
    padding = g.input("padding", sizes=["sequences"], dtype="uint32")
    known = g.state("known", sizes=["sequences", "capacity", width], dtype="float32", grows=1)
    table = g.constant("table", rng.standard_normal((decoders.VOCABULARY, width)).astype(np.float32))
    x = dg.gather(table, ids.reshape("sequences * count"), axis=0).reshape("sequences", "count", width)
    g.append(known, x)
    place = g.fill_value_sequence(sizes=[1, "capacity", 1], dtype="float32", value_start=0, value_delta=1)
    begins = dg.cast(padding, dtype="float32").reshape("sequences", 1, 1)
    counts = (place >= begins) & (place < dg.cast(known.length, dtype="float32"))
    past = dg.reduce(known * dg.cast(counts, dtype="float32"), function="sum", axes=[1])
    total = past + dg.cumulative_summation(x, axis=1)
    rows = total.reshape("sequences * count", width)
    logits = dg.gemm(rows, g.constant("head", rng.standard_normal((width, decoders.VOCABULARY)).astype(np.float32)))
    g.output("logits", logits.reshape("sequences", "count", decoders.VOCABULARY))
    return g


def test_a_decoder_graph_with_padding(runs: list[int]) -> None:
    """Its rows before the padding hold what was there: the sums would differ if they counted."""
    writer = Generator(with_padding(), device="cpu", capacity=24, steps=2, chunks=[4])
    expected = [list(writer(prompt, max_new_tokens=6)) for prompt in prompts()]
    assert len({tuple(each) for each in expected}) == len(expected)
    runs.clear()
    assert together(writer, prompts(), at_once=2, max_new_tokens=6) == expected
    assert max(runs) == 2


def test_a_function_that_makes_it(tmp_path: pathlib.Path) -> None:
    path = written(language_models.genai(), tmp_path)
    alone = Generator(path, device="cpu", capacity=30)
    writer = Generator(lambda dims: dg.load(path, states="padded", dims=dims), device="cpu", capacity=30)
    assert writer.shared is writer.decoder
    expected = [list(alone(prompt, max_new_tokens=5)) for prompt in prompts()]
    assert together(writer, prompts(), at_once=3, max_new_tokens=5) == expected


def test_padding_of_another_kind() -> None:
    g = decoder()
    g.input("padding", sizes=[1], dtype="float32")
    with raises(dg.GraphError, "decoder", field="padding", got="float32 [1]"):
        Generator(g, device="cpu")
