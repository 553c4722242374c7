"""The rules of the passes, which make a graph smaller and faster before it is lowered, and keep its results.

A module has the rules of one family; every rule states its effect on the numbers.  `dmlgraph.compiler.target` says
which of them run where, and `dmlgraph.compiler.pipeline` runs them.
"""
