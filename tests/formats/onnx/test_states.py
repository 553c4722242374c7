"""Inputs and outputs of models as states: ONNX Runtime, run step by step, is the judge."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from support.onnx import decoders
from support.onnx.onnx_runtime import session
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.devices.states import first_value
from dmlgraph.formats.yaml import dumps
from dmlgraph.graph.nodes import StateNode

Array = np.ndarray[Any, Any]
DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")
HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
CACHES = {"past_key_values.*": "present.*"}
CACHE = """g (float[1, past, 2] keys, float[1, n, 2] new, float[total] mask) => (float[1, s, 2] all, float[3] y) {
    all = Concat <axis = 1> (keys, new)
    both = MatMul (mask, all)
    y = ReduceSum <keepdims = 0> (both)
}"""


def written(text: str, folder: pathlib.Path, **initializers: Array) -> pathlib.Path:
    """The file of a model in ONNX's syntax, without its head."""
    model = onnx.parser.parse_model(f"{HEAD} {text}")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in initializers.items())
    onnx.save_model(model, folder / "model.onnx")
    return folder / "model.onnx"


def numbers(*sizes: int) -> Array:
    return np.random.default_rng(sum(sizes)).normal(size=sizes).astype(np.float32)


# Decoders.


class Judge:
    """ONNX Runtime with caches that hold the rows so far, and nothing else."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.run = session(model.SerializeToString())
        self.names = [each.name for each in model.graph.input]
        empty = np.zeros((1, decoders.HEADS, 0, decoders.WIDTH), np.float32)
        self.caches = {name: empty for name in self.names if name.startswith("past_key_values")}
        self.length = 0

    def step(self, tokens: list[int]) -> tuple[dict[str, Array], Array]:
        """The inputs of a step, and its logits."""
        after = self.length + len(tokens)
        inputs = {
            "input_ids": np.array([tokens]),
            "attention_mask": np.ones((1, after), np.int64),
            "position_ids": np.arange(self.length, after)[None],
        }
        outputs = self.run({name: each for name, each in (inputs | self.caches).items() if name in self.names})
        self.caches = {name: outputs[name.replace("past_key_values", "present")] for name in self.caches}
        self.length = after
        return inputs, outputs["logits"]


def behind_the_capacity(capacity: int, length: int, new: int) -> Array:
    """A mask of the whole past and the new rows."""
    places = np.arange(capacity + new)
    return ((places < length) | (places >= capacity)).astype(np.int64)[None]


def behind_the_length(capacity: int, length: int, new: int) -> Array:
    """A mask of a buffer in which the new rows stand behind the past ones."""
    return (np.arange(capacity) < length + new).astype(np.int64)[None]


FOLLOWING = [decoders.windowed, decoders.positions_from_the_past]
MASKS = {decoders.group_query: behind_the_length}
MAKERS = [decoders.pytorch, decoders.multi_head, decoders.group_query, decoders.attention]
Maker = Callable[[], onnx.ModelProto]


def follow(make: Maker, device: DeviceName, capacity: int, steps: list[list[int]], folder: pathlib.Path) -> list[str]:
    """Compares the steps, on one set of states; gives the rules that applied for single tokens."""
    model, mask = make(), MASKS.get(make, behind_the_capacity)
    onnx.save_model(model, folder / "decoder.onnx")
    judge = Judge(model)
    executables = {}
    for new in {len(tokens) for tokens in steps}:
        dims = {"batch": 1, "sequence_length": new, "past_sequence_length": capacity}
        dims["total_sequence_length"] = mask(capacity, 0, new).size
        graph = dg.load(folder / "decoder.onnx", dims=dims, states=CACHES)
        assert list(graph.outputs) == ["logits"]
        executables[new] = graph.compile(device)
    states = executables[1].new_states()
    for tokens in steps:
        length, executable = judge.length, executables[len(tokens)]
        inputs, expected = judge.step(tokens)
        inputs["attention_mask"] = mask(capacity, length, len(tokens))
        given = {slot.name: inputs[slot.name] for slot in executable.graph.given}
        got = executable.run(given, states=states)["logits"]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 if "directml" in device else 1e-5)
        assert set(states.lengths.values()) == {judge.length}
        rows = [len(tokens) * each[0, :, 0].nbytes for each in judge.caches.values()]
        assert executable.stats["state_bytes_written"] == sum(rows)
    for name, expected in judge.caches.items():
        np.testing.assert_allclose(states[name], expected, rtol=1e-4, atol=1e-4)
    return [each.rule for each in executables[1].fusion if each.applied]


@pytest.mark.parametrize("make", FOLLOWING)
def test_places_that_are_counted_from_the_size_of_the_past_follow_the_length(
    make: Maker, tmp_path: pathlib.Path
) -> None:
    """The mask is given: its rows are those of the capacity and the new ones."""
    follow(make, "cpu", 12, [[3, 7, 1], [4], [0], [9], [2], [5, 6, 8]], tmp_path)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.usefixtures("directml_path")
def test_a_decoder_gives_the_logits_of_onnx_runtime_step_by_step(
    make: Maker, device: DeviceName, tmp_path: pathlib.Path
) -> None:
    """A prompt of three tokens and then single ones, by two executables, up to the last row of the capacity."""
    follow(make, device, 6, [[3, 7, 1], [4], [0], [9]], tmp_path)


@pytest.mark.parametrize("device", ["cpu", "directml:software"])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.usefixtures("directml_path")
def test_a_long_cache_is_not_copied(make: Maker, device: DeviceName, tmp_path: pathlib.Path) -> None:
    """The rules for products with joins apply to keys and values of both layers, where no scale is between."""
    rules = follow(make, device, 1100, [[3, 7], [4]], tmp_path)
    assert rules.count("join_of_products") == (0 if make is decoders.attention else 2)
    assert rules.count("sum_of_products") == 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options", ["causal = 1", "local_window_size = 2", "softcap = 0.5", "smooth_softmax = 1, local_window_size = 3"]
)
@pytest.mark.usefixtures("directml_path")
def test_grouped_queries_of_two_sequences(options: str, device: DeviceName, tmp_path: pathlib.Path) -> None:
    """Two heads share keys and values; attention reads a part of the buffer, which has more rows than are read."""
    text = f"""g (float[2, n, 32] q, float[2, n, 16] k, float[2, n, 16] v, float[2, 1, past, 16] keys,
        float[2, 1, past, 16] values, int32[2] last, int32 total) => (float[2, n, 32] y, float[2, 1, s, 16] keys_after,
        float[2, 1, s, 16] values_after) {{
        y, keys_after, values_after = com.microsoft.GroupQueryAttention
            <num_heads = 2, kv_num_heads = 1, {options}> (q, k, v, keys, values, last, total)
    }}"""
    path = written(text, tmp_path)
    judge = session(str(path))
    caches = {name: np.zeros((2, 1, 0, 16), np.float32) for name in ("keys", "values")}
    executables = {}
    for new, total in ((2, 2), (1, 6)):
        dims, states = {"n": new, "past": 9}, {"keys": "keys_after", "values": "values_after"}
        executables[new] = dg.load(path, dims=dims, values={"total": total}, states=states).compile(device)
    held, length = executables[1].new_states(), 0
    for new in (2, 1, 1, 1, 1):
        length += new
        inputs = {name: numbers(2, new, size) * length for name, size in (("q", 32), ("k", 16), ("v", 16))}
        inputs["last"] = np.full(2, length - 1, np.int32)
        expected = judge(inputs | caches | {"total": np.array(length, np.int32)})
        caches = {name: expected[f"{name}_after"] for name in caches}
        given = {slot.name: inputs[slot.name] for slot in executables[new].graph.given}
        got = executables[new].run(given, states=held)["y"]
        np.testing.assert_allclose(got, expected["y"], rtol=1e-4, atol=1e-4)
    for name, each in caches.items():
        np.testing.assert_allclose(held[name], each, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", ["Shape <start = 1, end = 2> (keys)", "Shape <start = 1, end = 2> (all)"])
def test_a_row_of_a_table_that_the_size_of_the_past_chooses_is_refused(size: str, tmp_path: pathlib.Path) -> None:
    """The model has no tokens: it is not known which inputs lie along the past and the new rows."""
    text = f"""g (float[1, past, 2] keys, float[1, n, 2] new, float[total] mask, float[64, 2] table)
        => (float[1, s, 2] all, float[1, 2] y) {{
        all = Concat <axis = 1> (keys, new)
        size = {size}
        y = Gather <axis = 0> (table, size)
    }}"""
    with pytest.raises(dg.ModelError) as caught:
        dg.load(written(text, tmp_path), dims={"past": 8, "n": 1, "total": 9}, states={"keys": "all"})
    assert [(each.node, each.code) for each in caught.value.problems] == [("y", "states")]


def test_stacked_keys_and_values_grow(tmp_path: pathlib.Path) -> None:
    """As GPT-2's exporters write them: one past of keys and values."""
    text = """g (float[1, n, 8] x, int32[1, total] mask, float[2, 1, 2, past, 4] past)
        => (float[1, n, 8] y, float[2, 1, 2, s, 4] present) {
        y, present = com.microsoft.Attention <num_heads = 2> (x, w, b, mask, past)
    }"""
    path = written(text, tmp_path, w=numbers(8, 24), b=numbers(24))
    judge, past = session(str(path)), np.zeros((2, 1, 2, 0, 4), np.float32)
    dims = {"n": 1, "past": 4, "total": 5}
    graph = dg.load(path, dims=dims, states={"past": "present"})
    assert [(each.name, each.grows) for each in graph.states] == [("past", 3)]
    executable = graph.compile("cpu")
    for length in range(4):
        x = numbers(1, 1, 8) * (length + 1)
        expected = judge({"x": x, "mask": np.ones((1, length + 1), np.int32), "past": past})
        past = expected["present"]
        mask = (np.arange(5) < length) | (np.arange(5) == 4)
        got = executable.run({"x": x, "mask": mask.astype(np.int32)[None]})["y"]
        np.testing.assert_allclose(got, expected["y"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(executable.states["past"], past, rtol=1e-4, atol=1e-5)


def test_a_join_that_only_writes_the_rows_is_no_node(tmp_path: pathlib.Path) -> None:
    """Nothing else reads it, and new rows of two tensors become one."""
    text = """g (float[2, past] a, float[2, 1] b, float[2, 2] c, float[total] mask) => (float[2, s] d, float[1] y) {
        d = Concat <axis = -1> (a, b, c)
        y = ReduceSum <keepdims = 0> (mask)
    }"""
    graph = dg.load(written(text, tmp_path), dims={"past": 6, "total": 6}, states={"a": "d"})
    executable = graph.compile("cpu")
    b, c = np.array([[1], [2]], np.float32), np.array([[3, 4], [5, 6]], np.float32)
    for _ in range(2):
        executable.run({"b": b, "c": c, "mask": np.ones(6, np.float32)})
    assert executable.states["a"].tolist() == [[1, 3, 4] * 2, [2, 5, 6] * 2]
    assert [node.operator.name for node in graph.nodes if hasattr(node, "operator")] == ["reduce", "join"]


# States that are updated whole.


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("directml_path")
def test_what_a_recurrent_network_keeps(device: DeviceName, tmp_path: pathlib.Path) -> None:
    text = """g (float[1, 1, 3] x, float[1, 1, 4] h, float[1, 1, 4] c)
        => (float[1, 1, 1, 4] y, float[1, 1, 4] hn, float[1, 1, 4] cn) {
        y, hn, cn = LSTM <hidden_size = 4> (x, w, r, , , h, c)
    }"""
    path = written(text, tmp_path, w=numbers(1, 16, 3), r=numbers(1, 16, 4))
    judge, held = session(str(path)), {name: np.zeros((1, 1, 4), np.float32) for name in "hc"}
    executable = dg.load(path, states={"h": "hn", "c": "cn"}).compile(device)
    for step in range(3):
        x = numbers(1, 1, 3) * (step + 1)
        expected = judge({"x": x, **held})
        held = {name: expected[f"{name}n"] for name in "hc"}
        got = executable.run({"x": x})
        assert list(got) == ["y"]
        np.testing.assert_allclose(got["y"], expected["y"], rtol=1e-4, atol=1e-5)
    for name, each in held.items():
        np.testing.assert_allclose(executable.states[name], each, rtol=1e-4, atol=1e-5)


def test_a_window_that_slides_is_updated_whole(tmp_path: pathlib.Path) -> None:
    """The last four of the past and the new ones: the sizes are those of the past, no rows are appended."""
    text = """g (float[1, 4] frames, float[1, 1] x) => (float[1, 4] later, float[1, 1] mean) {
        five = Concat <axis = 1> (frames, x)
        first = Constant <value_ints = [1]> ()
        end = Constant <value_ints = [5]> ()
        one = Constant <value_ints = [1]> ()
        later = Slice (five, first, end, one)
        mean = ReduceMean (later, one)
    }"""
    executable = dg.load(written(text, tmp_path), states={"frames": "later"}).compile("cpu")
    got = [executable.run({"x": np.full((1, 1), each, np.float32)})["mean"].item() for each in (4, 8, 4, 0, 0)]
    assert got == [1, 3, 4, 4, 3]


def test_a_bool_is_a_state_too(tmp_path: pathlib.Path) -> None:
    text = """g (bool[2] seen, bool[2] x) => (bool[2] after, bool[2] y) {
        after = Or (seen, x)
        y = Not (after)
    }"""
    executable = dg.load(written(text, tmp_path), states={"seen": "after"}).compile("cpu")
    for x, y in (([1, 0], [0, 1]), ([0, 0], [0, 1]), ([0, 1], [0, 0])):
        assert executable.run({"x": np.array(x, np.uint8)})["y"].tolist() == y


# Refusals.

TWO = "g (float[2] a, float[2] b, float[n] x) => (float[2] c, float[n] y) { c = Add (a, b) \n y = Abs (x) }"
REFUSED: list[tuple[str, dict[str, Any], Any, str, str]] = [
    # text, dims, states, code, a part of the message
    (TWO, {}, {"a": "d"}, "unknown-array", "the model has no output of this name; got d; allowed: c, y"),
    (TWO, {}, {"aa": "c"}, "unknown-array", "no input of the model has this name; allowed: a, b, x"),
    (TWO, {}, {"past.*": "c.*"}, "unknown-array", "no input of the model has this name"),
    (TWO, {}, {"a": "c", "b": "c"}, "duplicate", "field 'states.b': the output belongs to two inputs; got a, b"),
    (TWO, {}, {"a": "c", "a*": "y*"}, "duplicate", "the input belongs to two outputs; got c, y"),
    (TWO, {}, {"*": "c"}, "states", "has another number of '*' than the name of the input; got c"),
    (TWO, {}, ["a", "c"], "kind", "must be a mapping from names of inputs to names of outputs"),
    (TWO, {}, {"a": 1}, "kind", "must be a mapping from names of inputs to names of outputs"),
    (TWO, {"n": 2}, {"x": "c", "b": "y"}, "", ""),
    (TWO, {"n": 3}, {"a": "y"}, "states", "is not what becomes of the input 'a'; got [3]; allowed: a next value"),
    (TWO, {}, {"x": "y"}, "undetermined", "node 'x': the sizes of dims are not given; got n"),
    (TWO, {"n": 0}, {"x": "y"}, "sizes", "node 'x': a state has elements; got [0]"),
    (CACHE, {"past": 4, "n": 1, "total": 5}, {"keys": "all"}, "", ""),
    (CACHE, {"past": 4, "n": 5, "total": 9}, {"keys": "all"}, "sizes", "has other sizes than the state"),
    (
        CACHE.replace("float[total] mask", "float[m] x").replace("MatMul (mask, all)", "Mul (x, x)"),
        {"past": 4, "n": 1, "m": 1},
        {"keys": "all"},
        "states",
        "no input says which rows count, and those of a state that were never written are zeros; got new, x; "
        "allowed: an input such as a mask, with a size of 4 or 5",
    ),
    (
        CACHE.replace("(keys, new)", "(new, keys)"),
        {"past": 4, "n": 1, "total": 5},
        {"keys": "all"},
        "states",
        "is not what becomes of the input 'keys'; got [1, 5, 2]",
    ),
    (
        "g (float[1] p_a, float[1] x) => (float[1] q_a, float[1] q_b) { q_a = Add (p_a, x) \n q_b = Abs (x) }",
        {},
        {"p_*": "q_*"},
        "states",
        "node 'q_b', field 'states.p_*': no input of the model is the past of this output; got q_*",
    ),
]


@pytest.mark.parametrize(
    ("text", "dims", "states", "code", "message"), REFUSED, ids=[f"{at}-{each[3]}" for at, each in enumerate(REFUSED)]
)
def test_pairs_that_do_not_fit(
    text: str, dims: dict[str, int], states: Any, code: str, message: str, tmp_path: pathlib.Path
) -> None:
    """Without a code the pairs are right: the case beside it is refused for nothing else."""
    path = written(text, tmp_path)
    if not code:
        assert dg.load(path, dims=dims, states=states).states
        return
    with pytest.raises(dg.ModelError) as caught:
        dg.load(path, dims=dims, states=states)
    assert caught.value.code == code
    assert message in str(caught.value)


def test_all_pairs_that_do_not_fit_are_named_at_once(tmp_path: pathlib.Path) -> None:
    with pytest.raises(dg.ModelError) as caught:
        dg.load(written(TWO, tmp_path), states={"a": "d", "z": "c"}, values={"x": np.zeros(1, np.float32)})
    assert [each.field for each in caught.value.problems] == ["states.a", "states.z"]


def test_a_state_has_no_value(tmp_path: pathlib.Path) -> None:
    with pytest.raises(dg.ModelError) as caught:
        dg.load(written(TWO, tmp_path), states={"a": "c"}, values={"a": np.zeros(2, np.float32)}, dims={"n": 1})
    assert (caught.value.code, caught.value.node) == ("conflict", "a")


def test_states_are_for_models(tmp_path: pathlib.Path) -> None:
    (tmp_path / "g.yaml").write_text("dmlgraph: 1\n", encoding="utf-8")
    with raises(dg.DocumentError, "unknown-field", field="states"):
        dg.load(tmp_path / "g.yaml", states={})


# Writing.


def with_states() -> dg.Graph:
    """States of every kind: growing, with a length that is read; at first a number, an array, nothing."""
    g = dg.Graph("g")
    row = g.input("row", sizes=[1, 3], dtype="float32")
    keys = g.state("keys", sizes=[4, 3], dtype="float32", grows=0)
    step = g.state("step", sizes=[1], dtype="float32", initial=2)
    mean = g.state("mean", sizes=[1, 3], dtype="float32", initial=np.array([[1, 2, 3]], np.float32))
    last = g.state("last", sizes=[1, 3], dtype="float32")
    rows = dg.add(row, mean, name="rows")
    g.append(keys, rows)
    g.update(step, step + 1)
    g.update(mean, dg.multiply(mean, row, name="after"))
    g.update(last, row)
    mask = dg.length_mask(keys).reshape(4, 1).broadcast_to([4, 3])
    g.output("y", dg.add(keys, mask, name="masked"))
    g.output("z", dg.add(last, step.reshape(1, 1).broadcast_to([1, 3]), name="sum"))
    return g


def test_a_graph_with_states_is_written_and_read_again(tmp_path: pathlib.Path) -> None:
    graph = with_states()
    dg.save(graph, tmp_path / "model.onnx")
    pairs = {name: f"{name}.next" for name in ("keys", "step", "mean", "last")}
    model = onnx.load(tmp_path / "model.onnx")
    assert json.loads({each.key: each.value for each in model.metadata_props}["dmlgraph.states"]) == pairs
    again = dg.load(tmp_path / "model.onnx")
    assert dumps(again) == dumps(dg.load(tmp_path / "model.onnx", states=pairs))
    assert states_of(again) == states_of(graph)
    one, other = graph.compile("cpu"), again.compile("cpu")
    for step in range(4):
        inputs = {"row": numbers(1, 3) * step}
        got, expected = (each.run(inputs) for each in (other, one))
        for name, each in expected.items():
            np.testing.assert_array_equal(got[name], each)


def states_of(graph: dg.Graph) -> list[tuple[Any, ...]]:
    return [(each.name, each.desc, each.grows, first_value(each.desc, each.initial).tolist()) for each in graph.states]


def test_a_model_that_appends_is_written_and_read_again(tmp_path: pathlib.Path) -> None:
    graph = dg.load(written(CACHE, tmp_path), dims={"past": 4, "n": 1, "total": 5}, states={"keys": "all"})
    dg.save(graph, tmp_path / "again.onnx")
    assert dumps(dg.load(tmp_path / "again.onnx")) == dumps(graph)


def test_onnx_runtime_runs_what_is_written_when_it_is_given_what_the_states_hold(tmp_path: pathlib.Path) -> None:
    """What a state holds at first is the input's default; the rows of a growing state are behind its capacity."""
    graph = with_states()
    dg.save(graph, tmp_path / "model.onnx")
    judge, executable = session(str(tmp_path / "model.onnx")), graph.compile("cpu")
    held: dict[str, Array] = {"last": np.zeros((1, 3), np.float32), "keys": np.zeros((4, 3), np.float32)}
    for step in range(4):
        inputs = {"row": numbers(1, 3) * step}
        expected = judge(inputs | held | {"keys.length": np.array([step], np.uint32)})
        got = executable.run(inputs)
        for name, each in got.items():
            np.testing.assert_allclose(each, expected[name], rtol=1e-6)
        held |= {name: expected[f"{name}.next"] for name in ("step", "mean", "last")}
        held["keys"][step] = expected["keys.next"][4]
    np.testing.assert_allclose(executable.states["keys"], held["keys"], rtol=1e-6)


def test_zeros_of_two_signs_are_not_one_number(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("g")
    state = g.state("s", sizes=[2], dtype="float32", initial=np.array([0, -0.0], np.float32))
    g.update(state, state * 2)
    g.output("y", dg.abs(state))
    dg.save(g, tmp_path / "model.onnx")
    held = dg.load(tmp_path / "model.onnx").compile("cpu").new_states()["s"]
    assert np.signbit(held).tolist() == [False, True]


def test_without_pairs_what_was_written_has_inputs_and_outputs(tmp_path: pathlib.Path) -> None:
    dg.save(with_states(), tmp_path / "model.onnx")
    graph = dg.load(tmp_path / "model.onnx", states={})
    assert not graph.states
    assert [each.name for each in graph.inputs] == ["row", "keys", "keys.length", "last"]
    assert list(graph.outputs) == ["y", "z", "keys.next", "step.next", "mean.next", "last.next"]


def test_a_state_with_the_name_of_an_output_gets_another(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("g")
    mean = g.state("mean", sizes=[2], dtype="float32", initial=3)
    g.update(mean, mean * 2)
    g.output("mean", dg.abs(mean))
    dg.save(g, tmp_path / "model.onnx")
    again = dg.load(tmp_path / "model.onnx")
    assert [each.name for each in again.states] == ["mean_1"]
    executable = again.compile("cpu")
    assert [executable.run({})["mean"].tolist() for _ in range(2)] == [[3, 3], [6, 6]]


def test_a_state_that_nothing_changes_is_not_written(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("g")
    g.output("y", dg.abs(g.state("s", sizes=[2], dtype="float32")))
    with raises(dg.ModelError, "states", node="s"):
        dg.save(g, tmp_path / "model.onnx")


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}'])
def test_damaged_pairs_in_a_file(text: str, tmp_path: pathlib.Path) -> None:
    path = written(TWO, tmp_path)
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"dmlgraph.states": text})
    onnx.save_model(model, path)
    with pytest.raises(dg.ModelError) as caught:
        dg.load(path, dims={"n": 1})
    assert caught.value.code in ("model", "kind")


def test_a_graph_file_of_a_model_has_its_states(tmp_path: pathlib.Path) -> None:
    graph = dg.load(written(CACHE, tmp_path), dims={"past": 4, "n": 1, "total": 5}, states={"keys": "all"})
    graph.save(tmp_path / "graph.yaml")
    (state,) = dg.load(tmp_path / "graph.yaml").states
    assert isinstance(state, StateNode)
    assert (state.name, state.desc.sizes, state.grows) == ("keys", (1, 4, 2), 1)
    assert "append: new" in (tmp_path / "graph.yaml").read_text(encoding="utf-8")
