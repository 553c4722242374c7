"""Decoders whose only input are tokens: ONNX Runtime, which is given pasts, masks and positions, is the judge."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime_genai as genai
import pytest
from support.onnx import decoders, language_models
from support.onnx.judge import MODELS, Judge, prompt, written
from support.onnx.language_models import Form
from support.onnx.onnx_runtime import session
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
TARGETS = {"directml:software": "6.2"}
PROMPT = 5

def compiled(path: pathlib.Path, device: DeviceName, capacity: int, batch: int, tokens: int) -> Executable:
    """The decoder of so many tokens a run."""
    dims, target = {"batch": batch, "tokens": tokens, "capacity": capacity}, TARGETS.get(device)
    graph = dg.load(path, states="auto", dims=dims, target=target)
    assert [(each.name, each.desc.sizes) for each in graph.inputs] == [("input_ids", (batch, tokens))]
    assert list(graph.outputs) == ["logits"]
    assert {each.desc.sizes[each.grows] for each in graph.states if each.grows is not None} == {capacity}
    return graph.compile(device)


def follow(model: onnx.ModelProto, device: DeviceName, batch: int, steps: int, folder: pathlib.Path) -> None:
    """A prompt and then the best token, over and over, by two executables: the same tokens and logits."""
    path, judge = written(model, folder), Judge(model, batch)
    capacity = PROMPT + steps
    first, one = (compiled(path, device, capacity, batch, tokens) for tokens in (PROMPT, 1))
    states, tokens = one.new_states(), prompt(batch, PROMPT)
    for step in range(steps + 1):
        expected = judge.step(tokens)
        got = (one if step else first).run({"input_ids": tokens}, states=states)["logits"]
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=2e-4 * np.abs(expected).max())
        tokens = expected[:, -1:].argmax(axis=2)
        assert (got[:, -1:].argmax(axis=2) == tokens).all()
    assert set(states.lengths.values()) == {judge.length} == {capacity}
    for name, cache in judge.caches.items():
        np.testing.assert_allclose(states[name], cache, rtol=1e-3, atol=2e-4 * np.abs(cache).max())


@pytest.mark.parametrize(("name", "batch"), [(name, 1 + at % 2 * 2) for at, name in enumerate(MODELS)])
def test_two_hundred_tokens_are_those_of_onnx_runtime(name: str, batch: int, tmp_path: pathlib.Path) -> None:
    """Most lengths are beyond every window."""
    follow(MODELS[name](), "cpu", batch, 200, tmp_path)


@pytest.mark.parametrize("name", ["qwen int4", "phi", "mistral", "pytorch", "multi-head"])
@pytest.mark.usefixtures("directml_path")
def test_directml_gives_the_tokens_of_onnx_runtime(name: str, tmp_path: pathlib.Path) -> None:
    follow(MODELS[name](), "directml:software", 3 if name == "pytorch" else 1, 8, tmp_path)


@pytest.mark.parametrize("batch", [1, 3])
def test_sixteen_tokens_of_one_call(batch: int, tmp_path: pathlib.Path) -> None:
    """The model gives the best token as `input_ids.next`: it is the next value of the state `input_ids`."""
    model = language_models.genai(Form(sampled=True))
    path, judge, dims = written(model, tmp_path), Judge(model, batch), {"batch": batch, "tokens": 1, "capacity": 64}
    executable = dg.load(path, states="auto", dims=dims).compile("cpu")
    assert not executable.graph.given
    states = executable.states
    states["input_ids"] = tokens = prompt(batch, 1)
    for _ in range(3):
        got = executable.run(steps=16, collect=["logits"])["logits"]
        for step in range(16):
            expected = judge.step(tokens)
            np.testing.assert_allclose(got[step], expected, rtol=1e-3, atol=2e-4 * np.abs(expected).max())
            tokens = expected.argmax(axis=2)
        assert (states["input_ids"] == tokens).all()
    assert set(states.lengths.values()) == {48}


@pytest.mark.parametrize("form", [Form(bits=4), Form(window=6, sliding=True)])
def test_the_tokens_of_onnxruntime_genai(form: Form, tmp_path: pathlib.Path) -> None:
    """It shares one buffer of the whole length, or of the window, between past and present."""
    path, tokens = language_models.genai_folder(form, tmp_path), prompt(1, PROMPT)
    model = genai.Model(str(tmp_path))
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(max_length=PROMPT + 60, min_length=PROMPT + 60)
    generator = genai.Generator(model, parameters)
    generator.append_tokens(tokens.astype(np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    expected = generator.get_sequence(0)
    executables = [compiled(path, "cpu", expected.size, 1, count) for count in (PROMPT, 1)]
    states, got = executables[0].new_states(), list(tokens[0])
    while len(got) < expected.size:
        executable = executables[len(got) > PROMPT]
        logits = executable.run({"input_ids": tokens}, states=states)["logits"][:, -1:]
        logits[..., language_models.VOCABULARY - 1] = -np.inf  # no end before the least length
        tokens = logits.argmax(axis=2)
        got.append(tokens.item())
    assert got == expected.tolist()


@pytest.mark.parametrize(("cached", "device"), [("PER_TENSOR", "cpu"), ("PER_CHANNEL", "directml:software")])
@pytest.mark.usefixtures("directml_path")
def test_caches_of_eight_bits(cached: str, device: DeviceName, tmp_path: pathlib.Path) -> None:
    """A number between two steps may become the one or the other: then logits differ by some thousandths."""
    model, steps = language_models.genai(Form(cached=cached)), 40 if device == "cpu" else 8
    path, judge = written(model, tmp_path), Judge(model, 1)
    first, one = (compiled(path, device, PROMPT + steps, 1, tokens) for tokens in (PROMPT, 1))
    states, tokens = one.new_states(), prompt(1, PROMPT)
    for step in range(steps + 1):
        expected = judge.step(tokens)
        got = (one if step else first).run({"input_ids": tokens}, states=states)["logits"]
        np.testing.assert_allclose(got, expected, atol=2e-2 * np.abs(expected).max())
        tokens = expected[:, -1:].argmax(axis=2)
        assert (got[:, -1:].argmax(axis=2) == tokens).all()
    for name, cache in judge.caches.items():
        assert states[name].dtype == np.int8
        assert np.abs(states[name].astype(int) - cache).max() <= 1
        assert (states[name] == cache).mean() > 0.99


PADDED: dict[str, DeviceName] = {
    "llama": "cpu",
    "mistral": "cpu",
    "multi-head": "cpu",
    "gemma": "directml:software",
    "pytorch": "directml:software",
    "unmasked": "cpu",
    "windowed": "cpu",
    "positions from the mask": "cpu",
}


@pytest.mark.parametrize("name", PADDED)
@pytest.mark.usefixtures("directml_path")
def test_sequences_of_different_lengths(name: str, tmp_path: pathlib.Path) -> None:
    """Rows before a sequence do not count: its logits are those that it gets alone.  Later another takes its place."""
    model, device = MODELS[name](), PADDED[name]
    path, dims, target = written(model, tmp_path), {"batch": 3, "capacity": 30}, TARGETS.get(device)
    first, one = (
        dg.load(path, states="padded", dims=dims | {"tokens": tokens}, target=target).compile(device)
        for tokens in (PROMPT, 1)
    )
    assert [each.name for each in first.graph.given] == ["input_ids", "padding"]
    judges, states, padding = [Judge(model, 1) for _ in range(3)], one.new_states(), np.array([0, 3, 1], np.uint32)
    tokens = prompt(3, PROMPT)
    for step in range(8):
        if step == 4:
            judges[1], padding[1] = Judge(model, 1), PROMPT + 3
        got = (one if step else first).run({"input_ids": tokens, "padding": padding}, states=states)["logits"]
        starts = np.zeros(3, np.uint32) if step else padding
        for at, judge in enumerate(judges):
            expected = judge.step(tokens[at : at + 1, starts[at] :])
            np.testing.assert_allclose(
                got[at : at + 1, starts[at] :], expected, rtol=1e-3, atol=2e-4 * np.abs(expected).max()
            )
        tokens = got[:, -1:].argmax(axis=2)


@pytest.mark.parametrize(("device", "batch"), [("cpu", 3), ("directml:software", 1)])
@pytest.mark.usefixtures("directml_path")
def test_a_cross_attention_computes_its_cache_at_first(
    device: DeviceName, batch: int, tmp_path: pathlib.Path
) -> None:
    """The first run is another graph of the merged model, on the same states; later ones read no encoder's states."""
    model = decoders.encoder_decoder()
    path, judge = written(model, tmp_path), session(model.SerializeToString())
    dims = {"batch": batch, "capacity": 12, "encoder_sequence_length": 7}
    first = dg.load(path, states="auto", dims=dims | {"tokens": 2}, values={"use_cache_branch": False}).compile(device)
    later = dg.load(path, states="auto", dims=dims | {"tokens": 1}).compile(device)
    assert [each.name for each in first.graph.given] == ["input_ids", "encoder_hidden_states"]
    assert [each.name for each in later.graph.given] == ["input_ids"]
    encoded = np.random.default_rng(2).normal(size=(batch, 7, decoders.HIDDEN)).astype(np.float32)
    names = [f"past.0.{kind}.{part}" for kind in ("decoder", "encoder") for part in ("key", "value")]
    held = {name: np.zeros((batch, decoders.HEADS, 0, decoders.WIDTH), np.float32) for name in names}
    states, tokens = later.new_states(), prompt(batch, 2)
    for step in range(11):
        given = {"input_ids": tokens, "encoder_hidden_states": encoded, "use_cache_branch": np.array([step > 0])}
        expected = judge(given | held)
        held = {name: expected[name.replace("past", "present")] for name in names}
        inputs = {slot.name: given[slot.name] for slot in (later if step else first).graph.given}
        got = (later if step else first).run(inputs, states=states)["logits"]
        np.testing.assert_allclose(got, expected["logits"], rtol=1e-3, atol=1e-3)
        tokens = expected["logits"][:, -1:].argmax(axis=2)
    for name, each in held.items():
        np.testing.assert_allclose(states[name], each, rtol=1e-3, atol=1e-3)


# What is given, and what is not asked for.


def test_the_names_of_the_models_own_dims(tmp_path: pathlib.Path) -> None:
    """Those of a mask that is computed need no sizes; the builder leaves the width of heads open."""
    path = written(language_models.genai(), tmp_path)
    own = {"batch_size": 2, "sequence_length": 3, "past_sequence_length": 8}
    one, other = (
        dg.load(path, states="auto", dims=dims) for dims in (own, {"batch": 2, "tokens": 3, "capacity": 8})
    )
    assert [each.desc for each in one.states] == [each.desc for each in other.states]
    assert {each.desc.sizes for each in one.states} == {(2, 2, 8, language_models.WIDTH)}


def test_what_is_given_is_not_computed(tmp_path: pathlib.Path) -> None:
    """A known mask may count rows that were never written; they do not.  With pairs in place of auto it is an input."""
    path = written(decoders.pytorch(), tmp_path)
    dims, ones = {"batch": 2, "tokens": 1, "capacity": 7}, np.ones((2, 8), np.int64)
    given, computed = (
        dg.load(path, states="auto", dims=dims, values=values).compile("cpu")
        for values in ({"attention_mask": ones}, None)
    )
    for _ in range(3):
        got, expected = (each.run({"input_ids": prompt(2, 1)})["logits"] for each in (given, computed))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    own = {"batch": 2, "sequence_length": 1, "past_sequence_length": 7, "total_sequence_length": 8}
    explicit = dg.load(path, states={"past_key_values.*": "present.*"}, dims=own)
    assert [each.name for each in explicit.inputs] == ["input_ids", "attention_mask", "position_ids"]


def test_a_graph_file_of_a_decoder(tmp_path: pathlib.Path) -> None:
    graph = dg.load(
        written(decoders.group_query(), tmp_path), states="auto", dims={"batch": 1, "tokens": 1, "capacity": 4}
    )
    graph.save(tmp_path / "graph.yaml")
    again, tokens = dg.load(tmp_path / "graph.yaml"), np.array([[3]])
    one, other = (each.compile("cpu") for each in (graph, again))
    for _ in range(4):
        got, expected = (each.run({"input_ids": tokens})["logits"] for each in (other, one))
        np.testing.assert_array_equal(got, expected)
    with raises(dg.BindingError, "capacity", field="past_key_values.0.key", got="4 rows and 1 more"):
        one.run({"input_ids": tokens})


def without(model: onnx.ModelProto, *, outputs: str = "", inputs: str = "") -> onnx.ModelProto:
    for values, name in ((model.graph.output, outputs), (model.graph.input, inputs)):
        for each in [each for each in values if each.name == name]:
            values.remove(each)
    return model


PLAIN = "g (float[n] x, float[n] past) => (float[n] y) { y = Add (x, past) }"
DIMS = {"batch": 1, "tokens": 1, "capacity": 4}
REFUSED: list[tuple[onnx.ModelProto, dict[str, int], str, str | None, str | None, object]] = [
    # model, dims, code, a part of the message
    (
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {PLAIN}'),
        {"n": 1},
        "states",
        None, "states", None,
    ),
    (
        without(decoders.group_query(), outputs="present.1.value"),
        DIMS,
        "states",
        "past_key_values.1.value", "states", None,
    ),
    (
        decoders.pytorch(), {"batch": 1, "tokens": 1},
        "undetermined", "past_key_values.0.key", None, "past_sequence_length",
    ),
    (decoders.pytorch(), {"batch": 1, "capacity": 4}, "undetermined", "input_ids", None, "sequence_length"),
    (decoders.pytorch(), DIMS | {"sequence_length": 2}, "conflict", None, "dims.tokens", 1),
    (decoders.pytorch(), DIMS | {"rows": 2}, "unknown-dim", None, "dims.rows", None),
]


@pytest.mark.parametrize(("model", "dims", "code", "node", "field", "got"), REFUSED, ids=[each[2] for each in REFUSED])
def test_refusals(
    model: onnx.ModelProto,
    dims: dict[str, int],
    code: str,
    node: str | None,
    field: str | None,
    got: object,
    tmp_path: pathlib.Path,
) -> None:
    with raises(dg.ModelError, code, node=node, field=field, got=got):
        dg.load(written(model, tmp_path), dims=dims, states="auto")


@pytest.mark.parametrize("states", ["auto", "padded"])
def test_a_model_that_sums_all_rows(states: Any, tmp_path: pathlib.Path) -> None:
    """There is no mask, and no attention that could have one."""
    text = """g (int64[b, n] input_ids, float[b, past, 1] rows) => (float[b, s, 1] after, float[b, 1, 1] logits) {
        numbers = Cast <to = 1> (input_ids)
        two = Constant <value_ints = [2]> ()
        new = Unsqueeze (numbers, two)
        after = Concat <axis = 1> (rows, new)
        one = Constant <value_ints = [1]> ()
        logits = ReduceSum (after, one)
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    with raises(dg.ModelError, "states", node="after", field=None):
        dg.load(written(model, tmp_path), dims=DIMS, states=states)


def test_positions_that_do_not_know_of_padding(tmp_path: pathlib.Path) -> None:
    """They are counted from the size of the past; a window, which is the same for all sequences, may be."""
    path = written(decoders.positions_from_the_past(), tmp_path)
    assert dg.load(path, dims=DIMS, states="auto").states
    with raises(dg.ModelError, "states", node="place", got="queries") as caught:
        dg.load(path, dims=DIMS, states="padded")
    assert {each.code for each in caught.value.problems} == {"states"}


def test_a_shape_that_follows_the_length(tmp_path: pathlib.Path) -> None:
    """The number of ones in a mask is known only when the model runs."""
    text = """g (int64[b, n] input_ids, int64[b, t] attention_mask, float[b, past, 1] rows)
        => (float[b, s, 1] after, float[m] logits) {
        numbers = Cast <to = 1> (input_ids)
        two = Constant <value_ints = [2]> ()
        new = Unsqueeze (numbers, two)
        after = Concat <axis = 1> (rows, new)
        size = ReduceSum <keepdims = 0> (attention_mask)
        zero = Constant <value_ints = [0]> ()
        sizes = Unsqueeze (size, zero)
        logits = Reshape (after, sizes)
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    with raises(dg.ModelError, "unknown-value", node="logits", got="sizes") as caught:
        dg.load(written(model, tmp_path), dims=DIMS, states="auto")
    assert [each.code for each in caught.value.problems] == ["unknown-value"]


def test_a_word_that_is_not_auto(tmp_path: pathlib.Path) -> None:
    with raises(dg.ModelError, "kind", field="states", got="caches"):
        dg.load(written(decoders.pytorch(), tmp_path), dims=DIMS, states="caches")  # type: ignore[arg-type]
