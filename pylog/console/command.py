"""`pylog console`: web pages of a cluster, until Ctrl-C."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from pylog import errors
from pylog.cli.context import Settings, print_json, with_settings
from pylog.console.options import DEFAULT_LISTEN, ConsoleOptions, check_host_name


@click.command()
@click.option("--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True,
              help="Where the pages are; port 0 takes a free one.")  # fmt: skip
@click.option("--allow-writes", is_flag=True,
              help="Also produce, reset groups, elect leaders, abort transactions.")  # fmt: skip
@click.option("--allow-plaintext", is_flag=True,
              help="Listen where other machines reach it, without a password.")  # fmt: skip
@click.option("--host-name", "host_names", multiple=True, metavar="NAME",
              help="A name, beside localhost, under which browsers may come.")  # fmt: skip
@click.option("--avro-schema", "schemas", multiple=True, metavar="TOPIC=FILE",
              help="Show the topic's values as Avro of that schema.")  # fmt: skip
@with_settings
def console(
    settings: Settings,
    listen: str,
    allow_writes: bool,
    allow_plaintext: bool,
    host_names: tuple[str, ...],
    schemas: tuple[str, ...],
) -> int:
    """Serve web pages of the cluster: topics, messages, groups, brokers, transactions.

    They only show, unless --allow-writes is given. They go up while the cluster is away, and say
    what is not known. No request leaves this machine. With --json the address is printed as JSON.

    \b
    pylog console
    pylog console --listen 127.0.0.1:9000 --allow-writes
    pylog -b broker.example:9092 console --avro-schema flights=flights.avsc
    """
    missing = [name for name in ("starlette", "uvicorn", "jinja2") if find_spec(name) is None]
    if missing:
        raise errors.ResourceNotFound(
            f"pylog console needs {', '.join(missing)}, which pylog-client leaves out: "
            "pip install 'pylog-client[console]'"
        )
    from pylog.console.__main__ import read_schemas, run

    def say(address: str) -> None:
        if settings.as_json:
            print_json({"console": address})
        else:
            click.echo(f"pylog console ready: {address}/")
        sys.stdout.flush()

    client = {**settings.client(), "client_id": "pylog-console"}
    options = ConsoleOptions(
        client,
        allow_writes=allow_writes,
        host_names=frozenset(check_host_name(name, "--host-name") for name in host_names),
        schemas=read_schemas(list(schemas)),
    )
    return run(
        options, listen, "--listen", allow_plaintext=allow_plaintext, remedy="--allow-plaintext",
        say=say,
    )  # fmt: skip
