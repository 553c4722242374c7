"""The command line: what each command prints and where, and its exit status."""

from __future__ import annotations

import hashlib
import importlib.metadata
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.devices import list_devices
from dmlgraph.operators import REGISTRY

RAMP = """\
dmlgraph: 1
name: ramp
dims: {N: 1}
inputs:
  x: {dtype: float32, sizes: [N, 3]}
nodes:
  ramp: {op: fill_value_sequence, output: {dtype: float32, sizes: [N, 3]}, value_start: 3, value_delta: 2}
  y: {op: multiply, a: x, b: ramp}
outputs: [y]
"""
X = np.array([[1, -2, 0.5]], np.float32)


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder with ramp.yaml and x.npy, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ramp.yaml").write_text(RAMP, encoding="utf-8")
    np.save(tmp_path / "x.npy", X)
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def fill(op: str, dtype: str, sizes: list[int], target: str | None = None, **fields: Any) -> str:
    output = f"output: {{dtype: {dtype}, sizes: {sizes}}}"
    rest = "".join(f", {key}: {value}" for key, value in fields.items())
    head = f'target: "{target}"\n' if target else ""
    return f"dmlgraph: 1\n{head}nodes:\n  y: {{op: {op}, {output}{rest}}}\noutputs: [y]\n"


def run_text(folder: pathlib.Path, text: str) -> Result:
    (folder / "graph.yaml").write_text(text, encoding="utf-8")
    return call("run", "graph.yaml", "--device", "reference")


# run


def test_run_prints_each_output_with_dtype_sizes_and_values(folder: pathlib.Path) -> None:
    result = call("run", "ramp.yaml", "--device", "reference", "--input", "x=x.npy")
    assert result.exit_code == 0
    assert result.stdout == "y: float32 [1, 3]\n  [[  3.  -10.    3.5]]\n"
    assert result.stderr == "device: reference (asked for as 'reference')\n"
    assert folder.exists()


def test_run_without_a_device_says_which_it_took_and_why(folder: pathlib.Path) -> None:
    result = call("run", "ramp.yaml", "--input", "x=x.npy")
    assert result.exit_code == 0
    assert result.stderr.startswith("device: ")
    assert "(auto: " in result.stderr
    assert len(list(folder.iterdir())) == 2


def test_run_saves_outputs_and_takes_dims(folder: pathlib.Path) -> None:
    np.save("wide.npy", np.ones((4, 3), np.float32))
    result = call("run", "ramp.yaml", "--input", "x=wide.npy", "--dim", "N=4", "--output-dir", "deep/results")
    assert result.exit_code == 0
    saved = np.load(folder / "deep" / "results" / "y.npy")
    np.testing.assert_array_equal(saved, np.arange(3, 27, 2, dtype=np.float32).reshape(4, 3))


def test_a_large_output_is_summarised(folder: pathlib.Path) -> None:
    result = run_text(folder, fill("fill_value_constant", "int8", [100, 100], value=7))
    assert result.exit_code == 0
    assert "..." in result.stdout
    assert len(result.stdout) < 500


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (fill("fill_value_constant", "float32", [1, 1, 2, 4], value=13.0), "13. 13. 13. 13.|13. 13. 13. 13."),
        (fill("fill_value_sequence", "float32", [1, 1, 1, 3], value_start=3, value_delta=2), "3. 5. 7."),
        (fill("fill_value_sequence", "uint8", [1, 1, 2, 2], value_start=10, value_delta=-2), "10  8| 6  4"),
        (fill("fill_value_sequence", "int8", [1, 1, 1, 3], value_start=127, value_delta=1), "127 -128 -127"),
        (fill("fill_value_sequence", "uint64", [1, 1, 1, 2], value_start=2**64 - 1, value_delta=2), f"{2**64 - 1} 1"),
        (fill("fill_value_constant", "float32", [1] * 8, "4.0", value=-0.0), "-0."),
    ],
)
def test_run_prints_the_values_of_the_fill_pages(folder: pathlib.Path, text: str, shown: str) -> None:
    result = run_text(folder, text)
    assert result.exit_code == 0
    values = [line.strip(" []") for line in result.stdout.splitlines()[1:]]
    assert [line.split() for line in values] == [line.split() for line in shown.split("|")]


def test_an_input_file_of_another_byte_order_is_read_as_what_it_holds(folder: pathlib.Path) -> None:
    expected = call("run", "ramp.yaml", "--device", "reference", "--input", "x=x.npy")
    np.save(folder / "swapped.npy", X.astype(X.dtype.newbyteorder(">")))
    result = call("run", "ramp.yaml", "--device", "reference", "--input", "x=swapped.npy")
    assert result.exit_code == 0
    assert result.stdout == expected.stdout


def test_an_8_d_fill_is_refused_at_2_1(folder: pathlib.Path) -> None:
    result = run_text(folder, fill("fill_value_constant", "float32", [1] * 8, "2.1", value=1))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(
        "graph.yaml:4:64: error[level]: node 'y', field 'output.sizes': FILL_VALUE_CONSTANT does not"
    )
    assert "legal from 4.0" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            [],
            "error[missing-input]: inputs are missing: 'x' (float32 [1, 3]) "
            "(--input x=FILE.npy, with a file written by numpy.save)\n",
        ),
        (["--input", "z=x.npy"], "error[unknown-array]: field 'z': is not an input of the graph; allowed: x\n"),
        (
            ["--input", "x=none.npy"],
            "error[unreadable]: field 'input x': cannot read 'none.npy': No such file or directory\n",
        ),
        (["--input", "x=ramp.yaml"], "error[array-file]: field 'input x': 'ramp.yaml' is not a .npy file\n"),
        (
            ["--input", "x=x.npy", "--dim", "N=2"],
            "error[sizes]: field 'x': the input has another shape; got [1, 3] in 'x.npy'; allowed: [2, 3]\n",
        ),
        (
            ["--dim", "M=2"],
            "ramp.yaml:3:7: error[unknown-dim]: field 'dims.M': is not a dim of the graph\n"
            "  3 | dims: {N: 1}\n    |       ^^^^^^\n"
            "    = allowed: N\n    = help: dims are declared with the graph\n1 error\n",
        ),
        (
            ["--dim", "N=0"],
            "ramp.yaml:3:11: error[range]: field 'dims.N': a dim is a whole number of at least 1; got 0\n"
            "  3 | dims: {N: 1}\n    |           ^\n1 error\n",
        ),
    ],
)
def test_wrong_data_is_an_error_of_status_1_on_stderr(folder: pathlib.Path, arguments: list[str], text: str) -> None:
    result = call("run", "ramp.yaml", "--device", "reference", *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.removeprefix("device: reference (asked for as 'reference')\n") == text
    assert folder.exists()


def test_an_input_of_another_data_type_is_told_with_its_file(folder: pathlib.Path) -> None:
    np.save(folder / "wide.npy", X.astype(np.float64))
    for command in ("run", "bench", "diff"):
        result = call(command, "ramp.yaml", "--device", "reference", "--input", "x=wide.npy")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            "error[dtype]: field 'x': the input has another data type; got float64 in 'wide.npy'; allowed: float32 "
            "(convert it with array.astype('float32') before saving)\n"
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "ramp.yaml", "-o", "none/x.svg"],
        ["new", "none/x.yaml"],
        ["export", "ramp.yaml", "-o", "none/x.json"],
        ["bench", "ramp.yaml", "--device", "reference", "--repeats", "1", "--trace", "none/x.json"],
    ],
)
def test_what_cannot_be_written_is_told_with_the_reason(folder: pathlib.Path, arguments: list[str]) -> None:
    result = call(*arguments)
    assert result.exit_code == 1
    told = result.stderr.splitlines()[-1]
    path = next(each for each in arguments if each.startswith("none/"))
    path = str(pathlib.Path(path))
    why = "there is no folder 'none' (make the folder, or name another)"
    assert told == f"error[unwritable]: cannot write '{path}': {why}"
    assert len(list(folder.iterdir())) == 2


def test_an_empty_file_is_told_with_where_to_start(folder: pathlib.Path) -> None:
    (folder / "empty.yaml").touch()
    result = call("check", "empty.yaml")
    assert result.exit_code == 1
    assert "empty.yaml:1:1: error[empty-file]: the file is empty\n" in result.stderr
    assert "    = help: 'dmlgraph new' writes a file" in result.stderr
    (folder / "empty.npy").touch()
    result = call("run", "ramp.yaml", "--input", "x=empty.npy")
    assert result.stderr == "error[array-file]: field 'input x': 'empty.npy' is empty; a .npy file holds an array\n"


def test_a_count_of_one_is_singular(folder: pathlib.Path) -> None:
    (folder / "one.yaml").write_text(fill("fill_value_constant", "uint8", [1], value=1), encoding="utf-8")
    assert "fine: 1 node at" in call("check", "one.yaml").stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run"], "Missing argument 'FILE'"),
        (["run", "none.yaml"], "File 'none.yaml' does not exist"),
        (["run", "."], "'.' is a folder; name a graph file in it: ramp.yaml"),
        (["run", "ramp.yaml", "--device", "cpuu"], "did you mean 'cpu'?"),
        (["run", "ramp.yaml", "--input", "x"], "'x' is not NAME=FILE.npy"),
        (["run", "ramp.yaml", "--input", "x=x.npy", "--input", "x=x.npy"], "'x' is given twice"),
        (["run", "ramp.yaml", "--dim", "N"], "'N' is not NAME=SIZE, such as N=8"),
        (["run", "ramp.yaml", "--dim", "N=-1"], "'N=-1' is not NAME=SIZE"),
        (["run", "ramp.yaml", "--dim", f"N={'9' * 5000}"], "the size of 'N' has more than 400 digits"),
        (["check", "ramp.yaml", "--dim", f"N=1,{'9' * 5000}"], "the size of 'N' has more than 400 digits"),
        (["run", "ramp.yaml", "--value", f"x={'9' * 5000}"], "a number has more than 400 digits"),
        (["run", "ramp.yaml", "--value", "x=1e999"], "1e999 is too large a number"),
        (["run", "ramp.yaml", "--dims", "N=1"], "No such option"),
        (["rnu"], "there is no command"),
        (["operators", "activation_rleu"], "did you mean 'activation_relu'?"),
    ],
)
def test_wrong_usage_is_status_2(folder: pathlib.Path, arguments: list[str], text: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert folder.exists()


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("/elsewhere/escaped", "%2Felsewhere%2Fescaped"),
        ("a/b", "a%2Fb"),
        ("a\\\\b", "a%5Cb"),
        ("c:d", "c%3Ad"),
        ("50%", "50%25"),
        ("layer.0.weight", "layer.0.weight"),
        ("..", ".."),
        ("é" * 300, f"{'é' * 81}~{hashlib.sha256(('é' * 300).encode()).hexdigest()[:16]}"),
    ],
)
def test_an_output_is_saved_in_the_folder_whatever_its_name(folder: pathlib.Path, name: str, saved: str) -> None:
    (folder / "g.yaml").write_text(RAMP.replace("outputs: [y]", f'outputs: {{"{name}": y}}'), encoding="utf-8")
    before = set(folder.rglob("*"))
    assert call("run", "g.yaml", "--input", "x=x.npy", "--output-dir", "results").exit_code == 0
    (file,) = set(folder.rglob("*")) - before - {folder / "results"}
    assert file == folder / "results" / f"{saved}.npy"
    assert np.load(file).shape == (1, 3)


def test_an_input_file_is_never_unpickled(folder: pathlib.Path) -> None:
    np.save("objects.npy", np.array([{}, 1], object))
    result = call("run", "ramp.yaml", "--input", "x=objects.npy")
    assert result.exit_code == 1
    assert "'objects.npy' holds Python objects, which are never loaded" in result.stderr
    assert folder.exists()


def test_4_bit_inputs_are_read_from_8_bit_files(folder: pathlib.Path) -> None:
    (folder / "g.yaml").write_text(
        RAMP.replace("inputs:\n", "inputs:\n  n: {dtype: int4, sizes: [2]}\n"), encoding="utf-8"
    )
    np.save("n.npy", np.array([-8, 7], np.int8))
    assert call("run", "g.yaml", "--input", "x=x.npy", "--input", "n=n.npy").exit_code == 0
    np.save("n.npy", np.array([-9, 7], np.int8))
    result = call("run", "g.yaml", "--input", "x=x.npy", "--input", "n=n.npy")
    assert result.exit_code == 1
    assert "holds numbers beyond int4; allowed: -8 to 7" in result.stderr


# check


def test_check_says_what_is_fine(folder: pathlib.Path) -> None:
    result = call("check", "ramp.yaml", "--dim", "N=5")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"ramp.yaml: fine: 2 nodes at feature level {max(dg.FeatureLevel)}\n"
    assert folder.exists()


def test_check_prints_every_error_with_its_place(folder: pathlib.Path) -> None:
    (folder / "bad.yaml").write_text(
        RAMP.replace("float32", "flaot32", 1).replace("multiply", "multply") + "extra: 1\n", encoding="utf-8"
    )
    result = call("check", "bad.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    first, second, third = (line for line in result.stderr.splitlines() if ": error[" in line)
    assert first.startswith("bad.yaml:5:14: error[unknown-dtype]: node 'x', field 'dtype': not a data type of DirectML")
    assert second == "bad.yaml:8:11: error[unknown-operator]: node 'y', field 'op': is not an operator; got multply"
    assert third.startswith("bad.yaml:10:1: error[unknown-field]: field 'extra': is not known here")


def test_an_input_of_any_type_may_be_an_output(folder: pathlib.Path) -> None:
    text = 'dmlgraph: 1\ntarget: "2.0"\ninputs: {x: {dtype: float64, sizes: [1, 1, 1, 1]}}\noutputs: [x]\n'
    (folder / "g.yaml").write_text(text, encoding="utf-8")
    assert call("check", "g.yaml").exit_code == 0


# lower


def test_lower_prints_the_graph_description_and_nothing_else(folder: pathlib.Path) -> None:
    result = call("lower", "ramp.yaml", "--dim", "N=4")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == str(dg.load(folder / "ramp.yaml", dims={"N": 4}).lower())
    assert "OutputTensor = float32 [4,3], 48 bytes" in result.stdout


# operators and devices


def test_operators_lists_all_there_are() -> None:
    result = call("operators")
    assert result.exit_code == 0
    listed = {word for line in result.stdout.splitlines() for word in line.replace(",", " ").split()}
    assert set(REGISTRY) <= listed


@pytest.mark.parametrize("name", ["fill_value_sequence", "FILL_VALUE_SEQUENCE", "DML_OPERATOR_FILL_VALUE_SEQUENCE"])
def test_operators_shows_what_one_takes(name: str) -> None:
    result = call("operators", name)
    assert result.exit_code == 0
    for fact in ("value_start", "value_delta", "value_data_type", "output", "2.1", "5.0", "int64"):
        assert fact in result.stdout


@pytest.mark.parametrize("name", REGISTRY)
def test_every_operator_can_be_shown(name: str) -> None:
    result = call("operators", name)
    assert result.exit_code == 0
    assert all(field in result.stdout for field in REGISTRY[name].fields)


def test_devices_lists_every_device_and_what_auto_takes() -> None:
    result = call("devices")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line and not line.startswith(" ")}
    assert {device.name for device in list_devices()} <= set(lines)
    assert "takes '" in lines["auto"]


# Processes


def process(*arguments: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "dmlgraph.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_a_process_has_the_exit_status_and_the_streams(folder: pathlib.Path) -> None:
    fine = process("run", "ramp.yaml", "--input", "x=x.npy", "--device", "reference", folder=folder)
    assert (fine.returncode, fine.stdout) == (0, "y: float32 [1, 3]\n  [[  3.  -10.    3.5]]\n")
    (folder / "bad.yaml").write_text("dmlgraph: 1\noutputs: [y]\n", encoding="utf-8")
    wrong = process("check", "bad.yaml", folder=folder)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == (
        "bad.yaml:2:11: error[unknown-node]: field 'outputs': there is no input, constant or node called 'y'\n"
        "  2 | outputs: [y]\n    |           ^\n1 error\n"
    )
    misused = process("check", folder=folder)
    assert (misused.returncode, misused.stdout) == (2, "")


def test_a_reader_that_leaves_is_no_error(folder: pathlib.Path) -> None:
    command = [sys.executable, "-P", "-m", "dmlgraph.cli", "schema"]  # longer than a pipe holds
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == ""


def test_the_console_script_is_installed(folder: pathlib.Path) -> None:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="dmlgraph")
    assert entry.value == "dmlgraph.cli.command:main"
    script = pathlib.Path(sys.executable).parent / "dmlgraph"
    if sys.platform == "win32" and not script.with_suffix(".exe").exists():
        pytest.skip("pip makes the program only where it runs on Windows itself")
    done = subprocess.run([script, "--version"], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0
    assert "0.1.0" in done.stdout
