"""Tests beside a graph: the section `tests` of a graph file.

    tests:
      ones:
        dims: {N: 4}
        inputs: {x: {value: 1}}
        expect: {y: {data: [3, 5, 7]}}
        ulp: 2
        devices: [cpu]
      goes_on:
        inputs: {x: {value: 1}}
        states: {sum: {value: 5}}
        steps: 3
        collect: [y]
        expect: {y: {data: [6, 7, 8]}}
        expect_states: {sum: {value: 8}}

Reading a graph checks its tests as far as that needs neither the files they name nor the graph with other dims;
`check_tests` checks the rest.  `dmlgraph.testing` runs them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import (
    DocumentError,
    Location,
)
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.formats.yaml.contents import Content
from dmlgraph.formats.yaml.state_contents import StateContent

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.graph.graph import Graph

    Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class GraphTest:
    """A test of a graph.

    Attributes:
        name: unique in its graph.
        key: the place of its name.
        tree: as it is written.
        file_dims: the dims of the file, with which `dims` are completed where the graph has no others.
        dims: the sizes with which it runs, for some of the graph's dims.
        inputs: the content of each input.
        states: what states hold before; others hold what they hold at first.
        steps: how often the graph runs; None: once.
        collect: the outputs that are expected of every step, with a new first axis.
        expect: the content of outputs.
        same_as: for other outputs, the device that computes what is expected, without fusion.
        expect_states, states_same_as: the same of states after the last step.
        ulp, relative, absolute: the distances at which numbers are as expected; any of them is enough.
        devices: where it runs; None: on all devices of the machine.
    """

    name: str
    key: Tree
    tree: Tree
    file_dims: Mapping[str, int]
    dims: Mapping[str, int]
    inputs: Mapping[str, Content]
    states: Mapping[str, StateContent]
    steps: int | None
    collect: tuple[str, ...]
    expect: Mapping[str, Content]
    same_as: Mapping[str, str]
    expect_states: Mapping[str, StateContent]
    states_same_as: Mapping[str, str]
    ulp: int
    relative: float
    absolute: float
    devices: tuple[str, ...] | None

    @property
    def location(self) -> Location:
        return self.key.location

    def sized(self, graph: Graph) -> Graph:
        """The graph with the dims of the test.

        Raises:
            DmlGraphError: it is not legal with them.
        """
        same = all(graph.dims.get(dim) == size for dim, size in self.dims.items())
        return graph if same else graph.with_dims(self.dims)

    def input_arrays(self, graph: Graph) -> dict[str, Array]:
        """The array of each input of the graph with the test's dims.

        Raises:
            DocumentError: contents that do not fit, or files that cannot be read.
        """
        return _arrays(self.inputs, {node.name: node.desc for node in graph.inputs}, graph.dims)

    def expected_arrays(self, graph: Graph) -> dict[str, Array]:
        """The expected array of each output with a content; raises as `input_arrays`."""
        return _arrays(self.expect, output_descs(graph, self.collect, self.steps), graph.dims)

    def state_arrays(self, graph: Graph) -> dict[str, Array]:
        """What states hold before, as far as the test says it; raises as `input_arrays`."""
        return _state_arrays(self.states, graph)

    def expected_states(self, graph: Graph) -> dict[str, Array]:
        """The expected array of each state with a content; raises as `input_arrays`."""
        return _state_arrays(self.expect_states, graph)

    def check(self, graph: Graph) -> None:
        """Checks everything that a run needs, in the graph of its file.

        Raises:
            DmlGraphError: what is wrong.
        """
        dims = {**self.file_dims, **self.dims}
        graph = graph if graph.dims == dims else graph.with_dims(dims)
        with Report(DocumentError) as report:
            for arrays in (self.input_arrays, self.state_arrays, self.expected_arrays, self.expected_states):
                with report.at():
                    arrays(graph)

    def without(self, output: str) -> GraphTest | None:
        """The test without what it expects of an output; None if it expects nothing else."""
        expect = {name: each for name, each in self.expect.items() if name != output}
        same_as = {name: each for name, each in self.same_as.items() if name != output}
        collect = tuple(name for name in self.collect if name != output)
        left = dataclasses.replace(self, expect=expect, same_as=same_as, collect=collect)
        return left if expect or same_as or self.expect_states or self.states_same_as else None

    @property
    def contents(self) -> Iterator[tuple[str, str, Content]]:
        """Every content: its section, the name of its tensor, and it."""
        for section, contents in (("inputs", self.inputs), ("expect", self.expect)):
            yield from ((section, name, content) for name, content in contents.items())
        for section, states in (("states", self.states), ("expect_states", self.expect_states)):
            yield from ((section, name, each.content) for name, each in states.items())

    def plain(self, files: Mapping[Content, str]) -> dict[str, Any]:
        """The test as a mapping for a graph file; `files`: other names for the files of its contents."""
        plain: dict[str, Any] = self.tree.plain
        if self.collect or "collect" in plain:
            plain["collect"] = list(self.collect)
        if isinstance(plain.get("expect"), dict):
            known = {*self.expect, *self.same_as, "same_as"}
            plain["expect"] = {name: each for name, each in plain["expect"].items() if name in known}
        for section, name, content in self.contents:
            if content in files:
                plain[section][name] = {"file": files[content]}
        return plain


def check_tests(graph: Graph) -> None:
    """Checks everything that the tests of a graph need to run, such as the files they name.

    Raises:
        DocumentError: every problem.
    """
    with Report(DocumentError, place=lambda each: each.at(location=graph.origin.location(each.node))) as report:
        for test in graph.origin.tests.values():
            with report.at():
                test.check(graph)


def _arrays(
    contents: Mapping[str, Content], descs: Mapping[str, TensorDesc], dims: Mapping[str, int]
) -> dict[str, Any]:
    arrays = {}
    with Report(DocumentError) as report:
        for name, content in contents.items():
            with report.at():
                arrays[name] = content.array(descs[name], dims, name)
    return arrays


def _state_arrays(contents: Mapping[str, StateContent], graph: Graph) -> dict[str, Any]:
    nodes, arrays = {node.name: node for node in graph.states}, {}
    with Report(DocumentError) as report:
        for name, content in contents.items():
            with report.at():
                node = nodes[name]
                arrays[name] = content.array(node.desc, node.grows, graph.dims, name)
    return arrays


def output_descs(graph: Graph, collect: Collection[str], steps: int | None) -> dict[str, TensorDesc]:
    """The outputs of a number of steps; those to collect have a new first axis."""
    descs = {name: value.desc for name, value in graph.outputs.items()}
    for name in descs.keys() & set(collect):
        descs[name] = TensorDesc(dtype=descs[name].dtype, sizes=(steps or 1, *descs[name].sizes))
    return descs
