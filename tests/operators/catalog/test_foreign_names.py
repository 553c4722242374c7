"""Names in other libraries, and the hints made from them."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.formats.yaml.reader import SECTIONS
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.foreign_fields import FIELDS
from dmlgraph.operators.catalog.foreign_names import (
    DEVICES,
    LIBRARIES,
    MEMBERS,
    OPERATORS,
    Entry,
    entries,
    plain,
    things,
)
from dmlgraph.operators.catalog.registry import find
from dmlgraph.operators.declaration.enumeration import Enumeration


def enumerations(cls: type[Enumeration] = Enumeration) -> list[type[Enumeration]]:
    return [each for sub in cls.__subclasses__() for each in (sub, *enumerations(sub))]


# The data.


@pytest.mark.parametrize("entry", OPERATORS, ids=lambda entry: entry.operator or entry.instead)
def test_an_entry_is_of_an_operator_with_such_fields_or_says_what_to_do_instead(entry: Entry) -> None:
    assert any(entry.names(library) for library in LIBRARIES)
    if not entry.operator:
        assert entry.instead
        return
    fields = REGISTRY[entry.operator].fields
    assert set(entry.fields) <= set(fields)
    for field, value in entry.fields.items():
        if isinstance(value, str):
            assert value in REGISTRY[entry.operator].enumeration(field).names()


def test_members_fields_and_devices_are_ours_and_their_names_are_not() -> None:
    ours = {name for each in enumerations() for name in each.names()}
    assert set(MEMBERS.values()) <= ours
    fields = {field for operator in REGISTRY.values() for field in operator.fields}
    fields |= {
        *SECTIONS,
        *inspect.signature(dg.Graph.constant).parameters,
        *inspect.signature(dg.Graph.compile).parameters,
        *inspect.signature(dg.Value.sum).parameters,
    }
    fields |= {"op", "dtype", "sizes", "file", "expect"}
    assert {field for row in FIELDS for field in (*row.ours.split(), *row.having.split())} <= fields
    assert all(row.ours or row.instead for row in FIELDS)
    assert set(DEVICES.values()) <= {"auto", "cpu", "reference", "directml", "directml:software"}


# Attributes of the package.

NAMES = sorted({name for entry in OPERATORS for library in LIBRARIES for name in entry.names(library)})


@pytest.mark.parametrize("name", [name for name in NAMES if not hasattr(dg, name)])
def test_every_name_elsewhere_is_answered(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(dg, name)
    entry = entries()[plain(name)]
    said = str(caught.value)
    assert said.startswith(f"module 'dmlgraph' has no attribute '{name}': ")
    if name in things():
        assert things()[name] in said
        return
    if hasattr(dg, name.lower()):  # our own names have priority
        assert f"dg.{name.lower()}" in said
        return
    own = find(name.lower()) or find(f"activation_{name.lower()}")
    operator = own or REGISTRY.get(entry.operator)  # our own name has priority
    assert (f".{operator.function_name()}(" if operator else entry.instead) in said


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("relu", "did you mean dg.activation_relu(input)?"),
        ("ReLU", "did you mean dg.activation_relu(input)?"),
        ("matmul", "did you mean dg.gemm(a, b)?"),
        ("Softmax", "did you mean dg.softmax?"),
        ("concat", "did you mean dg.join([inputs…], axis=…)?"),
        ("where", "did you mean dg.if_(condition, a, b)?"),
        ("sum", "did you mean dg.reduce(input, function='sum')?"),
        ("zeros", "did you mean graph.fill_value_constant(value=0, sizes=…, dtype=…)?"),
        ("multipy", "did you mean dg.multiply(a, b)?"),
        ("if", "did you mean dg.if_(condition, a, b)?"),
        ("Grahp", "did you mean dg.Graph?"),
        ("laod", "did you mean dg.load?"),
        ("float32", "data types are written as text, as in dtype='float32'"),
        ("einsum", "DirectML has no such operator: write it as a sum of products"),
        ("view", "did you mean dg.reshape(input, sizes=…)?"),
        ("Reshape", "did you mean dg.reshape(input, sizes=…)?"),
        ("ravel", "did you mean dg.reshape(input, sizes=[-1])?"),
        ("unsqueeze", "did you mean dg.expand_dims(input, axes=…)?"),
        ("Unsqueeze", "did you mean dg.expand_dims(input, axes=…)?"),
        ("permute", "did you mean dg.transpose(input)?"),
        ("t", "did you mean dg.transpose(input)?"),
        ("tril", "did you mean graph.diagonal_matrix1(value=0, diagonal_fill_begin=1, "),
        ("not_equal", "did you mean dg.logical_equals(a, b), then logical_not?"),
        ("trunc", "did you mean dg.round(input, rounding_mode='toward_zero')?"),
        ("nn", "the operators are functions of the package itself, such as dg.activation_relu(x)"),
        ("Tensor", "write graph.constant(name, array), or graph.input(name, sizes=…, dtype=…) for what"),
        ("input", "write graph.input(name, sizes=…, dtype=…)"),
        ("load_model", "write dg.load(path)"),
        ("swapaxes", "did you mean dg.transpose(input)?"),
        ("moveaxis", "did you mean dg.transpose(input)?"),
        ("expand", "did you mean dg.broadcast_to(input, sizes=…)?"),
        ("Expand", "did you mean dg.broadcast_to(input, sizes=…)?"),
    ],
)
def test_a_wrong_attribute_is_answered_with_the_right_one(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(dg, name)
    assert hint in str(caught.value)
    assert caught.value.name == name


@pytest.mark.parametrize("name", ["qqqqqq", "__wrapped__", "_private", "any_way", "covers", "diff"])
def test_what_is_like_nothing_is_a_plain_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^module 'dmlgraph' has no attribute '{name}'$"):
        getattr(dg, name)
    assert not hasattr(dg, name)


# Calls.


@pytest.fixture
def x() -> dg.Value:
    return dg.Graph(dims={"N": 2}).input("x", sizes=["N", 3], dtype="float32")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda x: dg.cast(x, "int32"),  # type: ignore[call-arg]
            "cast() takes 1 tensor (input); got 2: "
            "everything except tensors is given by name: cast(input, dtype='int32')",
        ),
        (
            lambda x: dg.join(x, x),  # type: ignore[call-arg]
            "join() takes 1 tensor (inputs); got 2: write them as a list: join([inputs…])",
        ),
        (
            lambda x: dg.join(x, x, x, axis=1),  # type: ignore[call-arg, misc]
            "join() takes 1 tensor (inputs); got 3: write them as a list: join([inputs…], axis=1)",
        ),
        (lambda x: dg.multiply(x, x, x), "multiply() takes 2 tensors (a, b); got 3"),  # type: ignore[call-arg]
        (
            lambda x: x.graph.fill_value_constant([2], "float32", 1),
            "fill_value_constant() takes no tensors; got 3: everything except tensors is given by name: "
            "fill_value_constant(sizes=[2], dtype='float32', value=1)",
        ),
    ],
)
def test_arguments_that_are_no_tensors_are_told_with_their_names(call, said: str, x: dg.Value) -> None:
    with pytest.raises(TypeError) as caught:
        call(x)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (
            lambda x: dg.reduce(x, function="mean"),  # type: ignore[arg-type]
            "field 'function': is not one of the names; got mean; allowed: .*'average'",
        ),
        (
            lambda x: dg.reduce(x, function="sum", axis=[1]),  # type: ignore[call-arg]
            "field 'axis': is not known here; allowed: .*'axes'",
        ),
        (
            lambda x: dg.gemm(x, x, trans_b="transpose", fused_activation="relu"),
            "field 'fused_activation': is not an operator; got relu .*'activation_relu'",
        ),
        (
            lambda x: dg.rnn(x, x, x, activation_descs=["sigmoid"], direction="forward"),
            "field 'activation_descs.0': is not an operator; got sigmoid .*'activation_sigmoid'",
        ),
        (lambda x: x.graph.with_dims({"M": 2}), "field 'dims.M': is not a dim .*allowed: N .*declared with the graph"),
        (
            lambda x: x.graph.input("y", sizes=["M"], dtype="int8"),
            "got M; allowed: a number, N .*declared with the graph",
        ),
    ],
)
def test_names_of_other_libraries_are_told_with_ours(call, hint: str, x: dg.Value) -> None:
    with pytest.raises(dg.DmlGraphError, match=hint):
        call(x)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda x: x.relu(), "'Value' object has no attribute 'relu': did you mean dg.activation_relu(input)?"),
        (lambda x: x.numpy(), "'Value' object has no attribute 'numpy': write graph.compile(device=…).run("),
        (lambda x: x.size(), "'Value' object has no attribute 'size': value.sizes are the sizes"),
        (lambda x: x.qqqqqq, "'Value' object has no attribute 'qqqqqq'"),
        (lambda x: x.graph.conv2d(x, x), "'Graph' object has no attribute 'conv2d': did you mean dg.convolution("),
        (lambda x: x.graph.ouput("y", x), "'Graph' object has no attribute 'ouput': did you mean graph.output?"),
        (
            lambda x: x.graph.input("y", shape=[1], dtype="int8"),
            "Graph.input() got an unexpected keyword argument 'shape': did you mean 'sizes'?",
        ),
        (
            lambda x: x.graph.input("y", [1, 3], "int8"),
            "Graph.input() takes 2 positional arguments but 4 were given: write sizes=[1, 3], dtype='int8'",
        ),
        (lambda x: x.graph.state("s", shape=[1], dtype="int8"), "keyword argument 'shape': did you mean 'sizes'?"),
        (lambda x: x.graph.compile(backend="cpu"), "keyword argument 'backend': did you mean 'device'?"),
    ],
)
def test_graphs_and_values_answer_too(call, hint: str, x: dg.Value) -> None:
    with pytest.raises((AttributeError, TypeError)) as caught:
        call(x)
    assert hint in str(caught.value)


def test_a_number_for_a_constant_is_answered_with_how_to_write_it(x: dg.Value) -> None:
    with pytest.raises(dg.DmlGraphError) as caught:
        x.graph.constant("c", 3.0)
    assert caught.value.hint == "[3.0] is a tensor; a number needs none, as in x * 3.0"
    assert (caught.value.node, caught.value.field) == ("c", "sizes")


def test_an_error_inside_a_method_stays_as_it_is(x: dg.Value) -> None:
    class Sizes(list[int]):
        def __iter__(self):
            raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        x.graph.input("y", sizes=Sizes([1]), dtype="int8")


# One table for Python and files: the hint of both, with the value as each writes it.


@pytest.mark.parametrize(
    ("operator", "argument", "in_python", "in_file"),
    [
        ("convolution", {"kernel_size": 3}, "leave it out: the sizes of the filter say it", None),
        ("convolution", {"groups": 1}, "did you mean 'group_count'?", None),
        (
            "convolution",
            {"padding": 1},
            "write start_padding=1, end_padding=1",
            "write start_padding: 1, end_padding: 1",
        ),
        (
            "convolution",
            {"pads": [0, 1, 2, 3]},
            "write start_padding=[0, 1], end_padding=[2, 3]",
            "write start_padding: [0, 1], end_padding: [2, 3]",
        ),
        (
            "convolution",
            {"padding": "same"},
            "for a window of 3 write start_padding=1, end_padding=1",
            "for a window of 3 write start_padding: 1, end_padding: 1",
        ),
        ("convolution", {"kernelShape": [3, 3]}, "leave it out: the sizes of the filter say it", None),
        ("average_pooling", {"kernel_size": 3}, "did you mean 'window_size'?", None),
        ("average_pooling", {"count_include_pad": True}, "did you mean 'include_padding'?", None),
        ("reduce", {"dim": [1]}, "did you mean 'axes'?", None),
        ("reduce", {"keepdims": True}, "leave it out: reduced axes stay with size 1", None),
        ("gemm", {"transB": 1}, "write trans_b='transpose'", "write trans_b: transpose"),
        ("gemm", {"trans_b": True}, "did you mean 'transpose'?", None),
        ("join", {"dim": 1}, "did you mean 'axis'?", None),
        (
            "cumulative_summation",
            {"reverse": True},
            "write axis_direction='decreasing'",
            "write axis_direction: decreasing",
        ),
        ("activation_leaky_relu", {"negative_slope": 0.1}, "did you mean 'alpha'?", None),
    ],
)
def test_python_and_files_answer_a_foreign_field_alike(
    operator: str, argument: dict[str, object], in_python: str, in_file: str | None
) -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[1, 1, 4, 4], dtype="float32")
    known = [field for field in REGISTRY[operator].input_fields if REGISTRY[operator].fields[field].required]
    tensors = {field: [x] if field == "inputs" else x for field in known}
    with pytest.raises(dg.OperatorError) as caught:
        getattr(dg, operator)(**tensors, **argument)
    assert in_python in str(caught.value)
    node = {"op": operator} | {field: ["x"] if field == "inputs" else "x" for field in known} | argument
    document = {
        "dmlgraph": 1,
        "inputs": {"x": {"dtype": "float32", "sizes": [1, 1, 4, 4]}},
        "nodes": {"y": node},
        "outputs": ["y"],
    }
    with pytest.raises(dg.DocumentError) as told:
        dg.loads(json.dumps(document))
    assert (in_file or in_python) in str(told.value)


def test_an_operator_that_combines_tensors_says_what_takes_one(x: dg.Value) -> None:
    for name, function in (("mean", "average"), ("max", "max"), ("min", "min")):
        with pytest.raises(dg.OperatorError) as caught:
            getattr(dg, name)(x)
        assert caught.value.hint == (
            f"'{name}' combines tensors element by element; along axes it is 'reduce' with function: {function}, "
            f"in Python value.{name}(axis)"
        )
    with pytest.raises(dg.OperatorError) as caught:
        dg.multiply(x)  # type: ignore[call-arg]
    assert caught.value.hint is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [("cuda", "directml"), ("cuda:0", "directml"), ("GPU", "directml"), ("numpy", "reference"), ("CPU", "cpu")],
)
def test_devices_of_other_libraries(name: str, meant: str) -> None:
    with pytest.raises(dg.DeviceError, match=f"did you mean '{meant}'"):
        choose(name)


# The attributes of the package.


def test_the_version_is_the_packages_and_costs_nothing_before_it_is_asked_for() -> None:
    from importlib.metadata import version

    assert dg.__version__ == version("dmlgraph")


def test_an_executable_says_what_it_is(x: dg.Value) -> None:
    x.graph.output("y", dg.exp(x))
    executable = x.graph.compile("cpu")
    assert repr(executable) == "<CpuExecutable graph on cpu: 1 node, inputs x, outputs y>"
    executable.close()
    assert repr(executable).endswith("outputs y, closed>")
    many = dg.Graph("many")
    for index in range(6):
        many.output(f"y{index}", many.constant(f"k{index}", np.array([index], np.float32)))
    assert repr(many.compile("reference")) == (
        "<ReferenceExecutable many on reference: 12 nodes, inputs none, outputs y0, y1, y2, y3 and 2 more>"
    )


def test_the_nodes_of_a_graph_have_a_length_and_places(x: dg.Value) -> None:
    y = x + x
    assert len(x.graph.nodes) == 2
    assert [node.name for node in x.graph.nodes] == [x.node, y.node]
    assert x.graph.nodes[-1].name == y.node
    assert repr(x.graph) == "<Graph graph: 2 nodes, outputs none>"
    assert repr(dg.Graph("g").input("x", sizes=[1], dtype="int8").graph) == "<Graph g: 1 node, outputs none>"


@pytest.mark.parametrize("name", ["convolution", "cast", "gemm"])
def test_help_shows_what_the_stubs_say(name: str) -> None:
    import ast
    import pathlib

    stubs = ast.parse(pathlib.Path(dg.__file__).with_name("functions.pyi").read_text(encoding="utf-8"))
    (stub,) = (each for each in stubs.body if isinstance(each, ast.FunctionDef) and each.name == name)
    shown = ast.parse(f"def {name}{inspect.signature(getattr(dg, name))}: ...").body[0]
    assert isinstance(shown, ast.FunctionDef)
    assert ast.dump(shown.args) == ast.dump(stub.args)
    assert ast.dump(shown.returns) == ast.dump(stub.returns)  # type: ignore[arg-type]


def test_every_data_type_and_device_is_a_literal() -> None:
    from typing import get_args

    from dmlgraph.base.tensor import DataTypeName
    from dmlgraph.devices.device import DeviceName

    assert set(get_args(DataTypeName)) == {str(dtype) for dtype in dg.DataType}
    assert {"auto", "cpu", "reference", "directml", "directml:0", "directml:software"} <= set(get_args(DeviceName))
