"""Models of DxDispatch, DirectML's command-line runner: reads and writes JSON.

A model has resources (buffers and their initial content), dispatchables (operators with all fields of their C struct)
and commands (which dispatchable runs on which buffers, and what is printed), which run in order.  Source: the guide,
the schema and the parser of DxDispatch in the repository microsoft/DirectML.
"""

from dmlgraph.formats.dxdispatch.reader import load, loads
from dmlgraph.formats.dxdispatch.reader import load as load_dxdispatch
from dmlgraph.formats.dxdispatch.writer import dumps, save
from dmlgraph.formats.dxdispatch.writer import save as save_dxdispatch

__all__ = ["dumps", "load", "load_dxdispatch", "loads", "save", "save_dxdispatch"]  # the long names are the package's
