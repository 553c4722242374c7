"""Mistakes in a document: each is reported once, at its line and column, with what to do about it."""

from __future__ import annotations

import contextlib
import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg

HEAD = "dmlgraph: 1\n"
X = "inputs: {x: {dtype: float32, sizes: [2, 3]}}\n"
FILL = "op: fill_value_constant, output: {dtype: uint8, sizes: [1]}"


def mistakes(text: str, folder: pathlib.Path | None = None, **more: Any) -> list[str]:
    """Every problem of a document, as it is printed, without the name of the file."""
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(text, folder=folder, **more)
    assert [str(problem.location) for problem in caught.value.problems] == [
        line.split(": ")[0] for line in str(caught.value).splitlines()
    ]
    return [line.removeprefix("<text>:") for line in str(caught.value).splitlines()]


def only(text: str, folder: pathlib.Path | None = None) -> str:
    (mistake,) = mistakes(text, folder)
    return mistake


def at_mark(text: str, folder: pathlib.Path | None = None) -> str:
    """The only mistake of a document, which must be at the place marked with a caret; returns its text."""
    before, _, after = text.partition("^")
    lines = before.split("\n")
    place, _, said = only(before + after, folder).partition(": ")
    assert place == f"{len(lines)}:{len(lines[-1]) + 1}", said
    return said


def node(fields: str) -> str:
    """The text of a node's only mistake, which is marked with a caret."""
    return at_mark(f"{HEAD}{X}nodes: {{n: {{{fields}}}}}\noutputs: [n]\n")


def constant(fields: str, folder: pathlib.Path | None = None) -> str:
    """The text of a constant's only mistake, which is marked with a caret."""
    return at_mark(f"{HEAD}constants: {{c: {{{fields}}}}}\noutputs: [c]\n", folder)


# All at once.


def test_five_different_mistakes_are_five_reports_each_with_its_own_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "five.yaml"
    path.write_text(
        """\
dmlgraph: 1
inputs:
  x: {dtype: flaot32, sizes: [2, 3]}
  w: {dtype: float32, sizes: [2, 3]}
nodes:
  a: {op: expp, input: w}
  b: {op: add, a: w, b: wieght}
  c: {op: clip, input: w, min: low, max: 1}
  d: {op: add, a: a, b: x}
  e: {op: exp, input: d}
  f: {op: multiply, a: w, b: w, input: w}
outputs: [e, c, f]
""",
        encoding="utf-8",
    )
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(path)
    assert str(caught.value).splitlines() == [
        f"{path}:3:14: node 'x', field 'dtype': not a data type of DirectML; got flaot32; allowed: float32, float16, "
        "uint32, uint16, uint8, int32, int16, int8, float64, uint64, int64, uint4, int4 (did you mean 'float32'?)",
        f"{path}:6:11: node 'a', field 'op': is not an operator; got expp (did you mean 'exp'?)",
        f"{path}:7:25: node 'b', field 'b': there is no input, constant or node called 'wieght'; "
        "allowed: a, b, c, d, e, f, w, x",
        f"{path}:8:32: node 'c', field 'min': is not a number; got low (a number, without quotes; infinities and NaN "
        "are .inf, -.inf and .nan in YAML)",
        f"{path}:11:33: node 'f', field 'input': is not known here; allowed: op, a, b, output (did you mean 'a'?)",
    ]


def test_what_depends_on_a_mistake_is_not_complained_about_again() -> None:
    text = f"{HEAD}inputs: {{x: {{dtype: int5, sizes: [2]}}}}\nnodes:\n"
    text += "".join(f"  n{i}: {{op: exp, input: {f'n{i - 1}' if i else 'x'}}}\n" for i in range(50))
    assert only(text + "outputs: [n49, n3, x]\n").startswith("2:21: node 'x', field 'dtype': not a data type")


def test_several_mistakes_in_one_node_are_all_told() -> None:
    found = mistakes(f"{HEAD}{X}nodes: {{n: {{op: gemm, a: x, b: x, alpha: a, trans_a: b, beta: []}}}}\noutputs: [n]\n")
    assert [each.split(": ")[1] for each in found] == [
        "node 'n', field 'alpha'",
        "node 'n', field 'trans_a'",
        "node 'n', field 'beta'",
    ]


# Keys.


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        (f"{HEAD}{X}^outpust: [x]\n", "outpust", "outputs"),
        (f"{HEAD}^imputs: {{x: {{dtype: int8, sizes: [1]}}}}\noutputs: [x]\n", "imputs", "inputs"),
        (f"{HEAD}inputs: {{x: {{^dtyp: int8, sizes: [1]}}}}\noutputs: [x]\n", "dtyp", "dtype"),
        (f"{HEAD}constants: {{c: {{dtype: int8, sizes: [1], ^dat: [1]}}}}\noutputs: [c]\n", "dat", "data"),
        (f"{HEAD}{X}nodes: {{n: {{op: exp, ^inptu: x}}}}\noutputs: [n]\n", "inptu", "input"),
        (f"{HEAD}{X}nodes: {{n: {{op: clip, input: x, ^mim: 0, max: 1}}}}\noutputs: [n]\n", "mim", "min"),
    ],
)
def test_a_misspelt_key_is_told_once_with_what_was_meant(text: str, key: str, meant: str) -> None:
    said = at_mark(text)
    assert f"field '{key}': is not known here; allowed: " in said
    assert said.endswith(f"(did you mean '{meant}'?)")


def test_a_misspelt_key_inside_a_field_is_told_at_its_place() -> None:
    said = node("op: exp, input: x, output: {^dtyp: float32}")
    assert said.startswith("node 'n', field 'output.dtyp': is not known here; allowed: dtype, sizes, strides")
    said = node("op: exp, input: x, scale_bias: {^scal: 1}")
    assert said == "node 'n', field 'scale_bias.scal': is not known here"


def test_any_text_may_be_an_unknown_key() -> None:
    assert "field 'my key': is not known here" in node("op: exp, input: x, ^my key: 1")


def test_missing_keys_are_told_at_the_declaration() -> None:
    assert mistakes(f"{HEAD}inputs: {{x: {{}}}}\n") == [
        "1:1: field 'outputs': the outputs are missing (such as 'outputs: [y]')",
        "2:10: node 'x', field 'dtype': must be given",
        "2:10: node 'x', field 'sizes': must be given",
    ]
    said = at_mark(f"{HEAD}{X}nodes: {{n: ^{{input: x}}}}\noutputs: [n]\n")
    assert said == "node 'n', field 'op': the operator is missing (such as {op: add, a: x, b: y})"
    said = at_mark(f"{HEAD}{X}nodes: {{^n: {{op: add, a: x}}}}\noutputs: [n]\n")
    assert said == "node 'n', field 'b': must be given ('dmlgraph operators add' lists its fields)"
    said = at_mark(f"{HEAD}nodes: {{^n: {{op: fill_value_constant, value: 1}}}}\noutputs: [n]\n")
    assert said == "node 'n', field 'output.dtype': must be given: a fill has no input that determines it"


# Kinds of values.


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (
            "inputs: ^[x]",
            "field 'inputs': must be a mapping from names; got a list (write 'name: …', without '- ' before it)",
        ),
        ("nodes: ^3", "field 'nodes': must be a mapping from names; got 3 (such as {name: …})"),
        ("nodes: {n: ^exp}", "node 'n': must be a mapping; got exp (such as {key: value, …})"),
        ("inputs: {i: {dtype: ^5, sizes: [1]}}", "node 'i', field 'dtype': not a data type of DirectML; got 5"),
        ("inputs: {i: {dtype: int8, sizes: ^3}}", "node 'i', field 'sizes': must be a list of integers; got 3"),
        ("inputs: {i: {dtype: int8, sizes: [1, ^0]}}", "node 'i', field 'sizes.1': a size must be at least 1"),
        (
            "inputs: {i: {dtype: int8, sizes: [^null]}}",
            "node 'i', field 'sizes.0': must be an integer (a size that is known later is a dim: declare it",
        ),
        (
            "inputs: {i: {dtype: int8, sizes: [^2x3]}}",
            "node 'i', field 'sizes.0': is not a dim of the graph; got 2x3; allowed: a number (write a list: [2, 3])",
        ),
        ("inputs: {i: {dtype: int8, sizes: [^1.5]}}", "node 'i', field 'sizes.0': must be an integer; got 1.5"),
        (
            "inputs: {i: {dtype: int8, sizes: [1], owned: ^yes}}",
            "node 'i', field 'owned': must be true or false; got yes (YAML 1.2 reads yes, no, on and off as text)",
        ),
        ("name: ^5", "field 'name': is not a name; got 5; allowed: printable text"),
        ("target: ^5.0", "field 'target': not a DirectML feature level; got 5.0; allowed: 1.0, 2.0"),
        ("dims: {N: ^0}", "field 'dims.N': a dim is a whole number of at least 1; got 0"),
        ('inputs: {^"a\\tb": {dtype: int8, sizes: [1]}}', "node 'a\tb': is not a name; got a\tb"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_at_its_place(section: str, text: str) -> None:
    fine = "constants: {c: {dtype: float32, sizes: [1], data: [1]}}\noutputs: [c]\n"
    assert at_mark(f"{HEAD}{section}\n{fine}").startswith(text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ("op: ^3", "field 'op': is not an operator; got 3 ('dmlgraph operators' lists them)"),
        ("op: ^[exp]", "field 'op': is not an operator; got ['exp']"),
        (
            "op: exp, input: ^3",
            "field 'input': must be the name of an input, constant or node; got 3 (use a fill_value_constant",
        ),
        (
            "op: exp, input: ^x * 2",
            "field 'input': there is no input, constant or node called 'x * 2' (arithmetic is a node of its own",
        ),
        ("op: exp, input: ^[x]", "field 'input': takes one value, not a list of them"),
        ("op: join, inputs: [x, ^z], axis: 0", "field 'inputs': there is no input, constant or node called 'z'"),
        ("op: join, inputs: [^[x]], axis: 0", "field 'inputs': must be the name of"),
        ("op: join, inputs: [x], axis: ^2", "field 'axis': is not an axis of the tensor; got 2; allowed: -2 to 1"),
        ("op: join, inputs: [x], axis: ^true", "field 'axis': must be an integer; got True"),
        ("op: reduce, function: ^summ, input: x", "field 'function': is not one of the names; got summ; allowed: "),
        ("op: split, input: x, axis: 1, outputs: ^[1, 1]", "field 'outputs': the sizes along axis 1 must add up"),
        (
            "op: exp, input: x, output: {sizes: ^[3, 2]}",
            "field 'output.sizes': is determined by the inputs; got [3, 2]",
        ),
        ("op: exp, input: x, output: {strides: ^[1, 1]}", "field 'output.strides': the strides make elements of the"),
        ("op: exp, input: x, output: ^[1]", "field 'output': must give dtype, sizes or strides; got [1]"),
        (f"{FILL}, value: ^300", "field 'value': does not fit in uint8; got 300"),
        (f"{FILL}, value: ^1e999", "field 'value': is not a number; got 1e999"),
        (FILL.replace("[1]", "[^M]") + ", value: 1", "field 'output.sizes.0': is not a dim of the graph; got M"),
    ],
)
def test_a_wrong_field_of_a_node_is_told_at_its_place(fields: str, text: str) -> None:
    assert node(fields).startswith(f"node 'n', {text}")


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ("^x", "must be a list of names, or a mapping from names to values; got x"),
        ("^[]", "must name at least one output; got []"),
        ("[^3]", "must be the name of an input, constant or node; got 3"),
        ("[x, ^x]", "there is already an output of this name"),
        ("[^y]", "there is no input, constant or node called 'y'"),
        ('{^" a": x}', "is not a name; got  a"),
        ("{^a: x.output}", "'x' has one output; got x.output; allowed: x"),
    ],
)
def test_wrong_outputs_are_told_at_their_place(outputs: str, text: str) -> None:
    assert at_mark(f"{HEAD}{X}outputs: {outputs}\n").startswith(f"field 'outputs': {text}")


def test_one_of_several_outputs_is_called_as_it_is_referred_to() -> None:
    parts = f"{HEAD}{X}nodes: {{p: {{op: split, input: x, axis: 1, outputs: [1, 2]}}}}\n"
    assert list(dg.loads(f"{parts}outputs: [p.outputs.1]\n").outputs) == ["p.outputs.1"]
    assert "'p' has several outputs; got p; allowed: p.outputs.0, p.outputs.1" in at_mark(f"{parts}outputs: [^p]\n")
    assert list(dg.loads(f"{parts}outputs: {{last: p.outputs.1}}\n").outputs) == ["last"]


@pytest.mark.parametrize(("version", "got"), [("2", "2"), ("true", "True"), ("[1]", "[1]")])
def test_another_format_version_is_refused(version: str, got: str) -> None:
    mistake = only(f"dmlgraph: {version}\n{X}outputs: [x]\n")
    assert mistake == f"1:11: field 'dmlgraph': not a format version that this dmlgraph reads; got {got}; allowed: 1"


def test_a_format_version_in_quotes_is_told_to_leave_them_off() -> None:
    mistake = only(f"dmlgraph: '1'\n{X}outputs: [x]\n")
    assert mistake.endswith(
        "not a format version that this dmlgraph reads; got 1; allowed: 1 (a number, without quotes)"
    )


def test_every_number_of_a_node_that_does_not_fit_is_told() -> None:
    fields = "op: fill_value_sequence, output: {dtype: uint8, sizes: [1]}, value_start: 300, value_delta: 0.5"
    start, delta = mistakes(f"{HEAD}nodes: {{n: {{{fields}}}}}\noutputs: [n]\n")
    assert "field 'value_start': does not fit in uint8; got 300" in start
    assert "field 'value_delta'" in delta


def test_a_missing_format_version_is_told() -> None:
    mistake = only(f"{X}outputs: [x]\n")
    assert mistake == "1:1: field 'dmlgraph': the format version is missing (begin the file with 'dmlgraph: 1')"


# Names and references.


def test_a_name_used_twice_is_told_once() -> None:
    text = f"{HEAD}inputs:\n  a: {{dtype: int8, sizes: [1]}}\nnodes:\n  ^a: {{op: abs, input: a}}\n"
    said = at_mark(text + "  b: {op: abs, input: a}\noutputs: [b]\n")
    assert said == "node 'a': the name is taken (first in line 3)"


def test_nodes_may_stand_in_any_order() -> None:
    g = dg.loads(f"{HEAD}outputs: [c]\nnodes: {{c: {{op: exp, input: b}}, b: {{op: log, input: x}}}}\n{X}")
    assert [each.name for each in g.nodes] == ["x", "b", "c"]


def test_cycles_are_told_as_a_path_each_once() -> None:
    found = mistakes(f"""{HEAD}{X}nodes:
  self: {{op: exp, input: self}}
  one: {{op: add, a: x, b: two}}
  two: {{op: exp, input: one}}
  after: {{op: exp, input: two}}
outputs: [after, self]
""")
    assert found == [
        "4:3: node 'self': the nodes form a cycle; got self -> self",
        "5:3: node 'one': the nodes form a cycle; got one -> two -> one",
    ]


def test_a_long_cycle_is_found_without_recursion() -> None:
    count = 3000
    nodes = "".join(f"  n{i}: {{op: exp, input: n{(i - 1) % count}}}\n" for i in range(count))
    mistake = only(f"{HEAD}nodes:\n{nodes}outputs: [n5]\n")
    assert mistake.startswith("3:3: node 'n0': the nodes form a cycle; got n0 -> n1 -> n2 -> ")


def test_a_dangling_reference_gets_a_suggestion() -> None:
    text = f"{HEAD}inputs: {{weights: {{dtype: int8, sizes: [1]}}}}\nnodes: {{n: {{op: abs, input: ^wieghts}}}}\n"
    assert at_mark(f"{text}outputs: [n]\n").endswith(
        "there is no input, constant or node called 'wieghts' (did you mean 'weights'?)"
    )


# Levels and dims.


def test_a_node_above_the_target_is_told_the_level_at_which_it_is_legal() -> None:
    text = HEAD + 'target: "2.1"\nnodes:\n  big:\n    op: fill_value_constant\n    value: 1\n'
    mistake = only(f"{text}    output: {{dtype: float32, sizes: [1, 1, 1, 1, 5]}}\noutputs: [big]\n")
    assert mistake == (
        "7:37: node 'big', field 'output.sizes': FILL_VALUE_CONSTANT does not take 5 dimensions here at feature level "
        "2.1; legal from 4.0; got 5 dimensions; allowed: 4 dimensions"
    )


def test_dims_are_overridden_and_unknown_ones_refused() -> None:
    text = f"{HEAD}dims: {{N: 2}}\ninputs: {{x: {{dtype: int8, sizes: [N]}}}}\noutputs: [x]\n"
    assert dg.loads(text, dims={"N": 7}).outputs["x"].sizes == (7,)
    assert "is not a dim of the graph; allowed: N" in mistakes(text, dims={"M": 7})[0]
    assert "a dim is a whole number of at least 1; got 0" in mistakes(text, dims={"N": 0})[0]


def test_a_wrong_dim_is_told_once_and_not_where_it_is_used() -> None:
    text = f"{HEAD}dims: {{N: two}}\ninputs: {{x: {{dtype: int8, sizes: [N]}}}}\noutputs: [x]\n"
    assert only(text) == "2:11: field 'dims.N': a dim is a whole number of at least 1; got two"


# Constants.


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ("sizes: [2], data: ^3", "field 'data': must be a list of numbers; got 3"),
        (
            "sizes: [2], data: ^[1, 2, 3]",
            "field 'data': the data does not fill the sizes; got 3 numbers; allowed: 2, for [2]",
        ),
        ("sizes: [2], data: [1, ^200]", "field 'data.1': does not fit in int8; got 200"),
        ("sizes: [2, 2], data: [[1, 2], [3, ^x]]", "field 'data.1.1': is not a number; got x"),
        (
            "sizes: [2, 2], data: ^[[1, 2, 3], [4]]",
            "field 'data': the nested lists have another shape; got lists of diff",
        ),
        (
            "sizes: [1, 2], data: ^[[1], [2]]",
            "field 'data': the nested lists have another shape; got [2, 1]; allowed: [1, 2]",
        ),
        (
            "file: w.npy, data: ^[1]",
            "field 'data': cannot be given together with 'file' (give the numbers in one of them)",
        ),
        ("file: ^w.npy", "field 'file': a document that is not a file has no folder for other files; got w.npy"),
        ("file: ^3", "field 'file': must be the path of a .npy file; got 3"),
    ],
)
def test_a_wrong_constant_is_told_at_its_place(fields: str, text: str) -> None:
    assert constant(f"dtype: int8, {fields}").startswith(f"node 'c', {text}")


def test_constants_are_flat_or_nested_lists() -> None:
    g = dg.loads(
        f"{HEAD}dims: {{N: 2}}\nconstants:\n  a: {{dtype: uint4, sizes: [N, 2], data: [1, -1, 3, 4]}}\n"
        "  b: {dtype: float16, sizes: [2, N], data: [[.inf, -0.0], [.nan, {bits: 0x7e01}]]}\noutputs: [b]\n"
    )
    assert g.node("a").data.astype(int).tolist() == [[1, 15], [3, 4]]  # type: ignore[union-attr]
    assert g.node("b").data.view(np.uint16).tolist() == [[0x7C00, 0x8000], [0x7E00, 0x7E01]]  # type: ignore[union-attr]


def link(path: pathlib.Path, target: pathlib.Path) -> None:
    """A symbolic link, where a user may make one."""
    with contextlib.suppress(OSError):
        path.symlink_to(target)
    if not path.exists():
        pytest.skip("links need a privilege on Windows, and Wine has none")


@pytest.mark.parametrize("name", ["../w.npy", "sub/../../w.npy", "/etc/passwd", "link.npy", "folder/w.npy"])
def test_a_file_outside_the_documents_folder_is_refused(name: str, tmp_path: pathlib.Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    np.save(tmp_path / "w.npy", np.zeros(1))
    if name in ("link.npy", "folder/w.npy"):
        link(home / "link.npy", tmp_path / "w.npy")
        link(home / "folder", tmp_path)
    assert constant(f"file: ^{name}", home) == (
        f"node 'c', field 'file': lies outside the document's folder; got {name}; "
        "allowed: a path relative to the document, inside its folder"
    )


def test_a_file_may_lie_deeper_and_be_linked_inside_the_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    np.save(tmp_path / "sub" / "w.npy", np.array([1, 2], ">i2"))
    link(tmp_path / "link.npy", tmp_path / "sub" / "w.npy")
    (tmp_path / "g.yaml").write_text(
        f"{HEAD}constants: {{a: {{file: sub/w.npy, dtype: int16, sizes: [2]}}, b: {{file: ./link.npy}}}}\n"
        "outputs: [a, b]\n",
        encoding="utf-8",
    )
    results = dg.load(tmp_path / "g.yaml").compile("reference").run()
    assert results["a"].tolist() == results["b"].tolist() == [1, 2]
    assert results["a"].dtype == np.int16


@pytest.mark.parametrize("name", ["none.npy", ".", "sub"])
def test_a_missing_file_is_told_with_where_it_was_looked_for(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    expected = f"node 'c', field 'file': there is no such file; got {name} (looked in {tmp_path})"
    assert constant(f"file: ^{name}", tmp_path) == expected


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            "dtype: ^float64",
            "field 'dtype': the file 'w.npy' holds another data type; got float64; allowed: float32, as in the file",
        ),
        (
            "sizes: ^[3, 2]",
            "field 'sizes': the file 'w.npy' holds another shape; got [3, 2]; allowed: [2, 3], as in the file",
        ),
        ("sizes: ^[6]", "field 'sizes': the file 'w.npy' holds another shape"),
        ("dtype: ^int4", "field 'dtype': the file 'w.npy' holds another data type"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(more: str, text: str, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "w.npy", np.zeros((2, 3), np.float32))
    assert constant(f"file: w.npy, {more}", tmp_path).startswith(f"node 'c', {text}")


def test_a_4_bit_type_lies_in_an_8_bit_file_if_its_numbers_fit(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "w.npy", np.array([1, 15], np.uint8))
    g = dg.loads(f"{HEAD}constants: {{c: {{file: w.npy, dtype: uint4}}}}\noutputs: [c]\n", folder=tmp_path)
    assert g.node("c").data.astype(int).tolist() == [1, 15]  # type: ignore[union-attr]
    np.save(tmp_path / "w.npy", np.array([1, 16], np.uint8))
    said = constant("file: ^w.npy, dtype: uint4", tmp_path)
    assert said == "node 'c', field 'file': holds numbers beyond uint4; allowed: 0 to 15"


@pytest.mark.parametrize("array", [np.zeros(2, bool), np.zeros(2, np.complex64), np.array(["a"]), np.zeros(2, "i4,f4")])
def test_an_array_of_no_directml_type_is_refused(array: np.ndarray[Any, Any], tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "w.npy", array)
    assert "field 'file': holds a data type that DirectML does not have" in constant("file: ^w.npy", tmp_path)


@pytest.mark.parametrize(
    ("shape", "text"),
    [((0,), "a size must be at least 1"), ((1,) * 9, "a tensor has 1 to 8")],
)
def test_an_array_of_no_tensors_shape_is_refused(shape: tuple[int, ...], text: str, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "w.npy", np.zeros(shape))
    assert text in only(f"{HEAD}constants: {{c: {{file: w.npy}}}}\noutputs: [c]\n", tmp_path)


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


BROKEN = {
    "empty": b"",
    "text": b"1 2 3",
    "magic only": b"\x93NUMPY",
    "no header": b"\x93NUMPY\x01\x00\xff\x00{",
    "version": b"\x93NUMPY\x09\x00\x01\x00{",
    "open header": header("{'descr': '<f8', 'shape': (((\n"),
    "open quote": header("{'descr': '<f8\n"),
    "nested header": header("(" * 5000),
    "deeper header": header("-" * 9000),
    "long header": header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'9' * 5000},), }}\n"),
    "no dictionary": header("[1]\n"),
    "code": header("__import__('os').system('touch marker')\n"),
    "no type": header("{'descr': '<zz', 'fortran_order': False, 'shape': (1,), }\n"),
    "truncated": header("{'descr': '<f8', 'fortran_order': False, 'shape': (9,), }\n") + bytes(8),
    "vast": header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }\n"),
    "beyond": header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**70},), }}\n"),
    "negative": header("{'descr': '<f8', 'fortran_order': False, 'shape': (-5,), }\n"),
    "false zip": b"PK\x03\x04 not an archive",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_no_npy_file_is_refused(
    kind: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.npy").write_bytes(BROKEN[kind])
    said = constant("file: ^w.npy", tmp_path)
    assert said.startswith("node 'c', field 'file': is ")
    assert said.endswith("(save an array of numbers with numpy.save)")
    assert len(said) < 300
    assert [file.name for file in tmp_path.iterdir()] == ["w.npy"]


def test_an_npz_archive_is_refused(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "w.npy", "wb") as stream:
        np.savez(stream, a=np.zeros(1))
    assert "is an .npz archive; a .npy file holds one array" in constant("file: ^w.npy", tmp_path)


class Marker:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return pathlib.Path.touch, (self.path,)


def test_objects_are_never_unpickled(tmp_path: pathlib.Path) -> None:
    marker = tmp_path / "marker"
    np.save(tmp_path / "w.npy", np.array([Marker(marker), 1], object))
    assert "holds Python objects, which are never loaded" in constant("file: ^w.npy", tmp_path)
    (tmp_path / "w.npy").write_bytes(pickle.dumps(Marker(marker)))
    assert "is not a .npy file" in constant("file: ^w.npy", tmp_path)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Marker(marker)))
    assert marker.exists()  # unchanged


def test_a_file_that_cannot_be_read_is_told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "w.npy", np.zeros(1))

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    assert "field 'file': cannot be read: Permission denied" in constant("file: ^w.npy", tmp_path)


@pytest.mark.parametrize("section", ["inputs", "constants"])
def test_what_a_section_that_cannot_be_read_may_hold_is_not_said_to_be_missing(section: str) -> None:
    text = (
        f"{HEAD}{section}:\n  ^- x: {{dtype: int8, sizes: [1]}}\nnodes: {{n: {{op: exp, input: x}}}}\noutputs: [n, x]\n"
    )
    assert at_mark(text) == (
        f"field '{section}': must be a mapping from names; got a list (write 'name: …', without '- ' before it)"
    )


def test_dims_that_cannot_be_read_are_told_and_not_their_names() -> None:
    text = f"{HEAD}dims: ^[N]\ninputs: {{x: {{dtype: int8, sizes: [N]}}}}\nnodes: {{n: {{op: abs, input: x}}}}\n"
    assert at_mark(f"{text}outputs: [n]\n").startswith("field 'dims': must be a mapping from names")


@pytest.mark.parametrize(
    ("size", "hint"),
    [
        ('"2"', "write the number with digits only, without quotes"),
        ("1_000", "write the number with digits only, without quotes"),
        ("n", "did you mean 'N'?"),
        ("whatever", "dims are declared with the graph: add 'whatever: 1' to 'dims'"),
        ("-1", "sizes are not inferred: write the number"),
    ],
)
def test_what_is_no_size_is_answered_with_what_to_write(size: str, hint: str) -> None:
    said = at_mark(f"{HEAD}dims: {{N: 2}}\ninputs: {{x: {{dtype: int8, sizes: [^{size}]}}}}\noutputs: [x]\n")
    assert said.endswith(f"({hint})")


def test_a_dim_of_a_file_without_dims_is_answered_with_the_line() -> None:
    said = at_mark(f"{HEAD}inputs: {{x: {{dtype: int8, sizes: [^N]}}}}\noutputs: [x]\n")
    assert said.endswith("(dims are declared with the graph: add the line 'dims: {N: 1}')")


def test_a_missing_file_is_answered_with_the_one_it_may_be(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "weights.npy", np.ones(2, np.float32))
    assert constant("file: ^weigths.npy", tmp_path).endswith("(did you mean 'weights.npy'?)")


def test_a_place_says_what_stands_there() -> None:
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(f"{HEAD}inputs:\n  x: {{dtype: int5, sizes: [2]}}\noutputs: [x]\n")
    location = caught.value.location
    assert location is not None
    assert location.source == "  x: {dtype: int5, sizes: [2]}"
    assert location.source[location.column - 1 : (location.end_column or 0) - 1] == "int5"


# Every error of a list, of a mapping, and of several fields.


def places(text: str) -> list[str]:
    """The fields of all problems, in the order of the report."""
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(f"{HEAD}{text}")
    return [f"{each.node}: {each.field}" for each in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "inputs: {i: {dtype: f, sizes: [2.5, two, 0], strides: [-1, x, 1], owned: 1}}",
            "dtype sizes.0 sizes.1 sizes.2 strides.0 strides.1 owned",
        ),
        ("constants: {i: {dtype: f, sizes: [2.5, two], data: [1]}}", "dtype sizes.0 sizes.1"),
        ("constants: {i: {dtype: int8, sizes: [3], data: [a, 300, 1.5]}}", "data.0 data.1 data.2"),
        ("constants: {i: {dtype: int8, sizes: [2, 2], data: [[a, 1], [2, b]]}}", "data.0.0 data.1.1"),
        ("constants: {i: {file: no.npy, dtype: f, sizes: [a, 0]}}", "file dtype sizes.0 sizes.1"),
        (
            "nodes: {i: {op: reduce, input: x, axes: [1.5, a, -9], function: summ, output: {sizes: [a, 0], dtype: f}}}",
            "axes.0 axes.1 function output.sizes.0 output.sizes.1 output.dtype",
        ),
        (
            "nodes: {i: {op: fill_value_constant, output: {sizes: [a, b], strides: [1.5, c], dtype: f}, value: 1}}",
            "output.sizes.0 output.sizes.1 output.strides.0 output.strides.1 output.dtype",
        ),
        (
            "nodes: {i: {op: split, input: x, axis: a, outputs: [{dtype: f}, {sizes: [0, z]}]}}",
            "axis outputs.0.dtype outputs.1.sizes.0 outputs.1.sizes.1",
        ),
        ("nodes: {i: {op: gemm, a: x, b: nothing, c: none, alpha: a, trans_a: b}}", "b c alpha trans_a"),
        (
            "nodes: {i: {op: gemm, a: x, b: x, alpha: a, fused_activation: {op: activation_elu, alpha: b, foo: 1}}}",
            "alpha fused_activation.alpha fused_activation.foo",
        ),
        (
            "nodes: {i: {op: identity, input: x, scale_bias: {scale: a, bias: b, foo: 1}}}",
            "scale_bias.scale scale_bias.bias scale_bias.foo",
        ),
        ("nodes: {i: {op: join, inputs: [x, nothing, none], axis: a}}", "inputs inputs axis"),
    ],
)
def test_everything_wrong_with_one_declaration_is_told(text: str, fields: str) -> None:
    x = "" if text.startswith("inputs") else X
    assert places(f"{x}{text}\noutputs: [i]\n") == [f"i: {field}" for field in fields.split()]


def test_the_fields_of_a_node_that_reads_a_broken_one_are_checked() -> None:
    nodes = "a: {op: negate, input: nothing}, b: {op: clip, input: a, min: low, max: 1}, c: {op: negate, input: b}"
    assert places(f"nodes: {{{nodes}}}\noutputs: [c]\n") == ["a: input", "b: min"]


@pytest.mark.parametrize(
    ("target", "dtype", "sizes", "node", "field"),
    [
        ("6.4", "float64", "[2, 2]", "{op: add, a: x, b: x}", "a.dtype"),
        ("2.0", "float32", "[2, 2]", "{op: add, a: x, b: x}", "a.sizes"),
        ("2.0", "int32", "[1, 1, 2, 2]", "{op: gemm, a: x, b: x, c: x}", "a.dtype"),
        ("6.4", "int4", "[2, 2]", "{op: join, inputs: [x, x], axis: 0}", "inputs.0.dtype"),
    ],
)
def test_a_type_that_all_tensors_share_is_refused_once(
    target: str, dtype: str, sizes: str, node: str, field: str
) -> None:
    x = f"inputs: {{x: {{dtype: {dtype}, sizes: {sizes}}}}}\n"
    assert places(f'target: "{target}"\n{x}nodes: {{n: {node}}}\noutputs: [n]\n') == [f"n: {field}"]


def test_types_that_differ_are_refused_each() -> None:
    inputs = "inputs: {x: {dtype: float64, sizes: [2]}, i: {dtype: float16, sizes: [2]}}\n"
    node = "nodes: {n: {op: gather, input: x, indices: i, axis: 0, index_dimensions: 1}}\n"
    assert places(f'target: "2.1"\n{inputs}{node}outputs: [n]\n')[1:2] == ["n: indices.dtype"]


@pytest.mark.parametrize(
    ("node", "mistake"),
    [
        ("op: join, inputs: ^x, axis: 0", "node 'n', field 'inputs': takes a list of values, not one; got x"),
        ("op: negate, input: ^[x]", "node 'n', field 'input': takes one value, not a list of them; got 1 value"),
        (
            "op: dequantize, input: x, quantizations: ^x, quantization_type: scale",
            "node 'n', field 'quantizations': takes a list of values, not one; got x",
        ),
    ],
)
def test_one_value_is_no_list_of_values(node: str, mistake: str) -> None:
    assert at_mark(f"{HEAD}{X}nodes: {{n: {{{node}}}}}\noutputs: [n]\n") == mistake
