"""Errors: their text, their fields, their classes, and pickling."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph import DmlGraphError, Location, Problem
from dmlgraph.base.errors import Severity, listing, nearest, suggestion

CLASSES = [
    dg.TensorError,
    dg.ScalarError,
    dg.OperatorError,
    dg.GraphError,
    dg.DocumentError,
    dg.BindingError,
    dg.DeviceError,
]
WHOLE = Problem(
    "does not fit",
    code="range",
    node="scale",
    field="value.0",
    got=[1, 2],
    allowed="0 to 9",
    hint="try 3",
    location=Location("a.yaml", 3, 7),
)


def test_a_problem_says_where_what_was_given_what_is_allowed_and_what_to_do() -> None:
    assert str(WHOLE) == "node 'scale', field 'value.0': does not fit; got [1, 2]; allowed: 0 to 9 (try 3)"
    assert str(Problem("is missing", code="range")) == "is missing"
    assert str(Problem("is missing", code="range", field="op")) == "field 'op': is missing"
    assert str(Problem("is missing", code="range", node="a")) == "node 'a': is missing"


def test_an_error_with_a_place_begins_with_it() -> None:
    assert str(dg.DocumentError(WHOLE)).startswith("a.yaml:3:7: node 'scale', field 'value.0': does not fit")


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_is_a_dmlgrapherror_and_of_pythons_own_kind(cls: type[DmlGraphError]) -> None:
    assert issubclass(cls, DmlGraphError)
    assert issubclass(cls, RuntimeError if cls is dg.DeviceError else ValueError)


def test_an_error_has_the_fields_of_its_first_problem_and_a_line_for_each() -> None:
    error = dg.GraphError([WHOLE, Problem("is missing", code="range", field="op")])
    fields = (error.node, error.field, error.got, error.allowed, error.hint, error.location)
    assert fields == ("scale", "value.0", [1, 2], "0 to 9", "try 3", Location("a.yaml", 3, 7))
    assert len(error.problems) == len(str(error).splitlines()) == 2


def test_an_error_is_made_of_one_message_and_fields_too() -> None:
    error = dg.TensorError("is wrong", code="range", field="sizes", got=0)
    assert error.problems == (Problem("is wrong", code="range", field="sizes", got=0),)
    with pytest.raises(TypeError):
        dg.TensorError(WHOLE, field="sizes")


@pytest.mark.parametrize("cls", [DmlGraphError, *CLASSES])
def test_an_error_survives_pickling(cls: type[DmlGraphError]) -> None:
    error = cls([WHOLE, Problem("is missing", code="range")])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert again.problems == error.problems
    assert str(again) == str(error)


def test_an_error_from_a_graph_survives_pickling() -> None:
    with pytest.raises(dg.OperatorError) as caught:
        dg.Graph().fill_value_constant(sizes=[1], dtype="uint8", value=300)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.node, again.field, again.got) == ("fill_value_constant", "value", 300)


def test_a_node_is_filled_in_only_where_none_is_named() -> None:
    error = dg.TensorError([WHOLE, Problem("is missing", code="range")]).at("other")
    assert [problem.node for problem in error.problems] == ["scale", "other"]
    assert type(error) is dg.TensorError


def test_a_field_is_told_from_outside() -> None:
    assert WHOLE.within("output").field == "output.value.0"
    assert Problem("is missing", code="range").within("output").field == "output"


def test_a_long_value_is_cut_short() -> None:
    assert len(str(Problem("is wrong", code="range", got=list(range(10_000))))) < 200
    assert str(Problem("is wrong", code="range", got="x" * 500)).endswith("…")


def test_a_number_python_does_not_print_is_described() -> None:
    assert str(Problem("is wrong", code="range", got=10**5000)) == "is wrong; got a number with thousands of digits"


def test_the_nearest_name_is_suggested_if_any_is_near() -> None:
    assert suggestion("activation_rleu", ["add", "activation_relu"]) == "did you mean 'activation_relu'?"
    assert suggestion("xyz", ["add", "activation_relu"]) is None
    assert nearest("siezs", ["sizes", "strides"]) == "sizes"


def test_a_problem_is_an_error_unless_it_says_otherwise() -> None:
    assert Problem("is wrong", code="range").severity is Severity.ERROR
    assert str(Severity.WARNING) == "warning"


def test_a_headline_is_all_but_the_advice() -> None:
    assert WHOLE.headline == "node 'scale', field 'value.0': does not fit; got [1, 2]"


def test_a_place_is_the_same_whatever_is_known_of_what_stands_there() -> None:
    known = Location("a.yaml", 3, 7, 9, "  x: ab")
    assert known == Location("a.yaml", 3, 7)
    assert hash(known) == hash(Location("a.yaml", 3, 7))
    assert str(known) == "a.yaml:3:7"
    again = pickle.loads(pickle.dumps(dg.DocumentError("is wrong", code="range", location=known))).location
    assert (again.end_column, again.source) == (9, "  x: ab")


def test_names_of_elsewhere_are_taken_at_their_word() -> None:
    assert suggestion("half", ["float16", "float32"], {"half": "float16"}) == "did you mean 'float16'?"
    assert suggestion("half", ["float16", "float32"]) is None


def test_a_listing_can_be_cut_short() -> None:
    assert listing("abc") == listing("abc", at_most=3) == "a, b, c"
    assert listing("abcde", at_most=3) == "a, b, c and 2 more"


@pytest.mark.parametrize(
    ("code", "fields"), [("kind", {}), ("range", {"node": "add"}), ("range", {"field": None}), ("range", {"got": [1]})]
)
def test_an_expected_problem_has_that_code_and_those_fields(code: str, fields: dict[str, Any]) -> None:
    with raises(dg.GraphError, "range", node="scale", field="value.0", got=[1, 2], allowed="0 to 9", hint="try 3"):
        raise dg.GraphError(WHOLE)
    with pytest.raises(AssertionError, match="code"), raises(dg.GraphError, code, **fields):
        raise dg.GraphError(WHOLE)
