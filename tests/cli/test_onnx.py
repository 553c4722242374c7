"""ONNX models on the command line: import, what is read, and models in place of graph files."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.cli.commands import main
from dmlgraph.devices import Choice
from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.formats import onnx as onnx_models


def command(*arguments: Any) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, list(map(str, arguments)))


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    weights = np.arange(300, dtype=np.float32).reshape(3, 100)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node("Relu", ["h"], ["y"])]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 100])
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [onnx.numpy_helper.from_array(weights, "w")])
    path = tmp_path / "net.onnx"
    onnx.save_model(onnx.helper.make_model(graph), path)
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    return path


def test_import_writes_a_graph_file_with_one_file_of_weights(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = command("import", model, "-o", tmp_path / "out", "--dim", "batch=2")
    assert done.exit_code == 0, done.output
    assert {each.name for each in (tmp_path / "out").iterdir()} == {"net.yaml", "weights.safetensors"}
    x = np.load(tmp_path / "x.npy")
    expected = dg.load(model, dims={"batch": 2}).compile("cpu").run({"x": x})["y"]
    with mock.patch.dict(sys.modules, {"onnx": None, "onnx_ir": None}):  # the graph needs no packages of the extra
        result = dg.load(tmp_path / "out" / "net.yaml").compile("cpu").run({"x": x})["y"]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--device", "cpu", "--input", "x=x.npy"),
        ("check",),
        ("lower",),
        ("show", "--format", "dot"),
        ("bench", "--device", "cpu", "--repeats", "1"),
        ("diff", "--device", "cpu"),
    ],
    ids=lambda each: each[0],
)
def test_a_model_takes_the_place_of_a_graph_file(
    model: pathlib.Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    done = command(arguments[0], model.name, "--dim", "batch=2", *arguments[1:])
    assert done.exit_code == 0, done.output


def shaped(folder: pathlib.Path) -> pathlib.Path:
    """A model whose result has a shape that is an input."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[batch, n] x, int64[2] shape, float[batch] b) => (float[p, q] y) {
        h = Reshape (x, shape)
        c = Relu (b)
        y = Mul (h, h)
    }"""
    onnx.save_model(onnx.parser.parse_model(text), folder / "shaped.onnx")
    return folder / "shaped.onnx"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--device", "cpu", "--random", "0"),
        ("check",),
        ("lower",),
        ("show", "--format", "dot"),
        ("bench", "--device", "cpu", "--repeats", "1"),
        ("diff", "--device", "cpu"),
        ("import", "-o", "out"),
    ],
    ids=lambda each: each[0],
)
def test_every_command_takes_values(
    arguments: tuple[str, ...], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--dim", "batch=2", "--dim", "n=3", "--value", "shape=3,2", "--convert", "double=float32")
    done = command(arguments[0], shaped(tmp_path).name, *given, *arguments[1:])
    assert done.exit_code == 0, done.output


def test_import_writes_states_and_commands_take_them(tmp_path: pathlib.Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[past] before, float[n] x, float[total] mask) => (float[s] after, float[total] y) {
        after = Concat <axis = 0> (before, x)
        y = Mul (after, mask)
    }"""
    path = tmp_path / "model.onnx"
    onnx.save_model(onnx.parser.parse_model(text), path)
    given = ("--dim", "past=4", "--dim", "n=1", "--dim", "total=5", "--state", "be*=af*")
    done = command("check", path, *given)
    assert done.exit_code == 1
    assert "the model has no output of this name; got affore" in done.stderr
    given = (*given[:-1], "before=after")
    assert command("check", path, *given).exit_code == 0
    done = command("import", path, "-o", tmp_path / "folder", *given)
    assert done.exit_code == 0, done.output
    written = (tmp_path / "folder" / "model.yaml").read_text(encoding="utf-8")
    assert "before: {dtype: float32, sizes: [4], grows: 0, append: x}" in written
    done = command("check", path, *given, "--state", "before=y")
    assert "'before' is given twice" in done.stderr
    done = command("import", path, "-o", tmp_path / "auto", *given[:-2], "--state", "auto")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "auto" / "model.yaml").read_text(encoding="utf-8") == written
    done = command("check", path, *given, "--state", "auto")
    assert "auto or padded alone, or INPUT=OUTPUT" in done.stderr


def test_all_that_is_missing_is_asked_for_at_once(tmp_path: pathlib.Path) -> None:
    path = shaped(tmp_path)
    done = command("check", path)
    assert done.exit_code == 1
    asked = re.findall(r"--(?:dim|value) \S+", done.stderr)
    assert asked == ["--dim batch=1", "--dim n=1", "--value shape=…"]
    assert done.stderr.count("error[") == 2
    options = [each for option in asked for each in option.replace("…", "1,1").split()]
    assert command("check", path, *options).exit_code == 0


def test_check_takes_several_sizes_of_a_model(model: pathlib.Path) -> None:
    done = command("check", model, "--dim", "batch=1,8")
    assert done.exit_code == 0
    assert [line.partition("fine ")[2].partition(":")[0] for line in done.stdout.splitlines()] == [
        "with batch=1",
        "with batch=8",
    ]


def test_a_value_of_another_shape_is_refused(tmp_path: pathlib.Path) -> None:
    done = command("check", shaped(tmp_path), "--dim", "batch=1", "--dim", "n=1", "--value", "shape=1,1,1")
    assert done.exit_code == 1
    assert "the given value has another shape; got [3]" in done.stderr
    assert "allowed: [2]" in done.stderr


def test_values_are_for_models(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text("dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\noutputs: [x]\n", encoding="utf-8")
    done = command("check", path, "--value", "x=1")
    assert done.exit_code == 1
    assert "is for ONNX models" in done.stderr
    done = CliRunner().invoke(main, ["check", "-", "--value", "x=1"], input=path.read_text(encoding="utf-8"))
    assert done.exit_code == 2


def test_dims_stay_dims_unless_they_are_fixed(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "out" / "net.yaml"
    np.save(tmp_path / "x5.npy", np.ones((5, 3), np.float32))
    given = ("--device", "cpu", "--dim", "batch=5", "--input", f"x={tmp_path / 'x5.npy'}")
    assert command("import", model, "-o", tmp_path / "out", "--dim", "batch=1").exit_code == 0
    done = command("run", file, *given)
    assert done.exit_code == 0, done.output
    assert "float32 [5, 100]" in done.stdout
    assert command("import", model, "-o", tmp_path / "out", "--dim", "batch=1", "--fixed").exit_code == 0
    assert "is not a dim of the graph" in command("run", file, *given).stderr


def test_import_prints_its_times(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = command("import", model, "-o", tmp_path / "out", "--dim", "batch=2")
    assert re.search(r"read by onnx in \d+\.\d\d s, imported in \d+\.\d\d s, written in \d+\.\d\d s", done.stderr)


def test_errors_name_the_file_and_what_to_give(model: pathlib.Path) -> None:
    done = command("check", model)
    assert done.exit_code == 1
    assert f"{model}:1:1: error[undetermined]: node 'x'" in done.stderr
    assert "--dim batch=1" in done.stderr


def test_values_are_numbers_or_files(tmp_path: pathlib.Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2, 3] x, int64[2] shape, float k) => (float[3, 2] y) { r = Mul (x, k) y = Reshape (r, shape) }"""
    onnx.save_model(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    np.save(tmp_path / "shape.npy", np.array([3, 2]))
    values = ("--value", f"shape={tmp_path / 'shape.npy'}", "--value", "k=2.5")
    done = command("import", tmp_path / "m.onnx", "-o", tmp_path / "out", *values)
    assert done.exit_code == 0, done.output
    assert [node.name for node in dg.load(tmp_path / "out" / "m.yaml").inputs] == ["x"]


@pytest.mark.parametrize("option", [("--value", "k"), ("--value", "=3"), ("--convert", "double")])
def test_options_of_another_form_are_wrong_usage(model: pathlib.Path, option: tuple[str, str]) -> None:
    assert command("import", model, "-o", "out", *option).exit_code == 2


def test_the_operators_that_are_read_are_listed() -> None:
    done = command("onnx", "operators")
    assert done.exit_code == 0
    assert "AveragePool" in done.stdout
    some = command("onnx", "operators", "pool").stdout.splitlines()
    assert len(some) > 5
    assert all("Pool" in line or line.startswith("operator") or "MaxUnpool" in line for line in some)
    assert command("onnx", "operators", "nothing").exit_code == 2


def test_without_the_extra_it_says_what_to_install(model: pathlib.Path) -> None:
    with mock.patch.dict(sys.modules, {"onnx_ir": None}):
        done = command("check", model)
    assert done.exit_code == 1
    assert 'pip install "dmlgraph[onnx]"' in done.stderr


def test_options_of_models_are_refused_for_graph_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text("dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\noutputs: [x]\n", encoding="utf-8")
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(path, values={"x": 1})
    assert (caught.value.code, caught.value.field) == ("unknown-field", "values")


@pytest.fixture
def normalized(tmp_path: pathlib.Path) -> pathlib.Path:
    """A model of opset 23 that MEAN_VARIANCE_NORMALIZATION2 serves, since feature level 6.3, or several operators."""
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])
    scale = onnx.numpy_helper.from_array(np.array([1, 2, 4], np.float32), "scale")
    node = onnx.helper.make_node("RMSNormalization", ["x", "scale"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [x], [y], [scale])
    path = tmp_path / "normalized.onnx"
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)]), path)
    return path


class TestADeviceOfALowerLevel:
    @pytest.fixture(autouse=True)
    def older(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(CpuDevice, "level", FeatureLevel.V6_2)

    def test_in_python_the_error_says_which_target_helps(self, normalized: pathlib.Path) -> None:
        with pytest.raises(dg.OperatorError) as caught:
            dg.load(normalized).compile("cpu")
        assert caught.value.code == "level"
        assert caught.value.hint == "import the model with target='6.2'"
        x = np.array([[1, 2, 3], [-4, 0, 8]], np.float32)
        result = dg.load(normalized, target="6.2").compile("cpu").run({"x": x})["y"]
        expected = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * [1, 2, 4]
        np.testing.assert_allclose(result, expected, rtol=1e-6)

    @pytest.mark.parametrize(
        "arguments",
        [
            ("run", "--device", "cpu", "--random", "0"),
            ("bench", "--device", "reference", "--device", "cpu", "--repeats", "1"),
            ("diff", "--device", "reference", "--device", "cpu"),
            ("lower", "--device", "cpu"),
        ],
        ids=lambda each: each[0],
    )
    def test_commands_take_the_level_of_the_device(self, normalized: pathlib.Path, arguments: tuple[str, ...]) -> None:
        done = command(*arguments, normalized)
        assert done.exit_code == 0, done.output

    def test_auto_goes_on_with_the_newest_level(
        self, normalized: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []

        def load(path: pathlib.Path, *, target: FeatureLevel | None = None, **_: Any) -> dg.Graph:
            seen.append(target)
            if target is not None:
                raise dg.ModelError("has no counterpart", code="unsupported")
            return onnx_models.load(path, target="6.2")

        monkeypatch.setattr("dmlgraph.formats.load_save.load", load)
        hopeful = Choice("auto", CpuDevice(), "first", lambda reason: Choice("auto", CpuDevice(), reason))
        monkeypatch.setattr("dmlgraph.cli.run.chosen", lambda _: hopeful)
        assert command("run", "--random", 0, normalized).exit_code == 0
        assert seen == [FeatureLevel.V6_2, None]
        seen.clear()
        monkeypatch.setattr("dmlgraph.cli.run.chosen", lambda _: Choice("cpu", CpuDevice(), "asked for"))
        assert "error[unsupported]" in command("run", "--random", 0, normalized).output
        assert seen == [FeatureLevel.V6_2]


@pytest.mark.parametrize("name", ["run", "check", "lower", "show", "bench", "diff", "test", "export", "import", "map"])
def test_every_command_that_takes_a_model_takes_a_target(name: str, normalized: pathlib.Path) -> None:
    options: dict[str, list[Any]] = {
        "run": ["--random", 0],
        "show": ["--format", "dot"],
        "bench": ["--repeats", 1, "--device", "cpu"],
        "diff": ["--device", "cpu"],
        "export": ["-o", normalized.parent / "out.onnx"],
        "import": ["-o", normalized.parent / "out"],
        "map": ["--input", f"x={normalized.parent}", "--out", normalized.parent / "results"],
    }
    said = command(name, normalized, *options.get(name, []), "--target", "2.0").output
    assert "error[level]" in said
    assert "feature level 2.0" in said


def test_a_target_is_for_models(tmp_path: pathlib.Path) -> None:
    text = "dmlgraph: 1\ninputs: {x: {dtype: int8, sizes: [1]}}\noutputs: [x]\n"
    (tmp_path / "g.yaml").write_text(text, encoding="utf-8")
    assert "field 'target': is for ONNX models" in command("check", tmp_path / "g.yaml", "--target", "6.2").output


def test_a_graph_file_is_not_imported(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text("dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\noutputs: [x]\n", "utf-8")
    told = CliRunner().invoke(main, ["import", str(path), "-o", str(tmp_path / "g")])
    assert told.exit_code == 1
    assert f"{path}:1:1: error[file-kind]: is a graph file, not an ONNX model\n" in told.output
