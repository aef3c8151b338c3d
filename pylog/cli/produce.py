"""`pylog produce`: one record for each line of a file or of standard input."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Final

import click

from pylog import errors
from pylog.cli import failures
from pylog.cli.context import (
    BYTES,
    Settings,
    client_settings,
    complete_topics,
    print_json,
    with_settings,
)
from pylog.cli.producer_options import ACKS, COMPRESSION
from pylog.cli.progress import progress
from pylog.cli.record_input import BadLine, Line, LineReader, json_reader, text_reader
from pylog.model import RecordMetadata

FAULTS_SHOWN_MAX: Final = 5
LINE_BYTES_MAX: Final = 256 << 20
"""No broker takes a record of that size; input without line breaks must not fill the memory."""
INTERRUPTED_SECONDS_MAX: Final = 5.0
"""The time for which Ctrl-C waits for records in flight, to tell how many of them were
acknowledged."""
_OPTIONS: Final = ("acks", "compression_type", "bootstrap_servers")


@dataclass(slots=True)
class _Tally:
    """Lines that were read, acknowledged records, and the first failures. Lines count from 1 in
    the whole input; those before `from_line` are passed over.
    """

    from_line: int = 1
    last: int = 0  # the line that was read last
    acknowledged: int = 0
    refused: int = 0  # no record, or not taken by send(): on the main thread
    undelivered: int = 0  # later, on pylog's
    first_failed: int | None = None
    faults: list[tuple[int, errors.PylogError | BadLine]] = field(default_factory=list)

    def listener(
        self, number: int
    ) -> Callable[[RecordMetadata | None, errors.PylogError | None], None]:
        """The callback for the outcome of line `number`."""

        def hear(_metadata: RecordMetadata | None, error: errors.PylogError | None) -> None:
            if error is None:
                self.acknowledged += 1
            else:
                self.undelivered += 1
                self._note(number, error)

        return hear

    @property
    def read(self) -> int:
        """Lines that were to be sent."""
        return max(self.last - self.from_line + 1, 0)

    @property
    def failed(self) -> int:
        """Lines that did not get there, or maybe not."""
        return self.refused + self.undelivered

    def refuse(self, number: int, error: errors.PylogError | BadLine) -> None:
        """Line `number` was not taken."""
        self.refused += 1
        self._note(number, error)

    def _note(self, number: int, error: errors.PylogError | BadLine) -> None:
        if self.first_failed is None or number < self.first_failed:
            self.first_failed = number
        if len(self.faults) < FAULTS_SHOWN_MAX:
            self.faults.append((number, error))

    @property
    def next_line(self) -> int:
        """Every line before it is stored. Asked when nothing is under way any more."""
        return self.last + 1 if self.first_failed is None else self.first_failed

    def tell(self, *, stopped: bool) -> None:
        """Reports the failed lines, the number of lines acknowledged and, where sending has
        `stopped`, how to go on."""
        for number, error in self.faults:
            named = isinstance(error, BadLine)  # its message has the number
            failures.tell_error(error, lead="" if named else f"line {number}: ", line=number)
        more = self.failed - len(self.faults)
        failures.tell(
            f"{self.acknowledged} of {self.read} lines that were read are acknowledged"
            + (f", {self.failed} are not" if self.failed else "")
            + (f" ({more} more of these are not shown)" if more else ""),
            records=self.acknowledged,
            failed=self.failed,
            next_line=self.next_line,
        )
        if stopped and self.acknowledged and not failures.Form.as_json:
            failures.tell(self._way_on())

    def _way_on(self) -> str:
        stored = self.next_line - self.from_line
        ahead = self.acknowledged - stored
        text = f"--from-line {self.next_line} goes on"
        if stored:
            text = f"lines {self.from_line} to {self.next_line - 1} are stored; {text}"
        if ahead:
            text += f", and sends {ahead} again of those behind it, which are stored too"
        return text


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--key-separator",
    type=BYTES,
    metavar="TEXT",
    help="Split each line at its first TEXT: key, then value.",
)
@click.option(
    "--headers",
    type=BYTES,
    metavar="NAME=VALUE[,...]",
    multiple=True,
    help="Headers of every record; may be repeated.",
)
@click.option("--partition", type=int, help="Default: by key, or spread without one.")
@ACKS
@COMPRESSION
@click.option(
    "--null-marker", type=BYTES, metavar="TEXT", help="A key or value that is TEXT is sent as null."
)
@click.option(
    "--input",
    "layout",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="json: lines as `pylog consume --json` prints them.",
)
@click.option(
    "--from-line",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Begin at line N of the input: after a failure, the first line that is not stored.",
)
@click.option("--keep-going", is_flag=True, help="Go on after a record that could not be sent.")
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="A producer setting.")
@click.option("--quiet", "-q", is_flag=True, help="No progress, no count at the end.")
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
    layout: str,
    from_line: int,
    keep_going: bool,
    configs: tuple[str, ...],
    quiet: bool,
) -> int:
    """Send each line of FILE (default: standard input) as a record of TOPIC.

    Succeeds when every line was acknowledged; else it says which were not. However it ends, it
    says how many were, and from which line on to try again.

    \b
    pylog produce flights flights.csv --compression zstd
    pylog produce flights flights.csv --from-line 5
    printf 'k1:v1\\nk2:v2\\n' | pylog produce orders --key-separator : --headers origin=shell
    pylog consume orders --json --until-end | pylog produce copy --input json
    """
    if layout == "json" and (key_separator or null_marker or headers):
        raise click.UsageError("--input json says keys, nulls and headers itself")
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty")
    read: LineReader
    if layout == "json":
        read = json_reader
    else:
        read = text_reader(key_separator, null_marker, _headers(headers))
    tally = _Tally(from_line)
    try:
        _send_all(settings, (topic, partition), file, read, tally, {
            "acks": acks,
            "compression_type": compression,
            **client_settings(configs, _OPTIONS),
        }, keep_going=keep_going, quiet=quiet or settings.as_json)  # fmt: skip
        if settings.as_json:
            told: dict[str, object] = {"topic": topic, "records": tally.acknowledged}
            if tally.failed:
                told |= {"failed": tally.failed, "next_line": tally.next_line}
            print_json(told)
    except BaseException:
        if tally.read:
            tally.tell(stopped=True)
        raise
    if tally.failed:
        tally.tell(stopped=not keep_going)
    elif not quiet and not settings.as_json:
        with contextlib.suppress(BrokenPipeError):
            sent = tally.acknowledged
            click.echo(f"{sent} record{'' if sent == 1 else 's'} sent to {topic}", err=True)
    return 1 if tally.failed else 0


def _send_all(
    settings: Settings,
    where: tuple[str, int | None],
    file: IO[bytes],
    read: LineReader,
    tally: _Tally,
    config: dict[str, str],
    *,
    keep_going: bool,
    quiet: bool,
) -> None:
    """Sends until the input ends or a record fails; then waits for what is under way."""
    from pylog.client.producer.producer import Producer

    block_ms = int(settings.api_timeout_s * 1000)
    topic, partition = where
    client = {**settings.client(), "max_block_ms": block_ms, **config}
    with (
        Producer(**client) as producer,
        progress("sending", _size(file), unit="bytes", hidden=quiet) as advance,
    ):
        try:
            for number, line in enumerate(_lines(file, advance), 1):
                tally.last = number
                if number < tally.from_line:
                    continue
                try:
                    if len(line) > LINE_BYTES_MAX:
                        raise BadLine(f"line {number} is longer than {LINE_BYTES_MAX} bytes")
                    record: Line = read(line, number)
                    producer.send(
                        topic,
                        record.value,
                        key=record.key,
                        headers=record.headers,
                        partition=partition,
                        timestamp_ms=record.timestamp_ms,
                        on_delivery=tally.listener(number),
                    )
                except (errors.PylogError, BadLine) as error:
                    tally.refuse(number, error)
                if tally.failed and not keep_going:
                    break
            producer.flush()
            if tally.last < tally.from_line - 1:
                raise click.UsageError(
                    f"--from-line {tally.from_line}: the input has {tally.last} lines"
                )
        except KeyboardInterrupt:
            producer.close(timeout=INTERRUPTED_SECONDS_MAX)
            raise


def _lines(file: IO[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    """Lines without their ends. Of one beyond the limit only its beginning, one byte too long."""
    while line := file.readline(LINE_BYTES_MAX + 1):
        advance(len(line))
        yield line.removesuffix(b"\n")
        while len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
            line = file.readline(LINE_BYTES_MAX + 1)
            advance(len(line))


def _size(file: IO[bytes]) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        status = os.fstat(file.fileno())
        return status.st_size or None
    return None


def _headers(given: tuple[str, ...]) -> list[tuple[str, bytes | None]]:
    pairs: list[tuple[str, bytes | None]] = []
    for item in (part for text in given for part in text.split(",") if part):
        name, equals, value = item.partition("=")
        if not equals:
            raise click.UsageError(f"--headers {item}: write NAME=VALUE")
        pairs.append((name, os.fsencode(value)))
    return pairs
