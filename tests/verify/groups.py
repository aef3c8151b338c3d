"""Groups of a real cluster whose members come, go, stall, are stopped and killed, and whose
coordinators are killed.

`python -m tests.verify.groups [--rebalances N] [--seed S]`. Three brokers, a producer, and three
groups: one of each protocol that commits what it has read, and one that commits before it reads.
Members are threads or processes of their own. At the end each acknowledged record was read at least
once by each of the first two, and at most once by the third; no position that a group has committed
ever went back, as `__consumer_offsets` tells; no offset was reset; and no partition had two owners
in one generation.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pylog import AdminClient, Consumer, LocalCluster, NewTopic
from pylog.clock import SYSTEM_CLOCK
from pylog.model import CONSUMER_OFFSETS, TopicPartition
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.codec import GroupCodec
from tests.verify import group_member
from tests.verify.group_member import Reader, Settings
from tests.verify.load import VerifiableProducer

TOPIC: Final = "work"
PARTITIONS: Final = 12
MEMBERS_MAX: Final = 6
PROCESS_SHARE: Final = 0.3
"""So many of the members that join are processes."""
STALL_S: Final = 3.0
PAUSE_S: Final = (0.5, 5.0)
"""The times for which a process is stopped: shorter and longer than a session."""
PATIENCE_MS: Final = 90_000
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "6",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(group_member.SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(group_member.HEARTBEAT_INTERVAL_MS),
}


@dataclass
class Group:
    """The records and events that the members of a group have seen together."""

    name: str
    protocol: str
    commits_first: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    read: set[int] = field(default_factory=set)
    owners: dict[tuple[TopicPartition, int], str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    rebalances: int = 0
    commits: int = 0
    refused: int = 0
    again: int = 0
    """Records that were read more than once."""

    def settings(self, instance_id: str | None) -> Settings:
        """The settings of a member."""
        return Settings(TOPIC, self.name, self.protocol, instance_id, self.commits_first)

    @property
    def verdicts(self) -> list[str]:
        """Everything that is wrong."""
        twice = [f"{self.name}: {self.again} records read again after they were committed"]
        return self.faults + (twice if self.commits_first and self.again else [])


class _Ears:
    """Notes what a member tells of itself."""

    def __init__(self, group: Group, owner: str) -> None:
        self._group = group
        self._owner = owner

    def assigned(self, generation: int, partitions: Sequence[TopicPartition]) -> None:
        group = self._group
        with group.lock:
            group.rebalances += 1
            # It may have been put out meanwhile, and have none.
            for tp in partitions if generation >= 0 else ():
                owner = group.owners.setdefault((tp, generation), self._owner)
                if owner != self._owner:
                    group.faults.append(
                        f"{group.name}: {tp} has the owners {owner} and {self._owner} in "
                        f"{generation}"
                    )

    def read(self, numbers: Sequence[int]) -> None:
        group = self._group
        with group.lock:
            group.again += len(group.read.intersection(numbers))
            group.read.update(numbers)

    def committed(self, taken: bool) -> None:
        with self._group.lock:
            self._group.commits += taken
            self._group.refused += not taken


class Member:
    """One member, on a thread of its own."""

    def __init__(self, name: str, group: Group, bootstrap: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.stall_until_ms = 0
        self._group = group
        # A static member that is started again goes on in the generation of its earlier self.
        ears = _Ears(group, instance_id or name)
        self._reader = Reader(bootstrap, group.settings(instance_id), ears)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def stall(self, seconds: float) -> None:
        """It polls no more for a while; its heartbeats go on."""
        self.stall_until_ms = SYSTEM_CLOCK.monotonic_ms() + int(seconds * 1000)

    def close(self) -> None:
        """It leaves its group."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._reader.run(self._goes_on)
        except Exception as error:  # noqa: BLE001 -- told at the end
            self._group.faults.append(f"{self.name} ended with {error!r}")

    def _goes_on(self) -> bool:
        left_ms = self.stall_until_ms - SYSTEM_CLOCK.monotonic_ms()
        if left_ms > 0:
            self._ends.wait(left_ms / 1000)
        return not self._ends.is_set()


class ProcessMember:
    """One member in a process of its own."""

    def __init__(self, name: str, group: Group, bootstrap: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self._group = group
        self._ears = _Ears(group, instance_id or name)
        self._process = subprocess.Popen(
            group_member.command(bootstrap, group.settings(instance_id)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._killed = False
        self._thread = threading.Thread(target=self._listen, name=name)
        self._thread.start()

    def stall(self, seconds: float) -> None:
        """All of it stops for a while, heartbeats too."""
        self._process.send_signal(signal.SIGSTOP)
        threading.Timer(seconds, self._process.send_signal, [signal.SIGCONT]).start()

    def kill(self) -> None:
        """It is gone, and nobody is told."""
        self._killed = True
        self._process.kill()
        self.close()

    def close(self) -> None:
        """It leaves its group."""
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # a killed process may have said half of one
                    group_member.hear(line, self._ears)
        status = self._process.wait()
        if status and not self._killed:
            self._group.faults.append(f"{self.name} ended with status {status}")


class Trial:
    """The groups, and what happens to them."""

    def __init__(self, cluster: LocalCluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._started = 0
        self.groups = [
            Group("g-consumer", "consumer"),
            Group("g-classic", "classic"),
            Group("g-once", rng.choice(("consumer", "classic")), commits_first=True),
        ]
        self._members: dict[str, list[Member | ProcessMember]] = {g.name: [] for g in self.groups}
        self.did: dict[str, int] = defaultdict(int)

    def join(self, group: Group, instance_id: str | None = None) -> None:
        """Another member, static with an `instance_id`."""
        self._started += 1
        kind = ProcessMember if self._rng.random() < PROCESS_SHARE else Member
        name = f"{group.name}-m{self._started}"
        bootstrap = self._cluster.bootstrap_servers
        self._members[group.name].append(kind(name, group, bootstrap, instance_id))

    def disturb(self) -> None:
        """One thing that makes a group rebalance, or that must not."""
        group = self._rng.choice(self.groups)
        members = self._members[group.name]
        what = self._rng.choice(("join", "leave", "stall", "restart", "kill", "kill a broker"))
        processes = [member for member in members if isinstance(member, ProcessMember)]
        if what == "kill a broker":
            self._kill_a_broker()
        elif what == "join" and len(members) < MEMBERS_MAX:
            self.join(group)
        elif what == "restart":
            static = [member for member in members if member.instance_id is not None]
            for member in static[:1]:
                members.remove(member)
                member.close()
            self.join(group, f"{group.name}-static")
        elif what == "stall":
            member = self._rng.choice(members)
            is_process = isinstance(member, ProcessMember)
            member.stall(self._rng.uniform(*PAUSE_S) if is_process else STALL_S)
        elif what == "kill" and processes:
            member = self._rng.choice(processes)
            members.remove(member)
            member.kill()
            self.join(group, member.instance_id)
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
                faults = _wait_until_read(trial.groups[:2], wanted)
            finally:
                producer.close()
                trial.end()
            faults += commits_that_went_back(cluster, admin)
        for log in sorted((cluster.data_dir / "logs").iterdir()):
            text = log.read_text()
            faults += [f"{log.name}: {word}" for word in ("Traceback", "a defect") if word in text]
    faults += [fault for group in trial.groups for fault in group.verdicts]
    print(f"seed {seed}: {dict(trial.did)}, {len(wanted)} acknowledged")
    for group in trial.groups:
        print(
            f"  {group.name}: {group.rebalances} assignments, {group.commits} commits, "
            f"{group.refused} refused, {len(group.read)} read, {group.again} again"
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
