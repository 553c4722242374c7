"""`dmlgraph schema`: prints the JSON Schema of graph files."""

from __future__ import annotations

import json

import click

from dmlgraph.cli.output import print_document


@click.command()
def schema() -> None:
    """Print the JSON Schema of graph files, for editors.

    \b
    Example:
      dmlgraph schema > graph.schema.json
    """
    from dmlgraph.document.schema import schema as make_schema

    print_document(json.dumps(make_schema(), indent=2, ensure_ascii=False) + "\n")
