"""Graph files: reads and writes YAML."""

from dmlgraph.document.declarations import FORMAT_VERSION
from dmlgraph.document.reader import load, loads
from dmlgraph.document.writer import dumps, save

__all__ = ["FORMAT_VERSION", "dumps", "load", "loads", "save"]
