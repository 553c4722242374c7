"""Many machines, on Dask.  Needs the extra `distributed`: `pip install "dmlgraph[distributed]"`.

    with connect(workers=4):                       # processes of this machine, or connect("tls://scheduler:8786")
        y = map_blocks(graph, {"x": dask_array})["y"].mean().compute()

Its modules import the packages of the extra when they are used; nothing outside imports them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmlgraph.distributed.blocks import map_blocks as map_blocks
    from dmlgraph.distributed.chunks import Summary as Summary
    from dmlgraph.distributed.chunks import run_chunks as run_chunks
    from dmlgraph.distributed.cluster import connect as connect
    from dmlgraph.distributed.runner import Runner as Runner
    from dmlgraph.testing.sweeps import sweep as sweep

# The public names by module, which are imported when they are first used: as in `dmlgraph`.
_NAMES = {
    "Runner": "distributed.runner",
    "Summary": "distributed.chunks",
    "connect": "distributed.cluster",
    "map_blocks": "distributed.blocks",
    "run_chunks": "distributed.chunks",
    "sweep": "testing.sweeps",
}

if not TYPE_CHECKING:  # with `__getattr__` they would accept any name
    __all__ = list(_NAMES)

    def __getattr__(name: str) -> Any:
        """A public name, imported at first use."""
        if name in _NAMES:
            found = getattr(importlib.import_module(f"dmlgraph.{_NAMES[name]}"), name)
            return globals().setdefault(name, found)
        from dmlgraph.operators.catalog.hints import attribute_hint

        hint = attribute_hint(name, __all__)
        text = f"module '{__name__}' has no attribute '{name}'{f': {hint}' if hint else ''}"
        raise AttributeError(text, name=name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
