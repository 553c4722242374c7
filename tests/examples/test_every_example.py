"""Every example: its file and its Python make the same graph, and its commands print what its comment says."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import pathlib
import re
import runpy
import shlex
import shutil
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.cli.commands import main
from dmlgraph.compiler.desc import GraphDesc

EXAMPLES = pathlib.Path(__file__).parent.parent.parent / "examples"
NAMES = sorted(path.relative_to(EXAMPLES).with_suffix("").as_posix() for path in EXAMPLES.rglob("*.yaml"))
SCRIPTS = sorted(path.relative_to(EXAMPLES).with_suffix("").as_posix() for path in EXAMPLES.rglob("*.py"))


@functools.cache
def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def letterbox(function: str) -> dg.Graph:
    names = script("letterbox/letterbox")
    return names[function](names["Geometry"](height=60, width=80))


def build(name: str, *arguments: Any, function: str = "build") -> dg.Graph:
    return script(name)[function](*arguments)


PYTHON_FORMS = {
    "causal_attention/causal_attention": lambda: build("causal_attention/causal_attention"),
    "characters/characters": lambda: build("characters/characters"),
    "digits/digits": lambda: build("digits/digits"),
    "feed_forward/feed_forward": lambda: build("feed_forward/feed_forward", "4.0"),
    "feed_forward/feed_forward_gelu": lambda: build("feed_forward/feed_forward", "5.1"),
    "generate_text/candidates": lambda: build("generate_text/generate_text", function="candidates"),
    "generate_text/decode": lambda: build("generate_text/generate_text", function="sampling"),
    "generate_text/decoder": lambda: build("generate_text/generate_text", function="decoder"),
    "generate_text/prefill": lambda: build("generate_text/generate_text", 12, function="sampling"),
    "letterbox/boxes_to_photo": lambda: letterbox("boxes_to_photo"),
    "letterbox/letterbox": lambda: letterbox("letterbox"),
    "letterbox/picture_to_photo": lambda: letterbox("picture_to_photo"),
    "moving_average": lambda: build("moving_average"),
    "nearest_colours/nearest_colours": lambda: build("nearest_colours/nearest_colours"),
    "normalize_photo": lambda: build("normalize_photo", 427, 640),
    "owned_weights/owned_weights": lambda: build("owned_weights/owned_weights"),
    "positional_encoding": lambda: build("positional_encoding"),
    "quantization/convolution": lambda: build("quantization/quantization", function="convolution"),
    "quantization/round_trip": lambda: build("quantization/quantization", function="round_trip"),
    "random_numbers": lambda: build("random_numbers"),
    "rotary_encoding/rotary_encoding": lambda: build("rotary_encoding/rotary_encoding"),
    "unet_block": lambda: build("unet_block"),
}
# README.md has the Python of the ramp; the decoder's script reads the file.
FILES_ONLY = {"fill_value_constant", "fill_value_sequence", "ramp", "decoder/decoder"}


def unnamed(desc: GraphDesc) -> GraphDesc:
    """The graph with numbers as names of its nodes, because Python code leaves the names to dmlgraph."""
    nodes = tuple(dataclasses.replace(node, name=f"n{index}") for index, node in enumerate(desc.nodes))
    return dataclasses.replace(desc, nodes=nodes)


def test_every_file_but_the_simplest_has_a_python_form():
    assert set(PYTHON_FORMS) | FILES_ONLY == set(NAMES)


@pytest.mark.parametrize("name", PYTHON_FORMS)
def test_file_and_python_make_the_same_graph(name: str):
    from_file = unnamed(dg.load(EXAMPLES / f"{name}.yaml").lower(fuse=False))
    from_python = unnamed(PYTHON_FORMS[name]().lower(fuse=False))
    assert str(from_python) == str(from_file)


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_survives_being_saved(name: str, tmp_path: pathlib.Path):
    graph = dg.load(EXAMPLES / f"{name}.yaml")
    graph.save(tmp_path / "again.yaml")
    assert str(dg.load(tmp_path / "again.yaml").lower()) == str(graph.lower())


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_is_legal_at_a_level_most_systems_have(name: str):
    """All examples except plain fills state their target."""
    target = dg.load(EXAMPLES / f"{name}.yaml").target
    assert target is None if name.startswith("fill_value") else target is not None and target <= FeatureLevel.V5_1


def test_the_page_lists_every_file():
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"\(([\w/]+)\.(yaml|py)\)", page)
    assert sorted(name for name, kind in listed if kind == "yaml") == NAMES
    assert sorted({name for name, kind in listed if kind == "py"}) == SCRIPTS


# Commands.

COMMAND = re.compile(r"#   \$ dmlgraph (run .*)\n((?:#   .*\n)*)")
SHOWN = re.compile(r"#   (\w+): (\w+) \[([\d, ]+)\]\n((?:#     .*\n)*)")
NUMBER = re.compile(r"-?\d+\.?\d*")
NEEDS = {"letterbox/picture_to_photo": "letterbox/letterbox"}  # it reads that one's results


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the examples in a folder where their commands may write."""
    return pathlib.Path(shutil.copytree(EXAMPLES, tmp_path / "examples"))


def command(name: str) -> tuple[list[str], str]:
    """The arguments of the command in a file's comment, and the output below it."""
    ((line, shown),) = COMMAND.findall((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    arguments = shlex.split(line)
    return arguments if "--output-dir" in arguments else [*arguments, "--output-dir", "results"], shown


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ramp"])  # README.md runs that
def test_the_command_in_the_comment_gives_what_stands_below_it(
    name: str, copy: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir((copy / name).parent)
    for each in [NEEDS[name], name] if name in NEEDS else [name]:
        arguments, shown = command(each)
        result = CliRunner().invoke(main, arguments)
        assert (result.exit_code, result.exception) == (0, None), result.output
    for output, dtype, sizes, numbers in SHOWN.findall(shown):
        array = np.load(f"results/{output}.npy")
        assert f"{array.dtype} {list(array.shape)}" == f"{dtype} [{sizes}]"
        expected = [float(number) for number in NUMBER.findall(numbers)]
        np.testing.assert_allclose(array.ravel(), expected, rtol=1e-3, atol=6e-4)  # shown with 3 places or more


def test_most_comments_show_results():
    without = {name for name in NAMES if name != "ramp" and not SHOWN.search(command(name)[1])}
    random = {"decoder/decoder", "generate_text/decoder", "unet_block"}
    pictures = {"letterbox/letterbox", "letterbox/picture_to_photo", "normalize_photo"}
    assert without == random | pictures


# Scripts.

PRINTED = {
    "causal_attention/causal_attention": "0.7310",
    "decoder/decoder": "204 dispatches, 171 after fusion",
    "digits/digits": "7  100.0%",
    "feed_forward/feed_forward": "difference: ",
    "generate_text/beam_search": "-9.09  The following the statement",
    "generate_text/generate_text": 'The statement these\n    "str.__dict__(',
    "letterbox/letterbox": "[10.  10.  30.  50. ]",
    "moving_average": "9 pixels move, the mean of the background is 101.98",
    "nearest_colours/nearest_colours": "[205 205 205] is nearest to white, then to yellow",
    "owned_weights/owned_weights": "[8.5 3.  4. ]",
    "positional_encoding": "0.841  0.54 ",
    "quantization/quantization": "0.2992",
    "random_numbers": "[0.98771864 0.32706338 0.5139062  0.4543156 ] again",
    "rotary_encoding/rotary_encoding": "8.4147",
    "unet_block": "[[1 0 1 0 0 0 1 1]",
}


# Their own tests run these.
NEED_ARGUMENTS = {
    *("characters/characters", "normalize_photo", "read_text/read_text", "train_digits"),
    "tune_direction/tune_direction",
}


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in NEED_ARGUMENTS])
def test_the_script_runs_and_prints(name: str):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert PRINTED[name] in printed.getvalue()
