"""Sweeps over a cluster whose workers have different devices, with tests that fail, hang and crash, and workers that
die."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import platform
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from dmlgraph.devices.names import DeviceName

pytest.importorskip("distributed.client")

import psutil
from click.testing import CliRunner
from distributed import Client, Nanny, Scheduler, SpecCluster
from support.case_processes import BAD, GOOD, LONG, RELU, case_processes, is_gone, until
from support.clusters import workers_inside
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.errors import DmlGraphError
from dmlgraph.cli.commands import main
from dmlgraph.distributed import sweep
from dmlgraph.testing import sweeps
from dmlgraph.testing.allowances import read
from dmlgraph.testing.records import Record
from dmlgraph.testing.subprocess_runner import How

MACHINE = platform.node()
posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no signals")


@pytest.fixture(scope="module")
def lab() -> Iterator[Any]:
    """A client of two workers: one was given the device `cpu`, the other `reference`."""
    local = {"host": "127.0.0.1", "dashboard_address": None}
    workers = {
        name: {"cls": Nanny, "options": {"nthreads": 1, "resources": {name: 1}, **local}}
        for name in ("cpu", "reference")
    }
    scheduler = {"cls": Scheduler, "options": {**local, "port": 0, "protocol": "tcp"}}
    with SpecCluster(workers=workers, scheduler=scheduler, silence_logs=50) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("good", GOOD), ("bad", BAD), ("long", LONG), ("plain", RELU)):
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    return tmp_path


def shown(records: list[Record]) -> list[str]:
    return [f"{record.file}::{record.name} {record.word}" for record in records]


def beside(client: Any, device: DeviceName, act: Callable[[psutil.Process], object]) -> threading.Thread:
    """Does something to the first process in which a test runs on a device's worker, as soon as there is one."""
    workers = client.scheduler_info()["workers"]
    pids = client.run(os.getpid)
    worker = psutil.Process(next(pid for address, pid in pids.items() if device in workers[address]["resources"]))
    thread = threading.Thread(target=lambda: act(until(lambda: case_processes(worker))[0]))
    thread.start()
    return thread


def test_every_graph_runs_on_the_devices_of_all_workers(lab: Any, folder: pathlib.Path) -> None:
    (folder / "good.yaml").write_text(GOOD.replace(", devices: [cpu]", ""), "utf-8")
    came: list[Record] = []
    records = sweep([folder / "good.yaml"], dims={"N": [1, 3]}, client=lab, each=came.append)
    assert shown(records) == [
        f"{folder / 'good.yaml'}::good[{device}] with N={n} on {MACHINE} passed"
        for n in (1, 3)
        for device in ("cpu", "reference")
    ]
    assert len(came) == 4
    assert set(came) == set(records)
    assert {record.attempts for record in records} == {1}


def test_the_doctor_examines_each_graph_once_in_each_place(lab: Any, folder: pathlib.Path) -> None:
    records = sweep([folder / "bad.yaml", folder / "plain.yaml"], client=lab, how=How(doctor=True))
    assert shown(records) == [
        f"{folder / name}::doctor[{device}] on {MACHINE} passed"
        for name in ("bad.yaml", "plain.yaml")
        for device in ("cpu", "reference")
    ]


def test_files_travel_and_graphs_need_none(lab: Any, folder: pathlib.Path) -> None:
    (folder / "sub").mkdir()
    np.save(folder / "sub" / "x.npy", np.array([1, -1], np.float32))
    (folder / "sub" / "g.yaml").write_text(
        GOOD.replace("{value: 1}}, expect: {y: {value: 1}}", "{file: x.npy}}, expect: {y: {data: [1, 0]}}"), "utf-8"
    )
    graph = dg.Graph("made")
    graph.output("y", graph.input("x", sizes=[9], dtype="float32") * graph.constant("w", np.ones(9, np.float32)))
    records = sweep([folder / "sub", graph, "none.yaml"], ["cpu"], client=lab)
    assert shown(records) == [
        f"{folder / 'sub' / 'g.yaml'}::good[cpu] on {MACHINE} passed",
        f"made::run[cpu] on {MACHINE} passed",
        "none.yaml::the file broken",
    ]


@posix
def test_a_test_that_crashes_or_hangs_or_fails_takes_only_itself_with_it(lab: Any, folder: pathlib.Path) -> None:
    (folder / "stuck.yaml").write_text(LONG.replace("long:", "stuck:"), "utf-8")
    (folder / "may.yaml").write_text('- {graph: "b*.yaml", device: cpu, reason: known}\n', "utf-8")
    crash = beside(lab, "reference", lambda process: process.send_signal(signal.SIGSEGV))
    may_fail = read("may.yaml")
    records = sweep(["long.yaml", "bad.yaml", "good.yaml"], client=lab, may_fail=may_fail)
    crash.join()
    records += sweep(["stuck.yaml"], client=lab, seconds=4)
    assert shown(records) == [
        f"long.yaml::long[reference] on {MACHINE} crashed",
        f"bad.yaml::bad[cpu] on {MACHINE} allowed to fail",
        f"good.yaml::good[cpu] on {MACHINE} passed",
        f"stuck.yaml::stuck[reference] on {MACHINE} timed out",
    ]
    assert [record.result.report.partition("\n")[0] for record in records] == [
        "its process was ended by SIGSEGV",
        "bad.yaml:6:9: test 'bad' failed on cpu",
        "",
        "no end after 4 s: the process was killed",
    ]
    assert [record.is_failure for record in records] == [True, False, False, True]
    assert case_processes() == []


@posix
def test_the_test_of_a_worker_that_dies_runs_again_and_is_lost_if_that_goes_on(lab: Any, folder: pathlib.Path) -> None:
    """It runs again on a worker that joined later: the nanny of the one that died starts it."""
    (folder / "slow.yaml").write_text(LONG.replace("9000", "3500"), "utf-8")  # seconds: it can be met
    killed = []

    def kill(process: psutil.Process) -> None:
        killed.append(process)
        process.parent().kill()

    once = beside(lab, "reference", kill)
    (record,) = sweep(["slow.yaml"], client=lab)
    once.join()
    assert (record.word, record.attempts) == ("passed", 2)
    always = beside(lab, "reference", kill)
    (record,) = sweep(["long.yaml"], client=lab, deaths=0)
    always.join()
    assert (record.word, record.attempts) == ("lost", 1)
    assert record.result.report.startswith("the worker died (tcp://127.0.0.1:")
    for process in killed:
        until(functools.partial(is_gone, process))


def test_an_answer_that_its_worker_took_along_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_FETCH", 0.5)
    with workers_inside(2) as client:
        first, second = client.cluster.workers.values()
        futures = [client.submit(str, worker.name, workers=[worker.address], pure=False) for worker in (first, second)]
        for future in futures:
            future.exception()  # waits without fetching
        client.sync(first.close)
        assert [sweeps._answer(future) for future in futures] == [None, str(second.name)]


def test_a_device_that_no_worker_has_is_said(lab: Any, folder: pathlib.Path) -> None:
    (folder / "good.yaml").write_text(GOOD.replace("[cpu]", '[cpu, "directml:77"]'), "utf-8")
    records = sweep(["good.yaml"], client=lab)
    assert shown(records) == [
        "good.yaml::good[directml:77] skipped",
        f"good.yaml::good[cpu] on {MACHINE} passed",
    ]
    assert records[0].result.report == "no worker has 'directml:77'"


def test_the_command_writes_all_reports(lab: Any, folder: pathlib.Path) -> None:
    (folder / "may.yaml").write_text("- {graph: good.yaml, reason: was wrong}\n- {test: x, reason: old}\n", "utf-8")
    (folder / "wrong.yaml").write_text("dmlgraph: 2\n", "utf-8")
    reports = ["--junit", "r.xml", "--jsonl", "r.jsonl", "--html", "r.html", "--allow-failures", "may.yaml"]
    files = ["good.yaml", "bad.yaml", "wrong.yaml"]
    done = CliRunner().invoke(main, ["test", *files, "--scheduler", lab.scheduler.address, *reports])
    assert done.exit_code == 1, done.output
    lines = done.stdout.splitlines()
    assert f"good.yaml::good[cpu] on {MACHINE} passed" in lines
    assert f"bad.yaml::bad[cpu] on {MACHINE} failed" in lines
    assert f"good.yaml::good[cpu] on {MACHINE} passed, and is allowed to fail: was wrong" in lines
    assert "may.yaml:2:3: no test that ran fits this, which is allowed to fail: old" in lines
    assert [line.split() for line in lines if line.startswith(("good.yaml ", "bad.yaml "))] == [
        ["good.yaml", "ok"],
        ["bad.yaml", "1", "failed"],
    ]
    assert lines[-1] == "1 failed, 1 passed, 1 file with errors"
    results = [json.loads(line) for line in (folder / "r.jsonl").read_text("utf-8").splitlines()]
    assert [(each["graph"], each["test"], each["device"], each["outcome"]) for each in results] == [
        ("good.yaml", "good", "cpu", "passed"),
        ("bad.yaml", "bad", "cpu", "failed"),
        ("wrong.yaml", "", "", "broken"),
    ]
    assert (results[0]["machine"], results[0]["may_fail"]) == (MACHINE, "was wrong")
    root = ElementTree.parse(folder / "r.xml").getroot()
    assert [case.get("name") for case in root.iter("testcase")] == [
        f"good[cpu] on {MACHINE}",
        f"bad[cpu] on {MACHINE}",
        "the file",
    ]
    assert "Tests of 3 graphs on 1 device" in (folder / "r.html").read_text("utf-8")


@pytest.mark.usefixtures("folder")
def test_names_choose_tests(lab: Any) -> None:
    done = CliRunner().invoke(main, ["test", "good.yaml", "-k", "nothing", "--scheduler", lab.scheduler.address])
    assert (done.exit_code, "-k and --device leave none of 1 test" in done.stderr) == (2, True), done.output


def test_without_a_cluster_there_is_an_error(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.client._get_global_client", lambda: None)
    with raises(DmlGraphError, "cluster", field=None, got=None):
        sweep([folder / "good.yaml"])


@pytest.mark.parametrize(
    ("wrong", "code", "field"),
    [
        ({"devices": "cpu"}, "kind", "devices"),
        ({"devices": ["gpu"]}, "unknown-device", "device"),
        ({"seconds": 0}, "range", "seconds"),
        ({"seconds": float("nan")}, "range", "seconds"),
    ],
)
def test_wrong_arguments_are_errors(
    lab: Any, folder: pathlib.Path, wrong: dict[str, Any], code: str, field: str
) -> None:
    with raises(DmlGraphError, code, field=field):
        sweep([folder / "good.yaml"], client=lab, **wrong)


def test_a_scheduler_and_workers_exclude_each_other(folder: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["test", str(folder), "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"])
    assert (done.exit_code, "exclude each other" in done.stderr) == (2, True)
