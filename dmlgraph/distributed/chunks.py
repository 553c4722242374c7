"""A graph over very many chunks of files: a job that can be stopped, or crash, at any moment and goes on when started
again.

    run_chunks("classify.yaml", {"image": "photos/"}, "results/", workers=4)

What is done is what lies in the folder of the results: no list of it is kept elsewhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dmlgraph.distributed.cluster import connect
from dmlgraph.distributed.job import job_of
from dmlgraph.distributed.progress import Progress
from dmlgraph.distributed.runner import GraphLike, Runner
from dmlgraph.distributed.window import Todo, Window

if TYPE_CHECKING:
    from distributed import Client


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """What became of a job.

    Attributes:
        total: the number of chunks.
        before: those that were done before.
        done: those done now.
        failed: those that failed now; the files in `failed/` say why.
        seconds: it took.
        why: what is wrong with the first chunk that failed; None if all are done.
    """

    total: int
    before: int
    done: int
    failed: int
    seconds: float
    why: str | None = None


def run_chunks(
    graph: GraphLike,
    inputs: Mapping[str, Any],
    out: str | os.PathLike[str],
    *,
    device: str = "auto",
    fuse: bool | Iterable[str] = True,
    threads: int | None = None,
    dims: Mapping[str, int] | None = None,
    target: str | None = None,
    metacommands: bool = True,
    half_precision: bool = False,
    chunks: Mapping[str, int] | None = None,
    zarr: bool = False,
    client: Client | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Summary:
    """Runs a graph on all chunks of its inputs, and writes the results as files.

    Started again it does what is missing, and tries failed chunks again, which do not stop the others.

    Args:
        graph, device, fuse, threads, dims, target, metacommands, half_precision: as in `Runner`.
        inputs: for every input of the graph, by name: a folder of .npy files, of which each is a chunk, and those of
            one name belong together; or a .npy file, a .zarr store or an array, which is cut along dims.
        out: the folder for the results, which all machines see under the same path.
        chunks: the sizes of chunks by dim; by default arrays are cut along their first axis, if it is a dim, into
            chunks of about 8 MiB.
        zarr: write one Zarr array for each output instead of files for each chunk.
        client, scheduler, workers: of a cluster; by default `connect(scheduler, workers=workers)`.
        progress: write on standard error how far it is.

    Returns:
        How many chunks were done and failed.

    Raises:
        GraphError: `out` holds the results of another graph or of other inputs.
        DmlGraphError: inputs do not fit the graph, the device is missing on a worker, or the scheduler is lost.
    """
    begin = time.monotonic()
    runner = Runner(
        graph,
        device=device,
        fuse=fuse,
        threads=threads,
        dims=dims,
        target=target,
        metacommands=metacommands,
        half_precision=half_precision,
    )
    job = job_of(runner, inputs, out, chunks, zarr)
    todo = Todo(job, shown := Progress(job.count(), quiet=not progress))
    with contextlib.ExitStack() as stack:
        stack.callback(shown.end)
        if todo.more():  # else no cluster is needed
            cluster = stack.enter_context(connect(scheduler, workers=workers)) if client is None else client
            shown.start()
            Window(cluster, job, shown, todo).run()
    why = job.results.first_failure() if shown.failed else None
    return Summary(shown.total, shown.before, shown.done - shown.before, shown.failed, time.monotonic() - begin, why)
