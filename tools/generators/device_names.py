"""Makes dmlgraph/devices/names.py from the modules of the devices.

Editors complete the names in `Graph.compile`, shells after `--device`; neither has to import a device for that.
"""

from __future__ import annotations

import importlib
import pathlib
import pkgutil

import dmlgraph.devices as package
from dmlgraph.devices.device import Family

PAGE = pathlib.Path(__file__).parents[2] / "dmlgraph" / "devices" / "names.py"

HEADER = '''"""The names of devices.

Made by tools/generate.py from the modules of the devices: change those, not this file.
"""

from typing import Literal

'''


def families() -> dict[str, Family]:
    """The families of the modules next to the generated file, single devices first."""
    names = (each.name for each in pkgutil.iter_modules(package.__path__))
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    found = {name: module.FAMILY for name, module in modules.items() if hasattr(module, "FAMILY")}
    return dict(sorted(found.items(), key=lambda each: (len(each[1].names) > 1, each[0])))


def page() -> str:
    """The text of names.py."""
    names = {"auto": "the best device of this machine"}
    for module, family in families().items():
        wrong = [name for name in family.names if name.partition(":")[0] != module]
        if wrong:
            raise ValueError(f"the names of {module}.FAMILY must begin with '{module}': {wrong}")
        names |= family.names
    lines = ["# What `Graph.compile` takes; an index may be that of any adapter that `dmlgraph devices` lists."]
    lines += ["DeviceName = Literal[", *(f'    "{name}",' for name in names), "]", ""]
    lines += ["# Each name with what it stands for.", "NAMES: dict[str, str] = {"]
    lines += [*(f'    "{name}": "{phrase}",' for name, phrase in names.items()), "}"]
    return HEADER + "\n".join(lines) + "\n"


def files() -> dict[pathlib.Path, str]:
    return {PAGE: page()}
