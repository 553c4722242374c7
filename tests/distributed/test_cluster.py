"""Connecting to a scheduler, and making a local cluster."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest

import dmlgraph as dg
from dmlgraph.distributed import connect

pytest.importorskip("distributed.client")

import dask
from support.problems import raises


def place() -> tuple[int, str | None]:
    """The process, and how many threads a run has there."""
    return os.getpid(), os.environ.get("DMLGRAPH_THREADS")


def test_a_local_cluster_has_processes_with_one_thread_each(spawned: Any) -> None:
    told = spawned.run(place)
    assert len({process for process, _ in told.values()} | {os.getpid()}) == 3
    assert {threads for _, threads in told.values()} == {"1"}
    assert set(spawned.nthreads().values()) == {1}


def test_only_this_machine_reaches_a_local_cluster(spawned: Any) -> None:
    addresses = [spawned.scheduler.address, *spawned.nthreads()]
    assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)


def test_a_scheduler_is_used_with_the_workers_it_has(spawned: Any) -> None:
    with connect(spawned.scheduler.address) as client:
        assert client.run(place).keys() == spawned.run(place).keys()
    assert spawned.run(place)  # closing a connection ends nothing


def test_a_loop_may_run_in_the_calling_thread(spawned: Any) -> None:
    """As in a notebook."""

    async def cell() -> int:
        with connect(spawned.scheduler.address) as client:
            return len(client.nthreads())

    assert asyncio.run(cell()) == 2


def test_patience_ends_with_the_cluster(spawned: Any) -> None:
    before = dask.config.get("distributed.comm.timeouts.tcp")
    with connect(spawned.scheduler.address):
        assert dask.config.get("distributed.comm.timeouts.tcp") == "300s"
    assert dask.config.get("distributed.comm.timeouts.tcp") == before


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "tls://127.0.0.1:1", "smoke://127.0.0.1:1"])
def test_an_address_where_nobody_answers_is_an_error(address: str) -> None:
    with raises(dg.DeviceError, "cluster", field="scheduler") as told, connect(address, seconds=0.5):
        pass
    assert (told.value.code, told.value.field, told.value.got) == ("cluster", "scheduler", address)


def test_a_scheduler_without_workers_is_an_error() -> None:
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--no-show"]
    command += ["--host", "127.0.0.1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as scheduler:
        assert scheduler.stderr is not None
        address = next(line.split()[-1] for line in scheduler.stderr if "Scheduler at:" in line)
        try:
            with pytest.raises(dg.DeviceError, match="no worker"), connect(address, seconds=1):
                pass
        finally:
            scheduler.kill()


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_the_number_of_workers_is_checked(workers: Any) -> None:
    with raises(dg.DmlGraphError, "range", field="workers", got=workers), connect(workers=workers):
        pass


@pytest.mark.parametrize("given", [{"workers": 2}, {"memory": 1 << 30}])
def test_a_scheduler_has_its_own_workers(given: dict[str, int]) -> None:
    with raises(dg.DmlGraphError, "conflict"), connect("tcp://127.0.0.1:1", **given):
        pass


def test_a_missing_package_names_the_extra() -> None:
    with (
        mock.patch.dict(sys.modules, {"distributed": None}),
        raises(dg.DmlGraphError, "extra", hint='pip install "dmlgraph[distributed]"'),
        connect(),
    ):
        pass


def test_a_misspelled_name_gets_a_hint() -> None:
    import dmlgraph.distributed

    with pytest.raises(AttributeError, match="conect"):
        dmlgraph.distributed.conect  # type: ignore[attr-defined]  # noqa: B018
    assert "connect" in dir(dmlgraph.distributed)
