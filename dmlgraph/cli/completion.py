"""`dmlgraph completion`: completion scripts for shells, and the completions of devices and operators."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from dmlgraph.operators.catalog.registry import OPERATORS

SHELLS = ("bash", "zsh", "fish", "powershell")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell.

    It completes commands, options, operators, devices and files.

    \b
    Examples:
      source <(dmlgraph completion bash)
      dmlgraph completion bash > ~/.local/share/bash-completion/completions/dmlgraph
      dmlgraph completion zsh > "${fpath[1]}/_dmlgraph"
      dmlgraph completion fish > ~/.config/fish/completions/dmlgraph.fish
      dmlgraph completion powershell >> $PROFILE
    """
    cls = get_completion_class(shell)
    assert cls is not None
    click.echo(cls(ctx.find_root().command, {}, "dmlgraph", "_DMLGRAPH_COMPLETE").source())


def complete_devices(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of devices, without a look at which adapters there are: that takes as long as opening them."""
    from dmlgraph.devices import FIXED_NAMES
    from dmlgraph.devices.names import NAMES

    return [CompletionItem(name, help=NAMES[name]) for name in FIXED_NAMES if name.startswith(incomplete)]


def complete_operators(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The operators by their short names."""
    return [CompletionItem(name) for name in OPERATORS if name.startswith(incomplete.lower())]
