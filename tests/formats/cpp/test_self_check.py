"""What the self-check expects of every node."""

from __future__ import annotations

import pathlib

import numpy as np
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats import cpp
from dmlgraph.formats.cpp.lowered import lowered
from dmlgraph.formats.cpp.self_check import Expected, tables


def halves() -> dg.Graph:
    g = dg.Graph("halves")
    x = g.input("x", sizes=[3], strides=[2], dtype="float32")
    half = dg.activation_linear(x, alpha=0.5, beta=0, name="half")
    g.output("whole", dg.activation_linear(half, alpha=2, beta=0, name="twice"))
    g.output("also", g.value("twice"))
    return g


def test_every_node_is_an_output_in_execution_order() -> None:
    found = lowered(halves(), fuse=False, level=None, expose=True)
    assert found.exposed == {"half": "half", "whole": "twice", "also": "twice"}
    assert [slot.name for slot in found.desc.results] == ["half", "whole", "also"]


def test_an_output_that_has_the_name_of_another_node_keeps_it() -> None:
    g = halves()
    g.output("half", dg.identity(g.value("twice"), name="last"))
    found = lowered(g, fuse=False, level=None, expose=True)
    assert found.exposed == {"half_1": "half", "whole": "twice", "also": "twice", "half": "last"}


def test_what_changes_states_is_an_output_too() -> None:
    g = dg.Graph("counter")
    count = g.state("count", sizes=[1], dtype="int32", initial=2)
    g.update(count, dg.add(count, g.constant("step", [3], dtype="int32"), name="more"))
    g.output("before", dg.identity(count, name="copy"))
    found = lowered(g, fuse=False, level=None, expose=True)
    assert set(found.exposed) >= {"before", "more"}
    expected = Expected.of(found.plain, {})
    places = {slot.name: place for slot, place in zip(found.desc.results, expected.outputs, strict=True)}
    assert int(np.frombuffer(expected.data, np.int32, 1, places["more"])[0]) == 5


def test_expected_values_follow_the_inputs_buffers() -> None:
    found = lowered(halves(), fuse=False, level=None, expose=True)
    expected = Expected.of(found.plain, {"x": np.array([2, 4, 6], np.float32)})
    assert (expected.inputs, expected.outputs) == ([0], [20, 32, 44])
    assert np.frombuffer(expected.data, np.float32).tolist() == [2, 0, 4, 0, 6, *(1, 2, 3), *(2, 4, 6), *(2, 4, 6)]
    filled = tables(expected, found.desc, found.exposed)
    assert filled["expected_bytes"] == "56"
    assert filled["expected_outputs"] == '    {"half", 20},\n    {"twice", 32},\n    {"twice", 44},'


def test_an_array_of_no_input_is_an_error(tmp_path: pathlib.Path) -> None:
    with raises(dg.BindingError, "unknown-array", field="z"):
        cpp.save(halves(), tmp_path, self_check=True, inputs={"z": np.ones(3, np.float32)})


def test_its_files_come_only_if_asked_for(tmp_path: pathlib.Path) -> None:
    cpp.save(halves(), tmp_path / "with", self_check=True)
    cpp.save(halves(), tmp_path / "without")
    more = {path.name for path in (tmp_path / "with").iterdir()} - {
        path.name for path in (tmp_path / "without").iterdir()
    }
    assert more == {"self_check.cpp", "expected.bin"}
    assert "foreach(program main self_check)" in (tmp_path / "with" / "CMakeLists.txt").read_text("utf-8")
