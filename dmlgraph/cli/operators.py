"""`dmlgraph operators`: lists the operators and their fields."""

from __future__ import annotations

import click

from dmlgraph.cli import reports
from dmlgraph.cli.completion import complete_operators
from dmlgraph.cli.options import with_json


@click.command()
@click.argument("name", required=False, shell_complete=complete_operators)
@with_json
def operators(name: str | None, as_json: bool) -> None:
    """List the operators, or show the fields of one.

    It shows the fields, their defaults, and data types and dimension counts by feature level.

    \b
    Examples:
      dmlgraph operators
      dmlgraph operators fill_value_sequence
    """
    from dmlgraph.operators.catalog.help import describe, overview
    from dmlgraph.operators.catalog.hints import operator_hint
    from dmlgraph.operators.catalog.registry import REGISTRY, find

    if name is None:
        if as_json:
            shown = [reports.operator(each, whole=False) for each in REGISTRY.values()]
            reports.print_report("operators", {"operators": shown})
        else:
            click.echo(overview())
        return
    operator = find(name.lower().removeprefix("dml_operator_"))
    if operator is None:
        raise click.BadParameter(f"'{name}' is not an operator ({operator_hint(name)})", param_hint="NAME")
    if as_json:
        reports.print_report("operators", {"operators": [reports.operator(operator, whole=True)]})
    else:
        click.echo(describe(operator))
