"""Kernels give the same bits on every system: digests of their results are recorded.

`python tests/native/test_same_bits.py` records them anew, which is right only if a change of results is meant.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import platform
import sys
from typing import Any

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from native.test_cpu_kernels import KERNELS, LEVELS, OPCODES, apply, immediates_of, operand_types

from dmlgraph.base.tensor import DataType

Array = np.ndarray[Any, Any]

RECORD = pathlib.Path(__file__).with_name("same_bits.json")
COUNT = 3000
FUSED_ON_BASELINE = platform.machine().lower() in ("aarch64", "arm64")


def arithmetic(level: str) -> str:
    """Whether the kernels of a level multiply and add in one rounding: functions that are approximated depend on it."""
    return "fused" if level != "baseline" or FUSED_ON_BASELINE else "separate"


def operand_of(dtype: DataType, seed: int) -> Array:
    """Any bits, then numbers of usual sizes; made of integers, so that no system's functions are in it."""
    random = np.random.default_rng(seed)
    anything = np.frombuffer(random.bytes(COUNT // 2 * dtype.numpy.itemsize), dtype.numpy)
    low, high = (-(1 << 20), 1 << 20) if dtype.is_float else dtype.range
    usual = random.integers(max(low, -(1 << 20)), min(high, 1 << 20), COUNT // 2)
    return np.concatenate([anything, (usual / 2**16 if dtype.is_float else usual).astype(dtype.numpy)])


def digest(opcode: str, level: str) -> str:
    """Of the results of all kernels of an opcode; every NaN counts as the same."""
    found = hashlib.sha256()
    for _, operand, result in (kernel for kernel in KERNELS if kernel[0] == opcode):
        inputs = [operand_of(dtype, seed) for seed, dtype in enumerate(operand_types(opcode, operand, result))]
        if opcode in ("DIVIDE", "MODULUS_TRUNCATE", "MODULUS_FLOOR") and not operand.is_float:
            inputs[1] = np.where(inputs[1] == 0, 1, inputs[1]).astype(operand.numpy)
        out = apply(
            opcode, inputs, operand, result, immediates=immediates_of(opcode, operand), level=level, count=COUNT
        )
        if result.is_float:
            out[np.isnan(out)] = np.nan
        found.update(out.tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("opcode", OPCODES)
def test_every_system_gives_the_same_bits(opcode: str, level: str) -> None:
    assert digest(opcode, level) == json.loads(RECORD.read_text("utf-8"))[opcode][arithmetic(level)]


if __name__ == "__main__":
    record = {
        opcode: {arithmetic(level): digest(opcode, level) for level in ("baseline", LEVELS[-1])} for opcode in OPCODES
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8", newline="\n")
