"""C++ for Direct3D 12: a class that records a graph on a command list, its weights, and a program that runs it.

The files are templates in `templates/`, filled with tables.  `graph.cpp` describes the graph, `recording.cpp` records
what is described: the only link between them is `description.h`.
"""

from dmlgraph.formats.cpp.writer import save

__all__ = ["save"]
