"""A graph over the blocks of Dask arrays.

y = map_blocks(graph, {"x": dask_array, "w": numpy_array})["y"]     # a Dask array, nothing is computed yet
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import BindingError, DmlGraphError, GraphError, check_known, listing, suggestion
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.devices.executable import Array, by_name
from dmlgraph.distributed.extra import need
from dmlgraph.distributed.runner import GraphLike, Runner, fitting_dims, named_axes

if TYPE_CHECKING:
    import dask.array as da

    from dmlgraph.graph.graph import Graph


def map_blocks(
    graph: GraphLike,
    inputs: Mapping[str, Any],
    *,
    device: str = "auto",
    fuse: bool | Iterable[str] = True,
    threads: int | None = None,
    dims: Mapping[str, int] | None = None,
    metacommands: bool = True,
    half_precision: bool = False,
    outputs: Iterable[str] | None = None,
) -> dict[str, da.Array]:
    """Runs a graph on each block of Dask arrays: a lazy Dask array for every output, by name.

    Blocks may lie along any axes of the inputs whose sizes are dims of the graph, such as `batch`; an axis with another
    size is in one block.  Arrays with a dim in common are cut alike.  A block is a run: an operator that looks
    across the axis, as a mean over the batch does, sees one block.

    The graph and NumPy arrays without a cut axis travel once to each worker.  Several outputs come of the same run if
    they are computed together: `dask.compute(*results.values())`.

    Args:
        graph, device, fuse, threads, dims, metacommands, half_precision: as in `Runner`.
        inputs: an array for every input, by name: a Dask array, or an array.
        outputs: the names of the outputs; by default all.

    Raises:
        DmlGraphError: arrays do not fit the graph, a cut axis is not a dim, the graph cannot have the blocks' sizes,
            or an output has not just one axis that follows each dim along which inputs are cut.
    """
    need("dask.array")
    import dask.array as da

    arrays = dict(by_name(inputs, "inputs"))
    whole = {name: np.asarray(array) for name, array in arrays.items() if not isinstance(array, da.Array)}
    runner = Runner(
        graph,
        device=device,
        fuse=fuse,
        threads=threads,
        dims=dims,
        inputs=whole,
        metacommands=metacommands,
        half_precision=half_precision,
    )
    cut = _cut(runner.graph, {name: array for name, array in arrays.items() if name not in whole}, runner.inputs)
    wanted = _wanted(runner.graph, outputs)
    return _lazy(runner, cut, forms(runner.graph, cut, wanted))


def _lazy(runner: Runner, cut: Cut, outputs: Mapping[str, Form]) -> dict[str, da.Array]:
    """A Dask array for each output, of which each block is a run."""
    import dask
    import dask.array as da

    runner.inputs = {name: array for name, array in runner.inputs.items() if name not in cut.arrays}
    key = dask.base.tokenize(runner.recipe.key, runner.inputs)
    once = dask.delayed(runner, name=f"dmlgraph-runner-{key}", traverse=False)  # a task of its own: it travels alone
    blocks = (part for name, array in cut.arrays.items() for part in (array, cut.labels[name]))
    loop = tuple(dict.fromkeys(label for labels in cut.labels.values() for label in labels))
    runs = da.blockwise(
        *(_run, loop, once, None, tuple(cut.arrays), None, *blocks),
        name=f"dmlgraph-{dask.base.tokenize(key, list(cut.arrays.items()))}",
        meta=np.empty((0,) * len(loop), object),
        align_arrays=False,
    )
    return {
        name: da.blockwise(
            *(_output, form.labels, name, None, runs, loop),
            name=f"{name}-{dask.base.tokenize(runs.name, name)}",
            meta=np.empty((0,) * len(form.desc.sizes), form.desc.dtype.numpy),
            new_axes=form.new,
            adjust_chunks=form.chunks,
            concatenate=False,
        )
        for name, form in outputs.items()
    }


def _run(runner: Runner, names: tuple[str, ...], *blocks: Array) -> dict[str, Array]:
    """The outputs for a block of each array."""
    return runner.run(dict(zip(names, blocks, strict=True)))


def _output(name: str, outputs: Any) -> Array:
    """An output of a run; Dask puts a list around it for each axis that the output does not have."""
    while isinstance(outputs, list):
        (outputs,) = outputs
    array: Array = outputs[name]
    return array


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """Arrays that are cut into blocks.

    Attributes:
        arrays: Dask arrays by name of the input.
        labels: a label for each of their axes: a dim, or one that no other axis has.
        chunks: the sizes of the blocks along each dim.
        dims: the dims that the whole arrays determine and no block changes.
    """

    arrays: dict[str, Any]
    labels: dict[str, tuple[str, ...]]
    chunks: dict[str, tuple[int, ...]]
    dims: dict[str, int]

    @property
    def along(self) -> dict[str, tuple[int, ...]]:
        """The sizes of the blocks along the dims that have several."""
        return {dim: sizes for dim, sizes in self.chunks.items() if len(sizes) > 1}

    @property
    def first(self) -> dict[str, int]:
        """The dims of the first block."""
        return self.dims | {dim: sizes[0] for dim, sizes in self.chunks.items()}


def _cut(graph: Graph, arrays: Mapping[str, Any], whole: Mapping[str, Array]) -> Cut:
    """The Dask arrays with equal blocks along equal dims, and with them the arrays that have such a dim."""
    import dask.array as da

    names = [node.name for node in graph.inputs]
    check_known(arrays, names, "input")
    missing = [name for name in names if name not in arrays and name not in whole]
    if missing:
        raise BindingError(f"inputs are missing: {listing(missing)}", code="missing-input")
    for name, array in arrays.items():
        _check(graph, name, array)
    fitting_dims(graph, {name: array.shape for name, array in (*whole.items(), *arrays.items())})
    axes = {name: named_axes(graph, name) for name in names}
    cut = {
        dim
        for name, array in arrays.items()
        for dim, blocks in zip(axes[name], array.numblocks, strict=True)
        if dim is not None and blocks > 1
    }
    taken = dict(arrays)
    for name, array in whole.items():
        if not arrays or cut & set(axes[name]):  # a run needs an array to belong to
            taken[name] = da.from_array(array, chunks=-1)
    if not taken:
        raise BindingError("the graph has no input that could be cut into blocks", code="missing-input")
    labels = {
        name: tuple(dim or f"{name}[{axis}]" for axis, dim in enumerate(axes[name])) for name in names if name in taken
    }
    chunks, unified = da.core.unify_chunks(*(part for name in labels for part in (taken[name], labels[name])))
    known = fitting_dims(graph, {name: array.shape for name, array in whole.items() if name not in taken})
    along = {dim: tuple(map(int, chunks[dim])) for dim in graph.dims if dim in chunks}
    return Cut(dict(zip(labels, unified, strict=True)), labels, along, known)


def _check(graph: Graph, name: str, array: Any) -> None:
    """Refuses a Dask array of another data type or rank, of unknown sizes, or cut where the graph names no size."""
    desc = graph.desc(name, 0)
    if array.dtype != desc.dtype.numpy:
        hint = f"array.astype('{desc.dtype}') converts"
        raise BindingError.another("data type", name, str(array.dtype), desc.dtype, hint=hint)
    if array.ndim != len(desc.sizes):
        raise BindingError.another("rank", name, list(array.shape), f"{len(desc.sizes)} dimensions")
    for axis, (dim, size, blocks) in enumerate(zip(named_axes(graph, name), array.shape, array.numblocks, strict=True)):
        if np.isnan(size):
            raise BindingError(
                "has blocks of unknown sizes",
                code="sizes",
                field=f"{name}[{axis}]",
                hint="array.compute_chunk_sizes() finds them",
            )
        if dim is None and blocks > 1:
            raise BindingError(
                "is cut into blocks along an axis whose size is not a dim of the graph",
                code="sizes",
                field=f"{name}[{axis}]",
                got=f"{blocks} blocks",
                hint=f"array.rechunk({{{axis}: -1}}) makes one block of them",
            )


def _wanted(graph: Graph, outputs: Iterable[str] | None) -> list[str]:
    names = list(graph.outputs)
    wanted = names if outputs is None else list(outputs)
    check_known(wanted, names, "output")
    if not wanted:
        raise GraphError("there is no output to compute", code="no-outputs", hint=suggestion("", names))
    return wanted


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """The blocks of an output.

    Attributes:
        desc: the output for the first block.
        labels: a label for each axis: the dim that it follows, or one that no other has.
        chunks: the sizes of its blocks along the dims.
        new: the sizes of the other axes by label.
    """

    desc: TensorDesc
    labels: tuple[str, ...]
    chunks: dict[str, tuple[int, ...]]
    new: dict[str, int]


def forms(graph: Graph, cut: Cut, wanted: Iterable[str]) -> dict[str, Form]:
    """The blocks of each output.

    Raises:
        DmlGraphError: the graph cannot have the sizes of the blocks, or an output is not made of blocks.
    """
    _check_blocks(graph, cut)
    first = graph.with_dims(cut.first).output_descs
    by_size = {dim: dict(_by_size(graph, cut, dim)) for dim in cut.along}
    made = {}
    for name in wanted:
        desc = first[name]
        followed: dict[int, str] = {}  # the dim that an axis follows
        for dim, found in by_size.items():
            sizes = [tuple(descs[name].sizes) for descs in found.values()]
            axes = [axis for axis in range(len(desc.sizes)) if len({each[axis] for each in sizes}) > 1]
            if len(axes) != 1 or axes[0] in followed:
                raise GraphError(
                    f"must have one axis that follows the dim '{dim}', along which inputs are cut, and no other dim",
                    code="sizes",
                    field=f"outputs.{name}",
                    got=list(desc.sizes),
                    hint=f"make one block along '{dim}' with array.rechunk, or leave it out: outputs=[…]",
                )
            followed[axes[0]] = dim
        labels = tuple(followed.get(axis, f"{name}[{axis}]") for axis in range(len(desc.sizes)))
        chunks = {
            dim: tuple(by_size[dim][size][name].sizes[axis] for size in cut.chunks[dim])
            for axis, dim in followed.items()
        }
        new = {label: desc.sizes[axis] for axis, label in enumerate(labels) if axis not in followed}
        made[name] = Form(desc, labels, chunks, new)
    return made


def _check_blocks(graph: Graph, cut: Cut) -> None:
    """Refuses arrays whose first blocks do not have the sizes of the inputs."""
    sized = graph.with_dims(cut.first)
    for name, array in cut.arrays.items():
        block = [sizes[0] for sizes in array.chunks]
        wanted = list(sized.desc(name, 0).sizes)
        if block != wanted:
            raise BindingError(
                "the blocks have another shape", code="sizes", field=name, got=block, allowed=str(wanted)
            )


def _by_size(graph: Graph, cut: Cut, dim: str) -> Iterator[tuple[int, Mapping[str, TensorDesc]]]:
    """The outputs for each size of the blocks along a dim, and for another size if all blocks have the same."""
    sizes = sorted(set(cut.chunks[dim]))
    for size in sizes:
        yield size, graph.with_dims(cut.first | {dim: size}).output_descs
    if len(sizes) == 1:
        (size,) = sizes
        for other in (2 * size, size + 1, max(1, size // 2), 1):
            if other != size:
                try:
                    yield other, graph.with_dims(cut.first | {dim: other}).output_descs
                except DmlGraphError:
                    continue  # the graph cannot have this size
                return
