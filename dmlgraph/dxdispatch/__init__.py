"""Models of DxDispatch, DirectML's own command-line runner: JSON in and out.

A model has resources (buffers and what they hold at first), dispatchables (operators with all fields of their C
struct) and commands (which dispatchable runs on which buffers, and what is printed), run in order.  Source: the
guide, the schema and the parser of DxDispatch in the repository microsoft/DirectML.
"""

from dmlgraph.dxdispatch.reader import load, loads
from dmlgraph.dxdispatch.writer import dumps, save

__all__ = ["dumps", "load", "loads", "save"]
