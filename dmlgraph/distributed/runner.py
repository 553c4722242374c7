"""Runner: a graph as a function of named arrays, which any engine can send to its workers.

    ray_dataset.map_batches(Runner(graph, device="cpu"), batch_size=64)

It depends on no engine.  A worker that unpickles it compiles the graph once for each choice of sizes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import BindingError, Problem, check_known
from dmlgraph.devices import check_name
from dmlgraph.devices.executable import Array, by_name
from dmlgraph.devices.recipe import MOST, Recipe, SharedFile, Source, chosen_rules
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.states import refuse_states

GraphLike = Graph | str | os.PathLike[str]


class Runner:
    """Runs a graph on batches: a mapping from names to arrays in, one out.

    Sizes that the graph names follow the arrays: a last batch that is smaller is a second compilation.

    Args:
        graph: a graph, which travels with its constants; or the path of a graph file or an ONNX model that every
            machine sees, of which the path and a digest travel.
        device, fuse, threads, metacommands, half_precision: as in `Graph.compile`.
        dims: other values for the graph's dims.
        inputs: arrays of inputs that are the same for each batch, by name.
        target: the feature level for an ONNX model at a path.

    Raises:
        DmlGraphError: the graph, the device's name or an input is wrong.
    """

    def __init__(
        self,
        graph: GraphLike,
        *,
        device: str = "auto",
        fuse: bool | Iterable[str] = True,
        threads: int | None = None,
        dims: Mapping[str, int] | None = None,
        inputs: Mapping[str, Any] | None = None,
        target: str | None = None,
        metacommands: bool = True,
        half_precision: bool = False,
    ) -> None:
        check_name(device)
        if isinstance(graph, Graph):
            source = Source.of(graph if dims is None else graph.with_dims(dims))
        else:
            source = SharedFile(graph, dims, target=target)
        self.recipe = Recipe(
            source,
            device,
            chosen_rules(fuse),
            threads,
            metacommands=metacommands,
            half_precision=half_precision,
        )
        self._recipes: dict[tuple[tuple[str, tuple[int, ...]], ...], Recipe] = {}  # by the shapes of the arrays
        self.inputs = {name: np.asarray(array) for name, array in by_name(inputs, "inputs").items()}
        refuse_states(self.graph, "a batch, which may run anywhere and in any order,")
        known = [node.name for node in self.graph.inputs]
        check_known(self.inputs, known, "input")

    @property
    def graph(self) -> Graph:
        return self.recipe.source.graph

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for a batch, by name, and the arrays of the batch that are not inputs of the graph.

        Raises:
            DmlGraphError: the device is not here, or the arrays do not fit the graph.
        """
        known = {node.name for node in self.graph.inputs}
        given = {name: np.asarray(array) for name, array in batch.items() if name in known}
        return {name: array for name, array in batch.items() if name not in known} | self.run(given)

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs for the arrays of all inputs that are not the same for each batch."""
        arrays = self.inputs | dict(arrays)
        shapes = tuple((name, array.shape) for name, array in arrays.items())
        recipe = self._recipes.get(shapes)
        if recipe is None:
            recipe = self.recipe.with_dims(fitting_dims(self.graph, dict(shapes)))
            if len(self._recipes) < MOST:
                self._recipes[shapes] = recipe
        return recipe.shared().run(arrays)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_recipes": {}}

    def __repr__(self) -> str:
        return f"<Runner of {self.graph.name} on {self.recipe.device}>"


def named_axes(graph: Graph, name: str) -> tuple[str | None, ...]:
    """The dim that each axis of an input is as large as; None for an axis whose size is a number or computed."""
    node = graph.node(name)
    declared = (str(size) for size in node.declared["sizes"])  # type: ignore[union-attr]
    return tuple(size if size in graph.dims else None for size in declared)


def fitting_dims(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The dims with which the graph has inputs of these shapes, as far as they determine any.

    Raises:
        BindingError: a name is not an input's, the rank is another, or two axes want other values for a dim.
    """
    names = [node.name for node in graph.inputs]
    found: dict[str, tuple[int, str]] = {}  # by dim: its size, and of which axis
    problems: list[Problem] = []
    for name, shape in shapes.items():
        check_known([name], names, "input")
        axes = named_axes(graph, name)
        if len(shape) != len(axes):
            problems += BindingError.another("rank", name, list(shape), f"{len(axes)} dimensions").problems
            continue
        for axis, (dim, size) in enumerate(zip(axes, shape, strict=True)):
            if dim is not None:
                known, where = found.setdefault(dim, (size, f"{name}[{axis}]"))
                if known != size:
                    problems.append(
                        Problem(
                            f"the dim '{dim}' has two sizes",
                            code="sizes",
                            field=f"{name}[{axis}]",
                            got=size,
                            allowed=f"{known}, as in {where}",
                        )
                    )
    if problems:
        raise BindingError(problems)
    return {dim: size for dim, (size, _) in found.items()}
