"""The command `dmlgraph`."""
