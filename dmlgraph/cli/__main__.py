"""`python -m dmlgraph.cli`."""

from dmlgraph.cli.command import main

main()
