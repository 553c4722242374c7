"""Graphs as ONNX models: samples of operators, examples and random graphs on ONNX Runtime; names, files, refusals."""

from __future__ import annotations

import collections
import fnmatch
import functools
import pathlib
import re
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from support.onnx.export_exclusions import EXCLUDED, WITHOUT_KERNEL
from support.onnx.exported import differences, on_runtime, samples, verdict
from support.onnx.node_cases import imported
from support.problems import raises
from support.random_graphs import graphs
from support.sketches import Sample

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.formats.onnx.export import EXTERNAL_BYTES, to_model
from dmlgraph.formats.onnx.table import REFUSED, written
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.passes import fuse

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"
FILES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml"))
Array = np.ndarray[Any, Any]


# Every operator.


def test_every_operator_is_exported_or_refused_with_a_reason() -> None:
    assert set(written()) | set(REFUSED) == set(REGISTRY)
    assert not set(written()) & set(REFUSED)


@functools.cache
def matched(name: str) -> tuple[str, ...]:
    return tuple(pattern for pattern in EXCLUDED if fnmatch.fnmatchcase(name, pattern))


@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx")
def test_every_sample_gives_the_same_on_onnx_runtime_unless_it_is_excluded(capsys: pytest.CaptureFixture[str]) -> None:
    failed: dict[str, str] = {}
    missing: collections.Counter[str] = collections.Counter()
    names = []
    for name, make in samples():
        names.append(name)
        why, kernel = verdict(*make())
        if why is not None:
            failed[name] = why
        if kernel is not None:
            found = re.search(r"for (\w+)\(\d+\) node", kernel)
            missing[found[1] if found else kernel] += 1
    counts = collections.Counter(name in failed for name in names)
    with capsys.disabled():
        print(
            f"\nexport: {counts[False]} of {len(names)} samples of operators give the same, {missing.total()} of them "
            f"on ONNX's reference, because ONNX Runtime lacks a kernel"
        )
    assert {name: why for name, why in failed.items() if not matched(name)} == {}
    passing = {name for name in names if matched(name) and name not in failed}
    assert passing == set(), "these pass: take them out of the table"
    assert set(EXCLUDED) == {pattern for name in names for pattern in matched(name)}
    assert [name for name in names if len(matched(name)) > 1] == []
    assert set(missing) == WITHOUT_KERNEL


# Only DirectML's operators with these names are not read back: ONNX's own have no counterpart, or another type.
ONE_WAY = {"matrix_multiply_integer", "quantized_linear_matrix_multiply", "max_pooling_grad", "roi_pooling"}


def test_what_is_exported_is_imported_as_the_same() -> None:
    """A sample of each operator."""
    seen: set[str] = set()
    for name, make in samples():
        operator = name.partition(":")[0]
        if operator in seen or operator in REFUSED or matched(name) or operator in ONE_WAY:
            continue
        seen.add(operator)
        graph, feeds = make()
        again, convert = imported(to_model(graph), feeds)
        assert convert == {}
        got = again.compile("reference").run({node.name: feeds[node.name] for node in again.inputs})
        wanted = graph.compile("reference", fuse=False).run(feeds)
        assert list(got) == list(wanted)
        assert (name, differences(list(got.values()), wanted, bound=4)) == (name, None)
    assert seen == set(REGISTRY) - ONE_WAY - set(REFUSED)


# Examples.


def numbers(graph: dg.Graph) -> dict[str, Array]:
    """Random numbers for the inputs of an example; integers are small, as indices and lengths are."""
    rng = np.random.default_rng(5)
    found: dict[str, Array] = {}
    for node in graph.inputs:
        kind, sizes = node.desc.dtype, node.desc.sizes
        found[node.name] = (rng.normal(size=sizes) if kind.is_float else rng.integers(0, 5, sizes)).astype(kind.numpy)
    return found


TRUNCATED = ("letterbox/picture_to_photo.yaml",)  # interpolated numbers become integers
# What these hold is an input of the model: tests/formats/onnx/test_states.py.
STATEFUL = ("generate_text/decoder.yaml", "moving_average.yaml")
REFUSED_EXAMPLES = {
    "generate_text/candidates.yaml": ("duplicate", None, "outputs.tokens"),
    "generate_text/decode.yaml": ("unsupported", "sample/bits", None),
    "generate_text/prefill.yaml": ("unsupported", "sample/bits", None),
    "random_numbers.yaml": ("unsupported", "bits", None),  # ONNX's random numbers are not those of Philox
}


@pytest.mark.parametrize("name", [name for name in FILES if name not in (*STATEFUL, *REFUSED_EXAMPLES)])
def test_an_example_gives_the_same_on_onnx_runtime(name: str) -> None:
    graph = dg.load(EXAMPLES / name)
    steps = 1 if name in TRUNCATED else 0
    assert verdict(graph, numbers(graph), bound=10, steps=steps) == (None, None)


@pytest.mark.parametrize("name", REFUSED_EXAMPLES)
def test_an_example_is_refused(name: str) -> None:
    code, node, field = REFUSED_EXAMPLES[name]
    with raises(dg.ModelError, code, node=node, field=field):
        to_model(dg.load(EXAMPLES / name))


# Random graphs.


def everything(graph: dg.Graph) -> dg.Graph:
    """The graph with all its values as outputs, also those before a fused activation."""
    copy, live = graph.with_dims({}), graph.live_nodes()
    for node in graph.nodes:
        if isinstance(node, OperatorNode) and node.name in live:
            for port, desc in enumerate(node.operator.output_descs):
                if desc is not None:
                    copy.output(f"{node.name} {port}", copy.value(copy.reference(node.name, port)))
            if "fused_activation" in node.attributes:
                bound = {to: copy.value(copy.reference(name, port)) for name, port, to in graph.producers(node.name)}
                attributes = {key: each for key, each in node.attributes.items() if key != "fused_activation"}
                tensors = node.operator.by_field(Role.INPUT, bound)
                for port, value in enumerate(copy.add(type(node.operator), tensors, attributes, node.outputs)):
                    if value is not None:
                        copy.output(f"{node.name} {port} before", value)
    return copy


# Powers by logarithms, sequences of length 0, and MaxRoiPool of float16, which no program here runs.
OPEN = {"pow", "constant_pow", "rnn", "lstm", "gru", "roi_pooling"}


@settings(max_examples=50)
@given(graphs())
def test_a_random_graph_gives_the_same_or_is_refused(sample: Sample) -> None:
    """Graphs whose values are all numbers: NaN and infinities have other rules."""
    nodes = [node for node in sample.graph.nodes if isinstance(node, OperatorNode)]
    with np.errstate(all="ignore"):
        values = everything(sample.graph).compile("reference", fuse=False).run(sample.inputs).values()
    assume(sample.tame and not OPEN & {node.operator.name for node in nodes})
    assume(all(np.isfinite(each.astype(np.float64)).all() for each in values))
    why, _ = verdict(sample.graph, sample.inputs, bound=100)
    assert why is None or why.startswith("refused: ")


# Names and sizes.


def small() -> dg.Graph:
    graph = dg.Graph("small", dims={"N": 2})
    x = graph.input("x", sizes=["N", 3], dtype="float32")
    bias = graph.constant("bias", np.arange(3, dtype=np.float32))
    with graph.scope("encoder"):
        h = dg.activation_relu(dg.add(x, bias, name="sum"), name="relu")
    graph.output("y", h)
    return graph


def test_names_of_the_graph_are_those_of_the_model() -> None:
    model = to_model(small())
    assert model.graph.name == "small"
    assert [each.name for each in model.graph.input] == ["x"]
    assert [each.name for each in model.graph.output] == ["y"]
    assert [each.name for each in model.graph.initializer] == ["bias"]
    assert [(each.op_type, each.name) for each in model.graph.node] == [
        ("Add", "encoder/sum"),
        ("Relu", "encoder/relu"),
    ]
    assert [each.version for each in model.opset_import] == [21]
    assert model.ir_version == 10


def test_dims_become_their_sizes() -> None:
    (info,) = to_model(small().with_dims({"N": 7})).graph.input
    assert [each.dim_value for each in info.type.tensor_type.shape.dim] == [7, 3]


def test_one_value_may_be_several_outputs_and_an_input_one_too() -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[2], dtype="float32")
    k = graph.constant("k", np.ones(2, np.float32))
    y = dg.negate(x)
    for name, value in {"a": y, "b": y, "x": x, "c": x, "negate": k}.items():
        graph.output(name, value)
    feeds = {"x": np.array([1, -2], np.float32)}
    assert verdict(graph, feeds) == (None, None)
    assert [each.name for each in to_model(graph).graph.output] == ["a", "b", "x", "c", "negate"]


def test_an_output_with_the_name_of_another_input_is_refused() -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[2], dtype="float32")
    graph.output("x", dg.negate(x))
    with pytest.raises(dg.ModelError) as caught:
        to_model(graph)
    assert (caught.value.code, caught.value.field) == ("duplicate", "outputs.x")


def test_comparisons_stay_bools_between_operators_that_take_them() -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[2], dtype="float32")
    graph.output("y", dg.if_(dg.logical_not(dg.logical_less_than(x, 0)), x, dg.negate(x)))
    used = {name for node in to_model(graph).graph.node if node.op_type != "Cast" for name in node.input}
    casts = [node for node in to_model(graph).graph.node if node.op_type == "Cast"]
    assert not {name for node in casts for name in node.output} & used


def test_nodes_without_an_output_are_left_out() -> None:
    graph = small()
    dg.negate(graph.value("x"))
    assert len(to_model(graph).graph.node) == 2


def test_divisions_by_zero_do_not_end_the_process() -> None:
    graph = dg.Graph()
    a, b = (graph.input(name, sizes=[3], dtype="int32") for name in "ab")
    graph.output("y", dg.divide(a, b))
    feeds = {"a": np.array([-7, 7, -(2**31)], np.int32), "b": np.array([2, 0, -1], np.int32)}
    (got,) = on_runtime(to_model(graph), feeds)
    np.testing.assert_array_equal(got, [-3, -1, -(2**31)])


# Files.


def test_constants_above_a_megabyte_are_in_a_file_beside_the_model(tmp_path: pathlib.Path) -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[4], dtype="float32")
    rng = np.random.default_rng(0)
    large = [rng.normal(size=(EXTERNAL_BYTES // 4 + more, 1)).astype(np.float32) for more in (0, 1, 5)]
    constants = [graph.constant(f"k{place}", each) for place, each in enumerate(large)]
    for place, each in enumerate(constants):
        graph.output(f"y{place}", dg.reduce(dg.multiply(x, each), function="sum", axes=[0]))
    graph.save(tmp_path / "m.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    where = {each.name: {entry.key: entry.value for entry in each.external_data} for each in model.graph.initializer}
    assert {name: place["location"] for name, place in where.items() if place} == dict.fromkeys(
        ("k1", "k2"), "m.onnx.data"
    )
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    (tmp_path / "elsewhere").mkdir()
    for path in [tmp_path / "m.onnx", tmp_path / "m.onnx.data"]:
        path.rename(tmp_path / "elsewhere" / path.name)  # names are relative
    feeds = {"x": np.array([1, 2, 3, 4], np.float32)}
    got = on_runtime(str(tmp_path / "elsewhere" / "m.onnx"), feeds)
    assert differences(got, graph.compile("reference").run(feeds), bound=100) is None
    again = dg.load(tmp_path / "elsewhere" / "m.onnx")
    np.testing.assert_array_equal(again.node("k2").data, large[2])  # type: ignore[union-attr]


def test_the_command_goes_by_the_suffix(tmp_path: pathlib.Path) -> None:
    file = str(EXAMPLES / "ramp.yaml")
    for name in ("ramp.onnx", "ramp.json"):
        result = CliRunner().invoke(main, ["export", file, "-o", str(tmp_path / name), "--dim", "N=2"])
        assert (result.exit_code, result.output) == (0, "")
    (info,) = onnx.load(tmp_path / "ramp.onnx").graph.input
    assert info.type.tensor_type.shape.dim[0].dim_value == 2
    assert dg.load_dxdispatch(tmp_path / "ramp.json").inputs
    result = CliRunner().invoke(main, ["export", file, "-o", str(tmp_path / "ramp.txt")])
    assert result.exit_code == 2
    assert "must end in .onnx or .json" in result.output


# Refusals.


def test_all_nodes_that_cannot_be_exported_are_named_at_once(tmp_path: pathlib.Path) -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[1, 1, 2, 2], dtype="float32")
    state = graph.input("state", sizes=[1, 1, 1, 6], dtype="uint32")
    random = dg.random_generator(state, sizes=[1, 1, 2, 2], name="random")
    bits = dg.bit_not(x, name="bits")
    graph.output("a", random.output)
    graph.output("b", dg.negate(bits))
    graph.output("c", dg.cast(random.output, dtype="float32"))
    with pytest.raises(dg.ModelError) as caught:
        dg.save(graph, tmp_path / "m.onnx")
    problems = [(each.node, each.code, each.message) for each in caught.value.problems]
    assert problems == [
        ("random", "unsupported", "random_generator: ONNX's random numbers are not those of Philox"),
        ("bits", "dtype", "bit_not: ONNX's BitwiseNot takes no float32"),
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_has_its_place_in_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(
        "dmlgraph: 1\nname: g\ninputs:\n  s: {dtype: uint32, sizes: [1, 1, 1, 6]}\nnodes:\n"
        "  y: {op: random_generator, input_state: s, output: {sizes: [1, 1, 2, 2]}}\noutputs: {y: y.output}\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(main, ["export", str(path), "-o", str(tmp_path / "g.onnx")])
    assert result.exit_code == 1
    assert f"{path}:6:3: error[unsupported]: node 'y': random_generator: " in result.output


def test_a_fused_graph_and_one_without_outputs_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(dg.GraphError) as caught:
        dg.save(fuse(small()).graph, tmp_path / "m.onnx")
    assert caught.value.code == "fused-graph"
    with pytest.raises(dg.GraphError) as caught:
        dg.save(dg.Graph(), tmp_path / "m.onnx")
    assert caught.value.code == "no-outputs"


# Numbers.


def test_float16_is_normalized_in_float32() -> None:
    """The squares of these numbers are beyond float16."""
    graph = dg.Graph()
    x = graph.input("x", sizes=[1, 2, 3], dtype="float16")
    graph.output("y", dg.mean_variance_normalization2(x, axes=[0, 2], use_mean=True, use_variance=True, epsilon=1e-5))
    feeds = {"x": np.array([[[1, 500, 900], [-700, 20, 60]]], np.float16)}
    (got,) = on_runtime(to_model(graph), feeds)
    wide = feeds["x"].astype(np.float64)
    deviation = np.sqrt(wide.var((0, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, (wide - wide.mean((0, 2), keepdims=True)) / deviation, rtol=4e-3, atol=4e-3)


def test_a_reshaped_constant_is_another_constant() -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[1, 2, 3, 3], dtype="float32")
    weights = graph.constant("weights", np.ones((4, 2, 1, 1), np.float32))
    bias = dg.reshape(graph.constant("bias", np.arange(4, dtype=np.float32)), sizes=[1, 4, 1, 1])
    graph.output("y", dg.convolution(x, weights, bias))
    model = to_model(graph)
    assert [node.op_type for node in model.graph.node] == ["Conv"]
    assert sorted(tuple(each.dims) for each in model.graph.initializer) == [(4,), (4, 2, 1, 1)]
    assert verdict(graph, {"x": np.ones((1, 2, 3, 3), np.float32)}) == (None, None)
