"""Models of opsets 1 to 6: against ONNX Runtime where it still reads them, elsewhere against NumPy by ONNX's text."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.onnx.microsoft_cases import SOFTWARE, Case
from support.onnx.onnx_runtime import session
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import prepare

DEVICES: list[DeviceName] = ["reference", "cpu", SOFTWARE]
CHANCE = np.random.default_rng(0)
A = CHANCE.normal(size=(2, 3, 4, 5)).astype(np.float32)
LOW, HIGH, CHANNEL = (np.abs(A[(0,) * n]) + 1 for n in (2, 1, 3))  # {4, 5}, {3, 4, 5}, {5}
PER_CHANNEL = np.array([0.5, 1.5, -2], np.float32)
ROWS, COLUMNS = A[0, 0], A[1, 0].T.copy()  # {4, 5}, {5, 4}


def case(operator: str, opset: int, *inputs: Any, **fields: Any) -> Case:
    known, outputs = fields.pop("known", ()), fields.pop("outputs", (True,))
    return Case(operator, [*inputs], fields, outputs, known, domain="", opset=opset)


def broadcast(opset: int, b: Any, **fields: Any) -> Case:
    return case("Add", opset, A, b, broadcast=1, **fields)


def truth(x: Any) -> Any:
    return x.astype(np.uint8)


def up(x: Any, height: int, width: int) -> Any:
    return x.repeat(height, 2).repeat(width, 3)


def normalized(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    scale, bias, mean, variance = (each.reshape(-1, 1, 1) for each in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


STATISTICS = [PER_CHANNEL, PER_CHANNEL * 2, PER_CHANNEL * 3, np.abs(PER_CHANNEL)]
SELU = np.where(A > 0, A, np.float32(1.6732) * (np.exp(A) - 1)) * np.float32(1.0507)
PADDED = np.pad(A, ((0, 0), (0, 0), (1, 0), (2, 1)), constant_values=2)
BITS = np.random.default_rng(1).integers(0, 2, (2, 3)).astype(bool)

# What NumPy gives, by ONNX's text.
CASES: dict[str, tuple[Case, Any]] = {
    "one shape": (case("Add", 6, A, A), A + A),
    "suffix": (broadcast(6, CHANNEL), A + CHANNEL),
    "suffix of two": (broadcast(1, LOW), A + LOW),
    "suffix of three": (broadcast(6, HIGH, axis=1), A + HIGH),
    "axis 1": (broadcast(6, PER_CHANNEL, axis=1), A + PER_CHANNEL[:, None, None]),
    "axis from the last": (broadcast(6, PER_CHANNEL, axis=-3), A + PER_CHANNEL[:, None, None]),
    "axis 1 of two": (broadcast(4, HIGH[:, :, 0], axis=1), A + HIGH[:, :, :1]),
    "axis 0": (
        broadcast(6, np.array([3, 4], np.float32), axis=0),
        A + np.array([3, 4], np.float32)[:, None, None, None],
    ),
    "sizes of 1": (broadcast(6, PER_CHANNEL[:, None, None]), A + PER_CHANNEL[:, None, None]),
    "a scalar": (broadcast(6, np.float32(2)), A + 2),
    "one element of two dimensions": (broadcast(6, np.array([[2]], np.float32), axis=0), A + 2),
    "known": (broadcast(6, PER_CHANNEL, axis=1, known=(1,)), A + PER_CHANNEL[:, None, None]),
    "all known": (broadcast(6, PER_CHANNEL, axis=1, known=(0, 1)), A + PER_CHANNEL[:, None, None]),
    "idle inputs": (broadcast(1, PER_CHANNEL, axis=1, consumed_inputs=[0, 0]), A + PER_CHANNEL[:, None, None]),
    "Sub": (case("Sub", 6, A, PER_CHANNEL, broadcast=1, axis=1), A - PER_CHANNEL[:, None, None]),
    "Mul": (case("Mul", 6, A, PER_CHANNEL, broadcast=1, axis=1), A * PER_CHANNEL[:, None, None]),
    "Div": (case("Div", 6, A, PER_CHANNEL, broadcast=1, axis=1), A / PER_CHANNEL[:, None, None]),
    "Pow": (case("Pow", 6, np.abs(A), HIGH, broadcast=1, axis=1), np.abs(A) ** HIGH),
    "Pow of a number": (case("Pow", 1, A, np.float32(2), broadcast=1, known=(1,)), A**2),
    "Greater": (case("Greater", 6, A, PER_CHANNEL, broadcast=1, axis=1), truth(PER_CHANNEL[:, None, None] < A)),
    "Less": (case("Less", 1, A, PER_CHANNEL, broadcast=1, axis=1), truth(PER_CHANNEL[:, None, None] > A)),
    "Equal": (
        case("Equal", 6, np.arange(6).reshape(2, 3), np.arange(3), broadcast=1),
        np.array([[1] * 3, [0] * 3], np.uint8),
    ),
    "And": (case("And", 6, BITS, BITS[0], broadcast=1), truth(BITS & BITS[0])),
    "Xor": (case("Xor", 1, BITS, BITS[:, 0], broadcast=1, axis=0), truth(BITS ^ BITS[:, :1])),
    "Or": (case("Or", 1, BITS, BITS[::-1].copy()), truth(BITS | BITS[::-1])),
    "Gemm": (case("Gemm", 6, ROWS, COLUMNS, ROWS[:, 0], broadcast=1), ROWS @ COLUMNS + ROWS[:, 0]),
    "Gemm turned": (
        case("Gemm", 1, COLUMNS, ROWS, CHANNEL[:4, None], broadcast=1, transA=1, transB=1, alpha=0.5, beta=2.0),
        COLUMNS.T @ ROWS.T / 2 + CHANNEL[:4, None] * 2,
    ),
    "Gemm with a whole C": (case("Gemm", 6, ROWS, COLUMNS, np.eye(4, dtype=np.float32)), ROWS @ COLUMNS + np.eye(4)),
    "PRelu": (case("PRelu", 6, A, PER_CHANNEL), np.where(A < 0, A * PER_CHANNEL[:, None, None], A)),
    "PRelu of one slope": (
        case("PRelu", 1, A, np.array([0.25], np.float32), consumed_inputs=[0, 0]),
        np.where(A < 0, A / 4, A),
    ),
    "PRelu of a matrix": (case("PRelu", 6, A[0, 0], CHANNEL), np.where(A[0, 0] < 0, A[0, 0] * CHANNEL, A[0, 0])),
    "BatchNormalization 1": (
        case("BatchNormalization", 1, A, *STATISTICS, is_test=1, consumed_inputs=[0, 0, 0, 1, 1]),
        normalized(A, *STATISTICS),
    ),
    "BatchNormalization 6": (case("BatchNormalization", 6, A, *STATISTICS), normalized(A, *STATISTICS)),
    "Dropout": (case("Dropout", 6, A, is_test=1, ratio=0.3), A),
    "Dropout by default": (case("Dropout", 1, A), A),
    "Dropout of nothing": (case("Dropout", 1, A, is_test=0, ratio=0.0), A),
    "Cast by name": (case("Cast", 1, A, to="INT32"), A.astype(np.int32)),
    "Cast by lower name": (case("Cast", 5, A, to="float16"), A.astype(np.float16)),
    "Relu 1": (case("Relu", 1, A, consumed_inputs=[0]), np.maximum(A, 0)),
    "Exp 1": (case("Exp", 1, A, consumed_inputs=[0]), np.exp(A)),
    "Sum 1": (case("Sum", 1, A, A, A, consumed_inputs=[0, 0, 0]), 3 * A),
    "Clip 1": (case("Clip", 1, A, max=0.5), np.minimum(A, 0.5)),
    "Selu 1": (case("Selu", 1, A), SELU),
    "HardSigmoid 1": (case("HardSigmoid", 1, A, alpha=0.3), np.clip(A * np.float32(0.3) + 0.5, 0, 1)),
    "Concat 1": (case("Concat", 1, A, A), np.concatenate([A, A], 1)),
    "Concat along an axis": (case("Concat", 3, A, A, axis=3), np.concatenate([A, A], 3)),
    "Concat 4": (case("Concat", 4, A, A, axis=0), np.concatenate([A, A], 0)),
    "Pad 1": (case("Pad", 1, A, paddings=[0, 0, 1, 2, 0, 0, 0, 1], value=2.0), PADDED),
    "Pad 2": (case("Pad", 2, A, pads=[0, 0, 1, 2, 0, 0, 0, 1], value=2.0), PADDED),
    "Reshape 1": (case("Reshape", 1, A, shape=[0, -1], consumed_inputs=[0]), A.reshape(2, -1)),
    "Reshape of known": (case("Reshape", 1, A, shape=[5, 0, -1], known=(0,)), A.reshape(5, 3, -1)),
    "Reshape 5": (case("Reshape", 5, A, np.array([-1, 5]), known=(1,)), A.reshape(-1, 5)),
    "Tile 1": (
        case("Tile", 1, A, np.array([2], np.float32), np.array([3], np.float32), known=(1, 2)),
        np.tile(A, (1, 1, 1, 2)),
    ),
    "Tile 6": (case("Tile", 6, A, np.array([1, 2, 1, 3]), known=(1,)), np.tile(A, (1, 2, 1, 3))),
    "Upsample 1": (case("Upsample", 1, A, height_scale=2.0, width_scale=3.0), up(A, 2, 3)),
    "LpPool 1": (case("LpPool", 1, A, kernel_shape=[4, 5], p=1.0), np.abs(A).sum((2, 3), keepdims=True)),
    "GlobalLpPool 1": (case("GlobalLpPool", 1, A), np.sqrt((A**2).sum((2, 3), keepdims=True))),
    "Squeeze 1": (case("Squeeze", 1, A[:, :, :1], axes=[2]), A[:, :, 0]),
    "Unsqueeze 1": (case("Unsqueeze", 1, A, axes=[0, 2]), A[None, :, None]),
    "Slice 1": (case("Slice", 1, A, axes=[3, 1], starts=[1, -2], ends=[-1, 9]), A[:, -2:, :, 1:-1]),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("directml_path")
def test_the_form_of_its_opset(name: str, device: DeviceName) -> None:
    made, wanted = CASES[name]
    made.check([wanted.astype(np.float32) if wanted.dtype == np.float64 else wanted], device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("directml_path")
def test_split_by_an_input_and_an_attribute(device: DeviceName) -> None:
    wanted = [A[:, :1], A[:, 1:]]
    case("Split", 1, A, np.array([1, 2], np.float32), axis=1, outputs=(True, True), known=(1,)).check(wanted, device)
    case("Split", 1, A, axis=1, split=[1, 2], outputs=(True, True)).check(wanted, device)
    case("Split", 2, A, axis=1, split=[1, 2], outputs=(True, True), known=(0,)).check(wanted, device)


RECURRENT = [CHANCE.normal(size=each).astype(np.float32) for each in ((3, 2, 4), (2, 6, 4), (2, 6, 2), (2, 12))]
# What ONNX Runtime still reads.
SAME = {
    "Relu": case("Relu", 6, A),
    "Selu": case("Selu", 6, A),
    "Softmax": case("Softmax", 1, A),
    "LogSoftmax": case("LogSoftmax", 5, A, axis=2),
    "TopK": case("TopK", 1, A, k=2, axis=2, outputs=(True, True)),
    "LpPool": case("LpPool", 2, A, kernel_shape=[2, 3], strides=[2, 1]),
    "Split": case("Split", 2, A, axis=3, split=[2, 3], outputs=(True, True)),
    "Max": case("Max", 6, A, A * 2),
    "ReduceMean": case("ReduceMean", 1, A, axes=[1], keepdims=0),
    "MatMul": case("MatMul", 1, A, A.transpose(0, 1, 3, 2).copy()),
    "Conv": case("Conv", 1, A, A[:, :, :2, :2].copy(), pads=[1, 0, 1, 0]),
    "MaxPool": case("MaxPool", 1, A, kernel_shape=[2, 2]),
    "Cast": case("Cast", 6, A, to=onnx.TensorProto.INT64),
    "Gather": case("Gather", 1, A, np.array([[2, 0]]), axis=1),
    "InstanceNormalization": case("InstanceNormalization", 6, A, *STATISTICS[:2]),
    "DepthToSpace": case("DepthToSpace", 1, np.concatenate([A, A[:, :1]], 1), blocksize=2),
    "ArgMax": case("ArgMax", 3, A, axis=2),
    "Transpose": case("Transpose", 1, A, perm=[2, 0, 1, 3]),
    "Flatten": case("Flatten", 1, A, axis=2),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SAME)
@pytest.mark.usefixtures("directml_path")
def test_what_onnx_runtime_gives(name: str, device: DeviceName) -> None:
    SAME[name].check(SAME[name].expected(), device)


@pytest.mark.parametrize("opset", [1, 3])
def test_recurrent_networks_ask_for_sequences(opset: int) -> None:
    """Opset 7, which ONNX Runtime reads, computes the same and lacks the attribute."""
    fields = {"hidden_size": 2, "direction": "bidirectional", "outputs": (True, True)}
    expected = case("GRU", 7, *RECURRENT, **fields).expected()
    case("GRU", opset, *RECURRENT, **fields, output_sequence=1).check(expected, "cpu")


REFUSED = {
    "another shape": (case("Add", 6, A, CHANNEL), "sizes", None),
    "no suffix": (broadcast(6, PER_CHANNEL), "sizes", "B"),
    "another axis": (broadcast(6, PER_CHANNEL, axis=2), "sizes", "B"),
    "beyond the last axis": (broadcast(6, LOW, axis=3), "sizes", "B"),
    "more dimensions": (case("Add", 6, CHANNEL, LOW, broadcast=1), "sizes", "B"),
    "no axis": (broadcast(6, PER_CHANNEL, axis=4), "range", "axis"),
    "C": (case("Gemm", 6, ROWS, COLUMNS, CHANNEL[:4]), "sizes", "C"),
    "vectors": (case("Gemm", 6, CHANNEL, COLUMNS, CHANNEL[:4]), "rank", "A"),
    "training": (case("Dropout", 6, A, is_test=0), "unsupported", "is_test"),
    "batches": (case("BatchNormalization", 6, A, *STATISTICS, is_test=0), "unsupported", "is_test"),
    "no type": (case("Cast", 1, A, to="INTEGER"), "unknown-dtype", "to"),
    "p": (case("GlobalLpPool", 1, A, p=1.5), "unsupported", "p"),
    "p of NaN": (case("LpPool", 1, A, kernel_shape=[1, 1], p=float("nan")), "unsupported", "p"),
    "scale": (case("Upsample", 1, A, height_scale=-1.0, width_scale=1.0), "range", "scales"),
    "image": (case("Upsample", 1, A[0], height_scale=2.0, width_scale=1.0), "rank", None),
    "tiles": (
        case("Tile", 1, A, np.array([2], np.float32), np.array([4], np.float32), known=(1, 2)),
        "range",
        "axis",
    ),
    "newer": (case("Sin", 6, A), "opset", None),
    "another type": (case("Equal", 6, A, A), "dtype", "A"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_in_its_opset_is_refused(name: str) -> None:
    made, code, field = REFUSED[name]
    with raises(dg.ModelError, code, node="n", field=field):
        made.graph()


def saved(folder: pathlib.Path, version: int, **opsets: int) -> pathlib.Path:
    model = case("Concat", 1, A, A).model()
    model.ir_version = version
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(domain, opset) for domain, opset in opsets.items())
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def test_the_first_files_do_not_say_their_opset(tmp_path: pathlib.Path) -> None:
    graph = dg.load(saved(tmp_path, 2))
    (result,) = graph.compile("cpu").run({"x0": A, "x1": A}).values()
    np.testing.assert_array_equal(result, np.concatenate([A, A], 1))


@pytest.mark.parametrize(("version", "opsets"), [(3, {}), (8, {"com.microsoft": 1})])
def test_later_ones_must(version: int, opsets: dict[str, int], tmp_path: pathlib.Path) -> None:
    with raises(dg.ModelError, "opset", node="n"):
        dg.load(saved(tmp_path, version, **opsets))


# Whole models.

BODY = "body (float[3] s, float[3] a, float[3] b) => (float[3] t, float[3] o) { t = Add (s, a) o = Mul (t, b) }"
SCAN = f"""<ir_version: 4, opset_import: ["" : 8]>
    g (int64[2] n, float[2, 3] s, float[2, 4, 3] a, float[2, 4, 3] b) => (float[2, 3] t, float[2, 4, 3] o) {{
        t, o = Scan <num_scan_inputs = 2, directions = [0, 1], body = {BODY}> (LENGTHS, s, a, b)
    }}"""


def imported(model: onnx.ModelProto, **values: Any) -> dg.Graph:
    prepared = prepare(ir.from_proto(model))
    return Importer(prepared, dims={}, values=values, target=None, convert=None).read()


@pytest.mark.parametrize("lengths", ["", "n"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("directml_path")
def test_scan_of_batches(device: DeviceName, lengths: str) -> None:
    """Opset 8, whose sequences have batches; one is read backward."""
    model = onnx.parser.parse_model(SCAN.replace("LENGTHS", lengths or '""'))
    feeds = {"s": A[:2, 0, 0, :3].copy(), "a": A[:, 0, :, :3].copy(), "b": A[:, 1, :, :3].copy()}
    full = np.array([4, 4])
    expected = session(model.SerializeToString())(feeds | {"n": full})
    graph = imported(model, **({"n": full} if lengths else {}))
    given = feeds if lengths else feeds | {"n": full}
    for name, got in graph.compile(device).run(given).items():
        np.testing.assert_allclose(got, expected[name], 1e-5, 1e-6)


def test_scan_of_sequences_of_different_lengths_is_refused() -> None:
    model = onnx.parser.parse_model(SCAN.replace("LENGTHS", "n"))
    with raises(dg.ModelError, "unsupported", node="t", field="sequence_lens", got=[4, 3]):
        imported(model, n=np.array([4, 3]))


def test_scan_without_batches_is_refused() -> None:
    text = SCAN.replace("LENGTHS", '""').replace("float[2, 4, 3] b)", "float[4, 3] b)")
    with raises(dg.ModelError, "sizes", node="t", got=[[2, 3], [2, 4, 3], [4, 3]]):
        imported(onnx.parser.parse_model(text))


def network(opset: int) -> onnx.ModelProto:
    """A network as Caffe2 wrote them: weights are inputs, too, and sums broadcast along an axis."""
    chance = np.random.default_rng(3)
    weights = {
        "w": chance.normal(size=(6, 3, 3, 3)),
        "c": chance.normal(size=6),
        "slope": np.abs(chance.normal(size=6)),
        "scale": chance.normal(size=6),
        "deviation": np.abs(chance.normal(size=6)),
        "m": chance.normal(size=(4, 12)),
        "d": chance.normal(size=4),
    }
    made: Any = onnx.helper.make_node
    attributes = {"transB": 1, "broadcast": 1}
    idle: dict[str, Any] = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
    resized: dict[str, Any] = {"shape": [2, 12]}
    nodes = [
        made("Conv", ["x", "w"], ["1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        made("Add", ["1", "c"], ["2"], broadcast=1, axis=1),
        made("BatchNormalization", ["2", "scale", "c", "c", "deviation"], ["3"], is_test=1, **idle),
        made("PRelu", ["3", "slope"], ["4"]),
        made("Dropout", ["4"], ["5", "mask"], is_test=1),
        made("Concat", ["5", "4"], ["6"], **({"axis": 1} if opset > 3 else {})),
        made("GlobalAveragePool", ["6"], ["7"]),
        made("Reshape", ["7"] if opset < 5 else ["7", "shape"], ["8"], **(resized if opset < 5 else {})),
        made("Gemm", ["8", "m", "d"], ["9"], **attributes),
        made("Softmax", ["9"], ["y"]),
    ]
    info = onnx.helper.make_tensor_value_info
    tensors = [onnx.numpy_helper.from_array(each.astype(np.float32), name) for name, each in weights.items()]
    tensors += [onnx.numpy_helper.from_array(np.array([2, 12]), "shape")] if opset > 4 else []
    inputs = [info("x", 1, [2, 3, 5, 6]), *(info(each.name, each.data_type, each.dims) for each in tensors)]
    graph = onnx.helper.make_graph(nodes, "network", inputs, [info("y", 1, [2, 4])], tensors)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("directml_path")
def test_a_network_of_each_opset(device: DeviceName) -> None:
    """The same numbers in all: ONNX Runtime's of opset 7, where what is for channels has all dimensions."""
    newest = network(7)
    for node in newest.graph.node:
        dropped = [each for each in node.attribute if each.name in ("broadcast", "is_test", "axis")]
        for each in dropped if node.op_type != "Concat" else ():
            node.attribute.remove(each)
    for node in newest.graph.node:
        for name in {"Add": ["c"], "PRelu": ["slope"]}.get(node.op_type, []):
            node.input[1] = f"{name} of channels"
            (found,) = [each for each in newest.graph.initializer if each.name == name]
            newest.graph.initializer.append(
                onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(found).reshape(-1, 1, 1), node.input[1])
            )
    newest.ir_version = 4
    x = np.random.default_rng(4).normal(size=(2, 3, 5, 6)).astype(np.float32)
    wanted = session(newest.SerializeToString())({"x": x})["y"]
    for opset in range(1, 7):
        graph = imported(network(opset))
        assert [each.name for each in graph.inputs] == ["x"]
        np.testing.assert_allclose(graph.compile(device).run({"x": x})["y"], wanted, 1e-5, 1e-6)
