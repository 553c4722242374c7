"""Which layouts DirectML takes: every operator at each of its tensors, and what reading in other layouts costs.

`tools/measure_layouts.py` tries more layouts, all data types, and larger tensors.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.layout_instances import Instance, instances
from support.layout_trials import Trial, one_node, outcome, packed_value_read_as, trials

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.desc import GraphDesc, GraphInput, GraphOutput, InputEdge, OperatorDescNode, OutputEdge
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.directml.layouts import refusal
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators import (
    REGISTRY,
    ActivationRelu,
    Add,
    AveragePooling1,
    Gemm,
    Identity,
    Negate,
    Operator,
    Reduce,
    Sign,
)
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.directml_enums import MatrixTransform, ReduceFunction

LEVEL = FeatureLevel.V6_2
TRIED = ("packed", "reversed", "every second element", "gaps after rows", "all repeated", "axis 0 repeated",
         "ones with a large stride", "reversed with gaps")  # fmt: skip


@functools.cache
def by_operator() -> dict[str, list[Instance]]:
    """The instances of each operator: one of each set of tensors, of the first data type."""
    order = list(map(str, DataType))
    first: dict[tuple[str, tuple[str, ...]], Instance] = {}
    for each in sorted(instances(LEVEL), key=lambda each: order.index(each.dtype)):
        first.setdefault((each.operator.name, tuple(tensor.path for tensor in each.tensors())), each)
    found = collections.defaultdict(list)
    for (name, _), instance in first.items():
        found[name].append(instance)
    return found


def tried(name: str) -> Iterator[Trial]:
    """Trials of an operator: each tensor only in the instance in which it is seen first."""
    seen: set[tuple[str, str]] = set()
    for instance in by_operator()[name]:
        new = {each.path for each in instance.tensors()} - {path for operator, path in seen if operator == name}
        seen |= {(name, path) for path in new}
        for trial in trials(instance, ("made",)):
            if trial.path in new and trial.layout in TRIED and trial.place != "output":
                yield trial


def is_refused(trial: Trial) -> bool:
    """Whether the operator's constraints, or what is known of DirectML, exclude the layout of a trial."""
    operator = trial.instance.operator
    for binding in operator.bindings(Role.INPUT):
        if binding.path == trial.path and any(operator.with_inputs({binding.port: trial.desc}).constraints()):
            return True
    return refusal(operator, trial.path, trial.desc) is not None


NAMES = sorted(each.name for each in REGISTRY.values() if not each.is_view and each.support().introduced <= LEVEL)


@pytest.mark.parametrize("name", NAMES)
def test_directml_takes_what_the_table_says(name: str, directml: DirectMLDevice) -> None:
    """Values of nodes that are read in other layouts, and outputs that are written in them and copied."""
    paths = {each.path for instance in by_operator()[name] for each in instance.tensors()}
    wrong, reached = [], set()
    for trial in tried(name):
        reached.add(trial.path)
        expected = "refused: CreateOperator" if is_refused(trial) else "right"
        got = outcome(directml, trial)
        if got != expected:
            wrong.append(f"{trial}: {got}")
    assert not wrong
    single = {"output_count", "output_scale", "output_zero_point"}  # of one element: without layouts
    assert paths - reached <= single


def test_what_is_refused_is_refused_everywhere(directml: DirectMLDevice) -> None:
    """Also as a graph input, and as one that DirectML owns."""
    refused = 0
    for instance in by_operator()["scatter_nd"]:
        for trial in trials(instance):
            if trial.path == "indices":
                assert (outcome(directml, trial) == "refused: CreateOperator") == is_refused(trial), str(trial)
                refused += is_refused(trial)
    assert refused >= 4


def test_every_operator_of_the_level_is_tried() -> None:
    assert {name for name in by_operator() if not REGISTRY[name].is_view} == set(NAMES)


# ---- Graph outputs, several readers


def desc(sizes: Sequence[int], strides: Sequence[int] | None = None) -> TensorDesc:
    return TensorDesc(dtype="float32", sizes=sizes, strides=strides)


def kept_as(*outputs: TensorDesc) -> GraphDesc:
    """A negative of a {4, 8}, kept as graph outputs in these layouts."""
    operator = Negate(input=desc([4, 8]))
    return GraphDesc(
        name="kept",
        level=LEVEL,
        inputs=(GraphInput("x0", operator.input),),
        outputs=tuple(GraphOutput(f"y{index}", each) for index, each in enumerate(outputs)),
        nodes=(OperatorDescNode("node", operator),),
        input_edges=(InputEdge(0, 0, 0),),
        output_edges=tuple(OutputEdge(0, 0, index) for index in range(len(outputs))),
        intermediate_edges=(),
    )


def dispatches(device: DirectMLDevice, graph: GraphDesc) -> int:
    """The dispatches of a run, whose results must be those of the reference."""
    rng = np.random.default_rng(4)
    values = {
        slot.name: rng.permutation(slot.desc.element_count).reshape(slot.desc.sizes).astype(slot.desc.dtype.numpy)
        for slot in graph.inputs
    }
    expected = ReferenceDevice().compile(graph, reason="asked for").run(values)
    with device.compile(graph, reason="asked for") as executable:
        got = executable.run(values)
        for name, each in expected.items():
            np.testing.assert_allclose(got[name], each, rtol=1e-5, atol=1e-5)
        return int(executable.stats["dispatches"])


@pytest.mark.parametrize("kept", [desc([2, 16]), desc([32]), desc([8, 4], [1, 8]), desc([2, 4, 4], [4, 8, 1])], ids=str)
def test_a_graph_output_has_any_sizes_of_the_same_bytes(kept: TensorDesc, directml: DirectMLDevice) -> None:
    assert dispatches(directml, kept_as(kept)) == 1


def test_a_value_that_is_two_graph_outputs_is_copied(directml: DirectMLDevice) -> None:
    assert dispatches(directml, kept_as(desc([4, 8]), desc([8, 4], [1, 8]))) == 2


# ---- What it costs


def readers(*operators: Operator) -> GraphDesc:
    """Operators that read one packed graph input."""
    return packed_value_read_as([each.input for each in operators], operators, made_by=None)  # type: ignore[attr-defined]


def after(producer: Operator, *operators: Operator) -> GraphDesc:
    """Operators that read the packed value of another."""
    descs = [each.input_descs[0] for each in operators]
    return packed_value_read_as([each for each in descs if each is not None], operators, made_by=producer)


TRANSPOSED = desc([8, 4], [1, 8])  # of a packed {4, 8}
MADE = Negate(input=desc([4, 8]))


@pytest.mark.parametrize("strides", [(8, 1), (16, 2), (9, 1), (0, 1), (1, 0)], ids=str)
def test_gaps_and_repetitions_cost_nothing(strides: tuple[int, int], directml: DirectMLDevice) -> None:
    source = desc([4, 8], strides)
    for operator in (ActivationRelu(input=source), Reduce(input=source, function=ReduceFunction.SUM)):
        data = {0: np.broadcast_to(np.float32(2), (4, 8))}
        with directml.compile(one_node(operator, data)[0], reason="asked for") as executable:
            executable.run({"x0": data[0]})
            assert executable.stats["dispatches"] == 1


def extra(device: DirectMLDevice, name: str, path: str, layout: str) -> int:
    """The dispatches that a layout of a graph input costs an operator more than a packed one."""
    instance = next(each for each in by_operator()[name] if path in {tensor.path for tensor in each.tensors()})
    trial = next(each for each in trials(instance, ("input",)) if (each.path, each.layout) == (path, layout))
    count = []
    for graph, inputs in ((trial.graph, trial.inputs), one_node(instance.operator, instance.data)):
        with device.compile(graph, reason="asked for") as executable:
            executable.run(inputs)
            count.append(int(executable.stats["dispatches"]))
    return count[0] - count[1]


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("batch_normalization_grad", "input", 1),
        ("batch_normalization_training_grad", "input_gradient", 1),
        ("multihead_attention", "query", 1),
        ("activation_softmax", "input", 0),
        ("gemm", "a", 0),
        ("gather", "input", 0),
    ],
)
def test_gaps_cost_a_copy_in_few_operators(name: str, path: str, expected: int, directml: DirectMLDevice) -> None:
    assert extra(directml, name, path, "gaps after rows") == expected


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [("identity", "input", 0), ("abs", "input", 0), ("gather", "input", 0), ("negate", "input", 1), ("gemm", "b", 1)],
)
def test_reordered_graph_inputs_cost_a_copy_in_most_operators(
    name: str, path: str, expected: int, directml: DirectMLDevice
) -> None:
    assert extra(directml, name, path, "reversed") == expected


def test_a_value_of_a_node_is_read_in_another_order_for_nothing(directml: DirectMLDevice) -> None:
    greatest = Reduce(input=TRANSPOSED, function=ReduceFunction.MAX)
    readers_ = (Sign(input=TRANSPOSED), ActivationRelu(input=TRANSPOSED), greatest)
    for count in (1, 2, 3):
        assert dispatches(directml, after(MADE, *readers_[:count])) == 1 + count


def test_a_graph_input_is_reordered_once_for_all_readers(directml: DirectMLDevice) -> None:
    greatest = Reduce(input=TRANSPOSED, function=ReduceFunction.MAX)
    readers_ = (Sign(input=TRANSPOSED), ActivationRelu(input=TRANSPOSED), greatest)
    for count in (1, 2, 3):
        assert dispatches(directml, readers(*readers_[:count])) == 1 + count
    assert dispatches(directml, readers(Identity(input=TRANSPOSED))) == 1


def test_heads_of_a_graph_input_are_read_for_nothing(directml: DirectMLDevice) -> None:
    """The first three dimensions are in another order, but each row lies in one piece."""
    heads = desc([2, 3, 4, 5], [60, 5, 15, 1])
    assert dispatches(directml, readers(ActivationRelu(input=heads))) == 1
    assert dispatches(directml, readers(Reduce(input=heads, function=ReduceFunction.SUM, axes=(3,)))) == 2


def test_channels_last_costs_a_copy(directml: DirectMLDevice) -> None:
    """The only order of four dimensions in which some operators do not read a node's value directly."""
    made = Negate(input=desc([2, 4, 5, 3]))
    last = desc([2, 3, 4, 5], [60, 1, 15, 3])
    pooled = AveragePooling1(input=last, window_size=(2, 2), include_padding=True)
    assert [dispatches(directml, after(made, each)) for each in (pooled, Sign(input=last))] == [3, 3]
    assert dispatches(directml, after(made, Reduce(input=last, function=ReduceFunction.SUM, axes=(3,)))) == 2


def product(b: TensorDesc, trans_b: MatrixTransform, *, made: bool) -> GraphDesc:
    """a b, where `b` is a packed graph input of one dimension, or made by a node."""
    operator = Gemm(a=desc([33, 48]), b=b, trans_b=trans_b)
    producer = Negate(input=desc([20 * 48])) if made else None
    return packed_value_read_as([b], [operator], made_by=producer, port=1)


def test_transposing_gemm_by_strides_costs_what_trans_b_does_unless_it_reads_a_graph_input(
    directml: DirectMLDevice,
) -> None:
    by_field, by_strides = (desc([20, 48]), MatrixTransform.TRANSPOSE), (desc([48, 20], [1, 48]), MatrixTransform.NONE)
    count = [
        [dispatches(directml, product(*each, made=made)) for each in (by_field, by_strides)] for made in (False, True)
    ]
    assert count == [[2, 3], [3, 3]]


def test_an_output_in_another_order_costs_a_copy(directml: DirectMLDevice) -> None:
    order: Any = {"strides": [1, 4]}
    spaced: Any = {"strides": [16, 2]}
    packed = desc([4, 8])
    for operator, expected in (
        (Identity(input=packed, output=order), 1),
        (ActivationRelu(input=packed, output=order), 2),
        (Add(a=packed, b=packed, output=order), 2),
        (ActivationRelu(input=packed, output=spaced), 1),
    ):
        data = {port: np.ones((4, 8), "f4") for port, each in enumerate(operator.input_descs) if each is not None}
        assert dispatches(directml, one_node(operator, data)[0]) == expected, operator.name
