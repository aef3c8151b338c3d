"""`pylog consume`: records of a topic to standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Final, Literal

import click

from pylog.cli.context import (
    BYTES,
    Seconds,
    Settings,
    client_settings,
    complete_topics,
    with_settings,
)
from pylog.cli.moments import moment_ms
from pylog.cli.shared_records import SHARE_OPTIONS, print_shared
from pylog.clock import SYSTEM_CLOCK
from pylog.config import LONG_MAX
from pylog.model import TopicPartition

if TYPE_CHECKING:
    from pylog.client.consumer.consumer import Consumer
    from pylog.records.record import Record

POLL_SECONDS: Final = 0.2
NOT_SHARED: Final = (
    "--share-group goes with none of --group, --from-beginning, --offset, --partition and "
    "--until-end: the group knows where it is"
)
_OPTIONS: Final = ("auto_offset_reset", "isolation_level", "group_id", "bootstrap_servers")


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("--from-beginning", is_flag=True, help="Begin at the first record, not at the end.")
@click.option(
    "--offset",
    metavar="N|-N|@MS|@TIME|earliest|latest",
    help="Begin at offset N, N before the end, at a time (ms since 1970, or 2024-01-31T12:00), or "
    "at an end.",
)
@click.option("--partition", "numbers", type=int, multiple=True, help="Only these; default: all.")
@click.option(
    "--group",
    help="Share the partitions with the other members of this group, begin where it has committed, "
    "and commit what was printed. With --partition, --offset or --until-end all of them are read "
    "here.",
)
@click.option(
    "--share-group",
    help="Take records in turn with the other members of this share group: each goes to one of "
    "them, and what was printed is accepted.",
)
@click.option("--max-messages", type=click.IntRange(min=1), help="Stop after so many.")
@click.option(
    "--until-end",
    is_flag=True,
    help="Stop at what is the end of the topic now. "
    "Begins at the first record unless --offset says where.",
)
@click.option(
    "--timeout",
    type=Seconds(min=0),
    metavar="S",
    help="Stop when no record came for S seconds. Default: go on until Ctrl-C.",
)
@click.option(
    "--format",
    "layout",
    type=BYTES,
    default="%v\\n",
    show_default=True,
    help="%k key, %v value, %t topic, %p partition, %o offset, %T timestamp, %h headers, %K and %V "
    "lengths, %% a percent sign; \\n \\t \\r \\0 \\\\ \\xHH.",
)
@click.option("--null", "null_text", type=BYTES, metavar="TEXT", default="",
              help="How to print a null key or value. Default: as nothing.")  # fmt: skip
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="read_committed leaves out records of transactions that are open or were aborted.",
)
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="A consumer setting.")
@with_settings
def consume(
    settings: Settings,
    topic: str,
    from_beginning: bool,
    offset: str | None,
    numbers: tuple[int, ...],
    group: str | None,
    share_group: str | None,
    max_messages: int | None,
    until_end: bool,
    timeout: float | None,
    layout: str,
    null_text: str,
    isolation_level: Literal["read_uncommitted", "read_committed"],
    configs: tuple[str, ...],
) -> int:
    """Print the records of TOPIC as they come. Bytes come out as they are; on a terminal, what it
    would obey is escaped.

    With --json one object a line; bytes are texts, or {"base64": ...} where they are not UTF-8.

    \b
    pylog consume flights --from-beginning --max-messages 10
    pylog consume flights --offset -5 --until-end --format '%p %o %k\\t%v\\n'
    pylog consume flights --offset @2024-01-31T12:00 --json
    pylog consume flights --json --until-end | pylog produce copy --input json
    pylog consume flights --group loader --from-beginning
    pylog consume jobs --share-group workers --max-messages 10
    """
    from pylog.client.consumer.consumer import Consumer

    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset exclude each other")
    show = _layout(settings, layout, null_text)
    if share_group is not None:
        if group or from_beginning or offset or numbers or until_end:
            raise click.UsageError(NOT_SHARED)
        client = {**settings.client(), **client_settings(configs, SHARE_OPTIONS)}
        print_shared(client, topic, share_group, show, max_messages, timeout)
        return 0
    # Messages of the last poll beyond `max_messages` are neither printed nor committed.
    commits_here = group is not None and max_messages is not None
    decided: dict[str, Any] = {"enable_auto_commit": False} if commits_here else {}
    with Consumer(
        **settings.client(),
        group_id=group,
        # Between the end and the end there is nothing to print.
        auto_offset_reset="earliest" if from_beginning or until_end else "latest",
        isolation_level=isolation_level,
        **decided,
        **client_settings(configs, (*_OPTIONS, *decided)),
    ) as consumer:
        known = consumer.partitions_for(topic)
        partitions = [TopicPartition(topic, n) for n in dict.fromkeys(numbers or known)]
        unknown = [n for n in numbers if n not in known]
        if unknown:
            raise click.UsageError(
                f"--partition {unknown[0]}: {topic} has partitions 0 to {len(known) - 1}"
            )
        if group is None or numbers or until_end or offset is not None:
            consumer.assign(partitions)
        else:
            consumer.subscribe(topic)
        if offset is not None:
            _seek(consumer, partitions, offset)
        out = sys.stdout.buffer
        printed = _print(consumer, show, out, max_messages, timeout, until_end=until_end)
        if commits_here and printed:
            consumer.commit(printed)
    return 0


def _layout(settings: Settings, layout: str, null_text: str) -> Callable[[Record], bytes]:
    """The function that formats a record for output."""
    from pylog.cli.record_format import as_json, compile_format

    try:
        if settings.as_json:
            return as_json
        return compile_format(layout, null_text, on_terminal=sys.stdout.isatty())
    except ValueError as error:
        raise click.UsageError(f"--format {layout}: {error}") from error


def _print(
    consumer: Consumer,
    show: Callable[[Record], bytes],
    out: IO[bytes],
    max_messages: int | None,
    timeout: float | None,
    *,
    until_end: bool,
) -> dict[TopicPartition, int]:
    """Until so many were printed, nothing came for so long, or the end is reached. The offsets
    behind what was printed, where there is a number of messages to stop at.
    """
    left = max_messages
    printed: dict[TopicPartition, int] = {}
    ends = consumer.end_offsets(consumer.assignment()) if until_end else None
    wait_s = POLL_SECONDS if timeout is None else min(timeout, POLL_SECONDS)
    last_ms = SYSTEM_CLOCK.monotonic_ms()
    while left is None or left > 0:
        if ends is not None and all(consumer.position(tp) >= end for tp, end in ends.items()):
            break
        records = consumer.poll(wait_s)
        now_ms = SYSTEM_CLOCK.monotonic_ms()
        for record in records:
            if (
                ends is not None
                and record.offset >= ends[TopicPartition(record.topic, record.partition)]
            ):
                continue  # it came after the end that was asked for
            out.write(show(record))
            if left is not None:
                printed[TopicPartition(record.topic, record.partition)] = record.offset + 1
                left -= 1
                if left == 0:
                    break
        out.flush()
        if records:
            last_ms = now_ms
        elif timeout is not None and now_ms - last_ms >= timeout * 1000:
            break
    return printed


def _seek(consumer: Consumer, partitions: list[TopicPartition], text: str) -> None:
    if text in ("earliest", "beginning"):
        consumer.seek_to_beginning()
        return
    if text in ("latest", "end"):
        consumer.seek_to_end()
        return
    if text.startswith("@"):
        wanted = dict.fromkeys(partitions, _milliseconds(text))
        for tp, found in consumer.offsets_for_times(wanted).items():
            if found is None:
                consumer.seek_to_end(tp)
            else:
                consumer.seek(tp, found.offset)
        return
    number = _whole(text, text)
    if number >= 0:
        for tp in partitions:
            consumer.seek(tp, number)
        return
    first, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for tp in partitions:
        consumer.seek(tp, max(ends[tp] + number, first[tp]))


def _milliseconds(text: str) -> int:
    """`@1706702400000` or `@2024-01-31T12:00` (in UTC unless it says otherwise)."""
    try:
        found = moment_ms(text[1:])
    except ValueError:
        raise _not_an_offset(text) from None
    if found < 0:
        raise click.UsageError(f"--offset {text}: no record is of a time before 1970")
    return _whole(str(found), text)


def _whole(said: str, text: str) -> int:
    try:
        number = int(said)
    except ValueError:
        raise _not_an_offset(text) from None
    if abs(number) > LONG_MAX:
        raise click.UsageError(f"--offset {text}: that is beyond 64 bits")
    return number


def _not_an_offset(text: str) -> click.UsageError:
    return click.UsageError(f"--offset {text}: give N, -N, @MS, @TIME, earliest or latest")
