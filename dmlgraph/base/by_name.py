"""Functions of higher folders, found by their names when they are called.

A method such as `Graph.compile` offers what a higher folder does.  Its own folder can be read, tested and imported
without that one: nothing is imported from above, not even for types.
"""

from __future__ import annotations

import importlib
from typing import Any


def above(name: str, *arguments: Any, **keywords: Any) -> Any:
    """Calls `folder.module:function` of this package."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f"dmlgraph.{module}"), function)(*arguments, **keywords)
