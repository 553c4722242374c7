"""Plan: which nodes run together, how the others run, and how much memory that takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.cpu.plans import check_plan

import dmlgraph as dg
from dmlgraph import _native
from dmlgraph._native import cpu_steps
from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.cpu.nodes import (
    AffineMap,
    Constant,
    ElementWise,
    Instruction,
    Move,
    Native,
    Node,
    Piece,
    Reduce,
    View,
)
from dmlgraph.devices.cpu.plan import Plan, make_plan
from dmlgraph.devices.executable import Executable

Array = np.ndarray[Any, Any]


def compiled(graph: dg.Graph) -> Executable:
    return CpuDevice().compile(graph.lower(fuse=False), reason="test")


def agree(graph: dg.Graph, **inputs: Array) -> None:
    results = compiled(graph).run(inputs)
    for name, expected in graph.compile("reference", fuse=False).run(inputs).items():
        np.testing.assert_array_equal(results[name], expected, name)


def test_a_chain_is_one_region_without_memory() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[8, 8], dtype="float32")
    g.output("y", dg.activation_relu(dg.add(x, x, name="twice"), name="y"))
    check_plan(
        g,
        """
        arena: 0 bytes
        region [twice, y]: x -> y
        """,
    )


def test_a_way_out_of_a_region_and_back_parts_it() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[4, 8], dtype="float32")
    twice = dg.add(x, x, name="twice")
    lengths = g.constant("lengths", np.full((4, 1), 3, np.uint32))
    turned = dg.reverse_subsequences(twice, lengths, axis=1, name="turned")
    g.output("y", dg.subtract(twice, turned, name="y"))
    check_plan(
        g,
        """
        arena: 256 bytes
        region [twice]: x -> #1
        reversal [turned]: #1, constants -> #2
        region [y]: #1, #2 -> y
        """,
    )
    agree(g, x=np.arange(32, dtype=np.float32).reshape(4, 8))


def test_a_fused_activation_belongs_to_the_product() -> None:
    g = dg.Graph()
    x, w = g.input("x", sizes=[4, 8], dtype="float16"), g.input("w", sizes=[8, 3], dtype="float16")
    product = dg.gemm(x, w, fused_activation={"op": "activation_elu", "alpha": 0.5}, name="product")
    g.output("y", dg.add(product, product, name="y"))
    check_plan(
        g,
        """
        arena: 0 bytes
        gemm [product, y]: x, w -> y
        """,
    )
    agree(g, x=np.eye(4, 8, dtype=np.float16), w=np.linspace(-3, 3, 24, dtype=np.float16).reshape(8, 3))


def test_an_activation_without_instructions_stays_where_it_is() -> None:
    g = dg.Graph()
    x, w = g.input("x", sizes=[1, 1, 2, 2], dtype="float32"), g.input("w", sizes=[1, 1, 2, 2], dtype="float32")
    g.output("y", dg.gemm(x, w, fused_activation="activation_softmax", name="product"))
    check_plan(
        g,
        """
        arena: 64 bytes
        gemm [product]: x, w -> #1
        region [product]: #1 -> y
        """,
    )
    agree(g, x=np.eye(2, dtype=np.float32)[None, None], w=np.zeros((1, 1, 2, 2), np.float32))


def test_what_a_later_region_alone_reads_is_computed_there() -> None:
    g = dg.Graph()
    x, z = g.input("x", sizes=[4, 8], dtype="float32"), g.input("z", sizes=[4, 8], dtype="float32")
    early = dg.negate(dg.abs(z, name="abs"), name="early")
    lengths = g.constant("lengths", np.full((4, 1), 3, np.uint32))
    g.output("y", dg.subtract(early, dg.reverse_subsequences(x, lengths, axis=1), name="y"))
    check_plan(
        g,
        """
        arena: 128 bytes
        reversal [reverse_subsequences]: x, constants -> #1
        region [abs, early, y]: z, #1 -> y
        """,
    )
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    agree(g, x=data, z=data - 9)


def test_what_reads_two_tensors_is_computed_later_too() -> None:
    g = dg.Graph()
    x, z = g.input("x", sizes=[4, 8], dtype="float32"), g.input("z", sizes=[4, 8], dtype="float32")
    total = dg.add(x, z, name="total")
    lengths = g.constant("lengths", np.full((4, 1), 3, np.uint32))
    g.output("y", dg.subtract(total, dg.reverse_subsequences(x, lengths, axis=1), name="y"))
    check_plan(
        g,
        """
        arena: 128 bytes
        reversal [reverse_subsequences]: x, constants -> #1
        region [total, y]: x, z, #1 -> y
        """,
    )
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    agree(g, x=data, z=data - 9)


def test_what_would_hold_two_results_instead_of_one_is_computed_at_once() -> None:
    g = dg.Graph()
    x, z = g.input("x", sizes=[4, 8], dtype="float32"), g.input("z", sizes=[4, 8], dtype="float32")
    lengths = g.constant("lengths", np.full((4, 1), 3, np.uint32))

    def turned(value: dg.Value) -> dg.Value:
        return dg.reverse_subsequences(value, lengths, axis=1)

    total = dg.add(turned(x), turned(z), name="total")
    g.output("y", dg.subtract(total, turned(turned(turned(x))), name="y"))
    check_plan(
        g,
        """
        arena: 384 bytes
        reversal [reverse_subsequences]: x, constants -> #1
        reversal [reverse_subsequences_1]: z, constants -> #2
        region [total]: #1, #2 -> #3
        reversal [reverse_subsequences_2]: x, constants -> #4
        reversal [reverse_subsequences_3]: #4, constants -> #5
        reversal [reverse_subsequences_4]: #5, constants -> #6
        region [y]: #3, #6 -> y
        """,
    )
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    agree(g, x=data, z=data - 9)


def test_a_normalization_by_channel_is_one_pass_over_the_tensor() -> None:
    """And one over its channels: the factor of each is made first."""
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3, 4, 5], dtype="float32")
    each = [g.input(name, sizes=[1, 3, 1, 1], dtype="float32") for name in ("mean", "variance", "scale", "bias")]
    g.output("y", dg.batch_normalization(x, *each, spatial=True, epsilon=1e-5, name="y"))
    check_plan(
        g,
        """
        arena: 64 bytes
        region [y]: variance, scale -> #1
        region [y]: x, mean, #1, bias -> y
        """,
    )


def test_nodes_that_read_the_same_tensor_run_together() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[4, 8], dtype="float32")
    g.output("a", dg.abs(x, name="a"))
    g.output("b", dg.negate(x, name="b"))
    check_plan(
        g,
        """
        arena: 0 bytes
        region [a, b]: x -> a, b
        """,
    )
    agree(g, x=np.arange(32, dtype=np.float32).reshape(4, 8) - 9)


def test_other_sizes_are_another_region() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1, 8], dtype="float32")
    z = g.input("z", sizes=[4, 8], dtype="float32")
    g.output("y", dg.add(dg.negate(x, name="small"), z, name="large"))
    check_plan(
        g,
        """
        arena: 64 bytes
        region [small]: x -> #1
        region [large]: #1, z -> y
        """,
    )
    agree(g, x=np.arange(8, dtype=np.float32).reshape(1, 8), z=np.ones((4, 8), np.float32))


def test_dimensions_of_size_1_make_no_difference() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1, 4, 1, 8], dtype="float32")
    g.output("y", dg.negate(dg.abs(x)))
    check_plan(
        g,
        """
        arena: 0 bytes
        region [abs, negate]: x -> y
        """,
    )
    agree(g, x=np.arange(32, dtype=np.float32).reshape(1, 4, 1, 8) - 9)


def test_what_has_no_kernel_runs_its_evaluate() -> None:
    """Blocks of 2 and of 3 elements."""
    g = dg.Graph()
    x = g.input("x", sizes=[6], dtype="int4")
    scale = g.constant("scale", np.array([1, 2, 4], np.float32))
    zero = g.constant("zero", np.array([0, 1], ml_dtypes.int4))
    g.output("y", dg.dequantize(x, [scale, zero], quantization_type="scale_zero_point", name="wide"))
    check_plan(
        g,
        """
        arena: 0 bytes
        python [wide]: x, constants -> y
        """,
    )
    executable = compiled(g)
    values = np.array([-8, -1, 0, 7, 1, 2], ml_dtypes.int4)
    assert executable.run({"x": values})["y"].tolist() == [-8, -1, 0, 12, 0, 4]
    assert executable.bind({"x": values})()["y"].tolist() == [-8, -1, 0, 12, 0, 4]


def test_4_bit_results_are_arrays_of_their_type() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[3], dtype="float32")
    scale = g.fill_value_constant(sizes=[1], dtype="float32", value=1)
    g.output("y", dg.quantize(x, [scale], dtype="int4", quantization_type="scale"))
    data = np.array([-9, 2.5, 3], np.float32)
    expected = g.compile("reference").run({"x": data})["y"]
    executable = compiled(g)
    target = np.zeros(3, ml_dtypes.int4)
    for result in (executable.run({"x": data})["y"], executable.run({"x": data}, {"y": target})["y"], target):
        assert result.dtype == ml_dtypes.int4
        assert result.astype(int).tolist() == expected.astype(int).tolist()


def test_temporary_buffers_share_memory_when_they_live_at_different_times() -> None:
    size = 1 << 12
    g = dg.Graph()
    value = g.input("x", sizes=[64, 64], dtype="float32")
    for _ in range(20):  # reductions separate the regions
        value = value - dg.reduce(value, function="max", axes=[1])
    g.output("y", value)
    executable = compiled(g)
    assert executable.stats["arena_bytes"] <= 2 * 4 * size + 4 * 4 * 64
    agree(g, x=np.random.default_rng(0).random((64, 64)).astype(np.float32))


@pytest.mark.parametrize("optimizer", [dg.SGD(0.1), dg.SGD(0.1, momentum=0.9), dg.Adam(0.1)])
def test_a_weight_changes_as_soon_as_its_gradient_is_there(optimizer: Any) -> None:
    layers, size = 12, 4 * 64 * 64
    g = dg.Graph()
    h, weights = g.input("x", sizes=[64, 64], dtype="float32"), []
    for index in range(layers):
        weights.append(g.state(f"w{index}", sizes=[64, 64], dtype="float32"))
        h = dg.activation_relu(h @ weights[-1])
    g.minimize(dg.reduce(h, function="sum_square"), weights, optimizer)
    # What each layer gives, and at a time the gradients of one layer's result and of its weights.
    assert g.compile("cpu").stats["arena_bytes"] <= (layers + 2) * size + 4 * 64


def test_ten_thousand_nodes_are_one_region() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3], dtype="float32")
    value = x
    for _ in range(5000):
        value = dg.tanh(value + x)
    g.output("y", value)
    desc = g.lower(fuse=False)
    (region,) = CpuDevice().plan(desc).splitlines()[1:]
    assert len(desc.nodes) == 10_000
    assert region.startswith("region [add, tanh, ")
    assert region.endswith(", tanh_4999]: x -> y")


def test_a_wide_graph_of_thousands_of_nodes_is_right() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3], dtype="int32")
    level = [x + k for k in range(1000)]
    while len(level) > 1:
        level = [one + other for one, other in zip(level[::2], level[1::2], strict=False)] + (
            [level[-1]] if len(level) % 2 else []
        )
    g.output("y", level[0])
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.testing.assert_array_equal(compiled(g).run({"x": data})["y"], data * 1000 + 499_500)


def native(nodes: Sequence[Node], outputs: Sequence[int], desc: dg.TensorDesc) -> Any:
    """An executable of one input with this description."""
    graph = Plan([desc], nodes, outputs).graph()
    return _native.CpuExecutable("g", graph, outputs, ["x"], ["y"], [None], [False], [], print, 1)


X = dg.TensorDesc(dtype="float32", sizes=[2])
ADD = Instruction("ADD", (0, 0), X.dtype, X.dtype)
SCAN = cpu_steps.Scan(axis=0, from_end=False, is_exclusive=False, is_product=False)


def node(action: Any, *sources: int) -> Node:
    return Node("n", sources, (X,) * len(sources), (X,), action)


@pytest.mark.parametrize(
    ("nodes", "outputs", "message"),
    [
        ([node(ElementWise((ADD,)), 5)], [1], "node 'n' reads a value that is not computed before it"),
        ([node(ElementWise((ADD,)))], [1], "node 'n'"),
        ([node(ElementWise((ADD._replace(opcode="ODD"),)), 0)], [1], "no kernel ODD"),
        ([node(ElementWise((ADD._replace(operands=(0,)),)), 0)], [1], "number of operands"),
        ([node(ElementWise((ADD._replace(operands=(0, 3)),)), 0)], [1], "an operand"),
        ([node(Native(SCAN, (ADD,)), 0)], [1], "node 'n': no instructions can follow"),
        ([node(Reduce("ODD", (0,)), 0)], [1], "node 'n': there is no reduction ODD"),
        ([node(Reduce("SUM", (1,)), 0)], [1], "node 'n': an axis is out of range"),
        ([node(View((AffineMap((), (), ()),)), 0)], [1], "node 'n': an affine map"),
        ([node(Move(None, (Piece(0, (2,), None, AffineMap((0,), (1,), (0,))),)), 0)], [1], "node 'n': a piece"),
        ([node("odd", 0)], [1], "no attribute 'add_to'"),
        ([], [7], "an output is not a value of the graph"),
        ([], [0], "an input or constant cannot be an output"),
    ],
    ids=str,
)
def test_a_plan_that_makes_no_sense_is_refused(nodes: list[Node], outputs: list[int], message: str) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError), match=message):
        native(nodes, outputs, X)


@pytest.mark.parametrize(
    "fields",
    [
        {"axis": 0},
        {"axis": "first", "from_end": False, "is_exclusive": False, "is_product": False},
        {"axis": 0, "from_end": None, "is_exclusive": False, "is_product": False},
        {"axis": 0, "from_end": False, "is_exclusive": False, "is_product": False, "depth": 1},
    ],
)
def test_a_step_takes_its_parameters_by_name_and_no_others(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Scan"):
        cpu_steps.Scan(**fields)


def doubled_and_viewed(origin: int, step: int) -> Any:
    double = Node("n", (0,), (X,), (X,), ElementWise((ADD,)))
    view = Node("the view", (1,), (X,), (X,), View((AffineMap((0,), (step,), (origin,)),)))
    return native([double, view], [2], X)


def test_a_plan_that_would_touch_other_memory_is_never_run() -> None:
    backwards = doubled_and_viewed(1, -1).run({"x": np.array([1, 2], np.float32)}, None)
    np.testing.assert_array_equal(backwards["y"], [4, 2])
    for origin, step in ((0, -1), (0, 2), (1, 1), (-1, 1)):
        with pytest.raises(RuntimeError, match="a mistake in the plan of node 'the view'"):
            doubled_and_viewed(origin, step)


def test_what_is_joined_is_not_computed_in_memory_that_is_cleared_later() -> None:
    """The reader takes the memory of a join as it is, with zeros in its gaps."""
    row = dg.TensorDesc(dtype="float32", sizes=[1, 2])
    gapped = dg.TensorDesc(dtype="float32", sizes=[2, 2], strides=[3, 1])
    line = dg.TensorDesc(dtype="float32", sizes=[5])

    def place(at: int) -> AffineMap:
        return AffineMap((0, 1), (1, 1), (at, 0))

    pieces = tuple(Piece(port, (1, 2), place(0), place(port)) for port in (0, 1))
    nodes = [
        Node("first", (0,), (row,), (row,), ElementWise((ADD,))),
        Node("second", (1,), (row,), (row,), ElementWise((ADD,))),
        Node("joined", (1, 2), (row, row), (gapped,), Move(None, pieces)),
        Node("sums", (3,), (line,), (line,), Native(SCAN)),
    ]
    results = native(nodes, [4], row).run({"x": np.array([[1, 2]], np.float32)}, None)
    np.testing.assert_array_equal(results["y"], np.cumsum([2, 4, 0, 4, 8]))


def test_the_plan_numbers_values_in_order() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2], dtype="float32")
    g.output("y", dg.add(x, g.constant("c", np.ones(2, np.float32)), name="sum"))
    plan = make_plan(g.lower(fuse=False))
    found = {each.name: (type(each.action), each.sources) for each in plan.nodes}
    assert found["c"] == (Constant, ())
    assert found["sum"] == (ElementWise, (0, 1))
    assert plan.outputs == [2]
