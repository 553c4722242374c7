"""`python -m dmlgraph.cli`."""

from dmlgraph.command import main

main()
