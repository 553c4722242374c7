"""Out of memory: an error that says for what, in Python and on the command line, never a traceback."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.memory import described, enough_memory, not_enough_memory
from dmlgraph.devices.names import DeviceName

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the limit of a process' memory is POSIX's")

LARGEST = "whose largest tensor is that of 'big', float32 [60000,60000] (13.4 GiB)"
SIMPLE = """
dmlgraph: 1
name: vast
inputs: {x: {dtype: float32, sizes: [60000, 60000]}}
nodes:
  big: {op: abs, input: x}
outputs: [big]
"""
FILL = """
dmlgraph: 1
name: vast
nodes:
  big: {op: fill_value_sequence, output: {dtype: float32, sizes: [60000, 60000]}, value_start: 0, value_delta: 1}
  y: {op: abs, input: big}
outputs: [y]
"""
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "input.yaml").write_text(SIMPLE, encoding="utf-8")
    (tmp_path / "fill.yaml").write_text(FILL, encoding="utf-8")
    return tmp_path


def limited(folder: pathlib.Path, code: str) -> subprocess.CompletedProcess[str]:
    """A process with 4 GiB of memory, after dmlgraph is imported."""
    script = f"import dmlgraph as dg\nimport numpy as np\n{LIMIT}\n{textwrap.dedent(code)}"
    return subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


def command(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line with 4 GiB of memory."""
    return limited(folder, f"import sys; sys.argv[1:] = {arguments!r}; from dmlgraph.cli.commands import main; main()")


def sparse(path: pathlib.Path) -> pathlib.Path:
    """An intact sparse .npy file of 13.4 GiB that takes no space on the disk."""
    np.save(path, np.zeros((10000, 10000), "V1")[:0])
    header = path.read_bytes().replace(b"|V1", b"<f4").replace(b"(0, 10000), }    ", b"(60000, 60000), }")
    path.write_bytes(header)
    with path.open("r+b") as file:
        file.truncate(len(header) + 4 * 60000 * 60000)
    return path


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("call", ["run()", "bind()()", "profile()"])
def test_a_run(folder: pathlib.Path, device: DeviceName, call: str) -> None:
    code = f"""
        executable = dg.load("fill.yaml").compile({device!r}, fuse=False)
        try:
            executable.{call}
        except dg.NotEnoughMemoryError as error:
            assert isinstance(error, (dg.DeviceError, MemoryError))
            print(error)
    """
    done = limited(folder, code)
    assert done.stderr == ""
    assert done.stdout.startswith(f"not enough memory to run the graph 'vast', {LARGEST}")


def test_building_a_graph(folder: pathlib.Path) -> None:
    code = """
        try:
            dg.Graph("g").constant("k", np.broadcast_to(np.float32(1), (60000, 60000)))
        except dg.NotEnoughMemoryError as error:
            print(error)
    """
    assert limited(folder, code).stdout.startswith(
        "node 'k': not enough memory to make the node: unable to allocate 13.4 GiB for an array"
    )


@pytest.mark.parametrize(
    ("arguments", "purpose"),
    [
        (["run", "fill.yaml", "--device", "cpu", "--no-fuse"], "run the graph 'vast'"),
        (["run", "fill.yaml", "--device", "reference", "--no-fuse"], "run the graph 'vast'"),
        (["bench", "input.yaml", "--device", "cpu"], "make inputs for the graph 'vast'"),
        (["bench", "fill.yaml", "--device", "cpu", "--no-fuse"], "run the graph 'vast'"),
        (["diff", "fill.yaml", "--device", "cpu"], "run the graph 'vast'"),
        (["diff", "input.yaml", "--device", "cpu"], "make inputs for the graph 'vast'"),
    ],
)
def test_a_command(folder: pathlib.Path, arguments: list[str], purpose: str) -> None:
    done = command(folder, *arguments)
    assert done.returncode == 1
    largest = LARGEST if arguments[1] == "fill.yaml" else LARGEST.replace("big", "x")
    assert done.stderr.splitlines()[-1].startswith(f"error[memory]: not enough memory to {purpose}, {largest}")


@pytest.mark.usefixtures("directml_path")
def test_a_sequence_that_is_evaluated_while_compiling(folder: pathlib.Path) -> None:
    done = command(folder, "run", "fill.yaml", "--device", "directml:software", "--no-fuse")
    assert done.returncode == 1
    said = f"error[memory]: not enough memory to compile the graph 'vast', {LARGEST}"
    assert done.stderr.splitlines()[-1].startswith(said)


def test_a_huge_intact_array(folder: pathlib.Path) -> None:
    sparse(folder / "x.npy")
    done = command(folder, "run", "input.yaml", "--input", "x=x.npy", "--device", "cpu")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "error[memory]: field 'input x': not enough memory to read 'x.npy': unable to allocate 13.4 GiB"
    )
    (folder / "c.yaml").write_text(
        "dmlgraph: 1\nconstants: {k: {file: x.npy}}\nnodes: {y: {op: abs, input: k}}\n", encoding="utf-8"
    )
    done = command(folder, "check", "c.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "c.yaml:2:23: error[memory]: node 'k', field 'file': not enough memory to read" in done.stderr


def test_what_nobody_expected_is_a_line_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from dmlgraph.cli.commands import main
    from dmlgraph.cli.operators import operators

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(operators, "callback", fail)
    result = CliRunner().invoke(main, ["operators"])
    assert (result.exit_code, result.stderr) == (1, "error[memory]: not enough memory to finish the command\n")


def test_a_shader(folder: pathlib.Path) -> None:
    """LLVM ends the process if it gets no memory, so it must not be called."""
    code = """
        from dmlgraph.devices.directml.software import codegen, llvm
        llvm.data_layout()
        try:
            codegen.reserve(2_000_000)
        except dg.NotEnoughMemoryError as error:
            print(error)
    """
    done = limited(folder, code)
    assert done.stdout == (
        "not enough memory to compile a shader of 2,000,000 instructions, which takes up to 7,844 MiB\n"
    )


def test_the_error_is_made_once() -> None:
    first = not_enough_memory("read it", MemoryError())
    assert not_enough_memory("do more", first) is first
    with pytest.raises(dg.NotEnoughMemoryError) as caught, enough_memory("do more"):
        raise first
    assert caught.value is first


def test_a_graph_is_described_by_its_largest_tensor() -> None:
    graph = dg.Graph("g")
    assert described(graph) == "the graph 'g'"
    x = graph.input("x", sizes=[2, 3], dtype="float32")
    graph.output("y", dg.cast(x, dtype="float64", name="wide"))
    expected = "the graph 'g', whose largest tensor is that of 'wide', float64 [2,3] (0.0 GiB)"
    assert described(graph) == described(graph.lower()) == expected
