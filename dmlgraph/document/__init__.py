"""Graph files: YAML in and out."""

from dmlgraph.document.reader import FORMAT_VERSION, load, loads
from dmlgraph.document.writer import dumps, save

__all__ = ["FORMAT_VERSION", "dumps", "load", "loads", "save"]
