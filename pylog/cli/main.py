"""Entry point of the `pylog` command: finds commands, and turns errors into one line and a status.

Status 0 only on success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C, 141 when the reader
of the output went away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from pylog import errors
from pylog.cli.context import Settings

COMMANDS: Final = {
    "topics": "pylog.cli.topics:topics",
    "produce": "pylog.cli.produce:produce",
    "consume": "pylog.cli.consume:consume",
    "cluster": "pylog.cli.cluster:cluster",
    "local": "pylog.cli.local:local",
    "paths": "pylog.cli.paths:paths",
}
COMMAND_GROUP: Final = "pylog.commands"
"""Entry points of this group are commands too: name -> click command."""


class _ReaderGoneError(Exception):
    """Whoever read our output has closed it."""


class CommandGroup(click.Group):
    """Commands by name, loaded when they are called."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click's, but a broken pipe comes out as itself; click would exit with status 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGoneError from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted({*COMMANDS, *_entry_points()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        home = COMMANDS.get(cmd_name)
        if home is not None:
            module, _, attribute = home.partition(":")
            command: Any = getattr(import_module(module), attribute)
        else:
            entry_point = _entry_points().get(cmd_name)
            if entry_point is None:
                return None
            command = entry_point.load()
        assert isinstance(command, click.Command)
        return command


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=COMMAND_GROUP)}


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-b",
    "--bootstrap-servers",
    envvar="PYLOG_BOOTSTRAP_SERVERS",
    metavar="HOST:PORT[,...]",
    help="Where the cluster is; also PYLOG_BOOTSTRAP_SERVERS. Default: 127.0.0.1:9092.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
@click.option(
    "--api-timeout",
    type=click.FloatRange(min=0.001),
    default=15.0,
    show_default=True,
    metavar="S",
    help="How long to wait for the cluster's answer, in seconds.",
)
@click.pass_context
def cli(
    ctx: click.Context, bootstrap_servers: str | None, as_json: bool, api_timeout: float
) -> None:
    """pylog: a streaming log for Spark and Python."""
    ctx.obj = Settings(bootstrap_servers or "127.0.0.1:9092", as_json, api_timeout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status comes back."""
    try:
        status = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="pylog",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:  # wrong usage: with the usage line
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, _ReaderGoneError):
        # Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (errors.PylogError, OSError) as error:
        click.echo(f"pylog: {_one_line(error)}", err=True)
        return 1
    return status if isinstance(status, int) else 0


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{error.name}: {text}" if isinstance(error, errors.PylogError) else text


if __name__ == "__main__":
    sys.exit(main())
