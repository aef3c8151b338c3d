"""A group of hundreds: how soon all members have their share, once the last one has joined.

Members live in four processes, each in a thread of its own that polls. They join within two
seconds; the first answer to any of them is the beginning of the group.
"""

from __future__ import annotations

import multiprocessing
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any, Final, NamedTuple

from bench import cluster
from bench.measure import printed
from pylog import Consumer, LocalCluster
from pylog.clock import SYSTEM_CLOCK, ticks

PROCESSES: Final = 4
JOINS_S: Final = 2.0
POLL_S: Final = 0.2
PATIENCE_S: Final = 120.0
QUIET_S: Final = 2.0
"""So long without a change the group is taken for settled, if every partition has its reader."""


class _Change(NamedTuple):
    """A member has another share. `at_s`: by the clock that all processes of a machine have."""

    at_s: float
    member: int
    partitions: int


class _Work(NamedTuple):
    """The work of one process."""

    bootstrap: str
    topic: str
    group: str
    protocol: str
    members: range
    all_members: int


def _member(work: _Work, number: int, changes: Any, ended: Event) -> None:
    SYSTEM_CLOCK.sleep(JOINS_S * number / work.all_members)
    with Consumer(
        bootstrap_servers=work.bootstrap,
        group_id=work.group,
        group_protocol=work.protocol,
        auto_offset_reset="latest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([work.topic])
        changes.put(_Change(ticks(), number, 0))
        before = 0
        while not ended.is_set():
            consumer.poll(POLL_S)
            if (now := len(consumer.assignment())) != before:
                before = now
                changes.put(_Change(ticks(), number, now))


def _process(work: _Work, changes: Any, ended: Event) -> None:
    threads = [
        threading.Thread(target=_member, args=(work, number, changes, ended))
        for number in work.members
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def _running(works: list[_Work]) -> Iterator[Any]:
    """Processes with the members; their changes."""
    context = multiprocessing.get_context("spawn")
    changes, ended = context.Queue(), context.Event()
    processes = [context.Process(target=_process, args=(work, changes, ended)) for work in works]
    for process in processes:
        process.start()
    try:
        yield changes
    finally:
        ended.set()
        _drain(changes, processes)


def _drain(changes: Any, processes: list[Any]) -> None:
    """A process ends only when all that it has put is taken."""
    deadline = ticks() + PATIENCE_S
    while any(process.is_alive() for process in processes) and ticks() < deadline:
        try:
            changes.get(timeout=POLL_S)
        except queue.Empty:
            continue
    for process in processes:
        process.terminate()
        process.join()


def settled_seconds(running: LocalCluster, members: int, partitions: int, protocol: str) -> float:
    """Seconds from the last member's `subscribe` to the last change of anybody's share, after which
    every partition has one reader. Raises TimeoutError when that does not come in two minutes.
    """
    topic = cluster.fresh_topic(running, f"large-{protocol}-{members}", partitions)
    per_process = -(-members // PROCESSES)
    works = [
        _Work(running.bootstrap_servers, topic, f"large-{protocol}", protocol,
              range(first, min(first + per_process, members)), members)
        for first in range(0, members, per_process)
    ]  # fmt: skip
    shares: dict[int, int] = {}
    joined_s = changed_s = 0.0
    deadline = ticks() + PATIENCE_S
    with _running(works) as changes:
        while ticks() < deadline:
            try:
                change = changes.get(timeout=QUIET_S)
            except queue.Empty:
                if len(shares) == members and sum(shares.values()) == partitions:
                    return max(0.0, changed_s - joined_s)
                continue
            if change.member not in shares:
                joined_s = max(joined_s, change.at_s)
            shares[change.member] = change.partitions
            changed_s = max(changed_s, change.at_s)
    raise TimeoutError(
        f"{len(shares)} of {members} members have {sum(shares.values())} of {partitions} "
        f"partitions after {PATIENCE_S:g} s"
    )


def rows(scale: float) -> None:
    """Prints the times of both protocols, with three brokers."""
    members, partitions = max(8, int(200 * scale)), max(8, int(1_000 * scale))
    with cluster.cluster(3) as running:
        for protocol in ("consumer", "classic"):
            seconds = settled_seconds(running, members, partitions, protocol)
            label = f"3 brokers: {members} members share {partitions} partitions, {protocol}"
            printed(label, "s", [seconds])
