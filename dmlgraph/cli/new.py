"""`dmlgraph new`: writes a commented file to start from."""

from __future__ import annotations

import importlib.resources
import pathlib

import click

from dmlgraph.cli.options import writing
from dmlgraph.cli.parameter_types import NEW_FILE
from dmlgraph.files.whole import check_name

SCHEMA = "dmlgraph.schema.json"  # as in dmlgraph.formats.yaml.schema, which is slow to import
TEMPLATES = {
    "ramp": "fills and element-wise operators",
    "dense": "two dense layers with weights",
    "convolution": "a filter over a picture",
}


@click.command()
@click.argument("file", type=NEW_FILE, default="graph.yaml")
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    default="ramp",
    show_default=True,
    help="; ".join(f"{name}: {what}" for name, what in TEMPLATES.items()) + ".",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--no-schema", is_flag=True, help="Do not tie the file to a schema, and do not write one.")
def new(file: pathlib.Path, template: str, force: bool, no_schema: bool) -> None:
    """Write a commented graph file to start from.

    The file is valid and runs.  FILE is graph.yaml by default.  Its first line ties it to dmlgraph.schema.json, which
    is written beside it: an editor with a YAML language server completes and checks the file, and shows the meanings
    of operators and fields, without a network.

    \b
    Examples:
      dmlgraph new
      dmlgraph new layers.yaml --template dense
    """
    text = importlib.resources.files("dmlgraph.cli").joinpath("templates", f"{template}.yaml").read_text("utf-8")
    tie = "" if no_schema else f"# yaml-language-server: $schema={SCHEMA}\n"
    try:
        with writing(file):
            check_name(file)
            with file.open("wb" if force else "xb") as stream:
                stream.write((tie + text.replace("FILE", str(file))).encode(errors="backslashreplace"))
    except FileExistsError:
        raise click.UsageError(f"'{file}' exists: use --force to replace it, or another name") from None
    if tie and file.is_file():
        from dmlgraph.formats.yaml.schema import write_beside

        with writing(file.parent / SCHEMA):
            write_beside(file)
    click.echo(f"{file}: written; now: dmlgraph run {file}")
