"""Tensors are allocated in few buffers, none larger than Direct3D 12 can bind."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

NATIVE = Path(__file__).resolve().parents[2] / "native"
LIMIT = 2**32 - 2**16

PROGRAM = """
#include "directml/memory_plan.h"
#include <iostream>
int main() {  // a line of numbers in (limit, sizes), the plan out
    std::uint64_t count, limit;
    while (std::cin >> count >> limit) {
        std::vector<std::uint64_t> sizes(count);
        for (auto& size : sizes) std::cin >> size;
        const dmlgraph::MemoryPlan plan = dmlgraph::plan_memory(sizes, limit);
        std::cout << plan.buffers.size();
        for (auto bytes : plan.buffers) std::cout << ' ' << bytes;
        for (const auto& tensor : plan.tensors)
            std::cout << ' ' << tensor.buffer << ' ' << tensor.offset << ' ' << tensor.bytes;
        std::cout << std::endl;
    }
}
"""


class Planner:
    """plan_memory in a process that runs for the whole session."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def plan(self, sizes: list[int], limit: int = LIMIT) -> tuple[list[int], list[tuple[int, ...]]]:
        """The bytes of each buffer; (buffer, offset, bytes) of each tensor."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(len(sizes), limit, *sizes, file=self.process.stdin, flush=True)
        count, *numbers = map(int, self.process.stdout.readline().split())
        places = numbers[count:]
        return numbers[:count], [tuple(places[i : i + 3]) for i in range(0, len(places), 3)]


@pytest.fixture(scope="session")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("plan")
    (folder / "main.cpp").write_text(PROGRAM, encoding="utf-8")
    sources = [folder / "main.cpp", NATIVE / "directml" / "memory_plan.cpp"]
    subprocess.run([compiler, "-std=c++20", f"-I{NATIVE}", *sources, "-o", folder / "plan"], check=True)
    planner = Planner(folder / "plan")
    yield planner
    planner.process.communicate()  # ends its input


def test_small_tensors_share_a_buffer(planner: Planner) -> None:
    assert planner.plan([4, 300, 16]) == ([784], [(0, 0, 4), (0, 256, 300), (0, 768, 16)])


def test_nothing_needs_nothing(planner: Planner) -> None:
    assert planner.plan([]) == ([], [])


def test_a_buffer_is_filled_to_the_last_byte(planner: Planner) -> None:
    assert planner.plan([256, LIMIT - 256]) == ([LIMIT], [(0, 0, 256), (0, 256, LIMIT - 256)])
    assert planner.plan([256, LIMIT - 255]) == ([256, LIMIT - 255], [(0, 0, 256), (1, 0, LIMIT - 255)])


def test_large_tensors_have_buffers_of_their_own(planner: Planner) -> None:
    gib = 1 << 30
    buffers, places = planner.plan([3 * gib, 3 * gib, gib // 2])
    assert buffers == [3 * gib, 3 * gib + gib // 2]
    assert places == [(0, 0, 3 * gib), (1, 0, 3 * gib), (1, 3 * gib, gib // 2)]


def test_a_tensor_beyond_the_limit_is_alone(planner: Planner) -> None:
    buffers, places = planner.plan([4, 2**40, 4])
    assert buffers[1] == 2**40
    assert [place[0] for place in places] == [0, 1, 2]


@given(st.lists(st.integers(4, 5000), max_size=50), st.integers(5000, 20_000))
def test_tensors_are_aligned_apart_and_within_the_limit(planner: Planner, sizes: list[int], limit: int) -> None:
    buffers, places = planner.plan(sizes, limit)
    assert [place[2] for place in places] == sizes
    assert all(bytes_ <= limit for bytes_ in buffers)
    ends = [0] * len(buffers)
    for buffer, offset, size in places:
        assert offset % 256 == 0
        assert offset >= ends[buffer]
        ends[buffer] = offset + size
    assert ends == buffers
