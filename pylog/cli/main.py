"""Entry point of the `pylog` command: finds commands, and turns errors into one line and a status.

Status 0 only on success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C, 141 when the reader
of the output went away, 143 after SIGTERM (`__main__.py`).
"""

from __future__ import annotations

import difflib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import click

from pylog import errors
from pylog.cli import failures
from pylog.cli.context import DEFAULT_SERVERS, WAIT_S, Seconds, Settings

COMMANDS: Final = {
    "bench": ("pylog.cli.bench:bench", "Measure producing, consuming, and the way between."),
    "cluster": ("pylog.cli.cluster:cluster", "Look at the cluster and its brokers."),
    "completion": ("pylog.cli.completion:completion", "Print a script that completes words."),
    "configs": ("pylog.cli.configs:configs", "Describe and alter settings of topics and brokers."),
    "console": ("pylog.console.command:console", "Serve web pages of the cluster."),
    "consume": ("pylog.cli.consume:consume", "Print the records of a topic."),
    "docs": ("pylog.cli.docs:docs", "Print where documentation and notebooks are, or show them."),
    "features": ("pylog.cli.features:features", "Look at what all brokers support, and raise it."),
    "groups": ("pylog.cli.groups:groups", "Look at groups, set their offsets, delete them."),
    "leaders": ("pylog.cli.leaders:leaders", "Elect leaders of partitions."),
    "local": ("pylog.cli.local:local", "Run a cluster on this machine, without Spark."),
    "paths": ("pylog.cli.paths:paths", "Print where broker_app.py and spark-conf are."),
    "produce": ("pylog.cli.produce:produce", "Send lines of a file or of standard input."),
    "reassign": ("pylog.cli.reassign:reassign", "Move partitions to other brokers."),
    "sinks": ("pylog.cli.sinks:sinks", "Look at sinks of queries, abort and forget them."),
    "top": ("pylog.cli.top:top", "Watch topics, groups and their lag."),
    "topics": ("pylog.cli.topics:topics", "Create, list, describe, alter and delete topics."),
    "transactions": (
        "pylog.cli.transactions:transactions",
        "Look at transactions, and abort them.",
    ),
}
"""Name -> where it is, and a line for `pylog --help`, which imports none of them."""

NOT_OFFERED: Final[Mapping[str, str]] = {
    "acls": "authorization is not offered yet",
    "adopt": "to take over the directories of an Apache Kafka cluster is not offered yet",
    "mirror": "to copy from an Apache Kafka cluster is not offered yet",
    "quotas": "quotas are not offered yet",
}
"""Commands to come: they say so, and nothing else lists them."""

WITH_BROKERS: Final = ("dump",)
"""Commands that come with brokers, that is, with pylog-spark."""

COMMAND_GROUP: Final = "pylog.commands"
"""Entry points of this group are commands too: name -> click command."""
DEBUG_VARIABLE: Final = "PYLOG_DEBUG"


class _ReaderGoneError(Exception):
    """The reader of our output has closed it."""


class _ClosedInput(io.RawIOBase):
    """The input that `<&-` leaves: an error for a command that reads it, and nothing for all
    others.
    """

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: object) -> int:
        raise OSError("standard input is closed")


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line for each command, without loading it where that can be avoided."""
        rows = []
        for name in self.list_commands(ctx):
            if name in COMMANDS:
                rows.append((name, COMMANDS[name][1]))
            elif (command := self.get_command(ctx, name)) is not None:
                rows.append((name, command.get_short_help_str(80)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name][0].partition(":")
            command: Any = getattr(import_module(module), attribute)
        elif cmd_name in NOT_OFFERED:
            raise errors.NotOffered(f"pylog {cmd_name}: {NOT_OFFERED[cmd_name]}")
        else:
            entry_point = _entry_points().get(cmd_name)
            if entry_point is None and cmd_name in WITH_BROKERS:
                raise errors.ResourceNotFound(
                    f"pylog {cmd_name} comes with pylog-spark, which is not installed"
                )
            if entry_point is None:
                return None
            command = entry_point.load()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's; the error for an unknown command names the nearest one."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=COMMAND_GROUP)}


def _version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from pylog.distribution import version

        click.echo(f"pylog {version()}")
        ctx.exit()


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-b",
    "--bootstrap-servers",
    envvar="PYLOG_BOOTSTRAP_SERVERS",
    metavar="HOST:PORT[,...]",
    help=f"Where the cluster is; also PYLOG_BOOTSTRAP_SERVERS. Default: {DEFAULT_SERVERS}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
@click.option(
    "--api-timeout",
    type=Seconds(min=0.001),
    default=15.0,
    show_default=True,
    metavar="S",
    help="How long to wait for the cluster's answer, in seconds.",
)
@click.option(
    "--wait",
    type=Seconds(min=0),
    default=WAIT_S,
    show_default=True,
    metavar="S",
    help="How long to try again while nothing listens at the servers' addresses, in seconds; where "
    "given, also how long `topics create` waits for brokers of a cluster that starts.",
)
@click.option(
    "--routing",
    type=click.Choice(["direct", "gateway"]),
    envvar="PYLOG_CLIENT_ROUTING",
    default="direct",
    show_default=True,
    help="gateway: reach brokers through the driver's address only; also PYLOG_CLIENT_ROUTING.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
              help="Print the version.")  # fmt: skip
@click.pass_context
def cli(
    ctx: click.Context,
    bootstrap_servers: str | None,
    as_json: bool,
    api_timeout: float,
    wait: float,
    routing: str,
) -> None:
    """pylog: a streaming log for Spark and Python.

    \b
    pylog local --brokers 3 --listen 127.0.0.1:9092     a cluster to try things with
    pylog topics create flights --partitions 3
    echo "hello" | pylog produce flights
    pylog consume flights --from-beginning --until-end
    """
    if wait > WAIT_S:  # asked for: calls last as long
        api_timeout = max(api_timeout, wait)
    servers = DEFAULT_SERVERS if bootstrap_servers is None else bootstrap_servers
    ctx.obj = Settings(servers, as_json, api_timeout, routing, wait)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status comes back."""
    failures.Form.choose(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:  # started with `>&-`
        failures.tell("standard output is closed")
        return 1
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(_ClosedInput())
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A locale that cannot write a character is no reason to write nothing.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _refuse_two_distributions()
        status = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="pylog",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        failures.tell_usage(error)
        return error.exit_code
    except click.ClickException as error:
        failures.tell_error(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, _ReaderGoneError):
        _give_up_output()
        return 141
    except (errors.PylogError, OSError) as error:
        failures.tell_error(error)
        _give_up_output()
        return 1
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        failures.tell(
            f"a defect of pylog itself: {type(error).__name__}: {failures.message_of(error)} "
            f"(set {DEBUG_VARIABLE}=1 to see where)",
            error=type(error).__name__,
        )
        return 1
    return status if isinstance(status, int) else 0


def _refuse_two_distributions() -> None:
    from pylog.distribution import clash, installed

    fault = clash(installed())
    if fault:
        raise errors.DuplicateResource(fault)


def _give_up_output() -> None:
    """Python would complain once more, and end with a status of its own, of what it cannot write at
    its exit.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
