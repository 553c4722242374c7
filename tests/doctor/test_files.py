"""The files of a diagnosis."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pytest
from support.faulty_device import Call, faulty

import dmlgraph as dg
from dmlgraph.devices import Choice
from dmlgraph.doctor.diagnosis import diagnose
from dmlgraph.doctor.files import write
from dmlgraph.doctor.trials import Trials

X = np.random.default_rng(0).normal(size=(3, 20)).astype(np.float32)


def graph() -> dg.Graph:
    g = dg.Graph("secret")
    x = g.input("x", sizes=[3, 20], dtype="float32")
    g.output("y", dg.activation_softmax(dg.exp(x, name="before"), name="soft"))
    return g


def wrong_softmax() -> Choice:
    return faulty(lambda call: call.operator.name == "activation_softmax")


def test_all_of_them(tmp_path: pathlib.Path) -> None:
    found = diagnose(graph(), ["soft"], {"x": X}, wrong_softmax())
    written = write(found, tmp_path / "new")
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == sorted(written)
    assert list(written) == [
        *("report.txt", "report.html", "case.yaml", "case.json", "cpp", "workaround.yaml", "detoured.yaml")
    ]
    trials = Trials(wrong_softmax())
    for name in ("workaround.yaml", "detoured.yaml"):
        assert trials.run_whole(dg.load(tmp_path / "new" / name), {"x": X}).is_right
    for name in ("report.txt", "report.html", "case.yaml", "case.json"):
        assert "secret" not in (tmp_path / "new" / name).read_text("utf-8")


def test_without_a_way_there_is_only_the_report(tmp_path: pathlib.Path) -> None:
    found = diagnose(graph(), ["before"], {"x": X}, faulty(lambda _: True))
    assert list(write(found, tmp_path)) == ["report.txt", "report.html", "case.yaml", "case.json", "cpp"]


def test_what_the_node_read_on_the_device_counts() -> None:
    """The fault is for a number that the reference does not compute."""

    def is_wrong(call: Call) -> bool:
        return call.operator.name == "activation_softmax" and bool((call.given[0] == 77).any())

    assert diagnose(graph(), ["soft"], {"x": X}, faulty(is_wrong)).case is None
    read = {"input": np.full((3, 20), 77, np.float32)}
    assert diagnose(graph(), ["soft"], {"x": X}, faulty(is_wrong), read=read).case is not None


@pytest.mark.parametrize(("runs", "seen"), [(1, False), (2, True)])
def test_results_that_change_from_run_to_run(runs: int, seen: bool) -> None:
    calls = itertools.count()
    trials = Trials(faulty(lambda _: next(calls) % 2 == 1), runs=runs)
    g = dg.Graph()
    g.output("y", dg.exp(g.input("x", sizes=[3, 20], dtype="float32"), name="y"))
    assert trials.is_wrong(g, {"x": X}) is seen
    assert trials.executions == runs


def test_a_node_that_reads_nothing(tmp_path: pathlib.Path) -> None:
    g = dg.Graph()
    ramp = g.fill_value_sequence(sizes=[1, 4], dtype="float32", value_start=3, value_delta=2, name="ramp")
    g.output("y", dg.multiply(g.input("x", sizes=[1, 4], dtype="float32"), ramp))
    found = diagnose(g, ["ramp"], {"x": np.ones((1, 4), np.float32)}, faulty(lambda call: not call.given))
    assert found.case is not None
    assert found.outcome is not None
    assert found.outcome.is_wrong
    assert "case.yaml" in write(found, tmp_path, with_data=True)
