"""The JSON of models: the runner's dialect, locations of values and mistakes, and the layout of written models."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgraph.base.errors import DocumentError
from dmlgraph.formats.dxdispatch.text import layout, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=VALUES, indent=st.sampled_from([None, 0, 2, "\t"]), is_ascii=st.booleans())
def test_what_python_writes_is_read_as_it_was(value: object, indent: int | str | None, is_ascii: bool):
    assert parse(json.dumps(value, indent=indent, ensure_ascii=is_ascii), "f").plain == value


@given(model=st.dictionaries(st.sampled_from(["resources", "dispatchables", "commands", "other"]), VALUES))
def test_what_is_laid_out_is_read_as_it_was(model: dict[str, object]):
    assert parse(layout(model), "f").plain == json.loads(layout(model)) == model


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("// a\n[1, /* two\n lines */ 2,]", [1, 2]),
        ('{"a": 1, // why\n}', {"a": 1}),
        ('["//", "/* */"]', ["//", "/* */"]),
        ("[]// the end", []),
        ('{"a": {}, "b": [],}', {"a": {}, "b": []}),
        ("[1] what follows is not looked at", [1]),
        (r'"\u00e9\ud83d\ude00\n\/"', "é😀\n/"),
        ("[-0.0, 1e3, 1E-2, -12, 0]", [0.0, 1000.0, 0.01, -12, 0]),
    ],
)
def test_the_dialect_is_the_runners(text: str, value: object):
    assert parse(text, "f").plain == value


def test_integers_stay_integers_and_floats_floats():
    assert [type(each) for each in parse("[1, 1.0, 1e0]", "f").plain] == [int, float, float]


def test_values_and_keys_remember_where_they_stand():
    tree = parse('{\n  "a": [1,\n    {"b": 2}]\n}', "f.json")
    assert str(tree.find("a.1.b").location) == "f.json:3:11"
    assert str(tree.find("a.1.b", key=True).location) == "f.json:3:6"
    assert str(tree.find("a.0").location) == "f.json:2:9"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f:1:1: not JSON; got the end of the text; allowed: a value"),
        ("[1\n 2]", "f:2:2: not JSON; got 2; allowed: ',' or ']'"),
        ("[,]", "f:1:2: not JSON; got ,; allowed: a value"),
        ("[1,,]", "f:1:4: not JSON; got ,; allowed: a value"),
        ('{"a" 1}', "f:1:6: not JSON; got 1; allowed: ':'"),
        ("{a: 1}", "f:1:2: not JSON; got a; allowed: a key in quotes"),
        ('{"a": 1', "f:1:8: not JSON; got the end of the text; allowed: ',' or '}'"),
        ("[NaN]", 'f:1:2: not JSON; got NaN; allowed: a value (write "nan", "inf" or "-inf", in quotes)'),
        ("[01]", "f:1:2: not JSON; got 0; allowed: a value"),
        ("[1.]", "f:1:2: not JSON; got 1; allowed: a value"),
        ("[/* ]", "f:1:2: not JSON; got /; allowed: a value"),
        ('["a]', "f:1:2: not JSON: the text in quotes does not end, or has a control character"),
        (r'["\ud800"]', "f:1:2: not JSON: half of a surrogate pair"),
        ("[1e999]", "f:1:2: the number is beyond every data type"),
        ('{"a": 1,\n "a": 2}', "f:2:2: the key 'a' is given twice (first in line 1)"),
        ("[" * 65, "f:1:65: nested more than 64 levels deep"),
        (f"[{'9' * 500}]", "f:1:2: the number is beyond every data type"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, message: str):
    with pytest.raises(DocumentError) as caught:
        parse(text, "f")
    assert str(caught.value) == message
