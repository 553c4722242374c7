"""What the tests of functions share that DirectML's shaders approximate: close to the true values, not to the bit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from .checks import OperatorTests
from .harness import Array, Case, assert_same


class ApproximatedTests(OperatorTests):
    """The reference is exact; float32 of a device is within `error` of it, but for rows it is known to give otherwise.

    Attributes:
        error: how far DirectML's float32 result may be off, absolute.
        differing: row → what DirectML gives instead.
    """

    error: ClassVar[float]
    differing: ClassVar[dict[str, str]] = {}

    def assert_close(self, got: Array, expected: Array, device: str) -> None:
        if device != "directml:software" or expected.dtype != np.float32:
            super().assert_close(got, expected, device)
            return
        finite = np.isfinite(expected)
        assert_same(got[~finite], expected[~finite])
        np.testing.assert_allclose(got[finite], expected[finite], rtol=0, atol=self.error)

    def test_gives(self, case: Case, device: str) -> None:
        if device == "directml:software" and case.why in self.differing:
            with pytest.raises(AssertionError):  # not any more? then the row is to be taken out of `differing`
                super().test_gives(case, device)
            return
        super().test_gives(case, device)
