"""`python -m dmlgraph_command`."""

from dmlgraph_command import main

main()
