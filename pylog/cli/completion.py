"""`pylog completion`: the script that lets a shell complete commands, options and topics."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pylog.cli.context import Settings, print_json, with_settings


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@with_settings
def completion(settings: Settings, shell: str) -> None:
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
    root = click.get_current_context().find_root().command
    # Not source(): for bash that starts a shell only to warn of versions before 4.4.
    made = kind(root, {}, "pylog", "_PYLOG_COMPLETE")
    script = made.source_template % made.source_vars()
    if settings.as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
