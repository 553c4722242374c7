"""`dmlgraph devices`: lists where graphs can run here."""

from __future__ import annotations

import click


@click.command()
def devices() -> None:
    """List the devices: what each can do, or why it is missing.

    \b
    Example:
      dmlgraph devices
    """
    from dmlgraph.devices import choose, list_devices

    automatic = choose("auto")
    for device in list_devices():
        state = f"missing: {device.missing}" if device.missing else device.description
        click.echo(f"{device.name:<20} {state}")
    click.echo(f"{'auto':<20} takes '{automatic.device.name}' here: {automatic.reason.removeprefix('auto: ')}")
