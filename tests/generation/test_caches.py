"""Caches of fewer bits: what a state holds, and that texts go on as they do with float32, or nearly."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from support.decoders import Reader, decoder, greedy, tokens_of
from support.onnx import decoders, language_models
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.generation import Generator
from dmlgraph.generation.caches import CacheType, narrowed

PROMPT = tokens_of("The expression list after it is evaluated to a ").tolist()
KINDS: tuple[CacheType, ...] = ("float16", "int8")

pytestmark = pytest.mark.usefixtures("directml_path")


def keeper(grows: int) -> dg.Graph:
    """Gives what it holds with the new rows."""
    g = dg.Graph("keeper", dims={"count": 3, "capacity": 6})
    sizes: dict[str, list[Any]] = {size: [1, 2, 4, size] if grows == 3 else [1, 2, size, 4] for size in g.dims}
    rows = g.input("rows", sizes=sizes["count"], dtype="float32")
    held = g.state("held", sizes=sizes["capacity"], dtype="float32", grows=grows)
    g.append(held, rows)
    g.output("seen", dg.join([held, rows * 1], axis=grows))
    g.output("length", dg.identity(held.length))
    return g


def as_held(rows: np.ndarray[Any, Any], kind: str, axis: int) -> np.ndarray[Any, Any]:
    """The numbers that a cache of a kind has in the place of some rows."""
    if kind == "float16":
        return rows.astype(np.float16).astype(np.float32)
    scale = np.maximum(np.abs(rows).max(axis, keepdims=True) / 127, 2.0**-120)
    return (np.rint(rows / scale) * scale).astype(np.float32)


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grows", [2, 3])
def test_what_a_cache_holds(device: DeviceName, kind: CacheType, grows: int) -> None:
    """A run sees its own rows as the next one does; a row of zeros stays one."""
    exe = narrowed(keeper(grows), kind).compile(device)
    rows = np.random.default_rng(2).normal(size=(1, 2, 3, 4)).astype(np.float32)
    rows[0, 1, 1] = 0
    rows = rows.swapaxes(2, 3).copy() if grows == 3 else rows
    expected = as_held(rows, kind, 5 - grows)
    first, second = (exe.run({"rows": rows}) for _ in range(2))
    for result, parts in (
        (first, [expected * 0, expected * 0, expected]),
        (second, [expected, expected * 0, expected]),
    ):
        np.testing.assert_allclose(result["seen"], np.concatenate(parts, grows), rtol=1e-6)
    assert second["length"] == 3
    assert exe.states[f"held.{kind}"].dtype == np.dtype(kind)
    assert set(exe.states) == ({"held.float16"} if kind == "float16" else {"held.int8", "held.scale"})


@pytest.mark.parametrize("device", ["cpu", "directml:software"])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_go_on(device: DeviceName, kind: CacheType) -> None:
    expected = greedy(PROMPT, 16)
    plain = Generator(decoder(96), device="cpu")(PROMPT, max_new_tokens=1)
    plain.read()
    for settings in ({"chunks": [16], "steps": 8}, {"chunks": [1, 4], "steps": 1, "drafts": 3}):
        text = Generator(decoder(96), device=device, cache=kind, **settings)(PROMPT, max_new_tokens=16)  # type: ignore[arg-type]
        assert list(text) == expected
        held = sum(text.states[name].nbytes / text.rows for name in text.states.lengths)
        whole = sum(plain.states[name].nbytes / plain.rows for name in plain.states.lengths)
        assert held / whole == {"float16": 1 / 2, "int8": (12 + 4) / 48}[kind]  # 12 numbers of a head


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_near_those_of_float32(kind: CacheType) -> None:
    def make(dims: Mapping[str, int]) -> dg.Graph:
        return narrowed(decoder().with_dims({"count": dims["tokens"]}), kind)

    exe, reader = make({"tokens": 1}).compile("cpu"), Reader()
    for token in PROMPT:
        got, expected = exe.run({"input_ids": [[token]]})["logits"][0, 0], reader.after([token])
        assert np.abs(got - expected).max() < {"float16": 2e-3, "int8": 5e-2}[kind] * np.abs(expected).max()


@pytest.mark.parametrize("model", [language_models.genai, decoders.multi_head, decoders.pytorch])
@pytest.mark.parametrize("kind", KINDS)
def test_models_and_texts_that_share_runs(model: Any, kind: CacheType, tmp_path: pathlib.Path) -> None:
    onnx.save_model(model(), tmp_path / "model.onnx")
    writer = Generator(tmp_path / "model.onnx", device="cpu", capacity=32, cache=kind)
    prompts = [[3, 5, 7, 9], [1], [2, 4, 6, 8, 10, 1, 3]]
    alone = [list(writer(prompt, max_new_tokens=5)) for prompt in prompts]
    found: dict[int, list[int]] = {number: [] for number in range(3)}
    for number, token in writer.together(prompts, at_once=2, max_new_tokens=5):
        found[number].append(token)
    assert list(found.values()) == alone


def test_another_kind() -> None:
    with raises(dg.GraphError, "dtype", field="cache", got="int4"):
        Generator(decoder(), device="cpu", cache="int4")  # type: ignore[arg-type]
