"""Graph files: reads and writes YAML."""

from dmlgraph.document.reader import FORMAT_VERSION, load, loads
from dmlgraph.document.writer import dumps, save

__all__ = ["FORMAT_VERSION", "dumps", "load", "loads", "save"]
