"""Clusters for the tests, which are made once: one inside this process, and one of spawned processes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spawned() -> Iterator[Any]:
    """A client of two spawned workers. They cannot import the tests, so functions of a test reach them as code."""
    pytest.importorskip("distributed.client")
    import cloudpickle

    from dmlgraph.distributed import connect

    for name, module in list(sys.modules.items()):  # each by its name: distributed does not look at a module's package
        if name.startswith("tests."):
            cloudpickle.register_pickle_by_value(module)
    with connect(workers=2) as client:
        yield client


@contextlib.contextmanager
def workers_inside(count: int) -> Iterator[Any]:
    """A client of workers in this process, with one thread each."""
    pytest.importorskip("distributed.client")  # the folder of these tests has the package's name
    import distributed

    options: Any = {"processes": False, "n_workers": count, "threads_per_worker": 1}
    with distributed.Client(**options, dashboard_address="127.0.0.1:0", set_as_default=False) as client:
        yield client


@pytest.fixture(scope="session")
def inside() -> Iterator[Any]:
    """A client of a worker with one thread in this process."""
    with workers_inside(1) as client:
        yield client
