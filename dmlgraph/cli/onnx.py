"""`dmlgraph onnx`: what is read of ONNX, and what is written as ONNX."""

from __future__ import annotations

import click


@click.group()
def onnx() -> None:
    """Show what of ONNX is read and written.

    \b
    Examples:
      dmlgraph onnx operators
    """


@onnx.command()
@click.argument("name", required=False)
@click.option("--export", is_flag=True, help="List dmlgraph's operators, and what export makes of them.")
def operators(name: str | None, export: bool) -> None:
    """List the ONNX operators that are read.

    It shows their opsets, and what they become.  With NAME only those whose names hold it.

    \b
    Examples:
      dmlgraph onnx operators
      dmlgraph onnx operators pool
      dmlgraph onnx operators pool --export
    """
    from dmlgraph.base.tables import lines
    from dmlgraph.formats.onnx import need

    need()
    from dmlgraph.formats.onnx.coverage import covered, exported

    if export:
        head, rows = ["operator", "becomes"], [[row.operator, row.how] for row in exported()]
    else:
        head, rows = ["operator", "opsets", "becomes"], [[row.title, row.opsets, row.how] for row in covered()]
    found = [row for row in rows if name is None or name.lower() in row[0].lower()]
    if not found:
        raise click.BadParameter(
            f"no operator that is {'written' if export else 'read'} has '{name}' in its name", param_hint="NAME"
        )
    click.echo("\n".join(lines([head, *found], "<" * len(head))))
