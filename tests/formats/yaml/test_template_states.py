"""States of templates: every use and every copy has its own, named and checked as its nodes are."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices.device import DeviceName
from dmlgraph.formats.yaml import dumps, loads

COPY = "'tower' (copy 0), <text>:18:3"
HEAD = "dmlgraph: 1\ndims: {capacity: 5}\ninputs: {x: {dtype: float32, sizes: [1, 2]}}\n"
LAYER = """\
templates:
  layer:
    dims: {most: capacity, first: 1}
    inputs: [x]
    states:
      keys: {dtype: float32, sizes: [most, 2], grows: 0, append: k}
      factor: {dtype: float32, sizes: [1, 2], initial: {value: first + 1}, next: after}
      last: {dtype: float32, sizes: [1, 2], next: x}
    nodes:
      k: {op: multiply, a: x, b: factor}
      after: {op: add, a: factor, b: factor}
      y: {op: add, a: k, b: last}
    outputs: [y, keys.length]
"""
TOWER = (
    f"{HEAD}{LAYER}"
    "nodes:\n"
    '  tower: {use: layer, repeat: 2, x: {first: x, then: y}, dims: {first: "2 * {index}", most: capacity - 1}}\n'
    "outputs: {y: tower.y, length: tower/0.keys.length, seen: tower/1/keys}\n"
)
BY_HAND = (
    HEAD
    + """\
states:
  tower/0/keys: {dtype: float32, sizes: [capacity - 1, 2], grows: 0, append: tower/0/k}
  tower/0/factor: {dtype: float32, sizes: [1, 2], initial: {value: 1}, next: tower/0/after}
  tower/0/last: {dtype: float32, sizes: [1, 2], next: x}
  tower/1/keys: {dtype: float32, sizes: [capacity - 1, 2], grows: 0, append: tower/1/k}
  tower/1/factor: {dtype: float32, sizes: [1, 2], initial: {value: 3}, next: tower/1/after}
  tower/1/last: {dtype: float32, sizes: [1, 2], next: tower/0/y}
nodes:
  tower/0/k: {op: multiply, a: x, b: tower/0/factor}
  tower/0/after: {op: add, a: tower/0/factor, b: tower/0/factor}
  tower/0/y: {op: add, a: tower/0/k, b: tower/0/last}
  tower/1/k: {op: multiply, a: tower/0/y, b: tower/1/factor}
  tower/1/after: {op: add, a: tower/1/factor, b: tower/1/factor}
  tower/1/y: {op: add, a: tower/1/k, b: tower/1/last}
outputs: {y: tower/1/y, length: tower/0/keys.length, seen: tower/1/keys}
"""
)


def problems(text: str) -> list[dg.Problem]:
    with pytest.raises(dg.DocumentError) as caught:
        loads(text)
    return list(caught.value.problems)


def test_every_copy_has_its_own_states() -> None:
    graph = loads(TOWER)
    assert dumps(graph) == dumps(loads(BY_HAND))
    assert graph.warnings() == []


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_the_states_of_copies_go_on_by_themselves(device: DeviceName) -> None:
    exe = loads(TOWER).compile(device)
    got = exe.run({"x": np.ones((1, 2), np.float32)}, steps=3, collect=["y"])
    # The first copy multiplies by 1, 2, 4 and adds the x before: 1, 3, 5.  The second by 3, 6, 12: 3, 18, 60.
    assert got["y"][:, 0, 0].tolist() == [3, 18 + 1, 60 + 3]
    assert got["length"].tolist() == [2]
    assert exe.states["tower/0/keys"][:, 1].tolist() == [1, 2, 4]
    assert exe.states["tower/1/keys"][:, 1].tolist() == [3, 18, 60]
    assert got["seen"].tolist() == [[3, 3], [18, 18], [0, 0], [0, 0]]
    assert exe.states["tower/1/factor"].tolist() == [[24, 24]]
    assert exe.states.lengths == {"tower/0/keys": 3, "tower/1/keys": 3}


def test_sizes_of_states_follow_the_dims_of_the_file() -> None:
    for graph in (loads(TOWER).with_dims({"capacity": 9}), loads(TOWER, dims={"capacity": 9})):
        assert graph.value("tower/1/keys").sizes == (8, 2)


def test_a_use_inside_a_template_has_states_too() -> None:
    outer = (
        "  outer: {inputs: [x], nodes: {in: {use: layer, repeat: 2, x: {first: x, then: y}}}, "
        "states: {end: {dtype: float32, sizes: [1, 2], next: in.y}, "
        "first: {dtype: float32, sizes: [1, 2], next: in/0.y}}, outputs: [in.y, end, first]}\n"
    )
    graph = loads(f"{HEAD}{LAYER}{outer}nodes: {{a: {{use: outer, x: x}}}}\noutputs: [a.in.y, a.end, a.first]\n")
    assert [state.name for state in graph.states] == [
        *("a/end", "a/first"),
        *(f"a/in/{copy}/{name}" for copy in (0, 1) for name in ("keys", "factor", "last")),
    ]
    changed = {name: value.reference for name, value in graph.next_values.items()}
    assert changed["a/end"] == "a/in/1/y"
    assert changed["a/first"] == "a/in/0/y"
    exe = graph.compile("cpu")
    results = [exe.run({"x": np.ones((1, 2), np.float32)})["a.end"][0, 0] for _ in range(2)]
    assert results == [0, 4]


def test_a_template_of_states_alone_is_a_delay() -> None:
    text = (
        f"{HEAD}templates: {{delay: {{inputs: [x], states: {{s: {{dtype: float32, sizes: [1, 2], next: x}}}}, "
        "outputs: [s]}}\nnodes: {line: {use: delay, repeat: 3, x: {first: x, then: s}}}\noutputs: [line]\n"
    )
    exe = loads(text).compile("cpu")
    results = [exe.run({"x": np.full((1, 2), i, np.float32)})["line"][0, 0] for i in range(1, 6)]
    assert results == [0, 0, 0, 1, 2]


def test_files_of_states_are_beside_the_file_of_the_template(tmp_path: pathlib.Path) -> None:
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts" / "first.npy", np.array([[4, 5]], np.float32))
    template = (
        "{inputs: [x], states: {s: {dtype: float32, sizes: [1, 2], initial: {file: first.npy}, next: x}}, outputs: [s]}"
    )
    (tmp_path / "parts" / "delay.yaml").write_text(f"dmlgraph: 1\ntemplates: {{delay: {template}}}\n", "utf-8")
    (tmp_path / "g.yaml").write_text(
        f"{HEAD}templates: {{file: parts/delay.yaml}}\nnodes: {{d: {{use: delay, x: x}}}}\noutputs: [d]\n", "utf-8"
    )
    exe = dg.load(tmp_path / "g.yaml").compile("cpu")
    assert exe.run({"x": np.zeros((1, 2), np.float32)})["d"].tolist() == [[4, 5]]


def test_a_template_made_for_many_copies_of_states_is_counted() -> None:
    one = "{inputs: [x], states: {s: {dtype: float32, sizes: [1, 2], next: x}}, outputs: [s]}"
    (problem,) = problems(
        f"{HEAD}templates: {{t: {one}}}\nnodes: {{u: {{use: t, repeat: 100001, x: x}}}}\noutputs: [u]\n"
    )
    assert (problem.code, problem.allowed) == ("copies", "at most 100,000 in a file")


@pytest.mark.parametrize(
    ("wrong", "right", "code", "node", "field", "used_by"),
    [
        ("append: kk", "append: k", "unknown-node", "layer/keys", "append", None),
        ("next: afer", "next: after", "unknown-node", "layer/factor", "next", None),
        ("nxt: x", "next: x", "unknown-field", "layer/last", "nxt", None),
        ("sizes: [mst, 2]", "sizes: [most, 2]", "unknown-dim", "tower/0/keys", "sizes.0", f"{COPY}, and 1 other use"),
        ("grows: 4", "grows: 0", "range", "tower/0/keys", "grows", f"{COPY}, and 1 other use"),
        ("value: firs", "value: first + 1", "kind", "tower/0/factor", "initial.value", f"{COPY}, and 1 other use"),
        ("last: {op: multiply", "k: {op: multiply", "duplicate", "layer/last", None, None),
        ("      x: {dtype: float32", "      last: {dtype: float32", "duplicate", "layer/x", None, None),
        ("last: 3 #", "last: ", "kind", "layer/last", None, None),
        ("a: last.length", "a: k, b: last", "unknown-output", "tower/0/y", "a", f"{COPY}, and 1 other use"),
    ],
)
def test_a_mistake_has_the_line_of_the_template_and_names_the_use(
    wrong: str, right: str, code: str, node: str | None, field: str | None, used_by: str | None
) -> None:
    assert TOWER.count(right) == 1
    text = TOWER.replace(right, wrong)
    problem = next(each for each in problems(text) if each.code == code)
    assert (problem.node, problem.field) == (node, field)
    assert problem.location is not None
    line = next(number for number, line in enumerate(text.splitlines(), 1) if wrong in line)
    assert problem.location.line == line
    assert problem.location.used_by == used_by


def test_warnings_of_states_in_templates() -> None:
    text = TOWER.replace("      k: {op", "      z: {op: exp, input: spare}\n      k: {op").replace(
        "    nodes:",
        "      spare: {dtype: float32, sizes: [2]}\n      idle: {dtype: float32, sizes: [2], next: idle}\n    nodes:",
    )
    found = [(each.code, each.node, each.location) for each in loads(text).warnings()]
    assert [(code, node) for code, node, _ in found] == [
        ("unchanged-state", "tower/0/spare"),
        ("unused-node", "tower/0/z"),
    ]
    place = found[0][2]
    assert place is not None
    assert place.used_by == "'tower' (copy 0), <text>:21:3, and 1 other use"


def test_names_that_states_of_uses_have() -> None:
    taken = HEAD + "states: {tower/0/last: {dtype: float32, sizes: [1]}}\n" + TOWER.removeprefix(HEAD)
    problem = problems(taken)[0]
    assert (problem.code, problem.node) == ("duplicate", "tower/0/last")
    assert problem.hint == "a state of the use 'tower' has it"
    both = TOWER.replace("nodes:\n  tower", "nodes:\n  tower/0/last: {op: exp, input: x}\n  tower")
    assert {(each.code, each.node) for each in problems(both)} == {("duplicate", "tower/0/last")}


def test_a_next_value_that_is_left_out() -> None:
    text = (
        f"{HEAD}templates: {{t: {{inputs: [x, n], states: {{s: {{dtype: float32, sizes: [1, 2], next: n}}}}, "
        "nodes: {y: {op: add, a: x, b: s}}, outputs: [y]}}\n"
        "nodes: {a: {use: t, x: x, n: null}, b: {use: t, x: x, n: a}}\noutputs: [a, b]\n"
    )
    graph = loads(text)
    assert list(graph.next_values) == ["b/s"]
    assert [(each.code, each.node) for each in graph.warnings()] == [("unused-dim", None), ("unchanged-state", "a/s")]
