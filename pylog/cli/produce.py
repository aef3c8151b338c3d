"""`pylog produce`: one record for each line of a file or of standard input."""

from __future__ import annotations

import contextlib
from typing import IO

import click

from pylog import errors
from pylog.cli.context import Settings, print_json, with_settings
from pylog.model import RecordMetadata


class _Tally:
    """Acknowledged records, and the first failure."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.first_error: errors.PylogError | None = None

    def count(self, _metadata: RecordMetadata | None, error: errors.PylogError | None) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.first_error = self.first_error or error


@click.command()
@click.argument("topic")
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--key-separator", metavar="TEXT", help="Split each line at its first TEXT: key, then value."
)
@click.option(
    "--headers",
    metavar="NAME=VALUE[,...]",
    multiple=True,
    help="Headers of every record; may be repeated.",
)
@click.option("--partition", type=int, help="Default: by key, or spread without one.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option("--null-marker", metavar="TEXT", help="A key or value that is TEXT is sent as null.")
@with_settings
def produce(
    settings: Settings,
    topic: str,
    file: IO[bytes],
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    acks: str,
    compression: str,
    null_marker: str | None,
) -> int:
    """Send each line of FILE (default: standard input) as a record of TOPIC."""
    from pylog.client.producer import Producer

    pairs = _headers(headers)
    separator = key_separator.encode() if key_separator else None
    null = null_marker.encode() if null_marker is not None else None
    tally = _Tally()
    with Producer(
        **settings.client(),
        acks=acks,
        compression_type=compression,
        max_block_ms=int(settings.api_timeout_s * 1000),
    ) as producer:
        for number, line in enumerate(file, 1):
            key, value = _split(line.rstrip(b"\n"), separator, number)
            producer.send(
                topic,
                None if value == null and null is not None else value,
                key=None if key == null else key,
                headers=pairs,
                partition=partition,
                on_delivery=tally.count,
            )
            if tally.first_error is not None:
                break
        producer.flush()
    if tally.first_error is not None:
        raise tally.first_error
    if settings.as_json:
        print_json({"topic": topic, "records": tally.acknowledged})
    else:
        with contextlib.suppress(BrokenPipeError):
            click.echo(f"{tally.acknowledged} records sent to {topic}", err=True)
    return 0


def _split(line: bytes, separator: bytes | None, number: int) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise click.ClickException(
            f"line {number} has no {separator.decode()!r} between key and value: "
            f"{line[:80].decode(errors='replace')!r}"
        )
    return key, value


def _headers(given: tuple[str, ...]) -> list[tuple[str, bytes]]:
    pairs = []
    for item in (part for text in given for part in text.split(",") if part):
        name, equals, value = item.partition("=")
        if not equals:
            raise click.UsageError(f"--headers {item}: write NAME=VALUE")
        pairs.append((name, value.encode()))
    return pairs
