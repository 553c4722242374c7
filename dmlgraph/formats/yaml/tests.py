"""Tests beside a graph: the section `tests` of a graph file.

    tests:
      ones:
        dims: {N: 4}
        inputs: {x: {value: 1}}
        expect: {y: {data: [3, 5, 7]}}
        ulp: 2
        devices: [cpu]

Reading a graph checks its tests as far as that needs neither the files they name nor the graph with other dims;
`check_tests` checks the rest.  `dmlgraph.testing` runs them.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import (
    DocumentError,
    Location,
    Problem,
    listing,
    suggestion,
)
from dmlgraph.base.report import Part, Report
from dmlgraph.formats.arrays import Folder
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.tree import Tree, is_finite
from dmlgraph.formats.yaml.contents import EXAMPLE, KINDS, Content, read_content
from dmlgraph.graph.dims import Dims

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.base.tensor import TensorDesc
    from dmlgraph.graph.graph import Graph

    Array = np.ndarray[Any, Any]

KEYS = ("dims", "inputs", "expect", "ulp", "absolute", "relative", "devices")
SAME_AS = "same_as"
EXPECTED = (*(kind for kind in KINDS if kind != "random"), SAME_AS)


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
        expect: the content of outputs.
        same_as: for other outputs, the device that computes what is expected, without fusion.
        ulp, relative, absolute: the distances at which numbers are as expected; any of them is enough.
        devices: where it runs; None: on all devices of the machine.
    """

    name: str
    key: Tree
    tree: Tree
    file_dims: Mapping[str, int]
    dims: Mapping[str, int]
    inputs: Mapping[str, Content]
    expect: Mapping[str, Content]
    same_as: Mapping[str, str]
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
        return _arrays(self.expect, {name: value.desc for name, value in graph.outputs.items()}, graph.dims)

    def check(self, graph: Graph) -> None:
        """Checks everything that a run needs, in the graph of its file.

        Raises:
            DmlGraphError: what is wrong.
        """
        dims = {**self.file_dims, **self.dims}
        graph = graph if graph.dims == dims else graph.with_dims(dims)
        with Report(DocumentError) as report:
            for arrays in (self.input_arrays, self.expected_arrays):
                with report.at():
                    arrays(graph)

    @property
    def contents(self) -> Iterator[tuple[str, str, Content]]:
        """Every content: its section, the name of its tensor, and it."""
        for section, contents in (("inputs", self.inputs), ("expect", self.expect)):
            yield from ((section, name, content) for name, content in contents.items())

    def plain(self, files: Mapping[Content, str]) -> dict[str, Any]:
        """The test as a mapping for a graph file; `files`: other names for the files of its contents."""
        plain: dict[str, Any] = self.tree.plain
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


# Reading.


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What tests are checked against.

    Attributes:
        graph: as far as it could be read.
        dims: of the file.
        inputs: the names of the inputs in the file.
        outputs: the names of the outputs in the file.
        folder: of the file; None if it has none.
    """

    graph: Graph
    dims: Mapping[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    folder: Folder


def read_tests(section: Tree, facts: Facts, report: Report) -> dict[str, GraphTest]:
    """The tests in a section that is a mapping, without those that are not mappings."""
    tests = {}
    for name, tree in section.value.items():
        key = section.keys[name]
        if not name or name != name.strip() or not name.isprintable():
            allowed = "printable text without spaces at its ends"
            report.problem("is not a name", key, "name", "tests", got=name, allowed=allowed)
        elif not isinstance(tree.value, dict):
            hint = "such as {inputs: {x: {value: 1}}, expect: {y: {same_as: reference}}}"
            report.problem("must be a mapping", tree, "kind", f"tests.{name}", got=tree.plain, hint=hint)
        else:
            tests[name] = _TestReader(name, key, tree, facts, report).read()
    return tests


class _TestReader:
    """Reads one test; every problem has the place of the field in which it is."""

    def __init__(self, name: str, key: Tree, tree: Tree, facts: Facts, report: Report) -> None:
        self.name, self.key, self.facts, self.report = name, key, facts, report
        self.path = f"tests.{name}"
        self.tree = known_keys(tree, KEYS, report, within=self.path)

    def read(self) -> GraphTest:
        dims = self._dims()
        inputs = dict(self._contents("inputs", self.facts.inputs, KINDS))
        expect: dict[str, Content] = {}
        same_as: dict[str, str] = {}
        devices: dict[str, str | None] = {}  # by field, which all outputs may share
        for name, content in self._expected():
            if content.kind == SAME_AS:
                if content.field not in devices:
                    tree = content.tree.value[SAME_AS]
                    devices[content.field] = self._device(tree, f"{content.field}.{SAME_AS}")
                device = devices[content.field]
                if device is not None:
                    same_as[name] = device
            else:
                expect[name] = content
        self._check(inputs, expect, {**self.facts.dims, **dims})
        ulp = self._distance("ulp", "whole number", "units in the last place", _is_count)
        relative, absolute = (
            float(self._distance(key, "finite number", "such as 1e-6", _is_bound)) for key in ("relative", "absolute")
        )
        return GraphTest(
            self.name,
            self.key,
            self.tree,
            self.facts.dims,
            dims,
            inputs,
            expect,
            same_as,
            ulp,
            relative,
            absolute,
            self._devices(),
        )

    def _dims(self) -> dict[str, int]:
        dims: dict[str, int] = {}
        for dim, size in self._mapping("dims"):
            with self.report.at(field=self.path, place=functools.partial(self._at_dim, dim)):
                dims[dim] = Dims(self.facts.dims).changed({dim: size.plain})[dim]
            if dim not in dims:
                continue
            fixed = self.facts.graph.origin.fixed.get(dim)
            if fixed is not None and dims[dim] != self.facts.dims.get(dim):
                self.report.problem(
                    f"a test cannot change it: it is in {fixed}",
                    size,
                    "fixed-dim",
                    f"{self.path}.dims.{dim}",
                    got=size.plain,
                    hint=f"test the file with another: dmlgraph test --dim {dim}={size.plain}",
                )
        return dims

    def _contents(self, section: str, names: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[tuple[str, Content]]:
        """The contents of a section by the names of their tensors; unknown names are problems.

        Among inputs, a name with `*` stands for every input that it fits and that has no content yet or of its own.
        """
        what = "input" if section == "inputs" else "output"
        items = tuple(self._mapping(section))
        given = {name for name, _ in items if name in names}
        for name, tree in items:
            field = f"{self.path}.{section}.{name}"
            is_pattern = section == "inputs" and "*" in name
            fitting = [name] if name in names else [each for each in names if is_pattern and _fits(each, name)]
            if not fitting:
                self.report.problem(
                    f"is not an {what} of the graph",
                    self.tree.value[section].keys[name],
                    "unknown-array",
                    field,
                    allowed=listing(names) or f"nothing: the graph has no {what}s",
                    hint=suggestion(name, names),
                )
                continue
            content = read_content(tree, field, kinds, self.facts.folder, self.report)
            if name not in names:
                fitting = [each for each in fitting if each not in given]
                given |= set(fitting)
            if content is not None:
                yield from ((each, content) for each in fitting)
        if section == "inputs":
            tree = self.tree.value.get(section)
            is_readable = tree is None or isinstance(tree.value, dict | None)
            missing = [name for name in names if name not in given] if is_readable else []
            if missing:
                hint = f"such as {missing[0]}: {{random: {{seed: 0}}}}" + (
                    "; a name with '*' stands for several inputs" if len(missing) > 1 else ""
                )
                self.report.problem(
                    "inputs are missing", self.key, "missing-input", f"{self.path}.inputs", got=missing, hint=hint
                )

    def _expected(self) -> Iterator[tuple[str, Content]]:
        """The expected contents; `{same_as: DEVICE}` in place of the mapping of outputs is that of every output."""
        tree = self.tree.value.get("expect")
        field = f"{self.path}.expect"
        if tree is None or (isinstance(tree.value, dict | None) and not tree.value):
            place = self.key if tree is None else tree
            hint = "such as {y: {data: [1, 2]}} or {y: {same_as: reference}}"
            self.report.problem("must be given", place, "missing", field, hint=hint)
        elif (
            isinstance(tree.value, dict)
            and list(tree.value) == [SAME_AS]
            and isinstance(tree.value[SAME_AS].value, str)
        ):
            yield from ((name, Content(SAME_AS, tree, field, None)) for name in self.facts.outputs)
        else:
            yield from self._contents("expect", self.facts.outputs, EXPECTED)

    def _check(self, inputs: Mapping[str, Content], expect: Mapping[str, Content], dims: Mapping[str, int]) -> None:
        """Checks contents against the tensors, as far as their sizes with these dims are known."""
        from dmlgraph.graph.graph import Graph

        graph, sized = self.facts.graph, Graph(dims=dims)
        for node in graph.inputs:
            if node.name in inputs:
                with self._noting():
                    with Report(node=node.name):
                        desc = sized.checker.describe(**node.declared)
                    inputs[node.name].check(desc, dims)
        if graph.dims == dims:
            for name, value in graph.outputs.items():
                if name in expect:
                    with self._noting():
                        expect[name].check(value.desc, dims)

    def _distance(self, key: str, what: str, hint: str, fits: Callable[[Any], bool]) -> Any:
        """The number of a key, or 0; `fits` says which are allowed."""
        tree = self.tree.value.get(key)
        if tree is None or tree.value is None:
            return 0
        if fits(tree.value):
            return tree.value
        message = f"must be a {what} of at least 0"
        self.report.problem(message, tree, "kind", f"{self.path}.{key}", got=tree.plain, hint=hint)
        return 0

    def _devices(self) -> tuple[str, ...] | None:
        tree = self.tree.value.get("devices")
        if tree is None or tree.value is None:
            return None
        field = f"{self.path}.devices"
        if not isinstance(tree.value, list) or not tree.value:
            hint = f"such as [{tree.value}]" if isinstance(tree.value, str) else 'such as [cpu, "directml:software"]'
            self.report.problem("must be a list of devices", tree, "kind", field, got=tree.plain, hint=hint)
            return None
        devices: list[str] = []
        for index, item in enumerate(tree.value):
            device = self._device(item, f"{field}.{index}")
            if device in devices:
                self.report.problem("is given twice", item, "duplicate", f"{field}.{index}", got=device)
            elif device is not None:
                devices.append(device)
        return tuple(devices)

    def _device(self, tree: Tree, field: str) -> str | None:
        """The name of a device; whether it is here does not matter."""
        from dmlgraph.devices import check_name

        place = functools.partial(dataclasses.replace, field=field, location=tree.location)
        with self.report.at(place=place):
            check_name(tree.plain)
            return str(tree.value)
        return None

    def _mapping(self, section: str) -> Iterable[tuple[str, Tree]]:
        tree = self.tree.value.get(section)
        if tree is None or tree.value is None:
            return ()
        if isinstance(tree.value, dict):
            return tuple(tree.value.items())
        field = f"{self.path}.{section}"
        hint = "such as {N: 8}" if section == "dims" else f"from names to contents, {EXAMPLE}"
        self.report.problem("must be a mapping", tree, "kind", field, got=tree.plain, hint=hint)
        return ()

    def _noting(self) -> Part:
        """Notes the problems of an error raised inside, which have places or else get that of the test."""
        return self.report.at(place=lambda problem: problem.at(location=self.key.location))

    def _at_dim(self, dim: str, problem: Problem) -> Problem:
        """A problem of a dim at its size; that of an unknown one at its name."""
        dims = self.tree.value["dims"]
        place = dims.keys[dim] if problem.code == "unknown-dim" else dims.value[dim]
        return dataclasses.replace(problem, location=place.location)


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _is_bound(number: Any) -> bool:
    return is_finite(number) and 0 <= number <= sys.float_info.max


def _fits(name: str, pattern: str) -> bool:
    """Whether a name is the pattern, in which each `*` stands for any text."""
    first, *between, last = pattern.split("*")
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    place, end = len(first), len(name) - len(last)
    for part in between:
        place = name.find(part, place, end) + len(part)
        if place < len(part):
            return False
    return True
