"""Values that share a buffer and are read in another order of axes, or begin at any byte."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from campaigns import aliasing
from campaigns.aliasing import Case, Producer, Reader

import dmlgraph as dg
from dmlgraph.devices.compile import lower_graph
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable, ExecutionFlag
from dmlgraph.devices.directml.errors import DirectMLError

OTHERS = {each.name: each for each in aliasing.OTHERS}


def shared(
    producer: Producer,
    sizes: Sequence[int],
    order: Sequence[int],
    reader: Reader,
    following: Reader = aliasing.nothing,
    others: str = "outputs after",
    *,
    offset: int = 0,
    dtype: str = "float32",
    maker: aliasing.Maker = aliasing.difference,
) -> Case:
    return Case(dtype, maker, producer, offset, tuple(sizes), tuple(order), reader, following, OTHERS[others])


def outcomes(device: DirectMLDevice, case: Case) -> tuple[str, int]:
    """What DirectML does by itself ('right', 'refused', or the wrong outputs), and how many copies dmlgraph adds.

    With them, the graph is right.
    """
    draft = case.draft()
    assert draft is not None
    expected = draft.graph.compile("reference", fuse=False).run(draft.inputs)
    desc = lower_graph(draft.graph, fuse=False)[1]
    with device.compile(desc, reason="asked for") as executable:
        assert not aliasing.differing(executable.run(draft.inputs), expected, case.dtype), case
        added = executable.stats["added_copies"]
    try:
        with DirectMLExecutable(
            desc, device.name, "asked for", device._open_to_run(), ExecutionFlag.NONE
        ) as executable:
            wrong = aliasing.differing(executable.run(draft.inputs), expected, case.dtype)
    except DirectMLError as error:
        if error.call != "CompileGraph":
            raise
        return "refused", added
    return ", ".join(wrong) or "right", added


def in_words(order: Sequence[int]) -> str:
    return "".join(map(str, order))


ORDERS = {
    # By rank: orders of axes that are overwritten whatever follows, and those only before an operator like `abs`.
    2: ({"01"}, set[str]()),
    3: ({"012", "201"}, {"102"}),
    4: ({"0123", "0312"}, {"0213", "2013", "3012"}),
}
SIZES = {2: (4, 8), 3: (4, 4, 8), 4: (2, 2, 4, 8)}


@pytest.mark.parametrize("rank", list(ORDERS))
def test_the_orders_in_which_a_join_is_overwritten(directml: DirectMLDevice, rank: int) -> None:
    """A copy is added in these orders, and in no other."""
    always, between = ORDERS[rank]
    for following, expected in ((aliasing.nothing, always), (aliasing.absolute, always | between)):
        overwritten, copied = set(), set()
        for order in itertools.permutations(range(rank)):
            case = shared(aliasing.join_with_an_input, SIZES[rank], order, aliasing.negate, following)
            found, added = outcomes(directml, case)
            overwritten |= {in_words(order)} if found != "right" else set()
            copied |= {in_words(order)} if added else set()
        assert (overwritten, copied) == (expected, expected), following.__name__


@pytest.mark.parametrize(
    ("reader", "expected"), [(aliasing.minus_from_input, ("y0, y1", 1)), (aliasing.plus_input, ("right", 0))]
)
@pytest.mark.parametrize(("sizes", "order"), [((1, 1, 4, 8), (0, 3, 2, 1)), ((2, 2, 4, 8), (0, 3, 1, 2))])
def test_the_last_input_of_a_given_order_decides(
    directml: DirectMLDevice, sizes: Sequence[int], order: Sequence[int], reader: Reader, expected: tuple[str, int]
) -> None:
    """The graph input before the join does not keep it from being overwritten, the one behind it does."""
    case = shared(aliasing.join_of_both, sizes, order, reader, others="readers before")
    assert outcomes(directml, case) == expected


def test_five_axes_are_overwritten_with_the_channels_last(directml: DirectMLDevice) -> None:
    sizes, wrong = (2, 2, 2, 2, 8), set()
    for order in ((0, 1, 2, 3, 4), (0, 4, 1, 2, 3), (0, 2, 1, 3, 4), (1, 2, 3, 4, 0), (1, 0, 2, 3, 4), (4, 3, 2, 1, 0)):
        case = shared(aliasing.join_with_an_input, sizes, order, aliasing.negate, aliasing.absolute)
        found, added = outcomes(directml, case)
        assert (found != "right") == bool(added), order
        wrong |= {in_words(order)} if found != "right" else set()
    assert wrong == {"01234", "04123"}


@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((1, 4, 8), (0, 2, 1)),
        ((4, 1, 8), (2, 0, 1)),
        ((1, 4, 4, 8), (1, 0, 2, 3)),
        ((4, 4, 8, 1), (1, 0, 3, 2)),
        ((1, 1, 1, 4, 8), (4, 0, 3, 1, 2)),
        ((1, 4, 4, 1, 8), (0, 2, 1, 4, 3)),
        ((1, 2, 1, 4, 8), (0, 1, 4, 2, 3)),
    ],
)
@pytest.mark.parametrize("reader", [aliasing.negate, aliasing.scaled, aliasing.plus_input])
def test_axes_of_size_1_do_not_matter(
    directml: DirectMLDevice, sizes: Sequence[int], order: Sequence[int], reader: Reader
) -> None:
    found, added = outcomes(directml, shared(aliasing.join_of_both, sizes, order, reader, aliasing.absolute))
    assert found == "right" or added


@pytest.mark.parametrize(
    "following", [aliasing.product, aliasing.back, aliasing.joined, aliasing.greatest], ids=lambda each: each.__name__
)
def test_nothing_is_copied_before_readers_that_need_an_order_of_their_own(
    directml: DirectMLDevice, following: Reader
) -> None:
    case = shared(aliasing.join_with_an_input, (2, 2, 4, 8), (0, 2, 1, 3), aliasing.negate, following)
    assert outcomes(directml, case) == ("right", 0)


def test_an_identity_that_reorders_is_left_out(directml: DirectMLDevice) -> None:
    """`abs` reads it in the order of the join again, and overwrites that."""
    case = shared(aliasing.join_with_an_input, (2, 2, 4, 8), (3, 2, 1, 0), aliasing.same, aliasing.back)
    assert outcomes(directml, case) == ("y1", 1)
    alone = shared(aliasing.join_of_one, (2, 2, 4, 8), (3, 2, 1, 0), aliasing.same, aliasing.back)
    outcomes(directml, alone)  # the join is removed, and the identity stays


@pytest.mark.parametrize("producer", [aliasing.states_of_rnn, aliasing.states_of_lstm, aliasing.states_of_gru])
def test_the_last_state_of_a_network_with_the_batch_first(directml: DirectMLDevice, producer: Producer) -> None:
    for following, added in ((aliasing.absolute, 1), (aliasing.softmax, 1), (aliasing.nothing, 0)):
        case = shared(producer, (4, 4, 8), (1, 0, 2), aliasing.negate, following)
        assert outcomes(directml, case) == ("y1" if added else "right", added)


# A copy with a ScaleBias reads and writes parts of a buffer wherever they begin.


@pytest.mark.parametrize(("dtype", "count"), [("float32", 5), ("float16", 15), ("int8", 15)])
def test_a_copy_with_a_scale_on_a_window(directml: DirectMLDevice, dtype: str, count: int) -> None:
    width = np.dtype(dtype).itemsize
    for offset in range(1, 16 // width + 2):
        case = shared(
            aliasing.slice_of_rows, (3, count), (0, 1), aliasing.scaled, others="nobody", offset=offset, dtype=dtype
        )
        assert outcomes(directml, case) == ("refused", 1), offset
        other = shared(
            aliasing.slice_of_rows, (3, count), (0, 1), aliasing.negate, others="nobody", offset=offset, dtype=dtype
        )
        is_aligned = offset * count * width % 16 == 0
        assert outcomes(directml, other) == (("refused", 1) if is_aligned else ("right", 0)), offset


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("maker", [aliasing.shifted, aliasing.turned_input, aliasing.difference])
def test_a_copy_into_a_join(directml: DirectMLDevice, maker: aliasing.Maker, dtype: str) -> None:
    """Also one that reorders an input."""
    for rows in range(4, 10):
        sizes = (rows, 3)
        case = shared(aliasing.join_of_both, sizes, (0, 1), aliasing.negate, dtype=dtype, maker=maker)
        is_aligned = rows // 2 * 3 * np.dtype(dtype).itemsize % 16 == 0
        is_written_there = maker is not aliasing.difference or is_aligned
        found, added = outcomes(directml, case)
        assert ((found != "right"), added) == (is_written_there, int(is_written_there)), sizes


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("fuse", [False, True])
def test_a_subscript_between_sums_and_products_with_numbers(fuse: bool) -> None:
    for offset in range(1, 6):
        graph = dg.Graph("window")
        graph.output("y", (graph.input("x", sizes=[8], dtype="float32") + 1)[offset : offset + 2] * 0.5)
        x = np.arange(8, dtype=np.float32)
        with graph.compile("directml:software", fuse=fuse) as executable:
            got = executable.run({"x": x})["y"]
        np.testing.assert_array_equal(got, (x[offset : offset + 2] + 1) / 2)


@pytest.mark.usefixtures("directml_path")
def test_a_part_of_the_enumeration() -> None:
    """`campaigns/aliasing.py` has the rest."""
    problems = [f"seed {seed}: {problem}" for seed in range(120) if (problem := aliasing.one_case(seed))]
    assert not problems
