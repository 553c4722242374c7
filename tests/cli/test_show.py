"""`dmlgraph show`."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dmlgraph import picture
from dmlgraph.cli.commands import main
from dmlgraph.cli.show import FORMATS, OVERLAYS
from dmlgraph.formats import yaml as document

GRAPH = """\
dmlgraph: 1
name: product
dims: {N: 2}
inputs:
  x: {dtype: float32, sizes: [N, 3]}
  w: {dtype: float32, sizes: [3, 4]}
nodes:
  product: {op: gemm, a: x, b: w}
  y: {op: activation_relu, input: product}
outputs: [y]
"""


@pytest.fixture
def file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.yaml").write_text(GRAPH, encoding="utf-8")
    return "graph.yaml"


def show(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["show", *arguments])


@pytest.mark.parametrize("suffix", picture.SUFFIXES)
def test_the_name_of_the_output_says_the_format(file: str, suffix: str) -> None:
    result = show(file, "-o", f"graph{suffix}")
    assert (result.exit_code, result.stdout) == (0, "")
    written = pathlib.Path(f"graph{suffix}").read_text(encoding="utf-8")
    assert written == picture.render(document.load(file), picture.SUFFIXES[suffix])
    assert result.stderr == f"graph{suffix}: {len(written.encode()):,} bytes\n"


@pytest.mark.parametrize("format_", picture.FORMATS)
def test_without_an_output_it_is_printed(file: str, format_: str) -> None:
    result = show(file, "--format", format_)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == picture.render(document.load(file), format_)


def test_without_a_format_it_is_mermaid(file: str) -> None:
    assert show(file).stdout.startswith("flowchart TB\n")


def test_the_source_is_drawn_unless_asked_otherwise(file: str) -> None:
    views = {view: show(file, *options).stdout for view, options in VIEWS.items()}
    assert ["fused" in text for text in views.values()] == [False, True, True]
    assert "product#58; before fusion" in views["both"]
    assert "<br/>activation_relu" in views["both"]
    assert "<br/>activation_relu" not in views["fused"]


VIEWS = {"source": (), "fused": ("--fused",), "both": ("--before-after",)}


def test_dims_are_taken(file: str) -> None:
    assert "float32 [5,3]" in show(file, "--dim", "N=5").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "graph.png"), "must end in one of .svg, .html, .dot, .mmd"),
        (("-o", "graph.svg", "--format", "svg"), "leave out --format"),
        (("--format", "png"), "png"),
    ],
)
def test_wrong_usage(file: str, arguments: tuple[str, ...], message: str) -> None:
    result = show(file, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not pathlib.Path("graph.svg").exists()


def test_a_broken_file_and_a_folder_that_is_not_there(file: str) -> None:
    pathlib.Path("broken.yaml").write_text(GRAPH.replace("gemm", "gem"), encoding="utf-8")
    result = show("broken.yaml")
    assert result.exit_code == 1
    assert "gemm" in result.stderr
    result = show(file, "-o", "nowhere/graph.svg")
    assert result.exit_code == 1
    assert "nowhere" in result.stderr


def test_the_formats_are_those_of_the_pictures() -> None:
    assert list(FORMATS) == list(picture.FORMATS)


@pytest.mark.parametrize(
    ("over", "devices", "expected"),
    [
        ("fusion", (), ["→ y", "with 1 more", "fused: with 1 more"]),
        ("times", ("cpu",), ["%", "time: 0"]),
        ("values", ("cpu",), [" … ", "NaN or infinity"]),
        ("differences", ("cpu", "reference"), ["equal", "difference: equal"]),
    ],
)
def test_something_is_laid_over_the_picture(
    file: str, over: str, devices: tuple[str, ...], expected: list[str]
) -> None:
    options = [each for device in devices for each in ("--device", device)]
    result = show(file, "--over", over, *options, "--format", "svg")
    assert result.exit_code == 0
    assert all(text in result.stdout for text in expected)


def test_what_is_laid_over_is_of_the_given_input(file: str) -> None:
    np.save("x.npy", np.full((2, 3), 7, np.float32))
    np.save("w.npy", np.ones((3, 4), np.float32))
    given = ("--input", "x=x.npy", "--input", "w=w.npy")
    assert "21 … 21" in show(file, "--over", "values", "--device", "cpu", *given, "--format", "svg").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--over", "colour"), "colour"),
        (("--device", "cpu"), "without --over, show takes no --device"),
        (("--over", "fusion", "--device", "cpu"), "--over fusion takes no --device"),
        (("--over", "times", "--device", "cpu", "--device", "reference"), "--over times takes one --device"),
        (("--over", "differences", "--device", "cpu"), "--over differences takes two --device"),
        (("--over", "differences"), "--over differences takes two --device"),
        (("--over", "values", "--device", "cp"), "cp"),
    ],
)
def test_wrong_overlays(file: str, arguments: tuple[str, ...], message: str) -> None:
    result = show(file, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_input_without_a_run_is_refused(file: str) -> None:
    np.save("x.npy", np.ones((2, 3), np.float32))
    assert "--input is for --over times" in show(file, "--input", "x=x.npy").stderr


def test_the_overlays_are_those_of_the_help() -> None:
    assert set(OVERLAYS) <= set(show("--help").stdout.replace("|", " ").replace("[", " ").replace("]", " ").split())
