"""`python -m dmlgraph.cli`."""

from dmlgraph_command import main

main()
