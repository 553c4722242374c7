"""`dmlgraph onnx`: what is read of ONNX."""

from __future__ import annotations

import click


@click.group()
def onnx() -> None:
    """Show what of ONNX is read.

    \b
    Examples:
      dmlgraph onnx operators
    """


@onnx.command()
@click.argument("name", required=False)
def operators(name: str | None) -> None:
    """List the ONNX operators that are read.

    It shows their opsets, and what they become.  With NAME only those whose names hold it.

    \b
    Examples:
      dmlgraph onnx operators
      dmlgraph onnx operators pool
    """
    from dmlgraph.onnx import need
    from dmlgraph.table import lines

    need()
    from dmlgraph.onnx.coverage import covered

    found = [row for row in covered() if name is None or name.lower() in row.operator.lower()]
    if not found:
        raise click.BadParameter(f"no operator that is read has '{name}' in its name", param_hint="NAME")
    rows = [["operator", "opsets", "becomes"], *([row.title, row.opsets, row.how] for row in found)]
    click.echo("\n".join(lines(rows, "<<<")))
