"""Clusters: connects to a scheduler, or makes a cluster of this machine's processes.

with connect("tls://scheduler:8786") as client: ...   # machines that someone has started
with connect(workers=4) as client: ...                # processes of this machine
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import DeviceError, DmlGraphError
from dmlgraph.distributed.extra import need

if TYPE_CHECKING:
    from distributed import Client

MEMORY = 1 << 30  # bytes that a worker should have at the least: with less there are fewer workers

# A machine whose processors all compute answers late: nobody is given up because of that.  A worker whose connection
# breaks is noticed at once whatever these are.
_PATIENCE = {
    "distributed.comm.timeouts.connect": "120s",
    "distributed.comm.timeouts.tcp": "300s",
    "distributed.scheduler.worker-ttl": "15 minutes",
}
_LOCAL = {
    # Spawned, so that no thread or lock of this process is copied, and so that all systems do the same.
    "distributed.worker.multiprocessing-method": "spawn",
    # A killed worker says little about the task that it ran: who wants to know gives tasks fewer chances.
    "distributed.scheduler.allowed-failures": 10,
    "distributed.worker.profile.enabled": False,  # it interrupts the worker a hundred times a second
}
# Workers are as many as the processors: each runs on one of them.
_ENVIRONMENT = {"DMLGRAPH_THREADS": "1"}


@contextlib.contextmanager
def connect(
    scheduler: str | None = None, *, workers: int | None = None, memory: int | None = None, seconds: float = 120
) -> Iterator[Client]:
    """A client of a cluster, which is Dask's default inside; at the end the connection is closed.

    Args:
        scheduler: the address of a running scheduler, such as "tcp://10.0.0.1:8786"; for "tls://…" Dask's
            configuration names the certificates.  None: a cluster of spawned processes of this machine with one thread
            each, which ends at the end.
        workers: how many processes a local cluster has; by default one per processor, or fewer where there is less
            than 1 GiB of memory for each.
        memory: the most bytes of each of them; by default an equal part of the machine's memory.  Dask starts a worker
            again that needs more.
        seconds: how long to wait for the scheduler, and for the first worker.

    Raises:
        DmlGraphError: the extra is missing, the scheduler does not answer, or no worker comes.
    """
    need("distributed")
    import dask
    from distributed import Client

    if scheduler is not None and (workers is not None or memory is not None):
        raise DmlGraphError(
            "is for a local cluster: a scheduler has the workers that were started for it",
            code="conflict",
            field="workers" if workers is not None else "memory",
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(_PATIENCE))
        if scheduler is not None:
            _check_answer(scheduler, seconds)
        target = stack.enter_context(_local(workers, memory)) if scheduler is None else scheduler
        client = stack.enter_context(Client(target, timeout=seconds))
        try:
            client.wait_for_workers(1, timeout=seconds)
        except TimeoutError:
            raise DeviceError(
                f"no worker has come to the cluster in {seconds:g} s",
                code="cluster",
                got=scheduler,
                hint="dask worker ADDRESS starts one",
            ) from None
        yield client


@contextlib.contextmanager
def _local(workers: int | None, memory: int | None) -> Iterator[Any]:
    """A cluster of processes of this machine."""
    import dask
    from dask.system import CPU_COUNT
    from distributed import LocalCluster
    from distributed.system import MEMORY_LIMIT

    most = min(int(CPU_COUNT), int(MEMORY_LIMIT) // MEMORY)
    count = max(1, most) if workers is None else workers
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise DmlGraphError("must be a whole number of at least 1", code="range", field="workers", got=workers)
    with (
        dask.config.set(_LOCAL),
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=int(MEMORY_LIMIT) // count if memory is None else memory,
            host="127.0.0.1",  # nobody else can reach it
            dashboard_address="127.0.0.1:0",
            preload=["dmlgraph.distributed.local_worker"],
            silence_logs=logging.CRITICAL,  # a worker that is killed is started again
            env=_ENVIRONMENT | {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ},
        ) as cluster,
    ):
        yield cluster


def _check_answer(scheduler: str, seconds: float) -> None:
    """Connects to a scheduler once: a `Client` that cannot leaves threads and messages behind.

    Raises:
        DeviceError: nobody answers at the address.
    """
    from distributed.comm import connect as connected
    from distributed.security import Security

    async def answer() -> None:
        comm = await connected(scheduler, timeout=seconds, **Security().get_connection_args("client"))
        await comm.close()

    try:
        with concurrent.futures.ThreadPoolExecutor(1) as apart:  # a notebook's thread has a loop of its own
            apart.submit(lambda: asyncio.run(answer())).result()
    except (OSError, ValueError, TypeError) as error:  # the latter two for wrong addresses and certificates
        raise DeviceError(
            f"the scheduler cannot be reached: {error}",
            code="cluster",
            field="scheduler",
            got=scheduler,
            hint="an address such as tcp://10.0.0.1:8786, as 'dask scheduler' prints it",
        ) from None
