"""RANDOM_GENERATOR: the bits of Philox 4x32-10, and the next state."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.nodes import operator_of
from support.operators.families import ShapedTests
from support.operators.harness import Case, add_node, array, build, case, refused, run_all
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.yaml import dumps

FULL = 0xFFFFFFFF
# Known answers of the authors' own tests (Random123): counter and key → four words.
ZEROS = ([0] * 6, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
ONES = ([FULL] * 6, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD])
PI = (
    [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0],
    [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
)


def philox(counter: int, key: tuple[int, int]) -> list[int]:
    """The four words of a 128-bit counter, as in the paper."""
    c = [counter >> shift & FULL for shift in (0, 32, 64, 96)]
    k = list(key)
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [right >> 32 ^ c[1] ^ k[0], right & FULL, left >> 32 ^ c[3] ^ k[1], left & FULL]
        k = [k[0] + 0x9E3779B9 & FULL, k[1] + 0xBB67AE85 & FULL]
    return c


def bits(why: str, state: list[int], gives: Any, new_state: list[int], **fields: Any) -> Case:
    words = array(gives, "uint32")
    return case(why, [state], (words, array(new_state, "uint32")), "uint32", sizes=list(words.shape), **fields)


class TestRandomGenerator(ShapedTests):
    operator = "random_generator"
    levels = "3.0: 4D U32 | 4.0: 1-8D U32"
    sample = bits("a matrix of words", [1, 0, 0, 0, 7, 8], [philox(1, (7, 8))[:2], philox(1, (7, 8))[2:]],
                  [2, 0, 0, 0, 7, 8])  # fmt: skip
    cases = (
        sample,
        bits("zeros", ZEROS[0], ZEROS[1], [1, 0, 0, 0, 0, 0]),
        bits("all ones: the counter wraps", ONES[0], ONES[1], [0, 0, 0, 0, FULL, FULL]),
        bits("digits of pi", PI[0], PI[1], [0x243F6A89, *PI[0][1:]]),
        bits("less than a block uses a whole one", ZEROS[0], ZEROS[1][:1], [1, 0, 0, 0, 0, 0]),
        bits("blocks of following counts", [5, 0, 0, 0, 1, 2],
             [*philox(5, (1, 2)), *philox(6, (1, 2)), philox(7, (1, 2))[0]], [8, 0, 0, 0, 1, 2]),
        bits("counts carry into the next words", [FULL, FULL, FULL, 4, 1, 2],
             [*philox((4 << 96) + (1 << 96) - 1, (1, 2)), *philox(5 << 96, (1, 2))], [1, 0, 0, 5, 1, 2]),
        bits("one word carries", [FULL, 3, 0, 0, 1, 2], [*philox((3 << 32) + FULL, (1, 2)), *philox(4 << 32, (1, 2))],
             [1, 4, 0, 0, 1, 2]),
        bits("the type is the only one there is", ZEROS[0], ZEROS[1], [1, 0, 0, 0, 0, 0], type="philox_4x32_10"),
    )  # fmt: skip

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * (rank - 1) + [6]], {"sizes": [1] * (rank - 1) + [5]}

    def test_state_may_be_left_out(self, device: DeviceName) -> None:
        (got,) = run_all("random_generator", [array(ZEROS[0], "uint32")], device=device, sizes=[4], output_state=False)
        assert got.tolist() == ZEROS[1]
        graph, _ = build("random_generator", [array(ZEROS[0], "uint32")], sizes=[4], output_state=False)
        assert operator_of(graph.node("node")).output_state is None
        with raises(dg.GraphError, "left-out", got="node.output_state") as caught:
            graph.value("node.output_state")
        assert caught.value.hint == "ask for it: output_state: true"

    def test_state_is_there_unless_left_out(self) -> None:
        for asked in ({}, {"output_state": True}, {"output_state": {"strides": [1]}}):
            graph, _ = build("random_generator", [array(ZEROS[0], "uint32")], sizes=[4], **asked)
            assert operator_of(graph.node("node")).output_state is not None

    def test_state_left_out_is_kept_in_files(self) -> None:
        graph, _ = build("random_generator", [array(ZEROS[0], "uint32")], sizes=[4], output_state=False)
        again = dg.loads(dumps(graph))
        assert operator_of(again.node("node")) == operator_of(graph.node("node"))

    def test_the_bits_themselves_cannot_be_left_out(self) -> None:
        error = refused("random_generator", [array(ZEROS[0], "uint32")], output=False)
        assert error.field == "output.sizes"
        error = refused("identity", [array([1], "int8")], output=False)
        assert (error.field, error.code) == ("output", "conflict")

    def test_going_on_gives_the_following_words(self, device: DeviceName) -> None:
        graph = dg.Graph("test")
        state = graph.input("state", sizes=[6], dtype="uint32")
        first, second = dg.random_generator(state, sizes=[6])
        again, _ = dg.random_generator(second, sizes=[6])
        graph.output("first", first)
        graph.output("again", again)
        got = graph.compile(device=device, fuse=False).run({"state": array(PI[0], "uint32")})
        counter = sum(word << 32 * place for place, word in enumerate(PI[0][:4]))
        words = [word for block in range(4) for word in philox(counter + block, (PI[0][4], PI[0][5]))]
        assert got["first"].tolist() == words[:6]
        assert got["again"].tolist() == words[8:14]

    def test_sizes_must_be_given(self) -> None:
        error = refused("random_generator", [array(ZEROS[0], "uint32")])
        expect(error, "undetermined", node="node", field="output.sizes")

    def test_state_has_six_words(self) -> None:
        for sizes in ([7], [2, 6], [6, 1]):
            error = refused("random_generator", [np.zeros(sizes, np.uint32)], sizes=[4])
            assert (error.field, error.got) == ("input_state.sizes", sizes)
            assert error.allowed == str([1] * (len(sizes) - 1) + [6])

    def test_types(self) -> None:
        error = refused("random_generator", [array(ZEROS[0], "uint32")], sizes=[4], type="mersenne_twister")
        assert (error.field, error.allowed) == ("type", "philox_4x32_10")

    def test_levels_of_the_output_state(self) -> None:
        graph = dg.Graph("test", target="3.0")
        add_node(graph, "random_generator", [graph.input("x", sizes=[1, 1, 1, 6], dtype="uint32")], sizes=[1, 1, 1, 4])
