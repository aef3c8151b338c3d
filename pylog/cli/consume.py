"""`pylog consume`: records of a topic to standard output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pylog.cli.context import Settings, with_settings
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition

if TYPE_CHECKING:
    from pylog.client.consumer import Consumer


@click.command()
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Begin at the first record, not at the end.")
@click.option(
    "--offset",
    metavar="N|-N|@MS|earliest|latest",
    help="Begin at offset N, N before the end, at a time in milliseconds, or at an end.",
)
@click.option("--partition", "numbers", type=int, multiple=True, help="Only these; default: all.")
@click.option("--group", help="Consume as a member of this group. Not offered yet.")
@click.option("--max-messages", type=click.IntRange(min=1), help="Stop after so many.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="S",
    help="Stop when no record came for S seconds. Default: go on until Ctrl-C.",
)
@click.option(
    "--format",
    "layout",
    default="%v\\n",
    show_default=True,
    help="%k key, %v value, %t topic, %p partition, %o offset, %T timestamp, %h headers.",
)
@with_settings
def consume(
    settings: Settings,
    topic: str,
    from_beginning: bool,
    offset: str | None,
    numbers: tuple[int, ...],
    group: str | None,
    max_messages: int | None,
    timeout: float | None,
    layout: str,
) -> int:
    """Print the records of TOPIC as they come."""
    from pylog.cli.record_format import as_json, compile_format
    from pylog.client.consumer import Consumer

    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset exclude each other")
    try:
        show = as_json if settings.as_json else compile_format(layout)
    except ValueError as error:
        raise click.UsageError(f"--format {layout}: {error}") from error
    out = sys.stdout.buffer
    left = max_messages
    with Consumer(
        bootstrap_servers=settings.bootstrap_servers,
        default_api_timeout_ms=int(settings.api_timeout_s * 1000),
        group_id=group,
        auto_offset_reset="earliest" if from_beginning else "latest",
    ) as consumer:
        known = consumer.partitions_for(topic)
        partitions = [TopicPartition(topic, n) for n in numbers or known]
        unknown = [n for n in numbers if n not in known]
        if unknown:
            raise click.UsageError(
                f"--partition {unknown[0]}: {topic} has partitions 0 to {len(known) - 1}"
            )
        consumer.assign(partitions)
        if offset is not None:
            _seek(consumer, partitions, offset)
        last_ms = SYSTEM_CLOCK.monotonic_ms()
        while left is None or left > 0:
            records = consumer.poll(0.2 if timeout is None else min(timeout, 0.2))
            now_ms = SYSTEM_CLOCK.monotonic_ms()
            for record in records:
                out.write(show(record))
                if left is not None:
                    left -= 1
                    if left == 0:
                        break
            out.flush()
            if records:
                last_ms = now_ms
            elif timeout is not None and now_ms - last_ms >= timeout * 1000:
                break
    return 0


def _seek(consumer: Consumer, partitions: list[TopicPartition], text: str) -> None:
    if text in ("earliest", "beginning"):
        consumer.seek_to_beginning()
        return
    if text in ("latest", "end"):
        consumer.seek_to_end()
        return
    try:
        number = int(text.removeprefix("@"))
    except ValueError:
        raise click.UsageError(f"--offset {text}: give N, -N, @MS, earliest or latest") from None
    if text.startswith("@"):
        for tp, found in consumer.offsets_for_times(dict.fromkeys(partitions, number)).items():
            if found is None:
                consumer.seek_to_end(tp)
            else:
                consumer.seek(tp, found.offset)
        return
    if number >= 0:
        for tp in partitions:
            consumer.seek(tp, number)
        return
    first, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for tp in partitions:
        consumer.seek(tp, max(ends[tp] + number, first[tp]))
