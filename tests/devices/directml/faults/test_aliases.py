"""Values that share a buffer in DirectML: where DirectML is wrong, and that graphs compiled here are right."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from campaigns.windows import DIRECTML_LEVEL, LEVEL, agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_graphs import graph_of, graphs

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.compiler.desc import (
    GraphDesc,
    GraphInput,
    GraphOutput,
    InputEdge,
    IntermediateEdge,
    OperatorDescNode,
    OutputEdge,
)
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml import device as directml_module
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable, ExecutionFlag
from dmlgraph.devices.directml.errors import DirectMLError
from dmlgraph.devices.directml.faults import make_safe
from dmlgraph.devices.directml.faults.aliases import may_run_in_place
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Operator, Slice, Tile
from dmlgraph.operators.catalog.examples import example
from dmlgraph.passes import fuse as run_passes

Values = dict[str, np.ndarray]
Build = Callable[[dg.Graph], None]
E_INVALIDARG = 0x80070057


def bare(device: DirectMLDevice, desc: GraphDesc) -> DirectMLExecutable:
    """A graph compiled unchanged, without the workarounds for faults."""
    return DirectMLExecutable(desc, device.name, "asked for", device._open_to_run(), ExecutionFlag.NONE)


def lowered(build: Build, *, fuse: bool = False) -> GraphDesc:
    graph = dg.Graph("shared")
    build(graph)
    return lower(run_passes(graph, level=LEVEL).graph if fuse else graph, LEVEL)


def numbers(desc: GraphDesc) -> Values:
    """Integers of both signs; neighbours are different."""
    rng = np.random.default_rng(5)
    return {
        slot.name: (rng.integers(1, 50, slot.desc.sizes) * rng.choice([-1, 1], slot.desc.sizes)).astype(
            slot.desc.dtype.numpy
        )
        for slot in desc.inputs
        if slot.elements is None
    }


ORDERS = ([6, 3, 1], [1, 2, 4], [3, 6, 1], [6, 1, 2], [1, 6, 2], [2, 1, 4])  # strides of a {2, 2, 3} without gaps


def outcome(device: DirectMLDevice, desc: GraphDesc) -> str:
    """What DirectML does with an unchanged graph: 'right', 'refused', or the names of the wrong outputs."""
    values = numbers(desc)
    expected = _reference(desc, values)
    try:
        with bare(device, desc) as executable:
            got = executable.run(values)
    except DirectMLError as error:
        if (error.call, error.hresult) != ("CompileGraph", E_INVALIDARG):
            raise
        return "refused"
    return ", ".join(name for name in got if not np.array_equal(got[name], expected[name])) or "right"


def _reference(desc: GraphDesc, values: Values) -> Values:
    from dmlgraph.devices.reference import ReferenceDevice

    return ReferenceDevice().compile(desc, reason="asked for").run(values)


def sliced(x: dg.Value, offsets: list[int], sizes: list[int]) -> dg.Value:
    return dg.slice(x, offsets=offsets, sizes=sizes, strides=[1] * len(sizes))


# ---- What DirectML does without dmlgraph


def in_place_on_a_window(operator: Operator, port: int) -> GraphDesc:
    """An operator that reads the first half of a value at one of its inputs, and graph inputs at the others."""
    descs = [None if desc is None else desc.like() for desc in operator.input_descs]
    window = descs[port]
    assert window is not None
    axis = next((axis for axis, size in enumerate(window.sizes) if size > 1), 0)
    whole = window.like(sizes=[size * 2 if each == axis else size for each, size in enumerate(window.sizes)])
    inputs = [GraphInput("whole", whole)]
    edges = [InputEdge(0, 0, 0)]
    for index, desc in enumerate(descs):
        if desc is not None and index != port:
            edges.append(InputEdge(len(inputs), 2, index))
            inputs.append(GraphInput(f"x{index}", desc))
    half = Slice(input=whole, output=window, offsets=(0,) * whole.rank, sizes=window.sizes, strides=(1,) * whole.rank)
    outputs = [(index, desc) for index, desc in enumerate(operator.output_descs) if desc is not None]
    return GraphDesc(
        name="window",
        level=LEVEL,
        inputs=tuple(inputs),
        outputs=tuple(GraphOutput(f"y{index}", desc) for index, desc in outputs),
        nodes=(
            OperatorDescNode("made", Tile(input=whole, output=whole, repeats=(1,) * whole.rank)),
            OperatorDescNode("half", half),
            OperatorDescNode("reader", operator),
        ),
        input_edges=tuple(edges),
        output_edges=tuple(OutputEdge(2, index, slot) for slot, (index, _) in enumerate(outputs)),
        intermediate_edges=(IntermediateEdge(0, 0, 1, 0), IntermediateEdge(1, 0, 2, port)),
    )


def packed(operator: Operator) -> Operator:
    """An operator whose inputs are all packed."""
    changes = {}
    for field in operator.input_fields:
        value = getattr(operator, field)
        several = [None if each is None else each.like() for each in (value if isinstance(value, tuple) else (value,))]
        changes[field] = tuple(several) if isinstance(value, tuple) else several[0]
    return operator.replace(**changes)


def readers() -> Iterator[tuple[Operator, int]]:
    """Every operator of DirectML's level at each input of its example, once with inputs that are not broadcast."""
    operators = [each for each in REGISTRY.values() if not each.is_view]
    for operator, dtype in itertools.product(operators, ("float32", "float16")):
        try:
            graph = dg.loads(example(operator).replace("float32", dtype))
        except dg.DmlGraphError:
            continue  # it does not have the data type
        nodes = [node for node in graph.nodes if isinstance(node, OperatorNode) and type(node.operator) is operator]
        node = nodes[-1]
        if node.operator.level_problems(LEVEL):
            continue
        for _, _, port in graph.producers(node.name):
            yield node.operator, port
            yield packed(node.operator), port


def test_which_operators_run_in_place(directml: DirectMLDevice):
    """CompileGraph refuses operators that would overwrite a part of a value's buffer."""
    different = []
    for operator, port in readers():
        try:
            bare(directml, in_place_on_a_window(operator, port)).close()
            refused = False
        except DirectMLError as error:
            if error.call != "CompileGraph":
                raise
            refused = True
        if refused != may_run_in_place(operator, port):
            different.append(f"{operator.name}, input {port}: {'refused' if refused else 'taken'}")
    assert not different


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_which_windows_are_refused(directml: DirectMLDevice, dtype: DataTypeName):
    """Windows that begin at a multiple of 16 bytes and need a buffer of another size, in units of 4 bytes."""
    for offset, size in itertools.product((0, 1, 4, 8, 16), (1, 2, 4, 7)):

        def build(graph: dg.Graph, offset: int = offset, size: int = size) -> None:
            made = dg.negate(graph.input("x", sizes=[24], dtype=dtype))
            graph.output("y", dg.abs(sliced(made, [offset], [size])))

        width = np.dtype(dtype).itemsize
        expected = "refused" if offset * width % 16 == 0 else "right"
        assert outcome(directml, lowered(build)) == expected, (offset, size)


@pytest.mark.parametrize(
    ("size", "expected"), [(20, "refused"), (21, "right"), (22, "right"), (23, "right"), (24, "right")]
)
def test_windows_of_the_same_number_of_words_are_taken(directml: DirectMLDevice, size: int, expected: str):
    def build(graph: dg.Graph) -> None:
        graph.output("y", dg.abs(sliced(dg.negate(graph.input("x", sizes=[24], dtype="int8")), [0], [size])))

    assert outcome(directml, lowered(build)) == expected


# What is between the value and its window, or between the window and its consumer; and other consumers.
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda g, p, w: g.output("y", dg.abs(w)), "refused"),
        (lambda g, p, w: g.output("y", dg.abs(dg.identity(w))), "refused"),
        (lambda g, p, w: g.output("y", dg.abs(dg.split(w, axis=0, outputs=[2])[0])), "refused"),
        (lambda g, p, w: g.output("y", dg.abs(dg.cast(w, dtype="float32"))), "right"),
        (lambda g, p, w: g.output("y", dg.abs(dg.join([w], axis=0))), "right"),
        (lambda g, p, w: g.output("y", dg.abs(sliced(w, [0, 0], [2, 8]))), "right"),
        (lambda g, p, w: g.output("y", dg.identity(w)), "right"),
        (lambda g, p, w: g.output("y", w + w), "right"),
        (lambda g, p, w: (g.output("y", dg.abs(w)), g.output("p", p)), "right"),
        (lambda g, p, w: (g.output("y", dg.abs(w)), g.output("w", w)), "right"),
        (lambda g, p, w: (g.output("y", dg.abs(w)), g.output("p", dg.sign(p))), "right"),
        (lambda g, p, w: g.output("y", dg.abs(w) - g.input("z", sizes=[2, 8], dtype="float32")), "refused"),
        (lambda g, p, w: g.output("y", w - g.input("z", sizes=[2, 8], dtype="float32")), "refused"),
        (lambda g, p, w: g.output("y", w - dg.sign(g.input("z", sizes=[2, 8], dtype="float32"))), "right"),
        (lambda g, p, w: g.output("y", dg.sign(g.input("z", sizes=[2, 8], dtype="float32")) - w), "refused"),
    ],
)
def test_when_a_window_is_refused(directml: DirectMLDevice, build: Callable[..., object], expected: str):
    """If nothing else reads the value or the window, and the consumer is the last that may run in place."""

    def whole(graph: dg.Graph) -> None:
        made = dg.negate(graph.input("x", sizes=[4, 8], dtype="float32"))
        build(graph, made, sliced(made, [2, 0], [2, 8]))

    assert outcome(directml, lowered(whole)) == expected


@pytest.mark.parametrize(
    ("sizes", "axis", "first", "expected"),
    [
        ([2, 8], 0, True, "n"),
        ([2, 8], 0, False, "n"),
        ([1, 8], 1, False, "n"),
        ([1, 6], 1, True, "right"),  # 24 bytes
        ([2, 8], 1, False, "right"),  # not contiguous, so not the output's
    ],
)
def test_which_joins_overwrite_what_went_into_them(
    directml: DirectMLDevice, sizes: list[int], axis: int, first: bool, expected: str
):
    """`sign` overwrites the join in place, before `n` is copied from there to the graph output."""

    def build(graph: dg.Graph) -> None:
        n = dg.negate(graph.input("x", sizes=sizes, dtype="float32"))
        z = graph.input("z", sizes=sizes, dtype="float32")
        graph.output("y", dg.sign(dg.join([n, z] if first else [z, n], axis=axis)))
        graph.output("n", n)

    assert outcome(directml, lowered(build)) == expected


@pytest.mark.parametrize("strides", [None, *([scale * each for each in order] for order in ORDERS for scale in (1, 2))])
def test_an_operator_whose_output_is_reordered_runs_in_place_on_a_join(
    directml: DirectMLDevice, strides: list[int] | None
):
    """Where the output has its dimensions in another order, the packed result is reordered afterwards.

    In order and packed, the output is written after `n` is copied to the graph output from the same buffer.
    """

    def build(graph: dg.Graph) -> None:
        n = dg.negate(graph.input("x", sizes=[2, 2, 3], dtype="float32"))
        graph.output("n", n)
        graph.output("y", dg.add(n, dg.join([n], axis=0), output={"strides": strides}))

    desc = lowered(build)
    assert outcome(directml, desc) == ("right" if strides in (None, [6, 3, 1], [12, 6, 2]) else "n")
    values = numbers(desc)
    for name, got in directml.compile(desc, reason="asked for").run(values).items():
        np.testing.assert_array_equal(got, _reference(desc, values)[name])


def test_the_order_of_outputs_decides_whether_the_reader_of_what_is_overwritten_is_late(directml: DirectMLDevice):
    def build(graph: dg.Graph, names: str) -> None:
        n = dg.negate(graph.input("x", sizes=[2, 8], dtype="float32"))
        values = {"e": dg.abs(n), "y": dg.sign(dg.join([n], axis=0))}
        for name in names:
            graph.output(name, values[name])

    assert outcome(directml, lowered(lambda graph: build(graph, "ye"))) == "e"
    assert outcome(directml, lowered(lambda graph: build(graph, "ey"))) == "right"


@pytest.mark.parametrize(("first", "expected"), [("sign", "refused"), ("negate", "right")])
def test_a_buffer_has_the_size_that_its_first_reader_states(
    directml: DirectMLDevice, monkeypatch: pytest.MonkeyPatch, first: str, expected: str
):
    """`sign` reads the first row only, and its description ends there unless it states the buffer's size."""

    def build(graph: dg.Graph) -> None:
        x = graph.input("x", sizes=[4, 16], dtype="float32")
        readers = {"sign": lambda: dg.sign(sliced(x, [0, 0], [1, 16])), "negate": lambda: dg.negate(x)}
        for name in sorted(readers, key=lambda each: each != first):
            graph.output(name, readers[name]())

    desc = lowered(build, fuse=True)
    assert outcome(directml, desc) == "right"
    monkeypatch.setattr(directml_module, "buffer_bytes", lambda graph: [{} for _ in graph.nodes])
    assert outcome(directml, desc) == expected


def test_a_copied_input_has_the_sizes_of_another_reader(directml: DirectMLDevice):
    def build(graph: dg.Graph) -> None:
        x = graph.input("x", sizes=[4, 16], dtype="float32")
        graph.output("s", dg.sign(sliced(x, [0, 0], [1, 16])))
        graph.output("y", dg.identity(x))

    assert outcome(directml, lowered(build)) == "right"
    assert outcome(directml, lowered(build, fuse=True)) == "y"


# ---- What is compiled here


def row_and_whole(graph: dg.Graph) -> None:
    x = graph.input("x", sizes=[1, 1, 4, 16], dtype="float32")
    graph.output("s", dg.sign(sliced(x, [0] * 4, [1, 1, 1, 16])))
    graph.output("y", dg.identity(x))


def row_and_negative(graph: dg.Graph) -> None:
    x = graph.input("x", sizes=[1, 1, 4, 16], dtype="float32")
    graph.output("s", dg.sign(sliced(x, [0] * 4, [1, 1, 1, 16])))
    graph.output("y", dg.negate(x))


def corner(graph: dg.Graph) -> None:
    x = dg.activation_relu(graph.input("x", sizes=[4, 8], dtype="float32"))
    graph.output("y", dg.abs(sliced(x, [0, 0], [4, 4])))


def second_row(graph: dg.Graph) -> None:
    graph.output("y", dg.abs(sliced(dg.negate(graph.input("x", sizes=[2, 8], dtype="float32")), [1, 0], [1, 8])))


def first_part(graph: dg.Graph) -> None:
    x = dg.negate(graph.input("x", sizes=[1, 3, 4, 4], dtype="float32"))
    graph.output("y", dg.activation_relu(dg.split(x, axis=1, outputs=[2, 1])[0]))


def join_of_one(graph: dg.Graph) -> None:
    n = dg.negate(graph.input("x", sizes=[1, 1, 4, 16], dtype="float32"))
    graph.output("s", dg.sign(dg.join([n], axis=2)))
    graph.output("n", n)


def joins_of_one(graph: dg.Graph) -> None:
    n = dg.negate(graph.input("x", sizes=[4, 16], dtype="float32"))
    graph.output("s", dg.sign(dg.join([dg.join([n], axis=0)], axis=1)))
    graph.output("n", n)


def join_of_two(graph: dg.Graph) -> None:
    n = dg.negate(graph.input("x", sizes=[2, 8], dtype="float32"))
    graph.output("s", dg.sign(dg.join([n, graph.input("z", sizes=[2, 8], dtype="float32")], axis=0)))
    graph.output("e", dg.abs(n))


def written_beside(graph: dg.Graph) -> None:
    """The window has the strides of its position in the join."""
    x = dg.negate(graph.input("x", sizes=[4, 16], dtype="float32"))
    left = dg.abs(sliced(x, [0, 8], [4, 8]))
    graph.output("j", dg.join([left, graph.input("z", sizes=[4, 8], dtype="float32")], axis=1))


def rows_of_a_transposed_input(graph: dg.Graph) -> None:
    x = graph.input("x", sizes=[16, 16], dtype="float32", strides=[1, 16])
    graph.output("y", dg.activation_relu(sliced(x, [4, 0], [8, 16])))


def plane_of_a_transposed_value(graph: dg.Graph) -> None:
    """The window is contiguous, with its dimensions in another order."""
    x = graph.input("x", sizes=[3, 8, 3], dtype="float32")
    plane = sliced(dg.negate(x, output={"strides": [1, 3, 24]}), [0, 0, 0], [3, 8, 1])
    graph.output("y", dg.negate(dg.abs(plane)))


# Builder, dispatches and added copies not fused, and fused.
SHARED: list[tuple[Build, tuple[int, int], tuple[int, int]]] = [
    (row_and_whole, (2, 0), (2, 0)),
    (row_and_negative, (2, 0), (2, 0)),
    (corner, (2, 0), (2, 0)),
    (second_row, (3, 1), (3, 1)),
    (first_part, (3, 1), (3, 1)),
    (join_of_one, (2, 0), (2, 0)),
    (joins_of_one, (2, 0), (2, 0)),
    (join_of_two, (5, 1), (5, 1)),
    (written_beside, (4, 1), (4, 1)),
    (rows_of_a_transposed_input, (3, 1), (3, 1)),
    (plane_of_a_transposed_value, (4, 1), (5, 1)),
]


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize(("build", "plain", "fused"), SHARED, ids=[build.__name__ for build, _, _ in SHARED])
def test_shared_buffers(
    directml: DirectMLDevice, build: Build, plain: tuple[int, int], fused: tuple[int, int], fuse: bool
):
    desc = lowered(build, fuse=fuse)
    values = numbers(desc)
    with directml.compile(desc, reason="asked for") as executable:
        got = executable.run(values)
        assert (executable.stats["dispatches"], executable.stats["added_copies"]) == (fused if fuse else plain)
    expected = _reference(desc, values)
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name], name)


@pytest.mark.parametrize("build", [build for build, _, _ in SHARED], ids=lambda build: build.__name__)
def test_each_goes_wrong_by_itself(directml: DirectMLDevice, build: Build, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(directml_module, "buffer_bytes", lambda graph: [{} for _ in graph.nodes])
    assert {outcome(directml, lowered(build, fuse=fuse)) for fuse in (False, True)} != {"right"}


def harmless() -> Iterator[Build]:
    """Similar graphs that are right without changes."""

    def made(graph: dg.Graph) -> dg.Value:
        return dg.negate(graph.input("x", sizes=[4, 8], dtype="float32"))

    yield lambda g: g.output("y", dg.is_nan(sliced(made(g), [2, 0], [2, 8])))
    yield lambda g: g.output("y", dg.abs(sliced(made(g), [0, 1], [4, 4])))
    yield lambda g: g.output("y", dg.abs(sliced(g.input("x", sizes=[4, 8], dtype="float32"), [2, 0], [2, 8])))

    def halves(graph: dg.Graph) -> None:
        for i, each in enumerate(dg.split(made(graph), axis=0, outputs=[2, 2])):
            graph.output(f"y{i}", dg.abs(each))

    yield halves
    yield lambda g: g.output("y", dg.sign(dg.join([made(g), g.input("z", sizes=[4, 8], dtype="float32")], axis=0)))

    def shared_but_earlier(graph: dg.Graph) -> None:
        n = made(graph)
        graph.output("y", dg.sign(dg.join([n, dg.abs(n)], axis=0)))

    yield shared_but_earlier


@pytest.mark.parametrize("build", list(harmless()))
def test_nothing_is_added_where_nothing_goes_wrong(directml: DirectMLDevice, build: Build):
    desc = lowered(build)
    assert make_safe(desc) == (desc, 0)
    assert outcome(directml, desc) == "right"


def test_the_random_graphs_need_it():
    """Some graphs of the property below get copies, and in some nodes are replaced or left out."""
    added, changed = 0, 0
    for seed, fuse in itertools.product(range(300), (False, True)):
        graph = graph_of(seed, "windows", DIRECTML_LEVEL).graph
        desc = lower(run_passes(graph, level=LEVEL).graph if fuse else graph, LEVEL)
        safe, copies = make_safe(desc)
        added += copies > 0
        changed += copies == 0 and safe is not desc
    assert added >= 4
    assert changed >= 1


@pytest.mark.usefixtures("directml_path")
@settings(max_examples=80)
@given(data=st.data())
def test_random_graphs_of_shared_values_agree(data: st.DataObject):
    agrees(data.draw(graphs("windows", (DIRECTML_LEVEL,))))
