"""Tensors whose numbers are not there, or not as many as their shapes need; and names that are taken twice."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlgraph as dg

W = np.arange(1, 5, dtype=np.float32)


def tensor(data_type: int = TensorProto.FLOAT, dims: Any = (4,), **fields: Any) -> TensorProto:
    made = TensorProto(name="w", data_type=data_type, dims=dims)
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(made, name).extend(value)
        else:
            setattr(made, name, value)
    return made


def external(dims: Any = (4,), **said: str) -> TensorProto:
    made = tensor(dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in said.items():
        made.external_data.add(key=key, value=value)
    return made


def in_initializer(each: TensorProto) -> onnx.ModelProto:
    return model([helper.make_node("Identity", ["w"], ["y"])], [each])


def in_attribute(each: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Constant", [], ["y"], name="w")
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, t=each)
    return model([node])


def in_branch(each: TensorProto) -> onnx.ModelProto:
    inner = [helper.make_node("Identity", ["w"], ["z"])]
    out = [helper.make_empty_tensor_value_info("z")]
    branches = {name: helper.make_graph(inner, "b", [], out, [each]) for name in ("then_branch", "else_branch")}
    known = onnx.numpy_helper.from_array(np.array(True), "c")
    return model([helper.make_node("If", ["c"], ["y"], **branches)], [known])


def in_function(each: TensorProto) -> onnx.ModelProto:
    made = in_attribute(each)
    opsets = [helper.make_opsetid("", 21)]
    made.functions.append(helper.make_function("local", "f", [], ["y"], made.graph.node, opsets))
    made.opset_import.add(domain="local", version=1)
    del made.graph.node[:]
    made.graph.node.append(helper.make_node("f", [], ["y"], domain="local"))
    return made


def model(nodes: list[onnx.NodeProto], weights: Any = (), outputs: str = "y") -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    made = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
    graph = helper.make_graph(nodes, "g", [x], made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def refused(made: onnx.ModelProto, folder: pathlib.Path) -> list[Any]:
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(dg.ModelError) as caught:
        dg.load(folder / "model.onnx")
    return list(caught.value.problems)


DAMAGED = {
    "no numbers": tensor(),
    "no numbers of 4 bits": tensor(TensorProto.INT4),
    "short": tensor(raw_data=W.tobytes()[:-1]),
    "one number for four": tensor(raw_data=W.tobytes()[:4]),
    "long": tensor(raw_data=W.tobytes() + b"\0"),
    "empty beside numbers": tensor(raw_data=b"", float_data=[1, 2, 3, 4]),
    "short, 4 bits": tensor(TensorProto.UINT4, dims=[5], raw_data=b"12"),
    "long, 4 bits": tensor(TensorProto.UINT4, dims=[5], raw_data=b"1234"),
    "short, bfloat16": tensor(TensorProto.BFLOAT16, raw_data=b"1234567"),
    "short, float8": tensor(TensorProto.FLOAT8E4M3FN, raw_data=b"123"),
    "few floats": tensor(float_data=[1, 2, 3]),
    "many floats": tensor(float_data=[1, 2, 3, 4, 5]),
    "few doubles": tensor(TensorProto.DOUBLE, double_data=[1, 2]),
    "few int64": tensor(TensorProto.INT64, int64_data=[1]),
    "many int8": tensor(TensorProto.INT8, int32_data=[1, 2, 3, 4, 5]),
    "few uint64": tensor(TensorProto.UINT64, uint64_data=[1]),
    "few of 4 bits": tensor(TensorProto.UINT4, dims=[5], int32_data=[1, 2]),
    "one for each of 4 bits": tensor(TensorProto.UINT4, int32_data=[1, 2, 3, 4]),
    "few texts": tensor(TensorProto.STRING, string_data=[b"a"]),
    "bytes for texts": tensor(TensorProto.STRING, raw_data=b"1234"),
    "few complex": tensor(TensorProto.COMPLEX64, float_data=[1, 2, 3, 4]),
    "the field of another type": tensor(double_data=[1, 2, 3, 4]),
    "two fields": tensor(float_data=[1, 2, 3, 4], int32_data=[1, 2, 3, 4]),
    "raw and typed": tensor(raw_data=W.tobytes(), float_data=[1, 2, 3, 4]),
    "beyond uint8": tensor(TensorProto.UINT8, int32_data=[1, 2, 3, 256]),
    "below int16": tensor(TensorProto.INT16, int32_data=[-32769, 2, 3, 4]),
    "beyond float16": tensor(TensorProto.FLOAT16, int32_data=[65536, 2, 3, 4]),
    "negative float16": tensor(TensorProto.FLOAT16, int32_data=[-1, 2, 3, 4]),
    "beyond uint32": tensor(TensorProto.UINT32, uint64_data=[2**32, 2, 3, 4]),
    "negative size": tensor(dims=[-4], raw_data=W.tobytes()),
    "no type": tensor(TensorProto.UNDEFINED, raw_data=W.tobytes()),
    "an unknown type": tensor(99, raw_data=W.tobytes()),
    "larger than memory": tensor(dims=[1 << 40, 1 << 40], raw_data=W.tobytes()),
    "no location": external(offset="0"),
    "an offset beyond the file": external(location="w.bin", offset="9"),
    "an offset beyond any file": external(location="w.bin", offset="9" * 30),
    "a negative offset": external(location="w.bin", offset="-4"),
    "an offset that is no number": external(location="w.bin", offset="0x0"),
    "too short a length": external(location="w.bin", length="12"),
    "too long a length": external(location="w.bin", length="20"),
    "a negative length": external(location="w.bin", length="-16"),
    "too short a file": external(dims=[7], location="w.bin"),
    "texts in a file": tensor(TensorProto.STRING, data_location=TensorProto.EXTERNAL),
}
PLACES = [in_initializer, in_attribute, in_branch, in_function]


@pytest.mark.parametrize("place", PLACES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("what", DAMAGED)
def test_a_tensor_without_its_numbers_is_refused_by_name(
    what: str, place: Callable[[TensorProto], onnx.ModelProto], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes() + bytes(8))
    problem = refused(place(DAMAGED[what]), tmp_path)[0]
    assert (problem.code, problem.node) == ("model", "w"), problem


@pytest.mark.parametrize("location", ["gone.bin", "../w.bin", "/etc/hostname", "w\0.bin", "C:\\w.bin"])
def test_a_file_that_is_not_in_the_folder_is_refused_by_name(location: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    problem = refused(in_initializer(external(location=location)), tmp_path / "inner")[0]
    assert (problem.node, problem.field) == ("w", "file")
    assert problem.code in ("unreadable", "outside-folder", "kind", "file-name")


def test_every_damaged_tensor_is_reported(tmp_path: pathlib.Path) -> None:
    weights = [tensor(), tensor(raw_data=b"")]
    weights[1].name = "v"
    made = model([helper.make_node("Add", ["w", "v"], ["y"])], weights)
    assert [each.node for each in refused(made, tmp_path)] == ["w", "v"]


def test_complex_numbers_are_refused_by_their_type(tmp_path: pathlib.Path) -> None:
    problem = refused(in_initializer(tensor(TensorProto.COMPLEX64, float_data=[1.0] * 8)), tmp_path)[0]
    assert (problem.code, problem.got) == ("unknown-dtype", "complex64")


@pytest.mark.parametrize(
    ("data_type", "given", "wanted"),
    [
        (TensorProto.UINT8, [-1, 255, 0, 7], [255, 255, 0, 7]),
        (TensorProto.INT8, [255, -128, 0, 7], [-1, -128, 0, 7]),
        (TensorProto.BOOL, [2, 256, -1, 0], [1, 1, 1, 0]),
    ],
)
def test_entries_that_mean_one_number_are_read(
    data_type: int, given: list[int], wanted: list[int], tmp_path: pathlib.Path
) -> None:
    """As ONNX Runtime reads them."""
    onnx.save_model(in_initializer(tensor(data_type, int32_data=given)), tmp_path / "model.onnx")
    constant = dg.load(tmp_path / "model.onnx").node("y")
    assert constant.data.tolist() == wanted  # type: ignore[union-attr]


def test_any_byte_but_0_is_true(tmp_path: pathlib.Path) -> None:
    onnx.save_model(in_initializer(tensor(TensorProto.BOOL, raw_data=bytes([2, 255, 1, 0]))), tmp_path / "model.onnx")
    constant = dg.load(tmp_path / "model.onnx").node("y")
    assert constant.data.tolist() == [1, 1, 1, 0]  # type: ignore[union-attr]


def test_weights_saved_again_from_external_data_are_read(tmp_path: pathlib.Path) -> None:
    """onnx then writes data_location = DEFAULT behind raw_data, for tensors below and above what is mapped."""
    rng = np.random.default_rng(0)
    weights = {"small": rng.standard_normal(4, np.float32), "large": rng.standard_normal((50_000, 4), np.float32)}
    nodes = [helper.make_node("Identity", [name], [f"y_{name}"]) for name in weights]
    made = model(nodes, [onnx.numpy_helper.from_array(each, name) for name, each in weights.items()], "y_small y_large")
    path = tmp_path / "external.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    again = onnx.load(path)
    assert all(each.HasField("data_location") for each in again.graph.initializer)
    onnx.save_model(again, tmp_path / "again.onnx")
    graph = dg.load(tmp_path / "again.onnx")
    for name, each in weights.items():
        np.testing.assert_array_equal(graph.node(f"y_{name}").data, each)  # type: ignore[union-attr]


def test_zeros_of_different_signs_stay_different(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("Constant", [], [name], value_float=each) for name, each in (("p", 0.0), ("n", -0.0))]
    nodes += [helper.make_node("Add", ["x", name], [f"y{name}"]) for name in "pn"]
    onnx.save_model(model(nodes, (), "yp yn"), tmp_path / "model.onnx")
    x = np.full(4, -0.0, np.float32)
    result = dg.load(tmp_path / "model.onnx").compile("reference").run({"x": x})
    assert [bool(np.signbit(result[name]).all()) for name in ("yp", "yn")] == [False, True]


# Names.


def _twice(made: onnx.ModelProto, section: str) -> onnx.ModelProto:
    entries = getattr(made.graph, section)
    entries.append(entries[0])
    return made


def test_names_that_are_taken_twice_are_refused(tmp_path: pathlib.Path) -> None:
    neg = helper.make_node("Neg", ["x"], ["y"])

    def simple(*more: onnx.NodeProto) -> onnx.ModelProto:
        return model([neg, *more], [tensor(raw_data=W.tobytes())])

    cases = {
        "an input twice": (_twice(simple(), "input"), "x"),
        "a weight twice": (_twice(simple(), "initializer"), "w"),
        "an output of the model twice": (_twice(simple(), "output"), "y"),
        "an output of a node twice": (simple(neg), "y"),
        "an input and an output of a node": (simple(helper.make_node("Neg", ["y"], ["x"])), "x"),
        "a weight and an output of a node": (simple(helper.make_node("Neg", ["y"], ["w"])), "w"),
    }
    for message, (made, name) in cases.items():
        (problem,) = refused(made, tmp_path)
        assert (problem.code, problem.node, message in problem.message) == ("duplicate", name, True), problem


def test_an_attribute_or_function_that_is_there_twice_is_refused(tmp_path: pathlib.Path) -> None:
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    node.attribute.append(helper.make_attribute("alpha", 0.25))
    (problem,) = refused(model([node]), tmp_path)
    assert (problem.code, problem.node, problem.field) == ("duplicate", "y", "alpha")
    made = in_function(tensor(raw_data=W.tobytes()))
    made.functions.append(made.functions[0])
    assert [(each.code, each.node) for each in refused(made, tmp_path)] == [("duplicate", "f")]


def test_a_weight_may_be_the_default_of_an_input_and_outputs_of_bodies_may_be_equal(tmp_path: pathlib.Path) -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["s"], ["t"])],
        "b",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [4])],
        [helper.make_empty_tensor_value_info(name) for name in ("d", "t", "t")],
    )
    known = onnx.numpy_helper.from_array(np.array(2), "n")
    made = model(
        [helper.make_node("Loop", ["n", "", "w"], ["y", "z"], body=body)], [tensor(raw_data=W.tobytes()), known]
    )
    made.graph.input.append(value("w", TensorProto.FLOAT, [4]))
    made.graph.output.append(helper.make_empty_tensor_value_info("z"))
    onnx.save_model(made, tmp_path / "model.onnx")
    result = dg.load(tmp_path / "model.onnx").compile("reference").run({"x": W})
    np.testing.assert_array_equal(result["y"], W)
    np.testing.assert_array_equal(result["z"], [-W, W])


def test_the_other_name_of_onnx_s_domain(tmp_path: pathlib.Path) -> None:
    """Its opset decides what Softmax is: below 13 of all dimensions from the axis on."""
    made = model(
        [helper.make_node("Softmax", ["m"], ["y"], axis=1, domain="ai.onnx")],
        [tensor(dims=[1, 2, 2], raw_data=W.tobytes())],
    )
    made.graph.initializer[0].name = "m"
    made.opset_import[0].domain, made.opset_import[0].version = "ai.onnx", 11
    onnx.save_model(made, tmp_path / "model.onnx")
    result = dg.load(tmp_path / "model.onnx").compile("reference").run({"x": W})
    np.testing.assert_allclose(result["y"].ravel(), np.exp(W) / np.exp(W).sum(), rtol=1e-6)
    made.opset_import.add(domain="", version=13)
    assert [each.code for each in refused(made, tmp_path)] == ["duplicate"]
