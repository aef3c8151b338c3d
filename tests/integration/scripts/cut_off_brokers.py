"""Brokers with networks of their own, of which links are cut. For test_network_partition.py.

    unshare --net python tests/integration/scripts/cut_off_brokers.py FOLDER

Prints what was seen. Needs root.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pylog import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from tests.fakes.cut_networks import GATEWAY, CutNetwork, Host
from tests.fakes.waiting import eventually

PATIENT: dict[str, Any] = {"bootstrap_servers": GATEWAY, "bootstrap_timeout_ms": 240_000}
T0 = TopicPartition("t", 0)
SETTINGS = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "2000"}

seen: dict[str, object] = {}


class Load:
    """Sends numbers one after the other, each once the one before is acknowledged."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.acknowledged = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.send("t", b"%d" % self.acknowledged).result(120)
            self.acknowledged += 1

    def goes_on(self, what: str) -> int:
        """Milliseconds until ten more are acknowledged."""
        wanted = self.acknowledged + 10
        return round(eventually(90, lambda: self.acknowledged >= wanted, what))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive()


def main() -> None:
    with (
        CutNetwork(Path(sys.argv[1]), SETTINGS) as network,
        AdminClient(**PATIENT, default_api_timeout_ms=90_000) as admin,
        Producer(**PATIENT, linger_ms=0, delivery_timeout_ms=120_000) as sender,
    ):
        run(admin, sender, network.hosts)
    sys.stdout.write(json.dumps(seen))


def run(admin: AdminClient, sender: Producer, hosts: dict[int, Host]) -> None:
    def live() -> dict[int, Host]:
        """The hosts by the brokers on them."""
        by_address = {host.address: host for host in hosts.values()}
        return {b.id: by_address[b.host] for b in admin.describe_cluster().brokers}

    def state() -> tuple[int | None, set[int]]:
        partition = admin.describe_topics("t")["t"].partitions[0]
        return partition.leader, set(partition.isr)

    def followed_again() -> int:
        """The leader after the first broker's, once that broker is in sync with it."""
        leader = None

        def is_followed() -> bool:
            # Any broker may be the one that is asked. The first broker knows itself as the leader
            # of three until the metadata reach it again.
            nonlocal leader
            leader, isr = state()
            return leader in (2, 3) and isr == {1, 2, 3}

        eventually(90, is_followed, "the cut-off broker is in sync again")
        assert leader is not None
        return leader

    eventually(240, lambda: len(live()) == 3, "three brokers")
    brokers = live()
    admin.create_topics(NewTopic("t", replica_assignment={0: [1, 2, 3]}))
    load = Load(sender)
    load.goes_on("a healthy cluster")

    brokers[1].cut()
    eventually(60, lambda: state()[0] in (2, 3), "another leads")
    seen["stall of a lost leader, ms"] = load.goes_on("the leader is cut off")
    brokers[1].join()
    leader = followed_again()
    follower = next(broker for broker in (1, 2, 3) if broker != leader)
    brokers[follower].lose(brokers[leader], lost=True)
    eventually(60, lambda: follower not in state()[1], "a follower without its leader")
    seen["stall of a lost follower, ms"] = load.goes_on("a follower cannot reach its leader")
    brokers[follower].lose(brokers[leader], lost=False)
    eventually(90, lambda: state()[1] == {1, 2, 3}, "the follower is in sync again")
    load.stop()

    seen["acknowledged"] = load.acknowledged
    found: list[bytes | None] = []
    with Consumer(**PATIENT, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        while len(found) < load.acknowledged:
            found += [record.value for record in consumer.poll(10)]
    seen["each once and in order"] = found == [b"%d" % n for n in range(load.acknowledged)]


if __name__ == "__main__":
    main()
