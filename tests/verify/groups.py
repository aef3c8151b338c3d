"""Groups of a real cluster whose members come, go and stall, and whose coordinator is killed.

`python -m tests.verify.groups [--rebalances N] [--seed S]`. Three brokers, a producer, and two
groups of members, one of each protocol, that commit what they have read. At the end each
acknowledged record was read at least once by each group; no position that a group has committed
ever went back, as `__consumer_offsets` tells; no offset was reset; and no partition had two owners
in one generation.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import CONSUMER_OFFSETS, TopicPartition
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.codec import GroupCodec
from tests.verify.load import VerifiableProducer, decode

TOPIC: Final = "work"
PARTITIONS: Final = 12
PROTOCOLS: Final = ("consumer", "classic")
MAX_POLL_INTERVAL_MS: Final = 2_000
STALL_S: Final = 3.0
PATIENCE_MS: Final = 90_000
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "6",
    "group.min.session.timeout.ms": "1000",
}


@dataclass
class Group:
    """What the members of a group have seen together."""

    name: str
    protocol: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    read: set[int] = field(default_factory=set)
    owners: dict[tuple[TopicPartition, int], str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    rebalances: int = 0
    commits: int = 0
    refused: int = 0

    def assigned(self, member: str, generation: int, partitions: Sequence[TopicPartition]) -> None:
        """A member was given partitions in a generation."""
        with self.lock:
            self.rebalances += 1
            for tp in partitions:
                owner = self.owners.setdefault((tp, generation), member)
                if owner != member:
                    self.faults.append(
                        f"{self.name}: {tp} has the owners {owner} and {member} in {generation}"
                    )


class Member:
    """One member, on a thread of its own."""

    def __init__(self, name: str, group: Group, bootstrap: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.stall_until_ms = 0
        self._group = group
        self._bootstrap = bootstrap
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def close(self) -> None:
        """It leaves its group."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with Consumer(
                bootstrap_servers=self._bootstrap,
                group_id=self._group.name,
                group_protocol=self._group.protocol,
                group_instance_id=self.instance_id,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
                max_poll_records=100,
            ) as consumer:
                self._consumer = consumer
                consumer.subscribe(TOPIC, listener=self)
                while not self._ends.is_set():
                    self._step(consumer)
        except errors.FencedInstanceId:
            return  # its successor has started
        except Exception as error:  # noqa: BLE001 -- told at the end
            self._group.faults.append(f"{self.name} ended with {error!r}")

    def _step(self, consumer: Consumer) -> None:
        left_ms = self.stall_until_ms - SYSTEM_CLOCK.monotonic_ms()
        if left_ms > 0:
            self._ends.wait(left_ms / 1000)
        numbers = [decode(record.value)[1] for record in consumer.poll(0.1)]
        group = self._group
        with group.lock:
            group.read.update(numbers)
        if not numbers:
            return
        try:
            consumer.commit()
            group.commits += 1
        except (errors.CommitFailed, errors.RebalanceInProgress):
            group.refused += 1  # others read it again

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """The member is given these, in its present generation."""
        generation = self._consumer._core.group.identity.generation  # type: ignore[union-attr]
        # A static member that is started again goes on in the generation of its earlier self.
        self._group.assigned(self.instance_id or self.name, generation, partitions)


class Trial:
    """The groups, and what happens to them."""

    def __init__(self, cluster: LocalCluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._started = 0
        self.groups = [Group(f"g-{protocol}", protocol) for protocol in PROTOCOLS]
        self._members: dict[str, list[Member]] = {group.name: [] for group in self.groups}
        self.did: dict[str, int] = defaultdict(int)

    def join(self, group: Group, instance_id: str | None = None) -> None:
        """Another member, static with an `instance_id`."""
        self._started += 1
        name = f"{group.name}-m{self._started}"
        bootstrap = self._cluster.bootstrap_servers
        self._members[group.name].append(Member(name, group, bootstrap, instance_id))

    def disturb(self) -> None:
        """One thing that makes a group rebalance, or that must not."""
        group = self._rng.choice(self.groups)
        members = self._members[group.name]
        what = self._rng.choice(("join", "leave", "stall", "restart", "kill"))
        if what == "kill":
            self._kill_a_broker()
        elif what == "join" and len(members) < 6:
            self.join(group)
        elif what == "restart":
            static = [member for member in members if member.instance_id is not None]
            for member in static[:1]:
                members.remove(member)
                member.close()
            self.join(group, f"{group.name}-static")
        elif what == "stall":
            until_ms = SYSTEM_CLOCK.monotonic_ms() + int(STALL_S * 1000)
            self._rng.choice(members).stall_until_ms = until_ms
        elif len(members) > 2:
            member = self._rng.choice(members)
            members.remove(member)
            member.close()
        self.did[what] += 1

    def _kill_a_broker(self) -> None:
        """One that coordinates a group, more often than not."""
        with AdminClient(bootstrap_servers=self._cluster.bootstrap_servers) as admin:
            group = self._rng.choice(self.groups)
            broker = admin.describe_groups(group.name)[group.name].coordinator.id
        self._cluster.kill(broker)
        self._cluster.start(broker)

    def end(self) -> None:
        """All members leave."""
        for members in self._members.values():
            for member in members:
                member.close()


def commits_that_went_back(cluster: LocalCluster, admin: AdminClient) -> list[str]:
    """By the log of `__consumer_offsets`."""
    found: list[str] = []
    newest: dict[OffsetCommitKey, int] = {}
    codec = GroupCodec()
    topic = admin.describe_topics([CONSUMER_OFFSETS])[CONSUMER_OFFSETS]
    partitions = [TopicPartition(CONSUMER_OFFSETS, n) for n in range(len(topic.partitions))]
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for record in consumer.poll(1.0):
                decoded = codec.decode(record.key or b"", record.value)
                if decoded is None or not isinstance(decoded.value, OffsetCommitValue):
                    continue
                offset = decoded.value.offset
                if offset < newest.get(decoded.key, 0):
                    found.append(f"{decoded.key} went from {newest[decoded.key]} to {offset}")
                newest[decoded.key] = offset
    return found


def run(rebalances: int, seed: int) -> list[str]:
    """Everything that is wrong."""
    rng = random.Random(seed)
    with LocalCluster(3, config=_CONFIG) as cluster:
        bootstrap = cluster.bootstrap_servers
        with AdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
            producer = VerifiableProducer(bootstrap, TOPIC, PARTITIONS, rate=500)
            trial = Trial(cluster, rng)
            for group in trial.groups:
                trial.join(group)
                trial.join(group, f"{group.name}-static")
            try:
                for _ in range(rebalances):
                    SYSTEM_CLOCK.sleep(rng.uniform(0.1, 1.0))
                    trial.disturb()
                producer.close()
                wanted = {ack.sequence for ack in producer.acks}
                faults = _wait_until_read(trial.groups, wanted)
            finally:
                producer.close()
                trial.end()
            faults += commits_that_went_back(cluster, admin)
        for log in sorted((cluster.data_dir / "logs").iterdir()):
            text = log.read_text()
            faults += [f"{log.name}: {word}" for word in ("Traceback", "a defect") if word in text]
    faults += [fault for group in trial.groups for fault in group.faults]
    print(f"seed {seed}: {dict(trial.did)}, {len(wanted)} acknowledged")
    for group in trial.groups:
        print(
            f"  {group.name}: {group.rebalances} assignments, {group.commits} commits, "
            f"{group.refused} refused, {len(group.read)} read"
        )
    return faults


def _wait_until_read(groups: Sequence[Group], wanted: set[int]) -> list[str]:
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + PATIENCE_MS
    while SYSTEM_CLOCK.monotonic_ms() < deadline_ms:
        if all(wanted <= group.read for group in groups):
            return []
        SYSTEM_CLOCK.sleep(0.1)
    return [f"{group.name}: {len(wanted - group.read)} records never read" for group in groups]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rebalances", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    faults = run(options.rebalances, options.seed)
    for fault in faults:
        print(fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
