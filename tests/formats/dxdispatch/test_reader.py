"""Models become graphs: what each buffer becomes, how dispatches are connected, and the messages for mistakes."""

from __future__ import annotations

import copy
import functools
import json
import operator
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dxdispatch.models import FLOATS, binary, buffer, dispatch, model, room, run, show, unary
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.base.errors import DocumentError
from dmlgraph.formats.dxdispatch import dumps, loads
from dmlgraph.graph.nodes import ConstantNode, InputNode
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example

COLUMNS = '{"DataType": "FLOAT32", "Sizes": [2, 3]}'
ROW_REPEATED = '{"DataType": "FLOAT32", "Sizes": [2, 3], "Strides": [0, 1]}'
TURNED = '{"DataType": "FLOAT32", "Sizes": [3, 2], "Strides": [1, 3]}'
TWO = '{"DataType": "FLOAT32", "Sizes": [2]}'

ADD = binary("add", "DML_OPERATOR_ELEMENT_WISE_ADD")
RELU = unary("relu")
NEGATE = unary("negate", "DML_OPERATOR_ELEMENT_WISE_NEGATE")


def relu_of(x: str) -> str:
    return model(f"{x}, {room('y')}", RELU, f"{dispatch('relu', InputTensor='x', OutputTensor='y')}, {show('y')}")


# What buffers become.


def test_a_buffer_with_values_becomes_a_constant_and_one_without_an_input():
    graph = loads(
        model(
            f"{buffer('a', '[1, -2, 3, -4]')}, {room('b')}, {room('y')}",
            ADD,
            f"{dispatch('add', ATensor='a', BTensor='b', OutputTensor='y')}, {show('y')}",
        )
    )
    assert [node.name for node in graph.inputs] == ["b"]
    assert run(graph, b=[10, 20, 30, 40]) == {"y": [11, 18, 33, 36]}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("[1, -2, 3, -4]", [1, 0, 3, 0]),
        ('{"valueCount": 4, "value": 2.5}', [2.5] * 4),
        ('{"valueCount": 4, "valueStart": -1, "valueDelta": 0.75}', [0, 0, 0.5, 1.25]),
    ],
)
def test_every_initialiser_can_be_a_constant_or_an_input(values: str, expected: list[float]):
    text = relu_of(buffer("x", values))
    assert run(loads(text)) == {"y": expected}
    assert run(loads(text, inputs=["x"]), x=[5, -6, 7, -8]) == {"y": [5, 0, 7, 0]}


def test_a_buffer_of_zeros_can_be_a_constant():
    graph = loads(relu_of(room("x")), constants=["x"])
    assert graph.inputs == []
    assert run(graph) == {"y": [0, 0, 0, 0]}


def test_a_file_beside_the_model_holds_a_constant(tmp_path: pathlib.Path):
    np.save(tmp_path / "x.npy", np.array([1, -1, 2, -2], np.float32))
    (tmp_path / "my model.json").write_text(
        relu_of('"x": {"initialValues": {"sourcePath": "x.npy"}}'), encoding="utf-8"
    )
    graph = dg.load_dxdispatch(tmp_path / "my model.json")
    assert graph.name == "my model"
    assert run(graph) == {"y": [1, 0, 2, 0]}


def test_files_are_looked_for_in_the_folder_that_is_given(tmp_path: pathlib.Path):
    np.save(tmp_path / "x.npy", np.array([1, -1, 2, -2], np.float32))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.json").write_text(
        relu_of('"x": {"initialValues": {"sourcePath": "x.npy"}}'), encoding="utf-8"
    )
    assert run(dg.load_dxdispatch(tmp_path / "models" / "m.json", folder=tmp_path)) == {"y": [1, 0, 2, 0]}
    with raises(DocumentError, "unreadable", node="x", field="initialValues.sourcePath", got="x.npy"):
        dg.load_dxdispatch(tmp_path / "models" / "m.json")


def test_a_buffer_is_read_as_the_type_the_operator_says():
    text = relu_of(buffer("x", "[1065353216, 3212836864, 1073741824, 0]", "UINT32"))
    assert run(loads(text)) == {"y": [1, 0, 2, 0]}  # the bits of 1, -1, 2 and 0


def test_a_part_of_a_buffer_can_be_bound():
    text = model(
        f"{buffer('x', '[1, 2, 3, 4, 5, 6]')}, {room('y')}",
        ADD,
        '{"type": "dispatch", "dispatchable": "add", "bindings": {"ATensor": {"name": "x", "elementOffset": 2}, '
        '"BTensor": {"name": "x", "elementOffset": 1, "elementSizeInBytes": 4}, "OutputTensor": "y"}}',
    )
    assert run(loads(text)) == {"y": [5, 7, 9, 11]}


def test_what_operators_own_is_bound_by_the_dispatchable():
    owned = '{"DataType": "FLOAT32", "Sizes": [4], "Flags": "OWNED_BY_DML"}'
    add = binary("add", "ELEMENT_WISE_ADD", b=owned)[:-1] + ', "bindings": {"BTensor": "b"}}'
    commands = f"{dispatch('add', ATensor='a', OutputTensor='y')}, {show('y')}"
    graph = loads(model(f"{room('a')}, {room('b')}, {room('y')}", add, commands))
    assert {node.name: node.desc.owned for node in graph.inputs} == {"a": False, "b": True}
    assert run(graph, a=[1, 2, 3, 4], b=[1, 1, 1, 1]) == {"y": [2, 3, 4, 5]}


# How dispatches are connected.


def test_dispatches_that_share_a_buffer_are_joined_in_the_order_of_the_commands():
    graph = loads(
        model(
            f"{room('x')}, {room('t')}, {room('y')}",
            f"{NEGATE}, {RELU}",  # declared in another order than they run
            f"{dispatch('relu', InputTensor='x', OutputTensor='t')}, "
            f"{dispatch('negate', InputTensor='t', OutputTensor='y')}, {show('y')}",
        )
    )
    assert [node.name for node in graph.nodes] == ["x", "relu", "negate"]
    assert run(graph, x=[1, -2, 3, -4]) == {"y": [-1, 0, -3, 0]}


def test_a_buffer_that_is_written_again_holds_the_last_result():
    graph = loads(
        model(
            f"{buffer('x', '[1, -2, 3, -4]')}, {room('y')}",
            f"{NEGATE}, {RELU}",
            f"{dispatch('relu', InputTensor='x', OutputTensor='y')}, {show('y')}, "
            f"{dispatch('negate', InputTensor='y', OutputTensor='y')}, {show('y')}, "
            f"{dispatch('negate', InputTensor='y', OutputTensor='y')}, {show('y')}",
        )
    )
    assert run(graph) == {"y": [1, 0, 3, 0], "y_1": [-1, 0, -3, 0], "y_2": [1, 0, 3, 0]}
    assert [node.name for node in graph.nodes] == ["x", "relu", "negate", "negate_1"]


def test_a_buffer_is_read_before_it_is_written():
    graph = loads(
        model(
            buffer("x", "[1, -2, 3, -4]") + ", " + room("y"),
            f"{NEGATE}, {ADD}",
            f"{dispatch('negate', InputTensor='x', OutputTensor='x')}, "
            f"{dispatch('add', ATensor='x', BTensor='x', OutputTensor='y')}, {show('y')}",
        )
    )
    assert run(graph) == {"y": [-2, 4, -6, 8]}


def test_arrays_of_tensors_and_several_outputs_are_bound_in_order():
    split = (
        f'"split": {{"type": "SPLIT", "desc": {{"InputTensor": {FLOATS}, "OutputTensors": [{TWO}, {TWO}], "Axis": 0}}}}'
    )
    join = (
        f'"join": {{"type": "JOIN", "desc": {{"InputTensors": [{TWO}, {TWO}], "OutputTensor": {FLOATS}, "Axis": 0}}}}'
    )
    commands = (
        '{"type": "dispatch", "dispatchable": "split", "bindings": {"InputTensor": "x", "OutputTensors": ["a", "b"]}}, '
        '{"type": "dispatch", "dispatchable": "join", "bindings": {"InputTensors": ["b", "a"], "OutputTensor": "y"}}'
    )
    graph = loads(model(f"{room('x')}, {room('a', 2)}, {room('b', 2)}, {room('y')}", f"{split}, {join}", commands))
    assert run(graph, x=[1, 2, 3, 4]) == {"y": [3, 4, 1, 2]}


@pytest.mark.parametrize("values", ['{"valueCount": 3, "value": 0}', "[10, 20, 30]"], ids=["input", "constant"])
def test_a_row_read_with_zero_strides_is_broadcast(values: str):
    add = binary("add", "ELEMENT_WISE_ADD", COLUMNS, ROW_REPEATED, COLUMNS)
    commands = f"{dispatch('add', ATensor='x', BTensor='row', OutputTensor='y')}"
    graph = loads(model(f"{room('x', 6)}, {buffer('row', values)}, {room('y', 6)}", add, commands))
    (row,) = (node for node in graph.nodes if node.name == "row")
    assert isinstance(row, InputNode | ConstantNode)
    assert row.desc.sizes == (1, 3)
    rows = {"row": [[10, 20, 30]]} if "value" in values else {}
    assert run(graph, x=[[1, 2, 3], [4, 5, 6]], **rows) == {"y": [[11, 22, 33], [14, 25, 36]]}


def test_a_row_that_is_repeated_in_every_input_is_written_out():
    add = binary("add", "ELEMENT_WISE_ADD", ROW_REPEATED, ROW_REPEATED, COLUMNS)
    commands = dispatch("add", ATensor="row", BTensor="row", OutputTensor="y")
    graph = loads(model(f"{buffer('row', '[1, 2, 3]')}, {room('y', 6)}", add, commands))
    assert run(graph) == {"y": [[2, 4, 6], [2, 4, 6]]}


def test_a_constant_can_be_read_turned_and_straight():
    rows = '{"DataType": "FLOAT32", "Sizes": [3, 2]}'
    add = binary("add", "ELEMENT_WISE_ADD", TURNED, rows, rows)
    commands = dispatch("add", ATensor="k", BTensor="k", OutputTensor="y")
    graph = loads(model(f"{buffer('k', '[1, 2, 3, 4, 5, 6]')}, {room('y', 6)}", add, commands))
    assert run(graph) == {"y": [[2, 6], [5, 9], [8, 12]]}  # [[1,4],[2,5],[3,6]] + [[1,2],[3,4],[5,6]]


def test_an_input_can_be_turned_and_an_output_too():
    turn = f'"turn": {{"type": "ELEMENT_WISE_IDENTITY", "desc": {{"InputTensor": {TURNED}, "OutputTensor": {TURNED}}}}}'
    graph = loads(model(f"{room('x', 6)}, {room('y', 6)}", turn, dispatch("turn", InputTensor="x", OutputTensor="y")))
    assert graph.inputs[0].desc.strides == graph.outputs["y"].desc.strides == (1, 3)
    assert run(graph, x=[[1, 2], [3, 4], [5, 6]]) == {"y": [[1, 2], [3, 4], [5, 6]]}


def test_strides_that_say_no_more_than_the_sizes_are_left_out():
    packed = '{"DataType": "FLOAT32", "Sizes": [1, 2, 3], "Strides": [0, 3, 1]}'
    commands = dispatch("relu", InputTensor="x", OutputTensor="y")
    graph = loads(model(f"{room('x', 6)}, {room('y', 6)}", unary("relu", tensor=packed), commands))
    assert graph.inputs[0].desc.strides is graph.outputs["y"].desc.strides is None


# Outputs and names.


def test_what_is_printed_or_written_to_a_file_becomes_an_output():
    graph = loads(
        model(
            f"{room('x')}, {room('a')}, {room('b')}, {room('c')}",
            f"{RELU}, {NEGATE}",
            f"{show('x')}, {dispatch('relu', InputTensor='x', OutputTensor='a')}, "
            f"{dispatch('negate', InputTensor='a', OutputTensor='b')}, "
            f"{dispatch('negate', InputTensor='a', OutputTensor='c')}, "
            '{"type": "writeFile", "resource": "b", "targetPath": "b.npy", "dimensions": [4]}, '
            f"{show('a')}, {show('a')}, " + '{"type": "printInitTemporary", "dataType": "FLOAT32"}',
        )
    )
    assert {name: value.reference for name, value in graph.outputs.items()} == {"b": "negate", "a": "relu"}


def test_what_nobody_reads_is_the_output_where_nothing_is_printed():
    text = model(
        f"{room('x')}, {room('a')}, {room('b')}",
        f"{RELU}, {NEGATE}",
        f"{dispatch('relu', InputTensor='x', OutputTensor='a')}, "
        f"{dispatch('negate', InputTensor='a', OutputTensor='b')}",
    )
    assert {name: value.reference for name, value in loads(text).outputs.items()} == {"b": "negate"}


def test_names_become_names_of_a_graph():
    graph = loads(
        model(
            f"{room('layer.0')}, {room(' ')}",
            unary("layer.0") + ", " + unary("", "ELEMENT_WISE_ABS"),
            f"{dispatch('layer.0', InputTensor='layer.0', OutputTensor=' ')}, "
            f"{dispatch('', InputTensor=' ', OutputTensor=' ')}",
        )
    )
    assert [node.name for node in graph.nodes] == ["layer.0", "layer.0_1", "node"]
    assert list(graph.outputs) == ["output"]
    assert run(graph, **{"layer.0": [1, -2, 3, -4]}) == {"output": [1, 0, 3, 0]}


def test_the_graph_asks_of_outputs_only_what_does_not_follow():
    text = model(
        f"{room('x')}, {room('t')}, {room('y')}",
        f"{RELU}, {unary('same', 'CAST')}",
        f"{dispatch('relu', InputTensor='x', OutputTensor='t')}, {dispatch('same', InputTensor='t', OutputTensor='y')}",
    )
    asked = [getattr(loads(text).node(name), "outputs") for name in ("relu", "same")]  # noqa: B009 - of one kind of node
    assert asked[0] == {}
    assert set(asked[1]) == {"output"}


# Mistakes.

X = room("x")
Y = room("y")
ONE = dispatch("relu", InputTensor="x", OutputTensor="y")
ELU = unary("elu", "ACTIVATION_ELU", ', "Alpha": ^"big"')
HALF = unary("half", tensor=TWO)
SHADER = '"s": {"type": "hlsl", "sourcePath": "s.hlsl"}'


def places(text: str) -> tuple[str, list[str]]:
    """The text without the `^` in it, and their lines and columns."""
    found = []
    while (at := text.find("^")) >= 0:
        found.append(f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}")
        text = text[:at] + text[at + 1 :]
    return text, found


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("^[]", "a model is an object"),
        ('^{"dispatchables": {}, "commands": []}', "field 'resources': must be an object"),
        ('^{"resources": {}, "commands": []}', "field 'dispatchables': must be an object"),
        ('{"resources": {}, "dispatchables": {}, "commands": ^{}}', "field 'commands': must be a list of commands"),
        ("^" + model(X, RELU, ""), "field 'commands': no operator is dispatched"),
        (
            model(f"{X},\n{Y}", RELU, ONE.replace('"relu"', '^"rely"')),
            "field 'dispatchable': nothing has this name; got rely (did you mean 'relu'?)",
        ),
        (
            model(f"{X},\n{Y}", RELU, ONE.replace('"y"', '^"z"')),
            "field 'bindings.OutputTensor': nothing has this name; got z",
        ),
        (
            model(f"{X},\n{Y}", RELU, ONE.replace('"OutputTensor"', '^"OutputTenso"')),
            "field 'bindings.OutputTenso': is not a tensor of the operator; allowed: InputTensor, OutputTensor (did",
        ),
        (
            model(
                f"{X},\n{Y}", RELU, ONE.replace('{"InputTensor": "x", "OutputTensor": "y"}', '^{"InputTensor": "x"}')
            ),
            "field 'bindings.OutputTensor': no buffer is bound here; allowed: 1",
        ),
        (
            model(f"{X},\n{Y}", RELU, ONE.replace('"y"', '^["x", "y"]')),
            "field 'bindings.OutputTensor': must be bound to one buffer for each tensor; got 2; allowed: 1",
        ),
        (
            model(f"{X},\n{room('y', 3)}", RELU, ONE.replace('"y"', '^"y"')),
            "node 'relu', field 'bindings.OutputTensor': the buffer 'y' is too small for the tensor; got 12 bytes",
        ),
        (
            model(f"{X},\n{Y}", RELU, '{"type": ^"dispatcher"}'),
            "field 'type': is not a command; got dispatcher; allowed: dispatch, print, writeFile (did you mean",
        ),
        (
            model(f"{X},\n{Y}", RELU, "^[]"),
            "must be an object with a type; got []; allowed: dispatch, print, writeFile",
        ),
        (
            model(f"{X},\n{Y}", RELU, f'{ONE}, {{"type": "print", "resource": ^"z"}}'),
            "field 'resource': nothing has this name; got z",
        ),
        (
            model(f"{X},\n{Y}", SHADER, dispatch("s").replace('"s"', '^"s"')),
            "field 'dispatchable': 's' is a compute shader in HLSL: only operators of DirectML become nodes",
        ),
        (
            model(f"{X},\n{Y}", unary("relu", "REL").replace('"REL"', '^"REL"'), ONE),
            "node 'relu', field 'type': is not an operator of DirectML; got REL",
        ),
        (
            model(f"{X},\n{Y}", ELU, dispatch("elu", InputTensor="x", OutputTensor="y")),
            "node 'elu', field 'desc.Alpha': is not a number; got big",
        ),
        (
            model(f"{X},\n{Y}", RELU.replace("[4]", "[2, 2]", 1).replace("[4]", "^[4]"), ONE),
            "node 'relu', field 'desc.OutputTensor.Sizes': is determined by the inputs; got [4]; allowed: [2, 2]",
        ),
        (
            model(
                f"{X}, {Y},\n{room('z', 2)}",
                f"{RELU}, {HALF}",
                f"{ONE}, {dispatch('half', InputTensor='y', OutputTensor='z')}".replace(
                    '"InputTensor": "y"', '"InputTensor": ^"y"'
                ),
            ),
            "node 'half', field 'bindings.InputTensor': the buffer holds another tensor than the operator reads: "
            "such views are not imported; got float32 [2]; allowed: float32 [4]",
        ),
        (
            model(
                X.replace('{"valueCount": 4, "value"', '^{"valueCount": 4, "valu"') + ",\n" + Y.replace('"FL', '^"GL'),
                RELU,
                ONE,
            ),
            "node 'x', field 'initialValues': is not an initialiser\n"
            "node 'y', field 'initialValuesDataType': is not an enumerator of DML_TENSOR_DATA_TYPE; got GLOAT32",
        ),
    ],
)
def test_every_mistake_is_told_with_its_place(text: str, messages: str):
    """The locations are those of the `^`."""
    text, where = places(text)
    with pytest.raises(DocumentError) as caught:
        loads(text)
    told = str(caught.value).splitlines()
    for line, place, message in zip(told, where, messages.splitlines(), strict=True):
        assert line.startswith(f"<text>:{place}: {message}"), line


def test_a_part_of_what_an_operator_wrote_cannot_be_read():
    second = (
        '{"type": "dispatch", "dispatchable": "half", "bindings": {"InputTensor": {"name": "y", "elementOffset": 1}, '
    )
    text = model(
        f"{X}, {Y}, {room('z', 2)}",
        f"{RELU}, {unary('half', tensor=TWO)}",
        f'{ONE}, {second}"OutputTensor": "z"}}}}',
    )
    with raises(DocumentError, "unsupported", node="half", field="bindings.InputTensor"):
        loads(text)


def test_two_outputs_of_a_dispatch_cannot_share_a_buffer():
    split = (
        f'"split": {{"type": "SPLIT", "desc": {{"InputTensor": {FLOATS}, "OutputTensors": [{TWO}, {TWO}], "Axis": 0}}}}'
    )
    command = (
        '{"type": "dispatch", "dispatchable": "split", "bindings": {"InputTensor": "x", "OutputTensors": ["y", "y"]}}'
    )
    with raises(DocumentError, "unsupported", node="split", field="bindings.OutputTensors.0", got="y"):
        loads(model(f"{X}, {Y}", split, command))


@pytest.mark.parametrize(
    ("options", "code", "field", "got"),
    [
        ({"inputs": ["xx"]}, "unknown-resource", "inputs", "xx"),
        ({"constants": ["q"]}, "unknown-resource", "constants", "q"),
        ({"inputs": ["x"], "constants": ["x"]}, "duplicate", "inputs", "x"),
    ],
)
def test_inputs_and_constants_are_names_of_resources(options: dict[str, Any], code: str, field: str, got: object):
    with pytest.raises(DocumentError) as caught:
        loads(model(f"{X}, {Y}", RELU, ONE), **options)
    expect(caught.value, code, field=field, got=got)


def test_a_file_that_is_no_text_is_refused(tmp_path: pathlib.Path):
    (tmp_path / "m.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(DocumentError, match="not UTF-8 text"):
        dg.load_dxdispatch(tmp_path / "m.json")
    with raises(DocumentError, "unreadable"):
        dg.load_dxdispatch(tmp_path / "missing.json")


# Whatever replaces a value, the result is a graph or an error with a location.

ANYTHING = st.sampled_from(
    [None, True, -1, 0, 3, 1.5, 2**40, 10**30, "", "x", "y", "FLOAT32", "nan", [], [1], ["x"], [[1]], {}, {"name": "x"}]
)
WHOLE: list[dict[str, Any]] = [
    json.loads(dumps(dg.loads(example(REGISTRY[name]))))
    for name in ("gemm", "split", "join", "lstm", "clip1", "reduce", "convolution", "upsample_2d", "quantize", "add1")
]


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """The path to every value inside a value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (key,)
        yield from ((key, *rest) for rest in paths(value[key]))


@given(data=st.data(), broken=st.sampled_from(WHOLE), other=ANYTHING, is_left_out=st.booleans())
def test_no_value_breaks_the_reader(data: st.DataObject, broken: dict[str, Any], other: Any, is_left_out: bool):
    model = copy.deepcopy(broken)
    *way, last = data.draw(st.sampled_from(list(paths(model))))
    place: Any = functools.reduce(operator.getitem, way, model)
    if is_left_out:
        del place[last]
    else:
        place[last] = other
    try:
        places: list[Any] = [value.node for value in loads(json.dumps(model)).outputs.values()]
    except DocumentError as error:
        places = [problem.location for problem in error.problems]
    assert places
    assert None not in places


def test_what_reads_the_result_of_a_dispatch_that_cannot_be_is_passed_over() -> None:
    text = model(
        f"{room('x')}, {room('t')}, {room('u')}, {room('y')}",
        f"{unary('wrong', 'ACTIVATION_SOFTMAX1')}, {RELU}",
        f"{dispatch('wrong', InputTensor='x', OutputTensor='t')}, "
        f"{dispatch('relu', InputTensor='t', OutputTensor='u')}, {dispatch('relu', InputTensor='u', OutputTensor='y')}",
    ).replace('"ACTIVATION_SOFTMAX1", "desc": {', '"ACTIVATION_SOFTMAX1", "desc": {"Axes": [7], ')
    with pytest.raises(DocumentError) as caught:
        loads(text)
    assert [problem.node for problem in caught.value.problems] == ["wrong"]


def test_every_error_of_a_list_is_told() -> None:
    tensor = '{"DataType": "FLOAT", "Flags": ["OWNED"], "Sizes": [0, 2.5, "a"]}'
    text = model(
        f"{buffer('x', '[1, null, 2, true]')}, {buffer('k', '[1e39]')}",
        unary("relu", tensor=tensor),
        dispatch("relu", InputTensor="x"),
    )
    with pytest.raises(DocumentError) as caught:
        loads(text)
    inner = ["DataType", "Flags", "Sizes.0", "Sizes.1", "Sizes.2"]
    assert [problem.field for problem in caught.value.problems] == [
        *("initialValues.1", "initialValues.3", "initialValues.0"),
        *(f"desc.{member}.{field}" for member in ("InputTensor", "OutputTensor") for field in inner),
    ]
