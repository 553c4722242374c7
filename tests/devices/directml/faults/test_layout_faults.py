"""Values that are read in other layouts: where DirectML is wrong, and that such graphs compiled here are right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from campaigns.layouts import one_case

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import (
    GraphDesc,
    GraphInput,
    GraphOutput,
    InputEdge,
    IntermediateEdge,
    OperatorDescNode,
    OutputEdge,
)
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable, ExecutionFlag
from dmlgraph.devices.directml.errors import DirectMLError
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators import Abs, CumulativeSummation, Identity, Join, Negate, Operator, Reduce, Sign, Slice
from dmlgraph.operators.directml_enums import AxisDirection, ReduceFunction


def desc(sizes: Sequence[int], strides: Sequence[int] | None = None, dtype: str = "float32") -> TensorDesc:
    return TensorDesc(dtype=dtype, sizes=sizes, strides=strides)


def graph(
    given: TensorDesc, operators: Sequence[Operator], edges: Sequence[tuple[int, int, int]], outputs: Sequence[int]
) -> GraphDesc:
    """A graph of one input.

    Args:
        edges: (from node, to node, to port); the graph input is node −1.
        outputs: the nodes that are graph outputs.
    """
    return GraphDesc(
        name="layouts",
        level=FeatureLevel.V6_2,
        inputs=(GraphInput("x", given),),
        outputs=tuple(GraphOutput(f"y{node}", operators[node].first_output) for node in outputs),
        nodes=tuple(OperatorDescNode(f"n{index}", each) for index, each in enumerate(operators)),
        input_edges=tuple(InputEdge(0, node, port) for source, node, port in edges if source < 0),
        output_edges=tuple(OutputEdge(node, 0, slot) for slot, node in enumerate(outputs)),
        intermediate_edges=tuple(
            IntermediateEdge(source, 0, node, port) for source, node, port in edges if source >= 0
        ),
    )


def outcome(device: DirectMLDevice, tried: GraphDesc, *, bare: bool = False) -> str:
    """What DirectML does: 'right', 'refused', or the names of the wrong outputs.

    Args:
        bare: without the workarounds for faults.
    """
    slot = tried.inputs[0]
    values = {"x": (np.arange(slot.desc.element_count) % 23 - 9).reshape(slot.desc.sizes).astype(slot.desc.dtype.numpy)}
    expected = ReferenceDevice().compile(tried, reason="asked for").run(values)
    try:
        if bare:
            executable = DirectMLExecutable(tried, device.name, "asked for", device._open_to_run(), ExecutionFlag.NONE)
        else:
            executable = device.compile(tried, reason="asked for")
        with executable:
            got = executable.run(values)
    except DirectMLError as error:
        if error.call != "CompileGraph":
            raise
        return "refused"
    return ", ".join(name for name in got if not np.array_equal(got[name], expected[name])) or "right"


WINDOWS = (desc([1, 8]), desc([4, 4], [8, 1]), desc([4, 1], [8, 1]))
ORDERS = (desc([8, 4], [1, 8]), desc([2, 4, 4], [4, 8, 1]))


def test_a_reordered_input_has_the_sizes_of_another_reader(directml: DirectMLDevice) -> None:
    wrong = 0
    for window, order in itertools.product(WINDOWS, ORDERS):
        reordered = Identity(input=order)
        reader = Reduce(input=reordered.output, function=ReduceFunction.MAX, axes=(0,))
        for outputs in ((0, 2), (2, 0)):
            tried = graph(
                desc([4, 8]), (Sign(input=window), reordered, reader), [(-1, 0, 0), (-1, 1, 0), (1, 2, 0)], outputs
            )
            wrong += outcome(directml, tried, bare=True) == "y2"
            assert outcome(directml, tried) == "right"
    assert wrong >= 6


def reordered(sizes: Sequence[int], order: Sequence[int]) -> TensorDesc:
    """A desc without gaps.

    Args:
        order: the axes, from the innermost to the outermost.
    """
    strides, step = [0] * len(sizes), 1
    for axis in order:
        strides[axis], step = step, step * sizes[axis]
    return desc(sizes, strides)


@pytest.mark.parametrize("sizes", [[3, 2, 8], [2, 2, 3, 8]])
def test_a_join_that_writes_in_another_order_leaves_its_inputs_as_they_are(
    directml: DirectMLDevice, sizes: list[int]
) -> None:
    """One of them is an output too, and an operator runs in place on the join."""
    wrong = 0
    axes = range(len(sizes))
    for order, axis in itertools.product(itertools.permutations(axes), axes):
        joined = reordered([2 * size if each == axis else size for each, size in enumerate(sizes)], order)
        made = Abs(input=desc(sizes))
        join = Join(inputs=(made.output, made.output), axis=axis, output=joined)
        last = Sign(input=Negate(input=joined).output)
        edges = [(-1, 0, 0), (0, 1, 0), (0, 1, 1), (1, 2, 0), (2, 3, 0)]
        tried = graph(desc(sizes), (made, join, Negate(input=joined), last), edges, (0, 3))
        wrong += outcome(directml, tried, bare=True) == "y0"
        assert outcome(directml, tried) == "right"
    assert wrong >= 6


@pytest.mark.parametrize(("whole", "part"), [(4, 3), (3, 2), (4, 1), (2, 1)])
def test_windows_of_a_few_bytes_are_taken(directml: DirectMLDevice, whole: int, part: int) -> None:
    """An operator in place on the first rows of a value, whose result is read through strides."""
    window, dtype = desc([part, 2], dtype="float16"), "float16"
    made = Abs(input=desc([whole, 2], dtype=dtype))
    up = AxisDirection.INCREASING
    in_place = CumulativeSummation(input=window, axis=0, axis_direction=up, has_exclusive_sum=False)
    reader = Slice(input=desc([2, part], [1, 2], dtype), offsets=(0, part - 1), sizes=(2, 1), strides=(1, 1))
    tried = graph(desc([whole, 2], dtype=dtype), (made, in_place, reader), [(-1, 0, 0), (0, 1, 0), (1, 2, 0)], (2,))
    assert outcome(directml, tried, bare=True) == "refused"
    assert outcome(directml, tried) == "right"


def ordered(sizes: Sequence[int], order: Sequence[int]) -> TensorDesc:
    """Packed, with these dimensions from the outermost to the innermost."""
    strides, step = [0] * len(sizes), 1
    for axis in reversed(order):
        strides[axis], step = step, step * sizes[axis]
    return desc(sizes, strides)


def test_windows_of_reordered_values_are_taken(directml: DirectMLDevice) -> None:
    """An operator in place on a slice of a value that is reordered, or of a slice of one."""
    sizes, bare = [8, 4, 8], set()
    orders = itertools.permutations(range(3))
    for order, axis, offset, is_cut_before in itertools.product(orders, range(3), (0, 1), (False, True)):
        operators: list[Operator] = [Sign(input=desc([256]))]
        read = ordered(sizes, order)
        if is_cut_before:
            other = (axis + 1) % 3
            operators.append(window(read, other, 0, 3))
            read = operators[-1].first_output
        operators.append(window(read, axis, offset, 1))
        operators.append(Abs(input=operators[-1].first_output))
        edges = [(index - 1, index, 0) for index in range(len(operators))]
        tried = graph(desc([256]), operators, edges, (len(operators) - 1,))
        bare.add(outcome(directml, tried, bare=True))
        assert outcome(directml, tried) == "right"
    assert bare == {"right", "refused"}


def window(source: TensorDesc, axis: int, offset: int, size: int) -> Slice:
    """A slice along one axis."""
    cut = tuple(size if each == axis else whole for each, whole in enumerate(source.sizes))
    offsets = tuple(offset if each == axis else 0 for each in range(source.rank))
    return Slice(input=source, offsets=offsets, sizes=cut, strides=(1,) * source.rank)


# Cases that were refused or wrong before dmlgraph added copies for them.
FOUND = (
    564,
    1674,
    11025,
    12503,
    18010,
    26303,
    26606,
    30052,
    52425,
    66322,
    70784,
    225449,
    225455,
    400963,
    411686,
    415872,
)


@pytest.mark.usefixtures("directml_path")
def test_random_layouts_agree() -> None:
    """Graphs whose nodes read values reshaped, reordered, cut and repeated; `campaigns/layouts.py` makes more."""
    problems = [f"seed {seed}: {problem}" for seed in (*FOUND, *range(200)) if (problem := one_case(seed))]
    assert not problems
