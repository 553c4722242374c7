"""The checks that every operator passes, family by family.

A file `test_<operator>.py` has a subclass of one of these classes that states the operator's facts as class
attributes; the checks are inherited.  Checks that compute take the fixture `device`, so that another device is one
more parameter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from support.nodes import operator_of
from support.operators.harness import (
    DTYPES,
    LAYOUTS,
    Array,
    Case,
    Legal,
    add_node,
    assert_same,
    at_level,
    build,
    operator_class,
    parse_levels,
    refused,
    run,
    run_all,
)
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators.common.element_wise import Unary

DIRECTML: DeviceName = "directml:software"
CPU_ULP = 8
HALF_ULP = 4  # for the steps of a float16 function, which the reference rounds as DirectML does


def tolerance(
    device: DeviceName, ulp: Mapping[str, int], floor: Mapping[str, float], half: bool = False
) -> tuple[int, float]:
    """A device's tolerance: units in the last place, and the number whose unit is the least.

    The kernels of `cpu` have their own bounds, which tests/native/test_cpu_kernels.py checks, bit for bit where they
    are exact; here it is enough that they compute the same function.

    Args:
        half: the result is a unary function of a float16 tensor, which the reference computes with the bits of
            DirectML, as test_float16_sweep.py shows, and so with the error of DirectML.
    """
    if half and device == "reference":
        return min(ulp.get(DIRECTML, 0), HALF_ULP), floor.get(DIRECTML, 0.0)
    if device == "cpu":
        return max([CPU_ULP, *ulp.values()]), max([0.0, *floor.values()])
    return ulp.get(device, 0), floor.get(device, 0.0)


class OperatorTests:
    """The checks that every operator passes.  A subclass states:

    Attributes:
        operator: its name.
        cases: the table of values.
        sample: a row with tensors of several dimensions and unequal sizes, which is run in every layout.
        asked: the outputs that the sample gives; by default all outputs of the operator.
        levels: by feature level, what is legal for the tensors that `node_at` makes, as `parse_levels` reads it.
        ulp: device → the error that it may have, in units in the last place; other devices are exact.
        ulp_floor: device → a number; all numbers nearer to zero have its unit.  By default 0.  A device that computes
            tanh as 1 − 2 / (e^2x + 1) has the rounding error of numbers near 1 near zero.
    """

    operator: ClassVar[str]
    cases: ClassVar[tuple[Case, ...]]
    sample: ClassVar[Case]
    asked: ClassVar[tuple[str, ...]] = ()
    levels: ClassVar[str]
    ulp: ClassVar[Mapping[str, int]] = {}
    ulp_floor: ClassVar[Mapping[str, float]] = {}

    # Makes a node with a tensor of some data type and rank, for the level checks.

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        """Adds the operator to a graph with tensors of this data type and number of dimensions."""
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x] * len(operator_class(self.operator).input_fields), **self.sample.fields)

    def assert_close(self, got: Array, expected: Array, device: DeviceName) -> None:
        half = expected.dtype == np.float16 and issubclass(operator_class(self.operator), Unary)
        ulp, floor = tolerance(device, self.ulp, self.ulp_floor, half)
        assert_same(got, expected, ulp, floor)

    def test_gives(self, case: Case, device: DeviceName) -> None:
        self.check_row(case, device)

    def check_row(self, case: Case, device: DeviceName) -> None:
        """Runs a row and compares."""
        outputs = run_all(self.operator, case.inputs, device=device, **case.fields)
        assert len(outputs) == len(case.gives)
        for got, expected in zip(outputs, case.gives, strict=True):
            self.assert_close(got, expected, device)

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_layout_of_inputs_does_not_matter(self, layout: str, device: DeviceName) -> None:
        outputs = run_all(
            self.operator, self.sample.inputs, device=device, input_strides=LAYOUTS[layout], **self.sample.fields
        )
        for got, expected in zip(outputs, self.sample.gives, strict=True):
            self.assert_close(got, expected, device)

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_layout_of_outputs_does_not_matter(self, layout: str, device: DeviceName) -> None:
        graph, feeds = build(self.operator, self.sample.inputs, **self._asking_strides(LAYOUTS[layout]))
        for value, expected in zip(graph.outputs.values(), self.sample.gives, strict=True):
            assert value.desc.strides == tuple(LAYOUTS[layout](expected.shape))
        outputs = graph.compile(device=device, fuse=False).run(feeds).values()
        for got, expected in zip(outputs, self.sample.gives, strict=True):
            self.assert_close(got, expected, device)

    def test_output_may_not_overlap_itself(self) -> None:
        path, gives = next((path, gives) for path, gives in self._outputs() if gives.size > 1)
        error = refused(self.operator, self.sample.inputs, **self._asking_strides(lambda sizes: [0] * len(sizes)))
        assert error.field == f"{path}.strides"
        assert error.got == [0] * gives.ndim
        assert error.allowed == "strides that give every element its own address"

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels(self, level: dg.FeatureLevel) -> None:
        check_level(parse_levels(self.levels), level, self.node_at)

    def test_unknown_field_is_named_with_the_nearest_known(self) -> None:
        cls = operator_class(self.operator)
        for field in (*cls.attribute_fields, *cls.output_fields, *cls.output_keywords):
            error = refused(self.operator, self.sample.inputs, **self.sample.fields, **{f"{field}_": 1})
            assert error.field == f"{field}_"
            assert error.hint == f"did you mean '{field}'?"
            assert field in (error.allowed or "").split(", ")

    def test_required_fields_must_be_given(self) -> None:
        cls = operator_class(self.operator)
        for field in cls.attribute_fields:
            if cls.fields[field].required:
                fields = {key: value for key, value in self.sample.fields.items() if key != field}
                error = refused(self.operator, self.sample.inputs, **fields)
                expect(error, "missing", field=field)

    def test_required_tensors_must_be_given(self) -> None:
        cls = operator_class(self.operator)
        for index, field in enumerate(cls.input_fields):
            if cls.fields[field].required and len(self.sample.inputs) > 1:
                inputs = [*self.sample.inputs]
                inputs[index] = None
                error = refused(self.operator, inputs, **self.sample.fields)
                expect(error, "missing", field=field)

    def _outputs(self) -> list[tuple[str, Array]]:
        """The outputs of the sample: the field of each, and its values."""
        fields, gives = self.asked or operator_class(self.operator).output_fields, self.sample.gives
        paths = [f"outputs.{index}" for index in range(len(gives))] if fields == ("outputs",) else fields
        return list(zip(paths, gives, strict=True))

    def _asking_strides(self, strides: Any) -> dict[str, Any]:
        """The sample's fields, which also request strides of the outputs."""
        asked = {
            path: {"dtype": str(each.dtype), "sizes": each.shape, "strides": strides(each.shape)}
            for path, each in self._outputs()
        }
        if "outputs.0" in asked:
            return {**self.sample.fields, "outputs": list(asked.values())}
        return {**self.sample.fields, **asked}


NodeAt = Callable[[dg.Graph, DataTypeName, int], None]


def check_level(table: Mapping[dg.FeatureLevel, Legal], level: dg.FeatureLevel, node_at: NodeAt) -> None:
    """At `level` exactly what the table says is legal; the error of everything else says from which level it is.

    `node_at` adds the node to a graph; its tensors have a data type and a number of dimensions.
    """
    legal = at_level(table, level)

    def attempt(dtype: DataTypeName, rank: int) -> dg.OperatorError | None:
        try:
            node_at(dg.Graph("test", target=level), dtype, rank)
        except dg.OperatorError as error:
            return error
        return None

    if legal is None:
        first = next(iter(table.values()))
        error = attempt(first.dtypes[0], first.ranks[0])
        assert error is not None
        assert error.node == "node"
        assert f"does not exist at feature level {level}; it appears at {min(table)}" in str(error)
        return
    for dtype in DTYPES:
        error = attempt(dtype, legal.ranks[-1])
        if dtype in legal.dtypes:
            assert error is None, f"{dtype} is legal at {level}: {error}"
        else:
            since = min((at for at, each in table.items() if at > level and dtype in each.dtypes), default=None)
            assert error is not None, f"{dtype} is not legal at {level}"
            assert error.node == "node"
            assert error.field is not None
            assert error.field.endswith(".dtype")
            assert error.got == dtype
            assert set((error.allowed or "").split(", ")) == set(legal.dtypes)
            assert (f"legal from {since}" if since else "legal at no level") in str(error)
    least = min(each.ranks[0] for each in table.values())
    for rank in range(least, 9):
        error = attempt(legal.dtypes[0], rank)
        if rank in legal.ranks:
            assert error is None, f"{rank} dimensions are legal at {level}: {error}"
        else:
            since = min((at for at, each in table.items() if at > level and rank in each.ranks), default=None)
            assert error is not None, f"{rank} dimensions are not legal at {level}"
            assert error.node == "node"
            assert error.field is not None
            assert error.field.endswith(".sizes")
            assert error.got == f"{rank} dimension{'s' if rank > 1 else ''}"
            assert error.allowed == describe_ranks(legal.ranks)
            assert (f"legal from {since}" if since else "legal at no level") in str(error)


def describe_ranks(ranks: range) -> str:
    return f"{ranks[0]} dimensions" if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]} dimensions"


class UnaryTests(OperatorTests):
    """Operators of one tensor, whose output has its sizes."""

    def test_sizes_of_the_output_are_those_of_the_input(self) -> None:
        (x, *_), fields = self.sample.inputs, self.sample.fields
        error = refused(self.operator, [x], output={"sizes": x.shape[::-1]}, **fields)
        assert error.field == "output.sizes"
        assert error.got == str(list(x.shape[::-1]))
        assert error.allowed == str(list(x.shape))

    def test_dtype_of_the_output_is_that_of_the_input(self) -> None:
        (x, *_), fields = self.sample.inputs, self.sample.fields
        error = refused(self.operator, [x], output={"dtype": "float64"}, **fields)
        assert error.field == "output.dtype"
        assert error.got == "float64"
        assert error.allowed == str(x.dtype)


class ScaledTests(UnaryTests):
    """Operators of one tensor that is scaled and shifted first; `scaled` is a row with 2 · x − 1 inside."""

    scaled: ClassVar[Case]

    def test_scale_and_bias_come_first(self, device: DeviceName) -> None:
        inner = run("identity", self.scaled.inputs, scale_bias={"scale": 2, "bias": -1})
        assert_same(inner, self.scaled.inputs[0] * 2 - 1)
        got = run(
            self.operator,
            self.scaled.inputs,
            device=device,
            scale_bias={"scale": 2, "bias": -1},
            **self.scaled.fields,
        )
        self.assert_close(got, self.scaled.gives[0], device)

    def test_scale_is_one_and_bias_zero_unless_given(self, device: DeviceName) -> None:
        plain = run(self.operator, self.scaled.inputs, device=device, **self.scaled.fields)
        for scale_bias in ({"scale": 1}, {"bias": 0}, {}, dg.ScaleBias()):
            got = run(self.operator, self.scaled.inputs, device=device, scale_bias=scale_bias, **self.scaled.fields)
            assert_same(got, plain)

    def test_scale_bias_has_no_other_fields(self) -> None:
        error = refused(self.operator, self.scaled.inputs, scale_bias={"scal": 2}, **self.scaled.fields)
        assert error.field == "scale_bias.scal"


class BroadcastTests(OperatorTests):
    """Element-wise operators of several tensors: their sizes broadcast as in NumPy."""

    # Sizes of the inputs, and of the result in NumPy.
    broadcasts: ClassVar = (([2, 1, 3], [4, 1], [2, 4, 3]), ([1], [2, 3], [2, 3]), ([2, 3], [3], [2, 3]))

    def test_inputs_broadcast(self, device: DeviceName) -> None:
        for *sizes, result in self.broadcasts:
            repeated = itertools.islice(itertools.cycle(sizes), len(self.sample.inputs))
            inputs = [
                np.resize(sample, size).astype(sample.dtype)
                for sample, size in zip(self.sample.inputs, repeated, strict=True)
            ]
            whole = [np.broadcast_to(values, result) for values in inputs]
            got = run(self.operator, inputs, device=device, **self.sample.fields)
            assert_same(got, run(self.operator, whole, device=device, **self.sample.fields))

    def test_broadcast_inputs_are_read_with_zero_strides(self) -> None:
        first, *others = self.sample.inputs
        graph, _ = build(self.operator, [first, *(np.resize(x, (1, 1)) for x in others)], **self.sample.fields)
        descs = operator_of(graph.node("node")).input_descs
        assert descs[0].strides is None
        assert all(desc.sizes == first.shape and desc.strides == (0, 0) for desc in descs[1:])

    def test_sizes_that_do_not_broadcast_are_refused(self) -> None:
        inputs = [np.resize(x, size) for x, size in zip(self.sample.inputs, ([2, 3], [4], [2, 3]), strict=False)]
        error = refused(self.operator, inputs, **self.sample.fields)
        assert "[2, 3] and [4]" in str(error.got)
        assert error.allowed == "equal sizes, or 1, dimension by dimension from the right"

    def test_unequal_sizes_are_refused_without_broadcasting(self) -> None:
        cls = operator_class(self.operator)
        descs = [
            dg.TensorDesc(dtype=x.dtype, sizes=sizes)
            for x, sizes in zip(self.sample.inputs, ([2, 3], [3, 2], [2, 3]), strict=False)
        ]
        with pytest.raises(dg.OperatorError) as caught:
            cls(**dict(zip(cls.input_fields, descs, strict=True)))
        expect(caught.value, "sizes", field=cls.input_fields[1], got=str(descs[1]), allowed=str(descs[0]))


class BinaryTests(BroadcastTests):
    """f(a, b) of one data type."""

    def test_inputs_have_one_data_type(self) -> None:
        a, b = self.sample.inputs
        error = refused(self.operator, [a.astype("float32"), b.astype("float16")], **self.sample.fields)
        expect(error, "dtype", field="b", got=f"float16 [{','.join(map(str, b.shape))}]")

    def test_a_number_is_a_fill_of_the_other_tensors_data_type(self, device: DeviceName) -> None:
        a, _ = self.sample.inputs
        three = np.full(a.shape, 3, a.dtype)
        for operands, whole in (([a, 3], [a, three]), ([3, a], [three, a])):
            got = run(self.operator, operands, device=device)
            assert_same(got, run(self.operator, whole, device=device))
