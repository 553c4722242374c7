"""The templates of a graph file: parts of a graph that are written once and used often.

This reads templates, and checks all that does not depend on a use; `expansion` makes nodes of them.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dmlgraph.base.errors import DocumentError, Problem, listing, shorten, suggestion
from dmlgraph.base.report import Report
from dmlgraph.files.folders import find_file
from dmlgraph.formats.arrays import Folder
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.text import read_text
from dmlgraph.formats.text_tree.tree import Tree, is_finite, parse
from dmlgraph.formats.yaml.declarations import STATE_KEYS, check_version, node_keys, operator_of, report_operator
from dmlgraph.formats.yaml.declarations import problem_at as at
from dmlgraph.formats.yaml.order import in_order
from dmlgraph.formats.yaml.template import INDEX, RESERVED, USE_KEYS, Template, Use, given_names
from dmlgraph.graph.dims import check_name

MOST_LEVELS = 50  # of templates inside one another
TEMPLATE_KEYS = ("dims", "inputs", "states", "nodes", "outputs")
_A_TEMPLATE = "such as {inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}"


class Templates:
    """The templates of a graph file and of the files that it names, by name; notes what is wrong with them."""

    def __init__(self, tree: Tree | None, folder: Folder, report: Report) -> None:
        self.report = report
        self.by_name: dict[str, Template] = {}
        self._read: set[pathlib.Path] = set()
        self._is_whole = True  # else unknown templates may be in what could not be read
        if tree is not None and tree.value is not None:
            self._section(tree, folder, is_own=True)
        for template in self.by_name.values():
            self._attempt(template, self._parameters)
            self._attempt(template, self._states)
        for template in self.by_name.values():
            self._attempt(template, self._nodes)
        for template in self._inner_first():
            self._attempt(template, self._references)

    # Where templates are.

    def _section(self, tree: Tree, folder: Folder, *, is_own: bool) -> None:
        if not isinstance(tree.value, dict):
            self._is_whole = False
            self.report.problem("must be a mapping from names", tree, "kind", "templates", got=tree.plain)
            return
        for name, item in tree.value.items():
            key = tree.keys[name]
            if name == "file":
                for each in item.value if isinstance(item.value, list) else [item]:
                    self._file(each, folder)
            elif name in self.by_name:
                first = self.by_name[name].key.location
                where = f"line {first.line}" if first.file == key.location.file else str(first)
                field, hint = f"templates.{name}", f"first in {where}"
                self.report.problem("the name is taken", key, "duplicate", field, hint=hint)
            else:
                self.by_name[name] = Template(name, key, item, folder, is_own=is_own)

    def _file(self, tree: Tree, folder: Folder) -> None:
        place = functools.partial(dataclasses.replace, field="templates.file", got=tree.plain, location=tree.location)
        with self.report.at(place=place) as part:
            path = find_file(tree.plain, folder, ".yaml")
            if path.resolve() in self._read:
                return
            self._read.add(path.resolve())
            text = read_text(path)
        if part.failed:
            self._is_whole = False
            return
        top = parse(text, os.fspath(path), self.report)
        if top is None or not isinstance(top.value, dict) or "templates" not in top.value:
            self._is_whole = False
            hint = "such as 'templates: {block: {inputs: …, nodes: …, outputs: …}}'"
            message, field = "the file has no templates", "templates.file"
            self.report.problem(message, tree, "missing", field, got=tree.plain, hint=hint)
            return
        version = top.value.get("dmlgraph")
        if version is None:
            message, hint = "the format version is missing", "begin the file with 'dmlgraph: 1'"
            self.report.problem(message, top.keys["templates"], "missing", "dmlgraph", hint=hint)
        else:
            check_version(version, self.report)
        self._section(top.value["templates"], path.parent, is_own=False)

    # What is in them.

    def _attempt(self, template: Template, read: Callable[[Template, Report], None]) -> None:
        if not template.is_broken:
            with self.report.at() as part:
                read(template, part)
            template.is_broken = template.is_broken or part.failed

    def _parameters(self, template: Template, _: Report) -> None:
        """Inputs and dims."""
        if not isinstance(template.tree.value, dict):
            raise _wrong(template, "must be a mapping", template.tree, "", code="kind", hint=_A_TEMPLATE)
        template.tree = known_keys(template.tree, TEMPLATE_KEYS, self.report, node=template.called)
        parts = template.tree.value
        inputs = parts.get("inputs")
        if inputs is not None and inputs.value is not None:
            if not isinstance(inputs.value, list):
                message, hint = "must be a list of names", "such as [x, w]"
                raise _wrong(template, message, inputs, "inputs", code="kind", got=inputs.plain, hint=hint)
            for each in inputs.value:
                self._input(template, each)
        dims = parts.get("dims")
        if dims is not None and dims.value is not None:
            if not isinstance(dims.value, dict):
                message, hint = "must be a mapping from names", "such as {width: 64}"
                raise _wrong(template, message, dims, "dims", code="kind", got=dims.plain, hint=hint)
            for name, default in dims.value.items():
                place = functools.partial(Problem.at, location=dims.keys[name].location)
                with Report(field=f"templates.{template.name}", place=place):
                    check_name(name, dims.value)
                if default.value is not None:
                    _check_number(template.called, f"dims.{name}", default)
                template.dims[name] = default

    @staticmethod
    def _input(template: Template, each: Tree) -> None:
        name = each.value
        if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
            raise _wrong(template, "is not a name", each, "inputs", code="name", got=each.plain)
        if name in RESERVED:
            hint = "give the input another name"
            raise _wrong(template, f"'{name}' is a key of every use", each, "inputs", code="name", hint=hint)
        if name in template.inputs:
            raise _wrong(template, f"the input '{name}' is given twice", each, "inputs", code="duplicate")
        template.inputs[name] = each

    def _states(self, template: Template, part: Report) -> None:
        tree = template.tree.value.get("states")
        if tree is None or tree.value is None:
            return
        if not isinstance(tree.value, dict):
            message, hint = "must be a mapping from names", "such as {s: {dtype: float32, sizes: [1], next: y}}"
            raise _wrong(template, message, tree, "states", code="kind", got=tree.plain, hint=hint)
        for name, item in tree.value.items():
            called = f"{template.name}/{name}"
            with part.at(node=called) as state:
                if self._is_free(template, name, tree.keys[name], state):
                    template.keys[name] = tree.keys[name]
                    if isinstance(item.value, dict):
                        template.states[name] = known_keys(item, STATE_KEYS, self.report, node=called)
                    else:
                        _not_a_mapping(item, state)

    @staticmethod
    def _is_free(template: Template, name: str, key: Tree, part: Report) -> bool:
        """Whether nothing of the template has a name yet; else that is a problem."""
        what = "an input" if name in template.inputs else "a state" if name in template.states else None
        if what is not None:
            part.problem("the name is taken", key, "duplicate", hint=f"it is {what} of the template '{template.name}'")
        return what is None

    def _nodes(self, template: Template, part: Report) -> None:
        tree = template.tree.value.get("nodes")
        if template.states and (tree is None or tree.value is None):
            return
        if tree is None or not isinstance(tree.value, dict) or not tree.value:
            where, code = (template.key, "missing") if tree is None else (tree, "kind")
            raise _wrong(template, "must have nodes", where, "nodes", code=code, hint=_A_TEMPLATE)
        for name, item in tree.value.items():
            with part.at(node=f"{template.name}/{name}") as node:
                self._node(template, name, tree.keys[name], item, node)

    def _node(self, template: Template, name: str, key: Tree, tree: Tree, part: Report) -> None:
        """Reads a node of a template: a use, or a node with its operator; without unknown keys."""
        if not self._is_free(template, name, key, part):
            return
        template.keys[name] = key
        operator = operator_of(tree)
        if not isinstance(tree.value, dict):
            _not_a_mapping(tree, part)
        elif "use" in tree.value:
            use = self.use(name, key, tree, f"{template.name}/")
            template.is_broken |= use.is_broken
            if not use.is_broken:
                template.uses[name], template.nodes[name] = use, use.tree
        elif operator is None:
            report_operator(f"{template.name}/{name}", tree, part)
        else:
            template.operators[name] = operator
            called = f"{template.name}/{name}"
            template.nodes[name] = known_keys(tree, node_keys(operator), self.report, node=called)

    # Uses.

    def use(self, name: str, key: Tree, tree: Tree, within: str = "") -> Use:
        """The use of a template; broken where something is wrong with it that does not depend on dims.

        Args:
            name, key, tree: its name, and where it is.
            within: what is before its name in messages.
        """
        part = self.report.at(node=within + name)
        given = tree.value["use"]
        template = self.by_name.get(given.value) if isinstance(given.value, str) else None
        if template is None and self._is_whole:
            allowed = listing(self.by_name, at_most=8) or "nothing: the file has no templates"
            hint = suggestion(str(given.value), self.by_name)
            part.problem(
                "is not a template", given, "unknown-template", "use", got=given.plain, allowed=allowed, hint=hint
            )
        elif template is None or template.is_broken:
            template = None  # which is reported
        else:
            tree = known_keys(tree, (*USE_KEYS, *template.inputs), self.report, node=within + name)
        use = Use(name, key, tree, template, within)
        if template is not None:
            self._check_given(use, template, part)
            self._check_dims(use, template, part)
        use.is_broken = template is None or part.failed
        return use

    def _check_given(self, use: Use, template: Template, part: Report) -> None:
        """Checks that each input is given, and in a form that it can have."""
        for name in template.inputs:
            if name in use.given:
                self._check_source(use, name, part.at(field=name))
            else:
                hint = f"the inputs of '{template.name}' are {listing(template.inputs, at_most=8)}; null leaves one out"
                part.problem("must be given", use.key, "missing", name, hint=hint)

    def _check_source(self, use: Use, field: str, part: Report) -> None:
        """Checks that an input is given as a name, null, one of these for each copy, or first and then."""
        tree = use.given[field]
        value = tree.value
        if isinstance(value, (list, dict)) and use.repeat is None:
            is_list = isinstance(value, list)
            what = "a list gives a name to each copy" if is_list else "'then' is an output of the copy before"
            hint = "give one name, or a 'repeat'"
            part.problem(f"{what}, and there is no 'repeat'", tree, "copies", hint=hint)
        elif isinstance(value, list):
            for index, each in enumerate(value):
                _check_name_of_source(each, part.at(field=str(index)))
        elif isinstance(value, dict):
            tree = known_keys(tree, ("first", "then"), self.report, node=use.called)
            missing = [key for key in ("first", "then") if key not in tree.value]
            then = tree.value.get("then")
            if missing:
                hint = "such as {first: x, then: y}: the first copy reads x, each other the output y of the one before"
                part.problem("must be given", tree, "missing", missing[0], hint=hint)
            elif then is None or not isinstance(then.value, str):
                part.problem("must be the name of an output", then or tree, "kind", "then")
            else:
                use.given[field] = tree
                _check_name_of_source(tree.value["first"], part.at(field="first"))
        else:
            _check_name_of_source(tree, part)

    @staticmethod
    def _check_dims(use: Use, template: Template, part: Report) -> None:
        tree = use.tree.value.get("dims")
        if tree is not None and tree.value is not None and not isinstance(tree.value, dict):
            message, example = "must be a mapping from names", "such as {width: 64}"
            part.problem(message, tree, "kind", "dims", got=tree.plain, hint=example)
        for name, item in use.dims.items():
            field = f"dims.{name}"
            if name not in template.dims:
                message = f"the template '{template.name}' has no dim of this name"
                key, near = use.tree.value["dims"].keys[name], suggestion(name, template.dims)
                allowed = listing(template.dims, at_most=8) or "nothing: it has no dims"
                part.problem(message, key, "unknown-dim", field, allowed=allowed, hint=near)
            elif isinstance(item.value, list) and use.repeat is None:
                message = "a list gives one number to each copy, and there is no 'repeat'"
                part.problem(message, item, "copies", field)
            else:
                for each in item.value if isinstance(item.value, list) else [item]:
                    with part.at():
                        _check_number(use.called, field, each)
        for name, default in template.dims.items():
            if default.value is None and name not in use.dims:
                message, example = f"the dim '{name}' must be given", f"such as dims: {{{name}: 64}}"
                part.problem(message, use.key, "missing", "dims", hint=example)

    def check_then(self, use: Use) -> bool:
        """Whether `then` names outputs of the template; once its outputs are known."""
        template = use.template
        if template is None or template.is_broken:
            return False
        fine = True
        for field, item in use.given.items():
            then = item.value["then"] if isinstance(item.value, dict) else None
            if then is not None and then.value not in template.outputs:
                message = f"the template '{template.name}' has no output '{shorten(then.value)}'"
                allowed, hint = listing(template.outputs, at_most=8), suggestion(then.value, template.outputs)
                more = {"node": use.called, "allowed": allowed, "hint": hint}
                self.report.problem(message, then, "unknown-output", f"{field}.then", **more)
                fine = False
        return fine

    # What templates read.

    def _inner_first(self) -> list[Template]:
        """The templates, each after those that it uses; notes those that use themselves."""
        sources = {
            name: [use.template.name for use in template.uses.values() if use.template is not None]
            for name, template in self.by_name.items()
        }
        order, cycles = in_order(sources)
        for cycle in cycles:
            for name in cycle.names:
                self.by_name[name].is_broken = True
            first, way = self.by_name[cycle.path[0]], " -> ".join(map(shorten, reversed(cycle.path)))
            message = "the template uses itself" if len(cycle.names) == 1 else "the templates use one another"
            self.report.problem(message, first.key, "recursion", f"templates.{first.name}", got=way)
        levels: dict[str, int] = {}
        for name in order:
            levels[name] = 1 + max((levels.get(each, 0) for each in sources[name]), default=0)
            if levels[name] <= MOST_LEVELS:
                continue
            self.by_name[name].is_broken = True
            if levels[name] == MOST_LEVELS + 1:
                message = f"the templates are more than {MOST_LEVELS} levels deep in one another"
                self.report.problem(message, self.by_name[name].key, "recursion", f"templates.{name}")
        return [self.by_name[name] for name in order if levels[name] <= MOST_LEVELS]

    def _references(self, template: Template, part: Report) -> None:
        """Whether all that nodes and outputs read is in the template."""
        names = template.names
        for use in template.uses.values():
            if not self.check_then(use):
                template.is_broken = True
                continue
            for field, each in given_names(use):
                if INDEX not in each.value and names.find(each.value) is None:
                    part.add(_at_use(names.problem(each.value, each), use, field))
        for name in (*template.states, *template.operators):
            for field, each in template.sources(name):
                if not isinstance(each.value, str):
                    message = "must be the name of an input or node"
                    part.problem(message, each, "kind", field, node=name, got=each.plain)
                elif names.find(each.value) is None:
                    part.add(_fill(names.problem(each.value, each), f"{template.name}/{name}", field))
        self._outputs(template)

    @staticmethod
    def _outputs(template: Template) -> None:
        tree = template.tree.value.get("outputs")
        if tree is None or not tree.value or not isinstance(tree.value, (list, dict)):
            where, code, got = (template.key, "missing", None) if tree is None else (tree, "no-outputs", tree.plain)
            message, hint = "must name at least one output", "such as 'outputs: [y]'"
            raise _wrong(template, message, where, "outputs", code=code, got=got, hint=hint)
        value = tree.value
        named = value.items() if isinstance(value, dict) else ((each.value, each) for each in value)
        for name, item in named:
            if not isinstance(item.value, str):
                raise _wrong(template, "must be the name of a node", item, "outputs", code="kind", got=item.plain)
            found = template.names.find(item.value)
            if found is None:
                problem = template.names.problem(item.value, item)
                raise DocumentError(problem.within(f"templates.{template.name}.outputs"))
            if found.kind == "input":
                message, hint = "is an input, not a node", "read directly what the use is given for it"
                raise _wrong(template, message, item, "outputs", code="kind", got=item.value, hint=hint)
            if name in template.outputs:
                raise _wrong(template, f"the output '{name}' is given twice", item, "outputs", code="duplicate")
            template.outputs[name] = found

    # Warnings.

    def warnings(self, used: Mapping[str, Use]) -> Iterator[Problem]:
        """Templates of the file that nothing uses, and inputs and dims that a used template does not."""
        reached: dict[str, None] = {}
        waiting = [use.template for use in used.values() if use.template]
        while waiting:
            template = waiting.pop()
            if template.name not in reached:
                reached[template.name] = None
                waiting += [use.template for use in template.uses.values() if use.template]
        for name, template in self.by_name.items():
            if name not in reached:
                if template.is_own:
                    message, hint = "no node uses the template", f"such as {{use: {name}}} among the nodes"
                    yield at(message, template.key, code="unused-template", field=f"templates.{name}", hint=hint)
                continue
            path = f"templates.{name}"
            readers = (*template.states, *template.operators)
            read = {each.value for name in readers for _, each in template.sources(name)}
            read |= {each.value for use in template.uses.values() for _, each in given_names(use)}
            for each, place in template.inputs.items():
                if each not in read and not any(INDEX in text for text in read):
                    message = "no node of the template reads the input"
                    yield at(message, place, code="unused-template-input", field=f"{path}.inputs.{each}")
            for dim in template.dims:
                if dim not in template.words:
                    place = template.tree.value["dims"].keys[dim]
                    message = "nothing in the template uses this dim"
                    yield at(message, place, code="unused-dim", field=f"{path}.dims.{dim}")


def _check_number(node: str, field: str, tree: Tree) -> None:
    """Refuses what is neither a number nor text, which may be an expression."""
    if not isinstance(tree.value, str) and not is_finite(tree.value):
        message = "must be a number or an expression over dims"
        raise DocumentError(at(message, tree, code="kind", node=node, field=field, got=tree.plain))


def _check_name_of_source(tree: Tree, part: Report) -> None:
    """Refuses what is neither null nor text, which may be a name."""
    if tree.value is not None and not isinstance(tree.value, str):
        is_number = isinstance(tree.value, (int, float))
        hint = "use a fill_value_constant to make a tensor of a number" if is_number else None
        part.problem("must be the name of an input, constant or node", tree, "kind", got=tree.plain, hint=hint)


def _not_a_mapping(tree: Tree, part: Report) -> None:
    part.problem("must be a mapping", tree, "kind", got=tree.plain, hint="such as {key: value, …}")


def _wrong(template: Template, message: str, tree: Tree, field: str, *, code: str, **more: Any) -> DocumentError:
    """What is wrong with a template."""
    path = f"templates.{template.name}.{field}" if field else f"templates.{template.name}"
    problems = [at(message, tree, code=code, field=path, **more)]
    return DocumentError(problems)


def _fill(problem: Problem, node: str, field: str) -> Problem:
    return problem.within(field).at(node=node)


def _at_use(problem: Problem, use: Use, field: str) -> Problem:
    return _fill(problem, use.called, field) if problem.field is None else problem.at(node=use.called)
