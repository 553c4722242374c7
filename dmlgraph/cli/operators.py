"""`dmlgraph operators`: lists the operators and their fields."""

from __future__ import annotations

import click

from dmlgraph.cli.completion import complete_operators


@click.command()
@click.argument("name", required=False, shell_complete=complete_operators)
def operators(name: str | None) -> None:
    """List the operators, or show the fields of one.

    It shows the fields, their defaults, and data types and dimension counts by feature level.

    \b
    Examples:
      dmlgraph operators
      dmlgraph operators fill_value_sequence
    """
    from dmlgraph.operators.catalog.help import describe, overview
    from dmlgraph.operators.catalog.hints import operator_hint
    from dmlgraph.operators.catalog.registry import find

    if name is None:
        click.echo(overview())
        return
    operator = find(name.lower().removeprefix("dml_operator_"))
    if operator is None:
        raise click.BadParameter(f"'{name}' is not an operator ({operator_hint(name)})", param_hint="NAME")
    click.echo(describe(operator))
