"""`pylog completion`: the script that lets a shell complete commands, options and topics."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes `pylog` in SHELL.

    Topics are completed too, when the cluster of PYLOG_BOOTSTRAP_SERVERS (or 127.0.0.1:9092)
    answers within a second.

    \b
    source <(pylog completion bash)                                   now, in bash
    pylog completion zsh > "${fpath[1]}/_pylog"                       from now on, in zsh
    pylog completion fish > ~/.config/fish/completions/pylog.fish     from now on, in fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root().command
    # Not source(): for bash that starts a shell only to warn of versions before 4.4.
    made = kind(root, {}, "pylog", "_PYLOG_COMPLETE")
    click.echo(made.source_template % made.source_vars())
