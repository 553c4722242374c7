"""Expansion: the nodes and states that the uses of templates stand for.

A node `h` of a template that `tower` uses is the node `tower/h`; with `repeat`, `tower/0/h`, `tower/1/h`, ….  States
have such names, too.  What is expanded are ordinary sections: the reader reads them like those that are written out.

Before anything is made, each template is planned once for each choice of its dims, and the nodes are counted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from dmlgraph.base.errors import Location, Problem, listing, plural, suggestion
from dmlgraph.base.expressions import names_in
from dmlgraph.base.report import Placing, Report, used_by
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.formats.yaml.copies import number_of_copies
from dmlgraph.formats.yaml.declarations import problem_at as at
from dmlgraph.formats.yaml.substitution import Params, filled, node_with, state_with, value_of
from dmlgraph.formats.yaml.template import INDEX, Names, Reference, Template, Use, cuts, given_names
from dmlgraph.formats.yaml.templates import Templates
from dmlgraph.graph.graph import Graph

MOST_NODES = 100_000  # that the templates of a file expand to, states among them
MOST_PLANS = 20_000  # different choices of the dims of templates


@dataclasses.dataclass(frozen=True, slots=True)
class Used:
    """A use of a template, for messages: its name, copy and place, and the use around it."""

    name: str
    copy: int | None
    key: Tree
    around: Used | None
    template: Template

    def __str__(self) -> str:
        copy = "" if self.copy is None else f" (copy {self.copy})"
        around = "" if self.around is None else f", in {self.around}"
        return f"'{self.name}'{copy}, {self.key.location}{around}"


class UsedKey:
    """The place of a node's name in a template, together with the use that made the node."""

    __slots__ = ("key", "used")

    def __init__(self, key: Tree, used: Used) -> None:
        self.key, self.used = key, used

    @property
    def location(self) -> Location:
        return dataclasses.replace(self.key.location, used_by=str(self.used))


class _WrongError(Exception):
    """A use cannot be expanded; the problem is noted."""


class _Copies:
    """A use in a plan: its copies, each with the plan of its template; one plan where all copies are equal."""

    __slots__ = ("count", "plans", "use")

    def __init__(self, use: Use, count: int, plans: Sequence[_Plan]) -> None:
        self.use, self.count, self.plans = use, count, plans

    def plan(self, copy: int) -> _Plan:
        return self.plans[0] if len(self.plans) == 1 else self.plans[copy]

    def prefix(self, copy: int) -> str:
        """What the names of a copy's nodes begin with, after the name around them."""
        return f"{self.use.name}/" if self.use.repeat is None else f"{self.use.name}/{copy}/"

    def output(self, output: str, copy: int | None) -> str:
        """The reference to an output of a copy, after the name around it; None: of the last."""
        which = self.count - 1 if copy is None else copy
        return self.prefix(which) + self.plan(which).output(output)


class _Plan:
    """A template with values for its dims.

    Attributes:
        nodes: its nodes and states, with the dims replaced in their fields, each with the fields that name tensors.
        copies: its uses, by name.
        total: the number of nodes and states that it becomes.
    """

    __slots__ = ("_outputs", "copies", "nodes", "template", "total")

    def __init__(self, template: Template, nodes: Mapping[str, tuple[Tree, list[str]]]) -> None:
        self.template, self.nodes, self.total = template, nodes, len(nodes)
        self.copies: dict[str, _Copies] = {}
        self._outputs: dict[str, str] = {}

    def output(self, name: str) -> str:
        """The reference to one of its outputs, after the name of the use."""
        if name not in self._outputs:
            self._outputs[name] = self.reference(self.template.outputs[name], "", {}) or ""
        return self._outputs[name]

    def reference(self, found: Reference, prefix: str, given: Mapping[str, str | None]) -> str | None:
        """What a reference in the template means outside; None where nothing is given for an input."""
        if found.kind == "node":
            return prefix + found.name + found.rest
        if found.kind == "input":
            return given[found.name]
        return prefix + self.copies[found.name].output(found.rest, found.copy)


class _Section:
    """A section of the file to which uses add what they stand for.

    Args:
        tree: the section; a use in it is not part of it any more.
        uses: the names of the uses.
    """

    def __init__(self, tree: Tree, uses: Collection[str]) -> None:
        self._written = tree
        self.values: dict[Any, Tree] = {name: item for name, item in tree.value.items() if name not in uses}
        self.keys: dict[Any, Any] = {name: tree.keys[name] for name in self.values}

    def shorten(self, count: int) -> None:
        """Removes what was added last."""
        while len(self.values) > count:
            self.keys.pop(self.values.popitem()[0])

    @property
    def tree(self) -> Tree:
        return self._written.with_value(self.values, self.keys)


class Expansion:
    """The nodes and states of a graph file, those of its uses among them.

    Attributes:
        nodes: the section of nodes, without uses.
        states: the section of states.
        used: by node and state, the use that made it.
        broken: the names of uses that could not be expanded.
        fixed: by dim, what cannot follow it: the number of copies of a use.

    Args:
        nodes, states: the sections as they are written.
        names: what the nodes in it can read.
        templates: the templates of the file.
        graph: has the file's dims.
        report: collects what is wrong.
    """

    def __init__(
        self, nodes: Tree, states: Tree, names: Names, templates: Templates, graph: Graph, report: Report
    ) -> None:
        self.names, self.report = names, report
        self._templates, self._graph = templates, graph
        self._plans: dict[object, _Plan] = {}
        self._copies: dict[str, _Copies] = {}
        self._total = 0
        self.used: dict[str, Used] = {}
        self.fixed: dict[str, str] = {}
        self.broken = {name for name, use in names.uses.items() if use.is_broken or not templates.check_then(use)}
        for name, use in names.uses.items():
            use.is_broken = name in self.broken
        for name, use in names.uses.items():
            if name not in self.broken:
                self._attempt(name, lambda use=use: self._plan_root(use))  # type: ignore[misc]
        if self._total > MOST_NODES:
            self._copies.clear()
            self.broken |= set(names.uses)
        self._nodes_made, self._states_made = _Section(nodes, names.uses), _Section(states, ())
        for name in self._copies:
            sections = [(section, len(section.values)) for section in (self._nodes_made, self._states_made)]
            self._attempt(name, lambda name=name: self._root(name))  # type: ignore[misc]
            for section, count in sections if name in self.broken else ():
                section.shorten(count)
        self.nodes, self.states = self._nodes_made.tree, self._states_made.tree

    def _attempt(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except _WrongError:
            self.broken.add(name)
            self.names.uses[name].is_broken = True

    # What texts of the file itself read.

    def meaning(self, text: str) -> str:
        """What a reference among the file's own nodes and outputs reads, uses replaced by the nodes in them."""
        found = self.names.find(text)
        if found is None or found.kind != "use":
            return text
        if found.name not in self._copies or found.name in self.broken:
            return found.name  # the reader knows that this is broken
        copies = self._copies[found.name]
        if found.copy is not None and found.copy >= copies.count:
            return text
        return copies.output(found.rest, found.copy)

    def problem(self, text: str, tree: Tree) -> Problem | None:
        """What is wrong with a reference to a use that has no such output; None where it does not refer to a use."""
        found = self.names.find(text)
        if found is not None and found.copy is not None and found.name in self._copies:
            return _no_copy(self._copies[found.name], text, tree)
        return self.names.problem(text, tree) if any(self.names.use_of(name) for name, _ in cuts(text)) else None

    # Planning: numbers of copies, values of dims, numbers of nodes.

    def _plan_root(self, use: Use) -> None:
        copies = self._plan_use(use, {}, None)
        self._total += self._size(copies)
        self._check_total(self._total, use, None)
        self._copies[use.name] = copies

    @staticmethod
    def _size(copies: _Copies) -> int:
        one = len(copies.plans) == 1
        return copies.plans[0].total * copies.count if one else sum(plan.total for plan in copies.plans)

    def _plan_use(self, use: Use, params: Params, around: Used | None) -> _Copies:
        """The copies of a use; `params` are the dims of the template around it."""
        assert use.template is not None
        count = 1 if use.repeat is None else self._count(use, use.repeat, params, around)
        self._check_lists(use, count, around)
        differ = any(isinstance(item.value, list) or _has_index(item) for item in use.dims.values())
        plans = []
        for copy in range(count) if differ else [0]:
            used = Used(use.name, None if use.repeat is None else copy, use.key, around, use.template)
            plans.append(self._plan(use.template, self._params(use, params, copy, used), used))
        return _Copies(use, count, plans)

    def _count(self, use: Use, repeat: Tree, params: Params, around: Used | None) -> int:
        text = repeat.plain
        with self._at(use, "repeat", around):
            if isinstance(text, str):
                text = filled(text, params, self._graph.dims)
            count = number_of_copies(repeat, text, self._graph)
        if isinstance(text, str):
            why = f"the number of copies of '{use.name}'"
            self.fixed |= {dim: why for dim in names_in(text) if dim in self._graph.dims}
        self._check_total(count, use, around)
        return count

    def _check_total(self, total: int, use: Use, around: Used | None) -> None:
        if total > MOST_NODES:
            many = f"{total:,} nodes or more" if total < 10**15 else "too many nodes"
            problem = at(
                f"the templates make {many}", use.key, code="copies", allowed=f"at most {MOST_NODES:,} in a file"
            )
            raise self._wrong(problem, use, None, around)

    def _check_lists(self, use: Use, count: int, around: Used | None) -> None:
        """Lists have one entry for each copy."""
        parts = [(field, item) for field, item in use.given.items()]
        parts += [(f"dims.{name}", item) for name, item in use.dims.items()]
        for field, item in parts:
            if isinstance(item.value, list) and len(item.value) != count:
                got = plural(len(item.value), "entry")
                message, allowed = "must have one entry for each copy", plural(count, "entry")
                raise self._wrong(at(message, item, code="copies", got=got, allowed=allowed), use, field, around)
            if use.repeat is None and _has_index(item):
                message, hint = f"has {INDEX}, and there is no 'repeat'", "add 'repeat: 1'"
                raise self._wrong(at(message, item, code="copies", got=item.plain, hint=hint), use, field, around)

    def _params(self, use: Use, params: Params, copy: int, used: Used) -> Params:
        """The values of the template's dims in a copy: as given, in the words of the template around; else defaults."""
        assert use.template is not None
        values: Params = {}
        for name, default in use.template.dims.items():
            item, known = default, values  # a default may use the dims before it
            if name in use.dims:
                item, known = use.dims[name], params
                item = item.value[copy] if isinstance(item.value, list) else item
                item = item.with_value(item.value.replace(INDEX, str(copy))) if isinstance(item.value, str) else item
            with self._at(use, f"dims.{name}", used.around, item):
                values[name] = value_of(item.value, known, self._graph.dims)
        return values

    def _plan(self, template: Template, params: Params, used: Used) -> _Plan:
        key = (template.name, *((type(value), value) for value in params.values()))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                message = f"templates are used with more than {MOST_PLANS:,} different choices of dims"
                self.report.problem(message, template.key, "copies", f"templates.{template.name}")
                raise _WrongError
            plan = self._plans[key] = _Plan(template, self._nodes(template, params, used))
            for name, use in template.uses.items():
                plan.copies[name] = self._plan_use(use, params, used)
                plan.total += self._size(plan.copies[name])
                self._check_total(plan.total, use, used)
            for node, field, tree, found in template.numbered:
                copies = plan.copies[found.name]
                if (found.copy or 0) >= copies.count:
                    problem = _no_copy(copies, tree.value, tree).within(field)
                    self.report.add(used_by(problem.at(node=f"{template.name}/{node}"), used))
                    raise _WrongError
        elif len(plan.copies) < len(template.uses):  # it could not be planned before
            raise _WrongError
        return plan

    def _nodes(self, template: Template, params: Params, used: Used) -> dict[str, tuple[Tree, list[str]]]:
        """The nodes and states of a template with values for its dims, each with its fields that name tensors."""
        fill = functools.partial(filled, params=params, dims=self._graph.dims)
        nodes: dict[str, tuple[Tree, list[str]]] = {}
        names = (*template.states, *template.operators)
        for name in names:
            tree, operator = template.declared(name), template.operators.get(name)
            with self.report.at(node=f"{template.name}/{name}", place=_placing(used, tree.find)):
                if params:
                    tree = state_with(tree, fill) if operator is None else node_with(tree, operator, fill)
                nodes[name] = tree, list(dict.fromkeys(field for field, _ in template.sources(name)))
        if len(nodes) < len(names):
            raise _WrongError
        return nodes

    # Making nodes.

    def _root(self, name: str) -> None:
        copies = self._copies[name]
        wrong = False
        for field, each in given_names(copies.use):
            if INDEX not in each.value and self._root_reference(each.value) is None:
                problem = self.problem(each.value, each) or self.names.problem(each.value, each)
                self._note(problem, copies.use, field, None)
                wrong = True
        if wrong:
            raise _WrongError
        self._expand_use(copies, "", self.names, self._root_reference, None)

    def _root_reference(self, text: str) -> str | None:
        """What a reference among the file's own nodes reads; None where nothing has that name."""
        found = self.names.find(text)
        if found is None and any(text[:end] in self.names.uses for end, sign in enumerate(text) if sign == "/"):
            return text  # a node inside a use, which the reader knows
        meaning = None if found is None else self.meaning(text)
        return None if found is not None and found.kind == "use" and meaning == text else meaning

    def _expand_use(
        self, copies: _Copies, prefix: str, names: Names, read: Callable[[str], str | None], around: Used | None
    ) -> None:
        """Makes the nodes of all copies.

        Args:
            copies: of the use.
            prefix: what is before the name of the use in the names of its nodes.
            names: the names around the use.
            read: the reference that a text around the use means; None: nothing.
            around: the use around it.
        """
        use = copies.use
        assert use.template is not None
        for copy in range(copies.count):
            given: dict[str, str | None] = {}
            for field, item in use.given.items():
                if isinstance(item.value, dict) and copy:
                    before = copies.prefix(copy - 1) + copies.plan(copy - 1).output(item.value["then"].value)
                    given[field] = prefix + before
                    continue
                each = item.value["first"] if isinstance(item.value, dict) else item
                each = each.value[copy] if isinstance(each.value, list) else each
                given[field] = None
                if each.value is not None:
                    text = each.value.replace(INDEX, str(copy)) if use.repeat is not None else each.value
                    given[field] = read(text)
                    if given[field] is None and text != each.value and names.find(text) is None:
                        problem = names.problem(text, each)
                        raise self._wrong(
                            dataclasses.replace(problem, got=f"{each.value} in copy {copy}"), use, field, around
                        )
            used = Used(use.name, None if use.repeat is None else copy, use.key, around, use.template)
            self._expand(copies.plan(copy), prefix + copies.prefix(copy), given, used)

    def _expand(self, plan: _Plan, prefix: str, given: Mapping[str, str | None], used: Used) -> None:
        """Makes the nodes and states of a template, with what is given for its inputs."""
        names = plan.template.names

        def read(text: str) -> str | None:
            found = names.find(text)
            return None if found is None else plan.reference(found, prefix, given)

        for name, key in plan.template.keys.items():
            if name in plan.copies:
                self._expand_use(plan.copies[name], prefix, names, read, used)
                continue
            tree, fields = plan.nodes[name]
            section = self._states_made if name in plan.template.states else self._nodes_made
            whole = prefix + name
            if whole in section.values:
                hint = f"a {'state' if name in plan.template.states else 'node'} of the use '{used.name}' has it"
                self.report.problem("the name is taken", section.keys[whole], "duplicate", node=whole, hint=hint)
                raise _WrongError
            made = dict(tree.value)
            for field in fields:
                item = made[field]
                if isinstance(item.value, list):
                    made[field] = item.with_value([each.with_value(read(each.value)) for each in item.value])
                else:
                    made[field] = item.with_value(read(item.value))
            section.values[whole] = tree.with_value(made, tree.keys)
            section.keys[whole] = UsedKey(key, used)
            self.used[whole] = used

    # Problems.

    @contextlib.contextmanager
    def _at(self, use: Use, field: str, around: Used | None, tree: Tree | None = None) -> Iterator[None]:
        """Notes problems at a field of a use; a use with any cannot be expanded."""

        def place(problem: Problem) -> Problem:
            problem = problem if problem.field == field else problem.within(field)
            location = None if tree is None else tree.location
            return used_by(problem.at(node=use.called, location=location), around)

        with self.report.at(place=place) as part:
            yield
        if part.failed:
            raise _WrongError

    def _note(self, problem: Problem, use: Use, field: str | None, around: Used | None) -> None:
        if field is not None:
            problem = problem.within(field) if problem.field != field else problem
        self.report.add(used_by(problem.at(node=use.called), around))

    def _wrong(self, problem: Problem, use: Use, field: str | None, around: Used | None) -> _WrongError:
        self._note(problem, use, field, around)
        return _WrongError()

    def with_dims(self, problem: Problem, node: str | None) -> Problem:
        """The problem of an unknown dim; says which dims the template of the node has."""
        used = self.used.get(node or "")
        if used is None or not isinstance(problem.got, str):
            return problem
        dims, hint = used.template.dims, problem.hint
        allowed = f"{problem.allowed}, {listing(dims, at_most=8)}" if dims else problem.allowed
        return dataclasses.replace(problem, allowed=allowed, hint=suggestion(problem.got, dims) or hint)

    def warnings(self) -> Iterator[Problem]:
        return self._templates.warnings(self.names.uses)


def _placing(used: Used, find: Callable[[str | None], Tree]) -> Placing:
    """Places problems of a node in a template at their fields, with the use in which they happen."""
    return lambda problem: used_by(problem.at(location=find(problem.field).location), used)


def _no_copy(copies: _Copies, text: str, tree: Tree) -> Problem:
    """What is wrong with a reference to a copy that a use does not have."""
    name, last = copies.use.name, copies.count - 1
    allowed = f"{name}/0" + (f" to {name}/{last}" if last else "")
    return at("the use has no copy of this number", tree, code="unknown-output", got=text, allowed=allowed)


def _has_index(tree: Tree) -> bool:
    if isinstance(tree.value, str):
        return INDEX in tree.value
    items = tree.value.values() if isinstance(tree.value, dict) else tree.value if isinstance(tree.value, list) else ()
    return any(map(_has_index, items))
