"""Sampling in the graph: the tokens are those of NumPy, on every device."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from support.sampled import chosen, probabilities

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.generation.sampling import RANDOM, SEEN, Sampling, choose, random_state

DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")
VOCABULARY = 40
ALL: dict[str, Any] = {"temperature": 0.8, "top_k": 12, "top_p": 0.85, "min_p": 0.04, "repetition_penalty": 1.3}

pytestmark = pytest.mark.usefixtures("directml_path")


def sampler(how: Sampling, *, rows: int = 1, dtype: Any = "float32") -> dg.Graph:
    """Chooses a token for each row of the logits."""
    g = dg.Graph("sampler", dims={"rows": rows})
    tokens = g.input("tokens", sizes=[1, "rows"], dtype="int64")
    logits = g.input("logits", sizes=[1, "rows", VOCABULARY], dtype=dtype)
    g.output("token", choose(logits, tokens, how, rows="rows"))
    return g


def logits(rows: int = 1, seed: int = 0) -> np.ndarray[Any, Any]:
    return (3 * np.random.default_rng(seed).standard_normal((1, rows, VOCABULARY))).astype(np.float32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.5},
        {"top_k": 5},
        {"top_p": 0.7},
        {"min_p": 0.1},
        {"top_k": 9, "top_p": 0.6, "temperature": 1.5},
        {"repetition_penalty": 2.0, "temperature": 0.7},
        ALL,
    ],
    ids=" ".join,
)
def test_the_tokens_of_numpy(device: DeviceName, settings: dict[str, Any]) -> None:
    seed, steps, read, given = 2**33 + 5, 30, [3, 17], logits()
    executable = sampler(Sampling(**settings, seed=seed)).compile(device)
    inputs = {"tokens": np.array([[3]]), "logits": given}
    tokens = executable.run(inputs, steps=10, collect=["token"])["token"].ravel().tolist()
    inputs["tokens"][:] = 17
    tokens += executable.run(inputs, steps=steps - 10, collect=["token"])["token"].ravel().tolist()
    penalty = settings.get("repetition_penalty") or 1.0
    for place, token in enumerate(tokens):
        seen = read[: 1 if place < 10 else 2]
        scores = given[0, 0].astype(np.float64)
        for each in seen:
            scores[each] *= 1 / penalty if scores[each] > 0 else penalty
        count = settings.get("top_k") or (VOCABULARY if "top_p" in settings else None)
        rest = {name: each for name, each in settings.items() if name != "repetition_penalty"}
        assert token == chosen(scores, place, seed, candidates=count, **rest), place
        assert probabilities(given[0, 0], seen, **settings)[token] > 0


@pytest.mark.parametrize("device", DEVICES)
def test_greedy_with_and_without_a_penalty(device: DeviceName) -> None:
    given = logits(3)
    first, second = np.argsort(-given[0, 0])[:2]
    plain = sampler(Sampling(temperature=0), rows=3).compile(device)
    tokens = np.array([[first, first, first]])
    assert plain.run({"tokens": tokens, "logits": given})["token"].tolist() == [given[0].argmax(axis=1).tolist()]
    assert len(plain.states) == 0
    harsh = sampler(Sampling(temperature=0, repetition_penalty=1e3)).compile(device)
    inputs = {"tokens": tokens[:, :1], "logits": given[:, :1]}
    assert harsh.run(inputs)["token"] == second
    assert harsh.states[SEEN].sum() == harsh.states[SEEN][0, first] == 1
    harsh.states["sampling/repetition_penalty"] = np.ones(1, np.float32)
    assert harsh.run(inputs)["token"] == first


def test_every_row_is_chosen_by_its_own_numbers() -> None:
    given = np.repeat(logits(), 50, axis=1)
    executable = sampler(Sampling(top_k=8, seed=1), rows=50).compile("cpu")
    tokens = executable.run({"tokens": np.zeros((1, 50), np.int64), "logits": given})["token"][0].tolist()
    assert tokens == [chosen(given[0, 0], place, 1, candidates=8, top_k=8) for place in range(50)]


def test_the_frequencies_are_the_probabilities() -> None:
    """4,000 tokens: each frequency is within four standard deviations."""
    count, given = 4000, logits(seed=3) / 3
    executable = sampler(Sampling(**ALL, seed=7)).compile("cpu")
    inputs = {"tokens": np.array([[3]]), "logits": given}
    tokens = executable.run(inputs, steps=count, collect=["token"])["token"].ravel().tolist()
    found, expected = collections.Counter(tokens), probabilities(given[0, 0], [3], **ALL)
    assert 2 < np.count_nonzero(expected) < 12
    for token, share in enumerate(expected):
        assert abs(found[token] - count * share) <= 4 * np.sqrt(count * share * (1 - share))


def test_settings_are_states_that_a_run_reads() -> None:
    how = Sampling(**ALL, seed=2)
    executable = sampler(Sampling(temperature=9, top_k=12, top_p=1, min_p=0, repetition_penalty=1)).compile("cpu")
    expected = sampler(how).compile("cpu")
    for name, value in how.settings().items():
        executable.states[name] = value
    inputs = {"tokens": np.array([[3]]), "logits": logits()}
    one, other = (each.run(inputs, steps=20, collect=["token"])["token"] for each in (executable, expected))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(executable.states[RANDOM], random_state(2, 20 * 3))
    assert how.structure == Sampling(1, 12, 1, 1, 1)
    assert Sampling(0, 5, 0.5, 0.1, seed=3).structure == Sampling(temperature=0)


def test_float16_logits() -> None:
    given = logits().astype(np.float16)
    executable = sampler(Sampling(top_k=4), dtype="float16").compile("cpu")
    inputs = {"tokens": np.zeros((1, 1), np.int64), "logits": given}
    tokens = executable.run(inputs, steps=10, collect=["token"])["token"].ravel().tolist()
    assert tokens == [chosen(given[0, 0], place, 0, candidates=4, top_k=4) for place in range(10)]


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("temperature", -1),
        ("temperature", float("nan")),
        ("temperature", None),
        ("top_k", 0),
        ("top_k", 2.5),
        ("top_p", 0),
        ("top_p", 1.01),
        ("min_p", -0.1),
        ("min_p", "much"),
        ("repetition_penalty", 0),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", True),
    ],
)
def test_numbers_outside_their_range(field: str, given: Any) -> None:
    with pytest.raises(dg.GraphError) as caught:
        Sampling(**{field: given})
    assert (caught.value.code, caught.value.field) == ("range", field)
