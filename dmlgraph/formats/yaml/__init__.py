"""Graph files: reads and writes YAML."""

from dmlgraph.formats.yaml.declarations import FORMAT_VERSION
from dmlgraph.formats.yaml.reader import load, loads
from dmlgraph.formats.yaml.writer import dumps, save

__all__ = ["FORMAT_VERSION", "dumps", "load", "loads", "save"]
