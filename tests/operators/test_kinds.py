"""Kinds of fields: each has all forms, and the native module knows it."""

from __future__ import annotations

import collections
import pathlib
import pickle

import pytest

import dmlgraph
from dmlgraph import _native
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.fields import Kind

BY_FIELD = (Kind.TENSOR, Kind.TENSORS, Kind.ENUM)  # their forms depend on the field


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_a_kind_has_every_form(kind: Kind) -> None:
    assert bool(kind.form.native) is (kind is not Kind.INDEX)  # only views have indices, and they have no C struct
    with pytest.raises((TypeError, ValueError)) as refused:
        _native.OperatorDesc(1, [(kind.form.native, object())])
    assert (f"({kind.form.native})" if kind.form.native else "got ''") in str(refused.value)
    with pytest.raises(ValueError, match="one of"):
        _native.OperatorDesc(1, [(f"no {kind.form.native}", object())])
    if kind not in BY_FIELD:
        assert kind.form.takes
        assert kind.form.parameter
        assert kind.form.schema
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_every_kind_is_that_of_some_field() -> None:
    used = collections.Counter(member.kind for operator in REGISTRY.values() for member in operator.members)
    assert set(used) == set(Kind)


def test_one_number_stands_for_all_entries_where_the_kind_says_what_an_entry_is() -> None:
    for operator in REGISTRY.values():
        for member in operator.members:
            if member.entries is not None:
                assert member.kind.form.schema["items"] == member.kind.form.entry


def test_the_kind_that_contributing_follows_is_in_no_other_place() -> None:
    package = pathlib.Path(dmlgraph.__file__).parent
    places = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if "SIZE_2D" in path.read_text("utf-8")
    }
    formats = {"formats/cpp/descs.py", "formats/dxdispatch/descs.py"}
    assert places == {"operators/declaration/fields.py", *formats}
