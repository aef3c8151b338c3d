"""Brokers with networks of their own, of which links are cut. For test_network_partition.py.

    unshare --net python tests/integration/scripts/cut_off_brokers.py FOLDER

This network is a bridge with the controller and the clients on it, and one broker behind each of
three links. Prints what was seen. Needs root.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pylog import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from tests.fakes.waiting import eventually

HERE = "10.77.0.10"
GATEWAY = f"{HERE}:9092"
PATIENT: dict[str, Any] = {"bootstrap_servers": GATEWAY, "bootstrap_timeout_ms": 240_000}
T0 = TopicPartition("t", 0)
SETTINGS = (
    "--config", "min.insync.replicas=2", "--config", "replica.lag.time.max.ms=2000",
    "--config", "broker.claim.wait.ms=0",
)  # fmt: skip

folder = Path(sys.argv[1])
secret = folder / "secret"
secret.write_text(secrets.token_hex(32))
secret.chmod(0o600)
seen: dict[str, object] = {}


def ip(*arguments: str, inside: int | None = None) -> None:
    into = [] if inside is None else ["nsenter", "-t", str(inside), "-n"]
    subprocess.run([*into, "ip", *arguments], check=True)


def python(module: str, name: str, *arguments: str) -> list[str]:
    return [
        sys.executable, "-m", module, "--data-dir", str(folder / name), "--allow-plaintext",
        "--secret-file", str(secret), "--parent-pid", str(os.getpid()), *SETTINGS, *arguments,
    ]  # fmt: skip


class Host:
    """A broker's process, in a network of its own with one link to the bridge."""

    def __init__(self, number: int) -> None:
        self.address = f"10.77.0.{number}"
        self.link = f"hub{number}"
        command = python(
            "pylog_broker.node", f"host-{number}", "--controller", GATEWAY,
            "--listen", f"{self.address}:9092", "--replication-listen", f"{self.address}:9093",
            "--stream-listen", f"{self.address}:9094",
        )  # fmt: skip
        log = (folder / f"host-{number}.log").open("wb")
        waits = ["unshare", "--net", "sh", "-c", 'read _; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(waits, stdin=subprocess.PIPE, stderr=log, stdout=log)
        pid = self.process.pid
        own = Path("/proc/self/ns/net").readlink()
        eventually(10, lambda: Path(f"/proc/{pid}/ns/net").readlink() != own, "a network")
        ip("link", "add", self.link, "type", "veth", "peer", "name", "way", "netns", str(pid))
        ip("link", "set", self.link, "master", "bridge", "up")
        ip("link", "set", "lo", "up", inside=pid)
        ip("addr", "add", f"{self.address}/24", "dev", "way", inside=pid)
        ip("link", "set", "way", "up", inside=pid)
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.close()

    def cut(self) -> None:
        """Reach nobody, and be reached by nobody."""
        ip("link", "set", self.link, "down")

    def join(self) -> None:
        ip("link", "set", self.link, "up")

    def lose(self, other: Host, *, lost: bool) -> None:
        """Send nothing to another host; or again."""
        verb = "add" if lost else "del"
        ip("route", verb, "blackhole", f"{other.address}/32", inside=self.process.pid)


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
    ip("link", "set", "lo", "up")
    ip("link", "add", "bridge", "type", "bridge")
    ip("addr", "add", f"{HERE}/24", "dev", "bridge")
    ip("link", "set", "bridge", "up")
    log = (folder / "controller.log").open("wb")
    command = python("pylog_broker.head", "controller", "--brokers", "3", "--listen", GATEWAY)
    processes = [subprocess.Popen(command, stderr=log, stdout=log)]
    hosts: dict[int, Host] = {}
    try:
        for number in (1, 2, 3):
            hosts[number] = Host(number)
            processes.append(hosts[number].process)
        with (
            AdminClient(**PATIENT, default_api_timeout_ms=90_000) as admin,
            Producer(**PATIENT, linger_ms=0, delivery_timeout_ms=120_000) as sender,
        ):
            run(admin, sender, hosts)
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
    sys.stdout.write(json.dumps(seen))


def run(admin: AdminClient, sender: Producer, hosts: dict[int, Host]) -> None:
    def live() -> dict[int, Host]:
        """The hosts by the brokers on them."""
        by_address = {host.address: host for host in hosts.values()}
        return {b.id: by_address[b.host] for b in admin.describe_cluster().brokers}

    def state() -> tuple[int | None, set[int]]:
        partition = admin.describe_topics("t")["t"].partitions[0]
        return partition.leader, set(partition.isr)

    eventually(240, lambda: len(live()) == 3, "three brokers")
    brokers = live()
    admin.create_topics(NewTopic("t", replica_assignment={0: [1, 2, 3]}))
    load = Load(sender)
    load.goes_on("a healthy cluster")

    brokers[1].cut()
    eventually(60, lambda: state()[0] in (2, 3), "another leads")
    seen["stall of a lost leader, ms"] = load.goes_on("the leader is cut off")
    brokers[1].join()
    eventually(90, lambda: state()[1] == {1, 2, 3}, "the cut-off broker is in sync again")

    leader = state()[0]
    assert leader is not None
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
