"""Reads the section `tests` of a graph file (`dmlgraph.formats.yaml.tests`), and checks it against the graph."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from dmlgraph.base.errors import Problem, listing, suggestion
from dmlgraph.base.report import Part, Report
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.formats.arrays import Folder
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.tree import Tree, is_finite
from dmlgraph.formats.yaml.contents import EXAMPLE, KINDS, Content, read_content
from dmlgraph.formats.yaml.state_contents import StateContent, read_state_content
from dmlgraph.formats.yaml.tests import GraphTest, output_descs
from dmlgraph.graph.dims import Dims

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph
    from dmlgraph.graph.nodes import InputNode, StateNode

KEYS = (
    *("dims", "inputs", "states", "steps", "collect", "expect", "expect_states"),
    *("ulp", "absolute", "relative", "devices"),
)
WHAT = {"inputs": "input", "states": "state", "expect": "output", "expect_states": "state"}  # is in each section
PATTERNS = ("inputs", "states", "expect_states")  # sections in which a name with `*` stands for several
SAME_AS = "same_as"
EXPECTED = (*(kind for kind in KINDS if kind != "random"), SAME_AS)


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What tests are checked against.

    Attributes:
        graph: as far as it could be read.
        dims: of the file.
        inputs: the names of the inputs in the file.
        states: the names of the states in the file.
        outputs: the names of the outputs in the file.
        folder: of the file; None if it has none.
    """

    graph: Graph
    dims: Mapping[str, int]
    inputs: tuple[str, ...]
    states: tuple[str, ...]
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


_C = TypeVar("_C", Content, StateContent)
_Read = Callable[[Tree, str, tuple[str, ...], Folder, Report], "_C | None"]  # `read_content`, `read_state_content`


class _TestReader:
    """Reads one test; every problem has the place of the field in which it is."""

    def __init__(self, name: str, key: Tree, tree: Tree, facts: Facts, report: Report) -> None:
        self.name, self.key, self.facts, self.report = name, key, facts, report
        self.path = f"tests.{name}"
        self.tree = known_keys(tree, KEYS, report, within=self.path)

    def read(self) -> GraphTest:
        dims = self._dims()
        inputs = dict(self._contents("inputs", self.facts.inputs, KINDS, read_content))
        self._report_missing(inputs)
        states = dict(self._contents("states", self.facts.states, KINDS, read_state_content))
        steps, collect = self._steps(), self._collect()
        if not any(map(self._says_something, ("expect", "expect_states"))):
            place, hint = (
                self.tree.value.get("expect", self.key),
                "such as {y: {data: [1, 2]}} or {y: {same_as: reference}}",
            )
            self.report.problem("must be given", place, "missing", f"{self.path}.expect", hint=hint)
        expect, same_as = self._expected("expect", self.facts.outputs, read_content)
        expect_states, states_same_as = self._expected("expect_states", self.facts.states, read_state_content)
        sized = {**self.facts.dims, **dims}
        self._check(inputs, expect, sized, steps, collect)
        self._check_states((states, expect_states), sized)
        ulp = self._distance("ulp", "whole number", "units in the last place", _is_count)
        relative, absolute = (
            float(self._distance(key, "finite number", "such as 1e-6", _is_bound)) for key in ("relative", "absolute")
        )
        return GraphTest(
            name=self.name,
            key=self.key,
            tree=self.tree,
            file_dims=self.facts.dims,
            dims=dims,
            inputs=inputs,
            states=states,
            steps=steps,
            collect=collect,
            expect=expect,
            same_as=same_as,
            expect_states=expect_states,
            states_same_as=states_same_as,
            ulp=ulp,
            relative=relative,
            absolute=absolute,
            devices=self._devices(),
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

    def _contents(
        self, section: str, names: tuple[str, ...], kinds: tuple[str, ...], read: _Read[_C]
    ) -> Iterator[tuple[str, _C]]:
        """The contents of a section by the names of their tensors; unknown names are problems.

        In some sections, a name with `*` stands for every name that it fits and that has no content yet or of its own.
        """
        what = WHAT[section]
        items = tuple(self._mapping(section))
        given = {name for name, _ in items if name in names}
        for name, tree in items:
            field = f"{self.path}.{section}.{name}"
            is_pattern = section in PATTERNS and "*" in name
            fitting = [name] if name in names else [each for each in names if is_pattern and _fits(each, name)]
            if not fitting:
                self.report.problem(
                    f"is not {'a' if what == 'state' else 'an'} {what} of the graph",
                    self.tree.value[section].keys[name],
                    "unknown-array",
                    field,
                    allowed=listing(names) or f"nothing: the graph has no {what}s",
                    hint=suggestion(name, names),
                )
                continue
            content = read(tree, field, kinds, self.facts.folder, self.report)
            if name not in names:
                fitting = [each for each in fitting if each not in given]
                given |= set(fitting)
            if content is not None:
                yield from ((each, content) for each in fitting)

    def _report_missing(self, inputs: Mapping[str, Content]) -> None:
        """Reports inputs without a content, unless that is wrong, or the section is."""
        tree = self.tree.value.get("inputs")
        if tree is not None and not isinstance(tree.value, dict | None):
            return
        wrong = [name for name, _ in self._mapping("inputs")]
        missing = [
            name
            for name in self.facts.inputs
            if name not in inputs and not any(name == each or ("*" in each and _fits(name, each)) for each in wrong)
        ]
        if missing:
            hint = f"such as {missing[0]}: {{random: {{seed: 0}}}}" + (
                "; a name with '*' stands for several inputs" if len(missing) > 1 else ""
            )
            self.report.problem(
                "inputs are missing", self.key, "missing-input", f"{self.path}.inputs", got=missing, hint=hint
            )

    def _says_something(self, section: str) -> bool:
        """Whether a section has entries, or is wrong, which is reported."""
        tree = self.tree.value.get(section)
        return tree is not None and (bool(tree.value) or not isinstance(tree.value, dict | None))

    def _expected(self, section: str, names: tuple[str, ...], read: _Read[_C]) -> tuple[dict[str, _C], dict[str, str]]:
        """The expected contents of a section, and the device of each tensor that is to be the same as there.

        `{same_as: DEVICE}` in place of the mapping is that of every tensor.
        """
        tree, field = self.tree.value.get(section), f"{self.path}.{section}"
        whole = tree.value.get(SAME_AS) if tree is not None and isinstance(tree.value, dict) else None
        if whole is not None and len(tree.value) == 1 and isinstance(whole.value, str):
            everywhere = self._device(whole, f"{field}.{SAME_AS}")
            return {}, {} if everywhere is None else dict.fromkeys(names, everywhere)
        expect: dict[str, _C] = {}
        same_as: dict[str, str] = {}
        devices: dict[str, str | None] = {}  # by field: several names may share a content
        for name, each in self._contents(section, names, EXPECTED, read):
            content = each.content if isinstance(each, StateContent) else each
            if content.kind != SAME_AS:
                expect[name] = each
                continue
            if content.field not in devices:
                devices[content.field] = self._device(content.tree.value[SAME_AS], f"{content.field}.{SAME_AS}")
            device = devices[content.field]
            if device is not None:
                same_as[name] = device
        return expect, same_as

    def _steps(self) -> int | None:
        tree = self.tree.value.get("steps")
        if tree is None or tree.value is None:
            return None
        if _is_count(tree.value) and tree.value:
            return int(tree.value)
        message, field = "must be a whole number of at least 1", f"{self.path}.steps"
        self.report.problem(message, tree, "kind", field, got=tree.plain, hint="how often the graph runs")
        return None

    def _collect(self) -> tuple[str, ...]:
        """The outputs that are expected of every step."""
        tree, field = self.tree.value.get("collect"), f"{self.path}.collect"
        if tree is None or tree.value is None:
            return ()
        if not isinstance(tree.value, list):
            hint = f"such as [{tree.value}]" if isinstance(tree.value, str) else "such as [y]"
            self.report.problem("must be a list of outputs", tree, "kind", field, got=tree.plain, hint=hint)
            return ()
        names: dict[str, None] = {}
        for index, item in enumerate(tree.value):
            place, name = f"{field}.{index}", str(item.plain)
            if name in names:
                self.report.problem("is given twice", item, "duplicate", place, got=name)
            elif isinstance(item.value, str) and name in self.facts.outputs:
                names[name] = None
            else:
                allowed, near = listing(self.facts.outputs), suggestion(name, self.facts.outputs)
                message = "is not an output of the graph"
                self.report.problem(message, item, "unknown-array", place, got=item.plain, allowed=allowed, hint=near)
        return tuple(names)

    def _check(
        self,
        inputs: Mapping[str, Content],
        expect: Mapping[str, Content],
        dims: Mapping[str, int],
        steps: int | None,
        collect: tuple[str, ...],
    ) -> None:
        """Checks contents against the tensors, as far as their sizes with these dims are known."""
        for name, desc in self._sized(self.facts.graph.inputs, dims):
            if name in inputs:
                with self._noting():
                    inputs[name].check(desc, dims)
        descs: dict[str, TensorDesc] = {}
        if self.facts.graph.dims == dims:
            with self._noting():
                descs = output_descs(self.facts.graph, collect, steps)
        for name, desc in descs.items():
            if name in expect:
                with self._noting():
                    expect[name].check(desc, dims)

    def _check_states(self, sections: Iterable[Mapping[str, StateContent]], dims: Mapping[str, int]) -> None:
        grows = {node.name: node.grows for node in self.facts.graph.states}
        for name, desc in self._sized(self.facts.graph.states, dims):
            for content in (section[name] for section in sections if name in section):
                with self._noting():
                    content.check(desc, grows[name], dims)

    def _sized(
        self, nodes: Iterable[InputNode | StateNode], dims: Mapping[str, int]
    ) -> Iterator[tuple[str, TensorDesc]]:
        """The descriptions of nodes with these dims, without those that are wrong."""
        from dmlgraph.graph.graph import Graph

        sized = Graph(dims=dims)
        for node in nodes:
            with self._noting(), Report(node=node.name):
                yield node.name, sized.checker.describe(**node.declared)

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
