"""`dmlgraph schema`: prints the JSON Schema of graph files."""

from __future__ import annotations

import json
import pathlib

import click

from dmlgraph.cli.options import with_output, writing
from dmlgraph.cli.output import print_document
from dmlgraph.files.whole import write_text


@click.command()
@with_output("Write it to a file, such as dmlgraph.schema.json, to which 'dmlgraph new' ties a graph file.")
def schema(output: pathlib.Path | None) -> None:
    """Print the JSON Schema of graph files, for editors.

    An editor completes and checks a graph file, and shows the meanings of operators and fields, if the first line of
    the file is '# yaml-language-server: $schema=dmlgraph.schema.json' and that file lies beside it.

    \b
    Examples:
      dmlgraph schema > graph.schema.json
      dmlgraph schema -o dmlgraph.schema.json
    """
    from dmlgraph.formats.yaml.schema import dumps
    from dmlgraph.formats.yaml.schema import schema as make_schema

    if output is None:
        print_document(json.dumps(make_schema(), indent=2, ensure_ascii=False) + "\n")
        return
    with writing(output):
        write_text(output, dumps())
