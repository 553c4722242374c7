"""ONNX models as graphs: inputs, dims, values, folding, names, functions, conditions, refusals."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest

import dmlgraph as dg
from dmlgraph.formats.onnx import coverage, table
from dmlgraph.formats.onnx.model import NEWEST_OPSET

HEAD = '<ir_version: 10, opset_import: ["" : 21, "local" : 1]>'
X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def save(tmp_path: pathlib.Path) -> Any:
    """Writes the model of a text in ONNX's syntax, without its head, and gives the path."""

    def write(text: str, head: str = HEAD) -> pathlib.Path:
        path = tmp_path / "model.onnx"
        onnx.save_model(onnx.parser.parse_model(f"{head} {text}"), path)
        return path

    return write


def run(graph: dg.Graph, **inputs: Any) -> Any:
    (result,) = graph.compile("cpu").run(inputs).values()
    return result


def refused(path: pathlib.Path, **options: Any) -> dg.ModelError:
    with pytest.raises(dg.ModelError) as caught:
        dg.load(path, **options)
    return caught.value


def operators(graph: dg.Graph) -> list[str]:
    return [node.operator.name for node in graph.nodes if hasattr(node, "operator")]


# Inputs.


def test_dims_give_symbolic_sizes_numbers(save: Any) -> None:
    path = save("g (float[batch, 3] x) => (float[batch, 3] y) { y = Relu (x) }")
    graph = dg.load(path, dims={"batch": 2})
    assert graph.inputs[0].desc.sizes == (2, 3)
    np.testing.assert_array_equal(run(graph, x=X), np.maximum(X, 0))


def test_missing_dims_are_named_with_what_to_give(save: Any) -> None:
    path = save("g (float[batch, n] x, float[m] z) => (float[batch, n] y) { y = Add (x, z) }")
    error = refused(path, dims={"m": 3})
    assert error.code == "undetermined"
    assert error.hint == "dims={'batch': 1, 'n': 1}, --dim batch=1 --dim n=1"
    assert error.location is not None
    assert error.location.file == str(path)


def test_an_unknown_dim_is_refused(save: Any) -> None:
    path = save("g (float[batch] x) => (float[batch] y) { y = Relu (x) }")
    problems = refused(path, dims={"batch": 2, "bach": 2}).problems
    assert [(each.code, each.field, each.allowed) for each in problems] == [("unknown-dim", "dims.bach", "batch")]


@pytest.mark.parametrize("open_size", [None, "?", "", -1])
def test_a_dim_without_a_name_is_named_after_its_input(tmp_path: pathlib.Path, open_size: Any) -> None:
    shape = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [open_size, 3])
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    result = onnx.helper.make_empty_tensor_value_info("y")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [shape], [result]))
    onnx.save_model(model, tmp_path / "m.onnx")
    assert str(refused(tmp_path / "m.onnx").hint).startswith("dims={'x[0]': 1}")
    assert dg.load(tmp_path / "m.onnx", dims={"x[0]": 2}).inputs[0].desc.sizes == (2, 3)


def test_a_dim_is_also_named_after_its_input(save: Any) -> None:
    path = save("g (float[n, n] x, float[n] z) => (float[n, n] y) { y = Add (x, z) }")
    assert str(refused(path).hint).startswith("dims={'n': 1}")
    graph = dg.load(path, dims={"n": 3, "x[0]": 2})
    assert [node.desc.sizes for node in graph.inputs] == [(2, 3), (3,)]
    assert refused(path, dims={"n": 3, "x[2]": 2}).allowed == "n"


def test_values_take_the_place_of_inputs(save: Any) -> None:
    path = save("g (float[2, 3] x, int64[k] shape) => (float[a, b] y) { y = Reshape (x, shape) }")
    error = refused(path, dims={"k": 2})
    assert (error.code, error.hint) == ("unknown-value", "values={'shape': …}, --value shape=…")
    graph = dg.load(path, values={"shape": [3, 2]})
    assert [node.name for node in graph.inputs] == ["x"]
    np.testing.assert_array_equal(run(graph, x=X), X.reshape(3, 2))


def test_a_value_of_no_input_or_of_another_type_is_refused(save: Any) -> None:
    path = save("g (float[2, 3] x, uint8[k] u) => (float[2, 3] y) { f = Cast <to = 1> (u) y = Add (x, f) }")
    problems = refused(path, values={"v": 1, "u": [300]}).problems
    assert {(each.code, each.node, each.field) for each in problems} == {
        ("unknown-array", None, "values.v"),
        ("does-not-fit", "u", None),
    }


# Types.


def test_doubles_are_refused_with_the_conversion_that_helps(save: Any) -> None:
    path = save("g (double[2, 3] x) => (double[2, 3] y) { y = Exp (x) }")
    assert refused(path).hint == "convert={'double': 'float32'} converts it"
    graph = dg.load(path, convert={"double": "float32"})
    np.testing.assert_allclose(run(graph, x=X), np.exp(X), 1e-6)


def test_bool_is_uint8(save: Any) -> None:
    path = save("g (float[2, 3] x) => (bool[2, 3] y) { z = Constant <value_float = 0.0> () y = Greater (x, z) }")
    result = run(dg.load(path), x=X)
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result, X > 0)


def test_indices_that_fit_become_32_bits(save: Any) -> None:
    path = save("g (float[2, 3] x) => (float[2, 2] y) <int64[2] i = {2, -3}> { y = Gather <axis = 1> (x, i) }")
    graph = dg.load(path)
    assert graph.node("i").desc.dtype is dg.DataType.INT32  # type: ignore[union-attr]
    np.testing.assert_array_equal(run(graph, x=X), X[:, [2, 0]])


# Folding.


def test_what_shapes_decide_is_computed_on_import(save: Any) -> None:
    path = save("""g (float[batch, 2, 3] x) => (float[n, m] y) <int64[1] rest = {-1}> {
        s = Shape (x)
        zero = Constant <value_ints = [0]> ()
        n = Gather (s, zero)
        to = Concat <axis = 0> (n, rest)
        y = Reshape (x, to)
    }""")
    graph = dg.load(path, dims={"batch": 5})
    assert operators(graph) == ["reshape"]
    assert graph.outputs["y"].sizes == (5, 6)


def test_fills_stay_fills(save: Any) -> None:
    path = save("""g (float[1000] x) => (float[1000] y)
        <int64[1] n = {1000}, float a = {0}, float b = {1000}, float c = {1}> {
        ones = ConstantOfShape <value = float[1] {1.0}> (n)
        steps = Range (a, b, c)
        t = Mul (x, steps)
        y = Add (t, ones)
    }""")
    graph = dg.load(path)
    assert sorted(operators(graph)) == ["add", "fill_value_constant", "fill_value_sequence", "multiply"]
    x = np.ones(1000, np.float32)
    np.testing.assert_array_equal(run(graph, x=x), np.arange(1000) + 1)


@pytest.mark.parametrize("flag", [True, False])
def test_a_known_condition_chooses_the_branch(save: Any, flag: bool) -> None:
    path = save("""g (float[2, 3] x, bool flag) => (float[2, 3] y) {
        y = If (flag) <then_branch = a () => (float[2, 3] p) { p = Relu (x) },
                       else_branch = b () => (float[2, 3] q) { q = Neg (x) }>
    }""")
    known = dg.load(path, values={"flag": flag})
    assert operators(known) == ["activation_relu" if flag else "negate"]
    expected = np.maximum(X, 0) if flag else -X
    np.testing.assert_array_equal(run(known, x=X), expected)
    both = dg.load(path)
    assert set(operators(both)) >= {"activation_relu", "negate", "if"}
    np.testing.assert_array_equal(run(both, x=X, flag=np.array([flag], np.uint8)), expected)


def test_a_branch_that_cannot_be_imported_is_refused_with_the_values_that_decide(save: Any) -> None:
    path = save("""g (float[2, 3] x, bool flag) => (float[2, 3] y) {
        y = If (flag) <then_branch = a () => (float[2, 3] p) { p = Relu (x) },
                       else_branch = b () => (float q) { [d] q = Det (x) }>
    }""")
    assert [each.node for each in refused(path).problems] == ["y/d", "y"]
    assert str(refused(path).problems[-1].hint).startswith("values={'flag': …}")
    assert operators(dg.load(path, values={"flag": True})) == ["activation_relu"]


def test_branches_of_different_shapes_are_refused_with_the_values_that_decide(save: Any) -> None:
    path = save("""g (float[2, 3] x, bool flag) => (float[n, m] y) {
        y = If (flag) <then_branch = a () => (float[2, 3] p) { p = Relu (x) },
                       else_branch = b () => (float[3, 2] q) { q = Transpose (x) }>
    }""")
    assert str(refused(path).hint).startswith("values={'flag': …}")


def test_a_branch_that_gives_what_a_refused_node_computes_is_not_reported_again(save: Any) -> None:
    path = save("""g (float[2, 3] x, bool flag) => (float y) {
        [first] d = Det (x)
        y = If (flag) <then_branch = a () => (float p) { p = Identity (d) },
                       else_branch = b () => (float q) { q = Constant <value_float = 0.0> () }>
    }""")
    assert [each.node for each in refused(path, values={"flag": True}).problems] == ["first"]


def test_a_loop_with_a_known_count_is_unrolled(save: Any) -> None:
    path = save("""g (float[2, 3] x, int64 n) => (float[2, 3] y) <bool go = {1}> {
        y = Loop (n, go, x) <body = b (int64 i, bool c, float[2, 3] v) => (bool d, float[2, 3] w) {
            d = Identity (c)
            w = Add (v, v)
        }>
    }""")
    np.testing.assert_array_equal(run(dg.load(path, values={"n": 3}), x=X), X * 8)
    assert refused(path).hint == "values={'n': …}, --value n=…"


# Names, functions, order.


def test_names_of_the_model_survive(save: Any) -> None:
    path = save("""g (float[2, 3] x) => (float[2, 3] y) <float[3] bias = {1, 2, 3}> {
        h = Add (x, bias)
        y = Relu (h)
    }""")
    model = onnx.load(path)
    model.graph.node[0].name = "encoder/add"
    onnx.save_model(model, path)
    graph = dg.load(path)
    assert [node.name for node in graph.nodes] == ["x", "bias", "encoder/add", "y"]
    assert list(graph.outputs) == ["y"]


def test_functions_of_the_model_are_inlined(save: Any) -> None:
    path = save("""g (float[2, 3] x) => (float[2, 3] y) { y = local.scaled <by = 3.0> (x) }
    <domain: "local", opset_import: ["" : 21]>
    scaled <by> (v) => (o) { f = Constant <value_float: float = @by> () o = Mul (v, f) }""")
    np.testing.assert_array_equal(run(dg.load(path), x=X), X * 3)


def test_a_function_that_calls_itself_is_refused(save: Any) -> None:
    path = save("""g (float[2, 3] x) => (float[2, 3] y) { y = local.f (x) }
    <domain: "local", opset_import: ["" : 21, "local" : 1]>
    f (v) => (o) { o = local.f (v) }""")
    assert "nested too deeply" in str(refused(path))


def test_opsets_decide_what_an_operator_means(save: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax <axis = 1> (x) }"
    for opset, axes in ((11, (1, 2)), (13, (1,))):
        path = save(text, f'<ir_version: 8, opset_import: ["" : {opset}]>')
        powers = np.exp(x)
        np.testing.assert_allclose(run(dg.load(path), x=x), powers / powers.sum(axes, keepdims=True), 1e-5)


def test_an_operator_above_the_target_becomes_onnx_s_definition(save: Any) -> None:
    path = save(
        "g (float[2, 3] x) => (float[2, 3] y) <float[3] s = {1, 2, 3}> { y = RMSNormalization (x, s) }",
        '<ir_version: 10, opset_import: ["" : 23]>',
    )
    newest, older = dg.load(path), dg.load(path, target="5.0")
    assert operators(newest) == ["mean_variance_normalization2", "multiply"]
    assert "reduce" in operators(older)
    np.testing.assert_allclose(run(newest, x=X), run(older, x=X), 1e-5)


@pytest.mark.parametrize("past", ["past", "0"])
def test_an_input_without_elements_is_known(save: Any, past: str) -> None:
    path = save(f"g (float[{past}, 3] past, float[n, 3] x) => (float[m, 3] y) {{ y = Concat <axis = 0> (past, x) }}")
    graph = dg.load(path, dims={"n": 2, **({"past": 0} if past == "past" else {})})
    assert [each.name for each in graph.inputs] == ["x"]
    np.testing.assert_array_equal(run(graph, x=X), X)


# Refusals.


@pytest.mark.parametrize("size", [-1, 2**32, 10**5000, 1.0, "1", True, None], ids=range(7))
def test_the_size_of_a_dim_is_a_size(save: Any, size: Any) -> None:
    path = save("g (float[n, past] x) => (float[n, past] y) { y = Relu (x) }")
    (problem,) = refused(path, dims={"n": 0, "past": size}).problems
    assert (problem.code, problem.field) == ("range", "dims.past")


@pytest.mark.parametrize("dims", [3, "n=1", [("n", 1)]])
def test_the_dims_of_a_model_are_a_mapping(save: Any, dims: Any) -> None:
    path = save("g (float[n] x) => (float[n] y) { y = Relu (x) }")
    assert refused(path, dims=dims).code == "kind"


def test_dims_of_a_model_that_are_no_names_are_refused(save: Any) -> None:
    path = save("g (float[n] x) => (float[n] y) { y = Relu (x) }")
    for name in ("", 3, None):
        found = refused(path, dims={"n": 1, name: 1})
        assert (found.code, found.field) == ("unknown-dim", f"dims.{name}")


def test_an_empty_input_is_not_larger_than_any_array(save: Any) -> None:
    path = save("g (float[n, m, k, 0] x, float[2] z) => (float[2] y) { y = Relu (z) }")
    assert refused(path, dims={"n": 2**32 - 1, "m": 2**32 - 1, "k": 2**32 - 1}).code == "too-large"


def test_all_nodes_that_cannot_be_imported_are_named_at_once(save: Any) -> None:
    path = save("""g (float[2, 3] x, string[2] s) => (float[2, 3] y, float[2, 3] z) {
        [first] a = Unique (x)
        [second] b = Relu (a)
        [third] y = TfIdfVectorizer (b)
        [fourth] z = Unique <sorted = 0> (x)
    }""")
    problems = refused(path).problems
    assert [(each.node, each.code) for each in problems] == [("s", "unsupported")]
    path = save("""g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {
        [first] a = Unique (x)
        [second] b = Relu (a)
        [third] y = TfIdfVectorizer (b)
        [fourth] z = Unique <sorted = 0> (x)
    }""")
    problems = refused(path).problems
    assert [each.node for each in problems] == ["first", "third", "fourth"]
    assert all("opset 21: " in each.message and each.hint for each in problems)


def test_an_operator_that_is_unknown_in_its_opset_says_which_are_read(save: Any) -> None:
    path = save("g (float[1, 1, 2, 3] x) => (float[1, 1, 2, 3] y) { y = Upsample (x) }")
    error = refused(path)
    assert (error.code, error.allowed) == ("opset", "opsets 1 to 9")


@pytest.mark.parametrize("opset", [0, NEWEST_OPSET + 1])
def test_an_opset_that_is_not_read_is_refused(save: Any, opset: int) -> None:
    path = save("g (float[2] x) => (float[2] y) { y = Relu (x) }", f'<ir_version: 8, opset_import: ["" : {opset}]>')
    error = refused(path)
    assert (error.code, error.allowed) == ("opset", f"1 to {NEWEST_OPSET}")


@pytest.mark.parametrize("data", [b"", b"\0", b"graph", bytes(1000), b"\x08\x07\x3a\xff"])
def test_what_is_not_a_model_is_refused(tmp_path: pathlib.Path, data: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert refused(path).code in ("model", "empty-file", "opset", "unknown-node")


def test_a_cycle_is_refused(tmp_path: pathlib.Path) -> None:
    nodes = [onnx.helper.make_node("Relu", ["b"], ["a"]), onnx.helper.make_node("Relu", ["a"], ["b"])]
    info = onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [2])
    onnx.save_model(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], [info])), tmp_path / "m.onnx")
    assert refused(tmp_path / "m.onnx").code == "model"


# External data.


def _external(folder: pathlib.Path, location: str, length: int = 12) -> pathlib.Path:
    kind, place = onnx.TensorProto.FLOAT, onnx.TensorProto.EXTERNAL
    tensor = onnx.TensorProto(name="w", data_type=kind, dims=[3], data_location=place)
    for key, value in {"location": location, "offset": "4", "length": str(length)}.items():
        tensor.external_data.add(key=key, value=value)
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy"]
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", info[:1], info[1:], [tensor]))
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return folder / "model.onnx"


def test_external_data_is_read_from_the_models_folder(tmp_path: pathlib.Path) -> None:
    np.testing.assert_array_equal(run(dg.load(_external(tmp_path, "w.bin")), x=X), X + np.arange(1, 4))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "sub/../../w.bin"])
def test_external_data_outside_the_folder_is_refused(tmp_path: pathlib.Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "inner" / "sub").mkdir(parents=True)
    error = refused(_external(tmp_path / "inner", location))
    assert (error.code, error.node) == ("outside-folder", "w")


@pytest.mark.parametrize(("location", "length"), [("gone.bin", 12), ("w.bin", 1 << 40)])
def test_external_data_that_is_missing_or_too_short_is_refused(
    tmp_path: pathlib.Path, location: str, length: int
) -> None:
    assert refused(_external(tmp_path, location, length)).code in ("unreadable", "model")


# The passes of onnx-ir.


def test_equal_and_unused_nodes_are_left_out(save: Any) -> None:
    path = save("""g (float[2, 3] x) => (float[2, 3] y) {
        a = Sigmoid (x)
        b = Sigmoid (x)
        unused = Exp (x)
        same = Identity (b)
        y = Mul (a, same)
    }""")
    graph = dg.load(path)
    assert operators(graph) == ["activation_sigmoid", "multiply"]
    np.testing.assert_allclose(run(graph, x=X), 1 / (1 + np.exp(-X)) ** 2, 1e-6)


def test_nodes_may_be_in_any_order(tmp_path: pathlib.Path) -> None:
    nodes = [onnx.helper.make_node("Relu", ["h"], ["y"]), onnx.helper.make_node("Neg", ["x"], ["h"])]
    infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy"]
    onnx.save_model(
        onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", infos[:1], infos[1:])), tmp_path / "m.onnx"
    )
    np.testing.assert_array_equal(run(dg.load(tmp_path / "m.onnx"), x=X), np.maximum(-X, 0))


# The table.


def test_the_rows_of_an_operator_do_not_overlap() -> None:
    for rows in table.rows().values():
        for before, after in itertools.pairwise(rows):
            assert before.until is not None
            assert before.until < after.since


def test_the_coverage_lists_every_row_and_definition() -> None:
    covered = coverage.covered()
    assert len(covered) > len(list(table.all_rows()))
    assert {"Conv", "Attention", "Constant"} <= {each.operator for each in covered}


def test_an_image_is_not_offered_as_a_value(save: Any) -> None:
    """A graph of a known image would compute nothing; a few numbers may be what decides sizes."""
    nodes = """{ m = ReduceMax<keepdims = 0>(x) c = Cast<to = 7>(m) l = Constant<value_ints = [-1]>()
                 k = Reshape(c, l) y = Expand(x, k) }"""
    assert refused(save(f"g (float[1, 3, 8, 8] x) => (float[n, 3, 8, 8] y) {nodes}")).hint == (
        "it is computed when the model runs"
    )
    assert "--value x=" in str(refused(save(f"g (float[1] x) => (float[n] y) {nodes}")).hint)


@pytest.mark.parametrize(
    ("attributes", "field"),
    [
        ("num_scan_inputs = 3", "num_scan_inputs"),
        ("num_scan_inputs = 1, scan_input_axes = [0, 1]", "scan_input_axes"),
        ("num_scan_inputs = 1, scan_input_axes = [5]", "axis"),
        ("num_scan_inputs = 1, scan_output_directions = [0, 1]", "scan_output_directions"),
    ],
)
def test_numbers_of_a_scan_that_do_not_fit(save: Any, attributes: str, field: str) -> None:
    path = save(f"""g (float[2, 3] x, float[3] s) => (float[3] t, float[2, 3] y) {{
        t, y = Scan <{attributes}, body = b (float[3] a, float[3] e) => (float[3] f, float[3] h)
            {{ f = Add(a, e) h = Identity(e) }}> (s, x)
    }}""")
    error = refused(path)
    assert (error.field, error.__cause__) == (field, None)
