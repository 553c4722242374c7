"""The values of a template's dims in the fields of its nodes.

Names are replaced in the syntax of expressions and subscripts, never in their text: a value stays one operand, and no
part of a longer name or of another word is taken for a name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from dmlgraph.base.errors import GraphError
from dmlgraph.base.expressions import Expression, name_of, number_of, parse
from dmlgraph.base.report import Report
from dmlgraph.formats.text_tree.tree import Tree, is_finite, resolve
from dmlgraph.operators.common.subscripts import with_numbers
from dmlgraph.operators.declaration.fields import Computed
from dmlgraph.operators.declaration.operator import Operator

Params = dict[str, float | str]  # numbers, and dims of the file or expressions over them
Fill = Callable[[str], float | str]  # a text with values in place of names


def filled(text: str, params: Mapping[str, float | str], dims: Collection[str]) -> float | str:
    """A text with values in place of the names in it; a number where nothing is left to compute.

    Args:
        text: a dim, or an expression.
        params: the values by name.
        dims: of the file; their names need not be words.

    Returns:
        The text itself if it cannot be read, for its reader to refuse.

    Raises:
        GraphError: it becomes too long, or a value cannot be part of it.
    """
    if text in params:
        return params[text]
    try:
        expression = parse(text)
    except GraphError:
        return text
    names = [name for name in expression.names if name in params]
    if text in dims or not names:
        return text
    made = expression.replaced({name: _operand(params[name], dims) for name in names})
    try:
        number = made.text if made.names else made.value({})
    except GraphError:
        return made.text
    return number if isinstance(number, int) or made.is_literal else made.text


def _operand(value: float | str, dims: Collection[str]) -> Expression:
    if not isinstance(value, str):
        return number_of(value)
    return name_of(value) if value in dims else parse(value)


def value_of(given: float | str, params: Mapping[str, float | str], dims: Collection[str]) -> float | str:
    """The value that is given to a dim; text that is one number as that number.

    Args:
        given: a number, or text.
        params, dims: as in `filled`.

    Raises:
        GraphError: it is neither a number, nor a dim, nor an expression.
    """
    value = filled(given, params, dims) if isinstance(given, str) else given
    if not isinstance(value, str) or value in dims:
        return value
    number = resolve(value) if value else value
    if is_finite(number):
        return number
    parse(value)
    return value


def node_with(tree: Tree, operator: type[Operator], fill: Fill) -> Tree:
    """A node with values in all of its numbers that may be expressions.

    Raises:
        GraphError: a number cannot have them.
    """
    members = operator.fields
    value = {}
    for field, item in tree.value.items():
        with Report(field=field):
            if field in operator.output_arrays:
                value[field] = _output(item, fill)
            else:
                value[field] = _field(item, members[field].kind.form.computed, fill) if field in members else item
    return tree.with_value(value, tree.keys)


def state_with(tree: Tree, fill: Fill) -> Tree:
    """A state with values in its sizes, and in the number that it holds at first.

    Raises:
        GraphError: a number cannot have them.
    """
    value = dict(tree.value)
    if "sizes" in value:
        with Report(field="sizes"):
            value["sizes"] = _field(value["sizes"], Computed.WHOLE, fill)
    first = value.get("initial")
    if first is not None and isinstance(first.value, dict) and "value" in first.value:
        with Report(field="initial.value"):
            number = _field(first.value["value"], Computed.REAL, fill)
        value["initial"] = first.with_value(first.value | {"value": number}, first.keys)
    return tree.with_value(value, tree.keys)


def _field(tree: Tree, computed: Computed, fill: Fill) -> Tree:
    given = tree.value
    if computed is Computed.NONE:
        return tree
    if isinstance(given, str) and computed is not Computed.PARTS:  # else it is the name of an activation
        made = with_numbers(given, fill) if computed is Computed.INDEX else fill(given)
        return tree if made == given else tree.with_value(made)
    if isinstance(given, list):
        return tree.with_value([_field(each, computed, fill) for each in given])
    if isinstance(given, dict) and computed is Computed.PARTS:
        parts = {key: each if key == "op" else _field(each, Computed.REAL, fill) for key, each in given.items()}
        return tree.with_value(parts, tree.keys)
    return tree


def _output(tree: Tree, fill: Fill) -> Tree:
    given = tree.value
    if isinstance(given, dict):
        named = ("sizes", "strides")
        parts = {key: _field(each, Computed.WHOLE, fill) if key in named else each for key, each in given.items()}
        return tree.with_value(parts, tree.keys)
    if isinstance(given, list):
        return tree.with_value([_output(each, fill) for each in given])
    return _field(tree, Computed.WHOLE, fill)
