"""A job queue: workers take jobs in turn, and a job that fails is tried again, so many times.

`python examples/share_job_queue.py --bootstrap HOST:PORT --topic NAME [--group NAME] [--tries N]
[--idle SECONDS]`

Start it as often as you like: there may be more workers than partitions, as each record goes to one
of them at a time (a share group, KIP-932). A job is a number to factor. One that succeeds is
accepted; one that fails is released, and some worker tries it again; one that has failed `--tries`
times is rejected, and never comes again. A worker that is killed leaves nothing undone: what it had
is free at once, and its partitions are the others' when its session has ended. A worker ends by
itself when there was nothing to do for `--idle` seconds, or by Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pylog import AcknowledgeType, AdminClient, Record, ShareConsumer


def factors(number: int) -> Iterator[int]:
    """Its prime factors, smallest first."""
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1
    if number > 1:
        yield number


def work(record: Record) -> None:
    """Do one job. ValueError for one that cannot be done."""
    number = int(record.value or b"")
    print(number, "=", " x ".join(map(str, factors(number))) or "1", flush=True)


def outcome(record: Record, tries: int) -> AcknowledgeType:
    """The acknowledgement for a job."""
    try:
        work(record)
    except ValueError as error:
        tried = record.delivery_count or 1
        what = "given up" if tried >= tries else "released"
        print(f"{record.partition}@{record.offset}: {error}: {what} after {tried}", flush=True)
        return AcknowledgeType.REJECT if tried >= tries else AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="jobs")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--idle", type=float, default=5.0)
    options = parser.parse_args()
    # A group begins at the end of a topic, unless it is told to begin with its first record.
    with AdminClient(bootstrap_servers=options.bootstrap) as admin:
        settings = {"share.auto.offset.reset": "earliest"}
        admin.incremental_alter_configs({("group", options.group): settings})
    with ShareConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        share_acknowledgement_mode="explicit",
        share_acquire_mode="record_limit",
        max_poll_records=10,  # what one worker has, the others have to wait for
    ) as jobs:
        try:
            while records := jobs.poll(options.idle):
                for record in records:
                    jobs.acknowledge(record, outcome(record, options.tries))
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
