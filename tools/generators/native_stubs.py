"""The last part of dmlgraph/_native.pyi, the parameters of native steps, from the module itself.

tests/native/test_stubs.py compares the other stubs with the module.
"""

from __future__ import annotations

import inspect
import pathlib
import re
from typing import Any

from dmlgraph import _native

PAGE = pathlib.Path(__file__).parents[2] / "dmlgraph" / "_native.pyi"

LONGEST = 120  # characters of a line
MARK = "# Made by tools/generators/native_stubs.py from the module.\n\n"
_TYPES = {
    "typing.SupportsInt | typing.SupportsIndex": "int",
    "typing.SupportsFloat | typing.SupportsIndex": "float",
    "collections.abc.": "",
    "numpy.ndarray": "np.ndarray",
    "dmlgraph._native.": "",
}


def plain(annotation: str) -> str:
    """An annotation of pybind11 as in the stubs."""
    for given, wanted in _TYPES.items():
        annotation = annotation.replace(given, wanted)
    return annotation


def parameters(documentation: str) -> str:
    """What is between the parentheses of a signature of pybind11, without self."""
    found = re.search(r"\((.*)\) -> ", plain(documentation))
    assert found is not None, documentation
    return re.sub(r"^(self|arg0): [\w.]+(, )?", "", found[1])


def _class(step: Any) -> list[str]:
    given = parameters(step.__init__.__doc__ or "")
    signature = f"        def __init__(self, {given}) -> None: ..."
    if len(signature) > LONGEST:
        lines = ["        def __init__(", "            self,", *(f"            {each}," for each in given.split(", "))]
        lines += ["        ) -> None: ..."]
    else:
        lines = [signature]
    fields = [(name, found) for name, found in vars(step).items() if isinstance(found, property)]
    results = {name: (found.fget.__doc__ or "").strip().split(" -> ")[1] for name, found in fields}
    return [
        f"    class {step.__name__}(Step):",
        *(f"        {name}: Final[{result}]" for name, result in results.items()),
        *lines,
    ]


def page() -> str:
    """The text of the stubs: what is written by hand, then the steps."""
    by_hand = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    steps = _native.cpu_steps
    lines = ["class cpu_steps:  # noqa: N801 - a submodule", f'    """{steps.__doc__}"""', ""]
    lines += ["    class Step:", f'        """{steps.Step.__doc__}"""', "", "        name: ClassVar[str]"]
    found = [each for each in vars(steps).values() if inspect.isclass(each) and each is not steps.Step]
    for step in sorted(found, key=lambda each: each.__name__):
        lines += ["", *_class(step)]
    return by_hand + MARK + "\n".join(lines) + "\n"


def files() -> dict[pathlib.Path, str]:
    return {PAGE: page()}
