"""What the real DirectML does with requests that dmlgraph refuses, and where it differs from the reference.

It refuses or ignores some documented requests, behaves differently for different data types, and some requests end
the process; docs/measured.md lists each with its test.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.directml.errors import DirectMLError
from dmlgraph.operators.declaration.fields import ScaleBias
from dmlgraph.operators.declaration.fused import FusedActivation

Array = np.ndarray[Any, Any]
Change = Callable[[Any], dict[str, Any]]
INF, NAN = float("inf"), float("nan")
COLUMN = np.array([[1], [2], [3]], "float32")
ONE = np.ones([1, 1], "float32")


def lowered(device: DirectMLDevice, operator: str, inputs: Sequence[Array], **attributes: Any) -> GraphDesc:
    """A graph of one operator; each of its outputs is an output of the graph."""
    graph = dg.Graph("one")
    tensors = [graph.input(f"x{i}", sizes=x.shape, dtype=x.dtype) for i, x in enumerate(inputs)]
    results = getattr(dg, operator)(*tensors, name="node", **attributes)
    for index, value in enumerate(results if isinstance(results, tuple) else (results,)):
        if value is not None:
            graph.output(f"y{index}", value)
    return lower(graph, device.level)


def lowered_with_gap(device: DirectMLDevice, operator: str, inputs: Sequence[Array], **attributes: Any) -> GraphDesc:
    """A recurrent network of input, weight, recurrence and, by their data type, lengths or an initial state."""
    graph = dg.Graph("one")
    tensors = [graph.input(f"x{i}", sizes=x.shape, dtype=x.dtype) for i, x in enumerate(inputs)]
    more = {"sequence_lengths" if x.dtype.is_float is False else "hidden_init": x for x in tensors[3:]}
    results = getattr(dg, operator)(*tensors[:3], **more, name="node", **attributes)
    for index, value in enumerate(results):
        graph.output(f"y{index}", value)
    return lower(graph, device.level)


def changed(desc: GraphDesc, change: Change) -> GraphDesc:
    """The graph with fields of its node changed, unchecked."""
    nodes = [
        OperatorDescNode(node.name, node.operator.replace(**change(node.operator)))
        if isinstance(node, OperatorDescNode)
        else node
        for node in desc.nodes
    ]
    return dataclasses.replace(desc, nodes=tuple(nodes))


def run(device: DirectMLDevice, desc: GraphDesc, inputs: Sequence[Array]) -> list[Array]:
    with device.compile(desc, reason="asked for") as executable:
        return list(executable.run({f"x{i}": x for i, x in enumerate(inputs)}).values())


def assert_refused(device: DirectMLDevice, desc: GraphDesc) -> None:
    with pytest.raises(DirectMLError) as caught:
        device.compile(desc, reason="asked for")
    assert (caught.value.node, caught.value.call) == ("node", "CreateOperator")
    assert "E_INVALIDARG" in str(caught.value)


class TestRefused:
    """CreateOperator accepts less than the documentation says."""

    @pytest.mark.parametrize("dtype", ["float64", "int64", "uint64"])
    def test_scale_and_bias_of_64_bit_types(self, directml: DirectMLDevice, dtype: str) -> None:
        x = np.array([1, 2], dtype)
        desc = lowered(directml, "identity", [x])
        assert_refused(directml, changed(desc, lambda _: {"scale_bias": ScaleBias(scale=2)}))
        (got,) = run(directml, changed(desc, lambda _: {"scale_bias": ScaleBias()}), [x])
        np.testing.assert_array_equal(got, x)  # a scale of 1 and a bias of 0 do nothing

    @pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint64"])
    def test_training_step_of_another_type_than_uint32(self, directml: DirectMLDevice, dtype: str) -> None:
        x = np.ones([1, 1, 1, 2], "float32")
        attributes = {"learning_rate": 1.0, "beta1": 0.5, "beta2": 0.5, "epsilon": 0.0}
        desc = lowered(directml, "adam_optimizer", [x, x, x, x, np.ones([1] * 4, "uint32")], **attributes)
        run(directml, desc, [x, x, x, x, np.ones([1] * 4, "uint32")])
        assert_refused(
            directml,
            changed(desc, lambda each: {"training_step": each.training_step.like(dtype=dg.DataType.parse(dtype))}),
        )

    def test_one_zero_point_beside_several_scales(self, directml: DirectMLDevice) -> None:
        x, scale, zero = (
            np.ones([1, 1, 2, 2], "uint8"),
            np.ones([1, 1, 1, 1], "float32"),
            np.ones([1, 1, 1, 2], "uint8"),
        )
        inputs = [x, scale, zero[..., :1], x, np.ones([1, 1, 1, 2], "float32"), zero, scale, zero[..., :1]]
        desc = lowered(directml, "quantized_linear_matrix_multiply", inputs)
        run(directml, desc, inputs)
        one = dg.TensorDesc(dtype="uint8", sizes=[1, 1, 1, 1])
        assert_refused(directml, changed(desc, lambda _: {"b_zero_point": one}))
        repeated = dg.TensorDesc(dtype="uint8", sizes=[1, 1, 1, 2], strides=[0, 0, 0, 0])
        run(directml, changed(desc, lambda _: {"b_zero_point": repeated}), inputs)

    def test_a_fused_clip_with_scale_and_bias(self, directml: DirectMLDevice) -> None:
        desc = lowered(directml, "gemm", [COLUMN, ONE], fused_activation={"op": "clip", "min": -9, "max": 9})
        assert_refused(directml, changed(desc, fused_scale_bias(scale=2, bias=1)))

    def test_owned_inputs_of_a_recurrent_network(self, directml: DirectMLDevice) -> None:
        x = np.ones([1] * 4, "float32")
        desc = lowered(directml, "rnn", [x, x, x], direction="forward", activation_descs=["activation_tanh"])
        assert_refused(directml, changed(desc, lambda each: {"weight": each.weight.like(owned=True)}))

    def test_scatter_to_fewer_rows_than_there_are(self, directml: DirectMLDevice) -> None:
        x, indices, updates = np.zeros([2, 2], "float32"), np.zeros([2, 1], "uint32"), np.ones([2, 1], "float32")
        desc = lowered(directml, "scatter_elements", [x, indices, updates], axis=1)
        smaller = {
            "indices": dg.TensorDesc(dtype="uint32", sizes=[1, 1]),
            "updates": dg.TensorDesc(dtype="float32", sizes=[1, 1]),
        }
        assert_refused(directml, changed(desc, lambda _: smaller))

    @pytest.mark.parametrize("strides", [[0, 1], [1, 0]])
    def test_scatter_nd_by_broadcast_indices(self, directml: DirectMLDevice, strides: list[int]) -> None:
        x, indices, updates = np.zeros([3, 3], "float32"), np.ones([2, 2], "uint32"), np.ones([1, 2], "float32")
        counts = {"input_dimension_count": 2, "indices_dimension_count": 2}
        desc = lowered(directml, "scatter_nd", [x, indices, updates], **counts)
        assert_refused(directml, changed(desc, lambda each: {"indices": each.indices.like(strides=strides)}))


def fused_scale_bias(**both: float) -> Change:
    return lambda host: {"fused_activation": with_scale_bias(host.fused_activation, ScaleBias(**both))}


def with_scale_bias(activation: FusedActivation, scale_bias: ScaleBias) -> FusedActivation:
    attributes = activation.attributes | {"scale_bias": scale_bias}
    return FusedActivation(activation.operator, tuple(attributes.values()))


class TestIgnored:
    """What is accepted, but has no effect."""

    @pytest.mark.parametrize("one", [{"scale": 2.0}, {"bias": -5.0}])
    def test_scale_or_bias_of_a_fused_clip(self, directml: DirectMLDevice, one: dict[str, float]) -> None:
        desc = lowered(directml, "gemm", [COLUMN, ONE], fused_activation={"op": "clip", "min": -9, "max": 9})
        (got,) = run(directml, changed(desc, fused_scale_bias(**one)), [COLUMN, ONE])
        np.testing.assert_array_equal(got, COLUMN)

    def test_one_hot_values_along_another_axis(self, directml: DirectMLDevice) -> None:
        inputs = [np.array([[0], [2]], "uint32"), np.array([[7, 1]], "int8")]
        desc = lowered(directml, "one_hot", inputs, output={"sizes": [2, 3]}, axis=1)
        (got,) = run(directml, desc, inputs)
        np.testing.assert_array_equal(got, [[1, 7, 7], [7, 7, 1]])
        column = {"values": dg.TensorDesc(dtype="int8", sizes=[2, 1])}
        desc = dataclasses.replace(
            desc, inputs=(desc.inputs[0], dataclasses.replace(desc.inputs[1], desc=column["values"]))
        )
        (got,) = run(directml, changed(desc, lambda _: column), [inputs[0], inputs[1].reshape(2, 1)])
        np.testing.assert_array_equal(got, np.full([2, 3], 7))  # the on value is never found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
class TestDiffers:
    """Where DirectML gives other values than the reference."""

    @pytest.mark.parametrize("host", ["add1", "gemm"])
    def test_a_fused_relu_keeps_nan_and_signs_zero(self, directml: DirectMLDevice, dtype: str, host: str) -> None:
        x = np.array([[NAN], [-np.inf], [-1], [0], [2]], dtype)
        inputs = [x, np.zeros_like(x) if host == "add1" else ONE.astype(dtype)]
        (fused,) = run(directml, lowered(directml, host, inputs, fused_activation="activation_relu"), inputs)
        np.testing.assert_array_equal(fused, [[NAN], [NAN], [0], [0], [2]])
        assert np.signbit(fused[2:]).ravel().tolist() == [True, False, False]
        (alone,) = run(directml, lowered(directml, "activation_relu", [x]), [x])
        np.testing.assert_array_equal(alone, [[0], [0], [0], [0], [2]])
        assert not np.signbit(alone).any()

    @pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8])
    def test_which_of_two_zeros_max_takes(self, directml: DirectMLDevice, dtype: str, count: int) -> None:
        """The first if elements are processed in groups, four of float32 or two of float16; else the second.

        On the software adapter it is the first for float16 where the processor computes that itself.
        """
        zeros = np.resize(np.array([0.0, -0.0], dtype), count)
        inputs = [zeros, -zeros]
        (got,) = run(directml, lowered(directml, "max", inputs), inputs)
        signs = [np.signbit(each).tolist() for each in inputs]
        if count % (4 if dtype == "float32" else 2) == 0:
            assert np.signbit(got).tolist() == signs[0]
        elif dtype == "float32":
            assert np.signbit(got).tolist() == signs[1]
        else:
            assert np.signbit(got).tolist() in signs

    def test_which_of_many_zeros_a_maximum_takes(self, directml: DirectMLDevice, dtype: str) -> None:
        """Either of them; the reference has the first."""
        x = np.random.default_rng(0).choice([0.0, -0.0], (1, 1, 16, 64)).astype(dtype)
        seen: set[bool] = set()
        desc = lowered(directml, "reduce", [x], function="max", axes=[3])
        window = {"window_size": [1, 4], "strides": [1, 4], "start_padding": [0, 0], "end_padding": [0, 0]}
        for each in (desc, lowered(directml, "max_pooling", [x], **window)):
            (got,) = run(directml, each, [x])
            assert (got == 0).all()
            firsts = x[..., :: 64 // got.shape[-1]]
            seen.update((np.signbit(got) == np.signbit(firsts)).ravel().tolist())
        assert seen == {False, True} or (dtype == "float16" and seen == {True})

    @pytest.mark.parametrize("operator", ["activation_log_softmax", "activation_log_softmax1"])
    def test_log_softmax_beside_nan_and_infinity(self, directml: DirectMLDevice, dtype: str, operator: str) -> None:
        """If the sum is NaN, the logarithm is that of 1e-20, which is 0 in float16."""
        x = np.array([[NAN, 1, 2], [INF, 1, 2]], dtype)
        axes = {"axes": [1]} if operator.endswith("1") else {}
        (got,) = run(directml, lowered(directml, operator, [x], **axes), [x])
        rest = INF if dtype == "float16" else -np.log(np.float32(1e-20))
        beside = NAN if dtype == "float16" else -INF
        np.testing.assert_allclose(got, [[NAN, rest - 1, rest], [NAN, beside, beside]], rtol=1e-6)

    @pytest.mark.parametrize("operator", ["rnn", "lstm", "gru"])
    def test_an_absent_initial_state_is_not_multiplied(
        self, directml: DirectMLDevice, dtype: str, operator: str
    ) -> None:
        """The weights are infinite; a given state of zeros is multiplied."""
        gates, functions = {"rnn": (1, 1), "lstm": (4, 3), "gru": (3, 2)}[operator]
        x, weight = np.ones([1] * 4, dtype), np.ones([1, 1, gates, 1], dtype)
        fields: dict[str, Any] = {"direction": "forward", "activation_descs": ["activation_identity"] * functions}
        if operator == "lstm":
            fields |= {"clip_threshold": 0, "use_clip_threshold": False, "couple_input_forget": False}
        elif operator == "gru":
            fields |= {"linear_before_reset": True}
        finite = []
        for hidden in ([], [np.zeros([1] * 4, dtype)]):
            inputs = [x, weight, np.full_like(weight, INF), *hidden]
            given = lowered_with_gap(directml, operator, inputs, **fields)
            finite.append(abs(run(directml, given, inputs)[0].item()) < 3e38)
        assert finite == [True, False]

    @pytest.mark.parametrize("operator", ["rnn", "lstm", "gru"])
    def test_a_length_of_0(self, directml: DirectMLDevice, dtype: str, operator: str) -> None:
        """Forward, output_single is 0, and output_cell_single is that of a length of 1."""
        gates, functions = {"rnn": (1, 1), "lstm": (4, 3), "gru": (3, 2)}[operator]
        lengths = np.array([0, 1, 3], "uint32").reshape(1, 1, 1, 3)
        x = np.ones([1, 3, 3, 1], dtype)
        weight = np.ones([1, 1, gates, 1], dtype)
        fields: dict[str, Any] = {"direction": "forward", "activation_descs": ["activation_tanh"] * functions}
        if operator == "lstm":
            fields |= {"clip_threshold": 0, "use_clip_threshold": False, "couple_input_forget": False}
        elif operator == "gru":
            fields |= {"linear_before_reset": False}
        inputs = [x, weight, weight, lengths]
        desc = lowered_with_gap(directml, operator, inputs, **fields)
        sequence, last, *cells = run(directml, desc, inputs)
        last = last.ravel()
        assert last.tolist() == [0, sequence[0, 0, 1, 0], sequence[2, 0, 2, 0]]
        for cell in cells:
            assert cell.ravel()[0] == cell.ravel()[1] != 0

    def test_celu_of_a_large_alpha(self, directml: DirectMLDevice, dtype: str) -> None:
        """e^(x / alpha) is 1, so e^(x / alpha) − 1 is 0."""
        x = np.array([-3, -0.5, 2], dtype)
        (got,) = run(directml, lowered(directml, "activation_celu", [x], alpha=1e30), [x])
        np.testing.assert_array_equal(got, [0, 0, 2])

    def test_the_first_of_a_running_sum(self, directml: DirectMLDevice, dtype: str) -> None:
        """0.0 for −0.0, because it is added to 0."""
        x = np.array([[-0.0, -0.0]], dtype)
        fields = {"axis": 1, "axis_direction": "increasing", "has_exclusive_sum": False}
        (got,) = run(directml, lowered(directml, "cumulative_summation", [x], **fields), [x])
        assert not np.signbit(got).any()

    @pytest.mark.parametrize("count", [1, 2, 3, 4])
    def test_the_sum_of_a_mean_in_float16(self, directml: DirectMLDevice, dtype: str, count: int) -> None:
        """It is rounded to float16, and so infinite, if the number of elements is odd."""
        inputs = [np.full(count, 65504, dtype), np.full(count, 32, dtype)]
        (got,) = run(directml, lowered(directml, "mean", inputs), inputs)
        overflows = dtype == "float16" and count % 2 == 1
        np.testing.assert_array_equal(got, np.full(count, INF if overflows else 32768, dtype))

    def test_windows_of_float16_are_added_up_in_it(self, directml: DirectMLDevice, dtype: str) -> None:
        """At every addition; not if one window is the whole input."""
        x = np.concatenate([np.full(51, 1000, dtype), np.full(51, 3000, dtype)]).reshape(1, 1, 1, 102)
        window = {"window_size": [1, 51], "strides": [1, 51], "start_padding": [0, 0], "end_padding": [0, 0]}
        for operator, norm in (("average_pooling", {"include_padding": False}), ("lp_pooling", {"p": 2})):
            (got,) = run(directml, lowered(directml, operator, [x], **window, **norm), [x])
            expected = np.array([1000, 3000]) * (1 if operator == "average_pooling" else 51**0.5)
            if dtype == "float32":
                np.testing.assert_allclose(got.ravel(), expected, 1e-5)
            elif operator == "lp_pooling":
                np.testing.assert_array_equal(got.ravel(), [INF, INF])
            else:
                np.testing.assert_array_equal(got.ravel(), [994.5, INF])

    @pytest.mark.parametrize("count", [1, 2, 3, 4])
    def test_the_difference_that_is_squared_in_float16(self, directml: DirectMLDevice, dtype: str, count: int) -> None:
        """It is rounded to float16 if the number of elements is odd."""
        inputs = [np.full(count, 3, dtype), np.full(count, 3 * 2.0**-10, dtype)]
        (got,) = run(directml, lowered(directml, "difference_square", inputs), inputs)
        difference = np.float64(3 - 3 * 2.0**-10)
        if dtype == "float16" and count % 2 == 1:
            difference = np.float64(np.float16(difference))
        np.testing.assert_array_equal(got, np.full(count, difference**2).astype(dtype))

    def test_activations_are_computed_in_the_tensors_type(self, directml: DirectMLDevice, dtype: str) -> None:
        """2 · 65504 − 65504: the product overflows in float16."""
        x = np.full(2, 65504, dtype)
        (got,) = run(directml, lowered(directml, "activation_linear", [x], alpha=2, beta=-65504), [x])
        np.testing.assert_array_equal(got, np.full(2, INF if dtype == "float16" else 65504, dtype))

    def test_adam_is_computed_in_the_tensors_type(self, directml: DirectMLDevice, dtype: str) -> None:
        """G² overflows in float16, and an epsilon of 1e-8 is zero: 0 / 0."""
        attributes = {"learning_rate": 1.0, "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-8}
        x, g = np.zeros([1, 1, 1, 2], dtype), np.array([[[[300, 0]]]], dtype)
        inputs = [x, x, x, g, np.ones([1] * 4, "uint32")]
        moved, first, second = run(directml, lowered(directml, "adam_optimizer", inputs, **attributes), inputs)
        half = dtype == "float16"
        np.testing.assert_array_equal(first.ravel(), [150, 0])
        np.testing.assert_array_equal(second.ravel(), [INF if half else 45000, 0])
        np.testing.assert_allclose(moved.ravel(), [0, NAN] if half else [-1, 0], rtol=1e-6)

    def test_top_k_of_nan_is_in_no_order(self, directml: DirectMLDevice, dtype: str) -> None:
        x = np.array([1, NAN, 3, NAN, 2], dtype)
        values, indices = run(directml, lowered(directml, "top_k", [x], axis=0, k=5), [x])
        np.testing.assert_array_equal(values, x[indices])
        assert sorted(indices) == [0, 1, 2, 3, 4]
        numbers = values[~np.isnan(values)].tolist()
        assert numbers != sorted(numbers, reverse=True)

    def test_a_first_nan_among_many_does_not_count(self, directml: DirectMLDevice, dtype: str) -> None:
        """It is the greatest of 3 elements, but not of 1024, which are compared part by part."""
        for count, place in ((3, 0), (1024, 1023)):
            x = np.ones([1, count], dtype)
            x[0, 0], x[0, -1] = NAN, 5
            fields = {"axes": [1], "axis_direction": "increasing"}
            (got,) = run(directml, lowered(directml, "argmax", [x], **fields), [x])
            assert got.tolist() == [[place]]
            (hard,) = run(directml, lowered(directml, "activation_hardmax", [x]), [x])
            assert np.flatnonzero(hard).tolist() == [place]


class TestConversions:
    """Conversions that C++ leaves undefined, or that differ between types."""

    @pytest.mark.parametrize(
        ("dtype", "bound"),
        [("int8", 0), ("int16", 0), ("int32", -(2**31)), ("int64", -(2**63)), ("uint8", 0), ("uint32", 0)],
    )
    def test_a_bound_that_is_nan(self, directml: DirectMLDevice, dtype: str, bound: int) -> None:
        """It is converted as on x86: the least int32 or int64, truncated to the type; the reference has 0."""
        x = np.array([5] if dtype.startswith("u") else [-5], dtype)
        (got,) = run(directml, lowered(directml, "clip", [x], min=NAN, max=100), [x])
        assert got.tolist() == [max(int(x[0]), bound)]
        (got,) = run(directml, lowered(directml, "clip_grad", [x, x], min=NAN, max=100), [x, x])
        assert got.tolist() == [x[0] if x[0] > bound else 0]
        if dtype in ("int32", "int64"):
            padded = x.reshape(1, 1, 1, 1)
            sides = {"start_padding": [0] * 4, "end_padding": [0, 0, 0, 1]}
            desc = lowered(directml, "padding", [padded], padding_mode="constant", padding_value=NAN, **sides)
            (got,) = run(directml, desc, [padded])
            assert got.ravel().tolist() == [-5, bound]

    def test_float32_to_the_power_of_8_bits(self, directml: DirectMLDevice) -> None:
        """A power beyond float16's range is infinite, although no tensor is float16."""
        inputs = [np.array([255, 257], "float32"), np.array([2, 2], "uint8")]
        (got,) = run(directml, lowered(directml, "pow", inputs), inputs)
        np.testing.assert_allclose(got, [65025, INF], rtol=1e-5)

    def test_an_integer_to_the_power_of_a_float(self, directml: DirectMLDevice) -> None:
        """2^(y log2 x) may be below the exact power, and is truncated; the reference has the exact power."""
        inputs = [np.array([5, 8], "int32"), np.array([3, 3], "float32")]
        (got,) = run(directml, lowered(directml, "pow", inputs), inputs)
        assert got.tolist() == [124, 512]

    @pytest.mark.parametrize(("dtype", "least"), [("int8", -128), ("uint8", 0)])
    def test_what_nan_is_quantized_to(self, directml: DirectMLDevice, dtype: str, least: int) -> None:
        """0 without a zero point, and if the scale makes the NaN; else the least number, as in the reference."""
        x, scale, zero = np.array([[[[NAN]]]], "float32"), np.ones([1] * 4, "float32"), np.zeros([1] * 4, dtype)
        (got,) = run(directml, lowered(directml, "quantize_linear", [x, scale], output={"dtype": dtype}), [x, scale])
        assert got.item() == 0
        (got,) = run(directml, lowered(directml, "quantize_linear", [x, scale, zero]), [x, scale, zero])
        assert got.item() == least


SEQUENCE = """
import sys
import dmlgraph as dg
import dmlgraph.devices.directml.device as directml
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.compiler.lowering import lower
directml.make_safe = lambda graph: (graph, 0)
device = DirectMLDevice("software")
graph = dg.Graph("sequence")
count, read = int(sys.argv[1]), sys.argv[2] == "read"
steps = graph.fill_value_sequence(sizes=[count], dtype="float32", value_start=0, value_delta=1)
graph.output("y", graph.input("x", sizes=[count], dtype="float32") + steps if read else steps)
device.compile(lower(graph, device.level), reason="asked for")
"""


GATHER = """
import dataclasses
import numpy as np
import dmlgraph as dg
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.compiler.lowering import lower
device = DirectMLDevice("software")
graph = dg.Graph("gather")
x, i = graph.input("x", sizes=[2, 3], dtype="float32"), graph.input("i", sizes=[1, 2], dtype="uint32")
graph.output("y", dg.gather(x, i, axis=0, index_dimensions=1))
desc = lower(graph, device.level)
(node,) = desc.nodes
node = dataclasses.replace(node, operator=node.operator.replace(index_dimensions=2))
with device.compile(dataclasses.replace(desc, nodes=(node,)), reason="asked for") as executable:
    executable.run({"x": np.ones([2, 3], np.float32), "i": np.zeros([1, 2], np.uint32)})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks for the signal that ends a process")
class TestEndsTheProcess:
    """Graphs on which DirectML ends the process."""

    @pytest.mark.parametrize(
        ("count", "reader", "survives"), [(4, "output", False), (2**18 + 1, "read", False), (2**18, "read", True)]
    )
    def test_sequences(self, directml_path: Path, count: int, reader: str, survives: bool) -> None:
        """Sequences that a graph output reads, or of more than 1 MiB."""
        ended = subprocess.run(
            [sys.executable, "-P", "-c", SEQUENCE, str(count), reader], check=False, capture_output=True, timeout=120
        )
        assert (ended.returncode == 0) == survives, ended.stderr.decode()
        assert survives or ended.returncode < 0  # by a signal, not by an error

    def test_a_gather_without_room_for_its_indices(self, directml_path: Path) -> None:
        """{2, 3} by {1, 2} along the first axis is {1, 2, 3}, which two dimensions do not hold."""
        ended = subprocess.run([sys.executable, "-P", "-c", GATHER], check=False, capture_output=True, timeout=120)
        assert ended.returncode < 0
