"""Brokers that get far more than they can take: `python -m tests.verify.overload [--short]`.

A cluster with little memory for requests, answers and newest batches, and a steady load in a
process of its own, as in `flood`. Beside it, in processes with the lowest priority, 200 producers
together send ten times as many records a second, of 1 KiB to the largest that there may be, and
readers of these are stopped most of the time, so that they do not take what they have asked for.
This comes in parts between which the load goes on alone.

No broker dies, or takes more memory than it had under the load alone and its budgets allow, and a
tenth; every record too many ends with an acknowledgement or an error with a name, and the load
loses nothing. How much slower the load is meanwhile is told and not judged: there are no quotas by
client, so all share what there is.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import re
import signal
import statistics
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition
from pylog.clock import SYSTEM_CLOCK, ticks
from pylog.errors import PylogError
from tests.verify.flood import PARTITIONS, SEND_EVERY_S, TOPIC, Helper, offline_replicas

GREEDY_TOPIC: Final = "overload"
MIB: Final = 1 << 20
REQUEST_MIB: Final = 64
ANSWER_MIB: Final = 64
TAIL_MIB: Final = 32
REPLICA_MIB: Final = 8
"""Of an answer to a follower: each broker makes one for each of the others at a time, and takes
one in from each."""
SIZE_MIN: Final = 1 << 10
SIZE_MAX: Final = 1_000_000
"""A batch of one record of so many bytes is as large as `max.message.bytes` lets it be."""
TIMES_THE_RATE: Final = 10
BUFFER_BYTES: Final = 4 * MIB
STOPPED_S, RUNNING_S = 2.0, 0.2
"""The readers of the overload are stopped, and go on."""
MEMORY_TIMES_MAX: Final = 1.1
_CONFIG: Final = {
    "metrics.listen": "127.0.0.1:0",
    "queued.max.request.bytes": str(REQUEST_MIB * MIB),
    "queued.max.response.bytes": str(ANSWER_MIB * MIB),
    "log.tail.cache.max.bytes": str(TAIL_MIB * MIB),
    "replica.fetch.response.max.bytes": str(REPLICA_MIB * MIB),
}
_GREEDY_CONFIG: Final = {
    "segment.bytes": str(16 * MIB),
    "retention.bytes": str(64 * MIB),
    "file.delete.delay.ms": "0",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The amounts of everything. `parts`: of the overload, with a calm before each."""

    brokers: int
    producers: int
    readers: int
    parts: int
    calm_s: float
    part_s: float


FULL: Final = Plan(brokers=3, producers=200, readers=20, parts=30, calm_s=20, part_s=40)
SHORT: Final = Plan(brokers=2, producers=200, readers=20, parts=1, calm_s=10, part_s=15)


@dataclass(slots=True)
class Findings:
    """The measurements and faults of a run."""

    calm: list[tuple[float, float]] = field(default_factory=list)  # p50 and p99 of the load, ms
    overload: list[tuple[float, float]] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """By part: the most so far, as a share of what budgets allow, of the broker with most of it."""
    failed: int = 0  # records of the load
    offline: int = 0
    ended: Counter[str] = field(default_factory=Counter)  # records of the overload
    dead: list[str] = field(default_factory=list)

    @property
    def times(self) -> float:
        """The factor by which the p99 was slower in the overload, by medians."""
        over, calm = (
            statistics.median(p99 for _, p99 in part) for part in (self.overload, self.calm)
        )
        return over / calm

    @property
    def faults(self) -> list[str]:
        """The limits that do not hold."""
        found = [f"{name} died" for name in self.dead]
        for what, value, limit in (
            ("replicas offline", self.offline, 0),
            ("records of the load failed", self.failed, 0),
            ("records too many have not ended", self.ended["not ended"], 0),
            ("times the memory that budgets allow", max(self.memory), MEMORY_TIMES_MAX),
        ):  # fmt: skip
            if value > limit:
                found.append(f"{value:.2f} {what}; the limit is {limit}")
        if not self.ended["acknowledged"]:
            found.append("nothing of the overload was taken: it was none")
        return found


# ---- processes of their own ---------------------------------------------------------------------


def greedy_role() -> None:
    """Sends at ten times the load's rate for so long as it is told, and tells how that ended."""
    logging.disable(logging.WARNING)  # of each batch that is not taken in time
    producers: list[Producer] = []
    rng = random.Random(1)
    for line in sys.stdin:
        told = json.loads(line)
        ended: Counter[str] = Counter()
        while len(producers) < told["producers"]:
            producers.append(
                Producer(
                    bootstrap_servers=told["bootstrap"],
                    acks="all",
                    linger_ms=0,
                    buffer_memory=BUFFER_BYTES,
                    max_block_ms=0,
                    delivery_timeout_ms=20_000,
                    request_timeout_ms=10_000,
                )
            )
        sent = _send_greedily(producers, told["seconds"], rng, ended)
        for producer in producers:
            producer.flush(60)
        ended["not ended"] = sent - ended.total()
        _answer(ended)
    for producer in producers:
        producer.close(1)


def _send_greedily(
    producers: list[Producer], seconds: float, rng: random.Random, ended: Counter[str]
) -> int:
    """The number of records that were tried."""
    lock = threading.Lock()

    def done(_metadata: object, error: Exception | None) -> None:
        with lock:
            ended["acknowledged" if error is None else type(error).__name__] += 1

    number, began = 0, ticks()
    body = rng.randbytes(SIZE_MAX)
    while ticks() - began < seconds:
        late = began + number * SEND_EVERY_S / TIMES_THE_RATE - ticks()
        if late > 0:
            SYSTEM_CLOCK.sleep(late)
        size = round(SIZE_MIN * (SIZE_MAX / SIZE_MIN) ** rng.random())
        try:
            producers[number % len(producers)].send(
                GREEDY_TOPIC, body[:size], partition=number % PARTITIONS, on_delivery=done
            )
        except PylogError as error:
            done(None, error)
        number += 1
    return number


def readers_role() -> None:
    """Reads the overload with so many consumers, from when it is told."""
    logging.disable(logging.WARNING)  # retention is faster than a stopped reader
    told = json.loads(sys.stdin.readline())
    over = threading.Event()

    def read(number: int) -> None:
        with Consumer(bootstrap_servers=told["bootstrap"], auto_offset_reset="latest") as consumer:
            consumer.assign([TopicPartition(GREEDY_TOPIC, number % PARTITIONS)])
            while not over.is_set():
                try:
                    consumer.poll(0.5)
                except PylogError:
                    continue  # what it had not read yet is deleted, or it was stopped for too long

    threads = [threading.Thread(target=read, args=(n,)) for n in range(told["readers"])]
    for thread in threads:
        thread.start()
    _answer("reads")
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()


def _answer(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


# ---- the overload -------------------------------------------------------------------------------


class Memory:
    """The memory of a process, and the most that it was since `begin`."""

    def __init__(self, pid: int, *, peers: int) -> None:
        """`peers`: the other brokers."""
        self._process = Path(f"/proc/{pid}")
        self._before_mib = 0.0
        self._budget_mib = REQUEST_MIB + ANSWER_MIB + TAIL_MIB + 2 * peers * REPLICA_MIB

    def begin(self) -> None:
        (self._process / "clear_refs").write_text("5")
        self._before_mib = self.most_mib

    @property
    def most_mib(self) -> float:
        text = (self._process / "status").read_text()
        (kib,) = re.findall(r"^VmHWM:\s+(\d+) kB$", text, re.MULTILINE)
        return int(kib) / 1024

    @property
    def cap_mib(self) -> float:
        """By what it had, and the budgets that the broker was given."""
        return self._before_mib + self._budget_mib


def _stop_now_and_then(pid: int, until_ms: int) -> None:
    while SYSTEM_CLOCK.monotonic_ms() < until_ms:
        os.kill(pid, signal.SIGSTOP)
        SYSTEM_CLOCK.sleep(STOPPED_S)
        os.kill(pid, signal.SIGCONT)
        SYSTEM_CLOCK.sleep(RUNNING_S)


def _overload(plan: Plan, cluster: LocalCluster, helpers: dict[str, Helper]) -> Findings:
    findings = Findings()
    servers = cluster.bootstrap_servers
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics(NewTopic(TOPIC, PARTITIONS, plan.brokers))
        admin.create_topics(NewTopic(GREEDY_TOPIC, PARTITIONS, plan.brokers, config=_GREEDY_CONFIG))
    load = helpers["load"]
    load.tell(bootstrap=servers)
    assert load.hear() == "runs"
    SYSTEM_CLOCK.sleep(5.0)  # until all is warm
    peers = plan.brokers - 1
    memories = [Memory(node._process.pid, peers=peers) for node in cluster._nodes.values()]
    for memory in memories:
        memory.begin()
    helpers["readers"].tell(bootstrap=servers, readers=plan.readers)
    helpers["readers"].hear()
    load.tell()
    load.hear()
    for _ in range(plan.parts):
        SYSTEM_CLOCK.sleep(plan.calm_s)
        load.tell()
        p50, p99, _failed = load.hear()
        findings.calm.append((p50, p99))
        greedy = helpers["greedy"]
        greedy.tell(bootstrap=servers, producers=plan.producers, seconds=plan.part_s)
        until_ms = SYSTEM_CLOCK.monotonic_ms() + round(plan.part_s * 1000)
        _stop_now_and_then(helpers["readers"].pid, until_ms)
        load.tell()
        p50, p99, findings.failed = load.hear()
        findings.overload.append((p50, p99))
        findings.ended += Counter(greedy.hear())
        findings.memory.append(max(memory.most_mib / memory.cap_mib for memory in memories))
    processes = {"controller": cluster._head, **cluster._nodes}
    findings.dead = [f"{name}" for name, each in processes.items() if each and not each.running]
    findings.offline = offline_replicas(cluster)
    return findings


def run(plan: Plan) -> Findings:
    """Run it."""
    here = "tests.verify.overload"
    helpers = {
        "load": Helper("load"),
        "greedy": Helper("greedy", module=here, nice=19),
        "readers": Helper("readers", module=here, nice=19),
    }
    try:
        with LocalCluster(plan.brokers, config=_CONFIG) as cluster:
            try:
                return _overload(plan, cluster, helpers)
            finally:
                for helper in helpers.values():
                    helper.end()
    finally:
        for helper in helpers.values():
            helper.end()


def main() -> int:
    """Parse the arguments, overload, say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="one part")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        {"greedy": greedy_role, "readers": readers_role}[arguments.role]()
        return 0
    findings = run(SHORT if arguments.short else FULL)
    for name, parts in (("calm", findings.calm), ("overload", findings.overload)):
        shown = ", ".join(f"{p50:.2f}/{p99:.2f}" for p50, p99 in parts)
        print(f"{name}: p50/p99 in ms, by part: {shown}")
    shares = ", ".join(f"{share:.2f}" for share in findings.memory)
    print(f"memory, times what budgets allow, by part: {shares}")
    print(
        f"in the overload {findings.times:.1f} times the p99; records failed {findings.failed}, "
        f"replicas offline {findings.offline}; of the overload {dict(findings.ended)}"
    )
    print("\n".join(findings.faults) if findings.faults else "all limits hold")
    return bool(findings.faults)


if __name__ == "__main__":
    sys.exit(main())
