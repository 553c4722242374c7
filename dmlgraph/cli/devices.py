"""`dmlgraph devices`: lists where graphs can run here."""

from __future__ import annotations

import click

from dmlgraph.cli import reports
from dmlgraph.cli.options import with_json
from dmlgraph.cli.reports import print_report


@click.command()
@with_json
def devices(as_json: bool) -> None:
    """List the devices: what each can do, or why it is missing.

    \b
    Example:
      dmlgraph devices
    """
    from dmlgraph.devices import choose, list_devices

    automatic = choose("auto")
    if as_json:
        print_report("devices", reports.devices(list_devices(), automatic))
        return
    for device in list_devices():
        state = f"missing: {device.missing}" if device.missing else device.description
        click.echo(f"{device.name:<20} {state}")
    click.echo(f"{'auto':<20} takes '{automatic.device.name}' here: {automatic.reason.removeprefix('auto: ')}")
