"""Origin: what a graph's file says beside the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from dmlgraph.base.errors import GraphError, Location, Problem
from dmlgraph.base.report import Placed


@dataclasses.dataclass
class Origin:
    """The file that a graph was read from.

    Attributes:
        is_model: whether it is an ONNX model, whose nodes depend on the target.
        tensors: of a model: by the name of a tensor its value's reference, where they differ.
        remarks: warnings of the file, which are not of the graph's nodes.
        fixed: by dim: what cannot follow it.
        tests: the tests beside the graph, by name: each a `dmlgraph.formats.yaml.tests.GraphTest`.
        workarounds: for devices that compute nodes wrong: each a `dmlgraph.devices.workarounds.Workaround`.
        fused: whether it was saved after fusion, so that nothing of it is to be fused again.
        training: how the graph is trained, a `dmlgraph.training.description.Training`; None if nothing says it.
        places: by node: its place, and those of its fields; by None: those of fields of the graph.
    """

    is_model: bool = False
    tensors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    remarks: tuple[Problem, ...] = ()
    fixed: dict[str, str] = dataclasses.field(default_factory=dict)
    tests: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    workarounds: tuple[Any, ...] = ()
    fused: bool = False
    training: Any = None
    places: dict[str | None, tuple[Placed | None, Mapping[str, Placed]]] = dataclasses.field(default_factory=dict)

    def copy(self) -> Origin:
        """The same, for a graph that may change."""
        return dataclasses.replace(self, fixed=dict(self.fixed), places=dict(self.places))

    def forget(self, removed: Collection[str]) -> None:
        """Drops what is said of removed nodes, the tests that give or expect one of them, and what trains by one."""
        for name in removed:
            self.places.pop(name, None)
        self.tests = {
            name: test
            for name, test in self.tests.items()
            if not any(section != "expect" and of in removed for section, of, _ in test.contents)
        }
        self.training = self.training and self.training.without(removed)

    def forget_output(self, name: str) -> None:
        """Drops what is expected of a removed output, and the training whose loss it is."""
        left = {key: test.without(name) for key, test in self.tests.items()}
        self.tests = {key: test for key, test in left.items() if test is not None}
        self.training = self.training and self.training.without([name])

    def located(self, problem: Problem) -> Problem:
        """The problem with its place in the file: its field's, else its node's."""
        return problem.at(location=self.location(problem.node, problem.field))

    def location(self, node: str | None, field: str | None = None) -> Location | None:
        """The place of a field, else of its node; None where that is unknown."""
        named, fields = self.places.get(node, (None, {}))
        path = field or ""
        placed = fields.get(path) or fields.get(path.partition(".")[0]) or named
        if placed is None:
            return None
        used_by = named.location.used_by if named is not None else None
        return placed.location if used_by is None else dataclasses.replace(placed.location, used_by=used_by)

    def check_changed(self, dims: Mapping[str, int], now: Mapping[str, int]) -> None:
        """Refuses other sizes of dims that cannot change: the file must be read again."""
        for dim, size in dims.items():
            if dim in self.fixed and size != now[dim]:
                raise GraphError(
                    f"cannot have another value now: it is in {self.fixed[dim]}",
                    code="fixed-dim",
                    field=f"dims.{dim}",
                    got=size,
                    hint=f"make the graph with it, or load the file that it was made of with dims={{'{dim}': {size}}}",
                )
