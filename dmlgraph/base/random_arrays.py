"""Random numbers for tensors of any data type and sizes."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from dmlgraph.base.tensor import TensorDesc

Array = np.ndarray[Any, Any]

SEED = 0
WHOLE_NUMBERS = 8  # random integers are below this: every data type holds them, and most are legal as indices


def random_array(
    desc: TensorDesc, name: str = "", seed: int = SEED, between: tuple[float, float] | None = None
) -> Array:
    """Random numbers, the same for the same arguments.

    Floats are normally distributed and integers from 0 to 7; `between` two numbers, floats are uniformly distributed,
    and integers include both.
    """
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if between is None:
        numbers = (
            generator.standard_normal(desc.sizes)
            if desc.dtype.is_float
            else generator.integers(WHOLE_NUMBERS, size=desc.sizes)
        )
    elif desc.dtype.is_float:
        low, high = map(float, between)
        numbers = low + (high - low) * generator.random(desc.sizes)
    else:
        low, high = map(int, between)
        kind = np.uint64 if high > np.iinfo(np.int64).max else np.int64
        numbers = generator.integers(low, high, size=desc.sizes, dtype=kind, endpoint=True)
    return numbers.astype(desc.dtype.numpy)
