"""`dmlgraph directml`: fetches and finds Microsoft's library."""

from __future__ import annotations

import pathlib
import sys

import click

from dmlgraph.cli.parameter_types import FILE


@click.group()
def directml() -> None:
    """Fetch Microsoft's DirectML library, or show which one is used.

    \b
    Example:
      dmlgraph directml install
    """


@directml.command()
@click.option("--from", "wheel", type=FILE, help="A local wheel, for machines without a network.")
def install(wheel: pathlib.Path | None) -> None:
    """Fetch DirectML into your cache.

    The version is pinned and its hash checked.  The library is Microsoft's, under the MIT licence.  For Linux it comes
    from the wheel of torch-directml (DirectML 1.13), for Windows from that of onnxruntime-directml (DirectML 1.15).

    A system without Direct3D 12 also needs llvmlite.  If it is missing, pip installs it where dmlgraph is installed.
    With --from nothing is downloaded: a message gives the command that installs llvmlite.

    At the end a small graph runs on DirectML.  If it fails, the exit status is 1, but the library stays installed.

    \b
    Examples:
      dmlgraph directml install
      dmlgraph directml install --from torch_directml-0.2.5.dev240914-cp311-cp311-manylinux2010_x86_64.whl
    """
    from dmlgraph.devices.directml import install as installer
    from dmlgraph.devices.directml import ready

    if ready.bring_llvmlite(download=wheel is None):
        click.echo("installed: llvmlite")
    with click.progressbar(length=1, label="DirectML", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        installed = installer.install(wheel, progress=progress)
    click.echo(f"{'already installed' if installed.already else 'installed'}: {installed.path}")
    click.echo(f"licence: {installed.licence}")
    device = ready.device()
    ready.prove(device)
    click.echo(f"works: a graph ran on {device}")


@directml.command()
def info() -> None:
    """Show which DirectML and which Direct3D 12 are used.

    It prints the files that are loaded and, on Windows, their versions.

    \b
    Example:
      dmlgraph directml info
    """
    from dmlgraph.base.errors import DmlGraphError
    from dmlgraph.devices import list_devices
    from dmlgraph.devices.directml import library
    from dmlgraph.devices.directml.runtime import load_runtime

    found = library.find_directml()
    direct3d = library.find_direct3d()
    lister = "DXCore"
    try:
        loaded = load_runtime().library
        files, lister = loaded.files, loaded.lists_by
    except DmlGraphError:  # the list of devices says why
        files = [(path, "") for path in (found.path, direct3d.d3d12, direct3d.dxcore)]
    origins = [found.origin, "the software adapter of dmlgraph" if direct3d.software else "", ""]
    for name, (path, version), origin in zip(("DirectML", "Direct3D 12", lister), files, origins, strict=True):
        click.echo(f"{name + ':':<12} {path}{version and f', version {version}'}{origin and f' ({origin})'}")
    for device in list_devices():
        if device.name.startswith("directml"):
            click.echo(f"{device.name}: {f'missing: {device.missing}' if device.missing else device.description}")
