"""A template of a graph file, its uses, and what the names in it mean."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from dmlgraph.base.errors import Problem, listing, nearest, shorten
from dmlgraph.base.expressions import names_in
from dmlgraph.formats.arrays import Folder
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.formats.yaml.declarations import CHANGES
from dmlgraph.formats.yaml.declarations import problem_at as at
from dmlgraph.graph.nodes import may_have_output
from dmlgraph.operators.declaration.operator import Operator

INDEX = "{index}"  # in a use's texts, the number of the copy
USE_KEYS = ("use", "repeat", "dims")
RESERVED = ("op", *USE_KEYS)  # no names of inputs


class Reference(NamedTuple):
    """What a text in a template, or in the nodes of a file, reads.

    Attributes:
        kind: "input" of the template, "node", also a state, or "use": an output of a use.
        name: of the input, the node or the use.
        rest: the path of the node's output, or the name of the use's output.
        copy: which copy of the use; None: the last.
    """

    kind: str
    name: str
    rest: str = ""
    copy: int | None = None


class Use:
    """A node that stands for the nodes of a template.

    Attributes:
        name, key, tree: its name, and where it is.
        called: its name in messages, after that of the template that it is in.
        template: what it uses; None if that is unknown.
        given: the template's inputs, by name.
        dims: the template's parameters, by name.
        repeat: the number of copies; None: one, which is not numbered.
    """

    def __init__(self, name: str, key: Tree, tree: Tree, template: Template | None, within: str = "") -> None:
        self.name, self.key, self.tree, self.template = name, key, tree, template
        self.called = within + name
        self.given = {field: item for field, item in tree.value.items() if field not in RESERVED}
        dims = tree.value.get("dims")
        self.dims: dict[str, Tree] = dims.value if dims is not None and isinstance(dims.value, dict) else {}
        self.repeat: Tree | None = tree.value.get("repeat")
        self.is_broken = False


class Names:
    """The names that the nodes of a template, or of the file itself, can read.

    Attributes:
        inputs: a template's inputs.
        states: a template's states.
        operators: the nodes, and whatever else has one output; None where an operator is unknown.
        uses: the uses.
        template: the name of the template; None: these are the names of the file itself.
    """

    def __init__(
        self,
        inputs: Collection[str],
        states: Collection[str],
        operators: Mapping[str, type[Operator] | None],
        uses: Mapping[str, Use],
        template: str | None = None,
    ) -> None:
        self.inputs, self.states, self.operators = inputs, states, operators
        self.uses, self.template = uses, template
        self._found: dict[str, Reference | None] = {}

    def find(self, text: str) -> Reference | None:
        """What a text reads; None where nothing has this name, or has no such output."""
        if text not in self._found:
            self._found[text] = next(self._meanings(text), None)
        return self._found[text]

    def _meanings(self, text: str) -> Iterator[Reference]:
        unknown = None
        for name, path in cuts(text):
            if name in self.inputs and not path:
                yield Reference("input", name)
            elif name in self.states or name in self.operators:
                operator = self.operators.get(name)
                if not path if operator is None else may_have_output(operator, path):
                    yield Reference("node", name, path)
                unknown = unknown or Reference("node", name, path)  # its operator is known better later
            found = self.use_of(name)
            if found is not None:
                use, copy = found
                if use.template is None or use.is_broken or use.template.is_broken:
                    yield Reference("use", use.name)
                else:
                    outputs = use.template.outputs
                    output = path[1:] if path else next(iter(outputs)) if len(outputs) == 1 else ""
                    if output in outputs:
                        yield Reference("use", use.name, output, copy)
        if unknown is not None:
            yield unknown

    def use_of(self, name: str) -> tuple[Use, int | None] | None:
        """The use of a name, and the number of its copy where the name has one: `tower`, `tower/3`."""
        if name in self.uses:
            return self.uses[name], None
        base, _, number = name.rpartition("/")
        if base in self.uses and self.uses[base].repeat is not None and _is_index(number):
            return self.uses[base], int(number)
        return None

    def problem(self, text: str, tree: Tree) -> Problem:
        """What is wrong with a text that reads nothing."""
        for name, path in cuts(text):
            found = self.use_of(name)
            if found is not None and found[0].template is not None:
                outputs = found[0].template.outputs
                what = f"has no output '{path[1:]}'" if path else "has several outputs"
                return at(
                    f"the template '{found[0].template.name}' of '{name}' {what}",
                    tree,
                    code="unknown-output",
                    got=text,
                    allowed=listing((f"{name}.{output}" for output in outputs), at_most=8),
                )
        near = self.nearest(text)
        what, hint = "input, constant or node", None
        if self.template is not None:
            what = "input, state or node" if self.states else "input or node"
            hint = f"only what a use gives to '{self.template}' and its own nodes can be read in it"
        return at(
            f"there is no {what} called '{shorten(text)}'",
            tree,
            code="unknown-node",
            allowed=None if near else listing(self._all, at_most=8),
            hint=f"did you mean '{near}'?" if near else hint,
        )

    def nearest(self, text: str) -> str | None:
        names = set(self._all)
        return next((near + path for name, path in cuts(text) if (near := nearest(name, names)) is not None), None)

    @property
    def _all(self) -> list[str]:
        return [*self.inputs, *self.states, *self.operators, *self.uses]


def cuts(text: str) -> Iterator[tuple[str, str]]:
    """A text cut at none of its dots, and at each from the last on: (name, path with its dot)."""
    yield text, ""
    end = text.rfind(".")
    while end > 0:
        yield text[:end], text[end:]
        end = text.rfind(".", 0, end)


def _is_index(text: str) -> bool:
    return text.isdecimal() and text.isascii() and (text == "0" or text[0] != "0") and len(text) < 10


class Template:
    """A part of a graph, written once.

    Attributes:
        name, key, tree: its name, and where it is.
        dims: its parameters with their defaults; null: one that every use gives.
        inputs: the names of its inputs, and where they are.
        states: its states by name, with the places of the names in `keys`.
        nodes: its nodes by name, uses among them, with the places of the names in `keys`.
        operators: of the nodes that are no uses.
        uses: of other templates.
        outputs: what each output reads: a node, or an output of a use.
        is_broken: whether it is wrong, so that its uses cannot be read.
        folder: of its file.
        is_own: whether it is in the graph file itself.
    """

    def __init__(self, name: str, key: Tree, tree: Tree, folder: Folder, *, is_own: bool) -> None:
        self.name, self.key, self.tree, self.folder, self.is_own = name, key, tree, folder, is_own
        self.dims: dict[str, Tree] = {}
        self.inputs: dict[str, Tree] = {}
        self.states: dict[str, Tree] = {}
        self.nodes: dict[str, Tree] = {}
        self.keys: dict[str, Tree] = {}
        self.operators: dict[str, type[Operator]] = {}
        self.uses: dict[str, Use] = {}
        self.outputs: dict[str, Reference] = {}
        self.is_broken = False
        self.names = Names(self.inputs, self.states, self.operators, self.uses, name)

    @property
    def called(self) -> str:
        """What messages call it in place of a node."""
        return f"template {self.name}"

    def sources(self, name: str) -> Iterator[tuple[str, Tree]]:
        """What a node that is not a use reads, or what changes a state: the field, and the tree that names it."""
        for field in self._input_fields(name):
            yield from ((field, each) for each in references(self.declared(name).value.get(field)))

    def declared(self, name: str) -> Tree:
        """The declaration of a node or state."""
        return self.states[name] if name in self.states else self.nodes[name]

    @functools.cached_property
    def numbered(self) -> list[tuple[str, str, Tree, Reference]]:
        """All that reads a copy of a use by its number: node, field, its text, what it means."""
        readers = [*self.states, *self.operators]
        texts = [(name, field, each) for name in readers for field, each in self.sources(name)]
        texts += [(name, field, each) for name, use in self.uses.items() for field, each in given_names(use)]
        outputs = self.tree.value["outputs"].value
        listed = outputs.values() if isinstance(outputs, dict) else outputs
        texts += [(self.called, "outputs", each) for each in listed]
        found = ((name, field, each, self.names.find(each.value)) for name, field, each in texts)
        return [(name, field, each, meant) for name, field, each, meant in found if meant and meant.copy is not None]

    @functools.cached_property
    def words(self) -> set[str]:
        """The words in its fields, its uses and the defaults of its dims: those that are its dims are used."""
        texts: set[str] = set()
        for name, tree in (*self.states.items(), *self.nodes.items()):
            fields = self._input_fields(name)
            for field, item in tree.value.items():
                if field not in fields:
                    texts |= _texts(item)
        for default in self.dims.values():
            texts |= _texts(default)
        return {name for text in texts for name in names_in(text)}

    def _input_fields(self, name: str) -> Collection[str]:
        """The fields of a state or node that name tensors; none of a use."""
        return CHANGES if name in self.states else self.operators[name].input_arrays if name in self.operators else ()


def _texts(tree: Tree) -> set[str]:
    if isinstance(tree.value, str):
        return {tree.value}
    items = tree.value.values() if isinstance(tree.value, dict) else tree.value if isinstance(tree.value, list) else ()
    return {text for item in items for text in _texts(item)}


def references(tree: Tree | None) -> Iterator[Tree]:
    """The trees of a field that each name a tensor."""
    if tree is not None and tree.value is not None:
        yield from tree.value if isinstance(tree.value, list) else (tree,)


def given_names(use: Use) -> Iterator[tuple[str, Tree]]:
    """What a use reads: the template's input, and the tree that names it."""
    for field, item in use.given.items():
        each = item.value["first"] if isinstance(item.value, dict) else item
        yield from ((field, named) for named in references(each) if named.value is not None)
