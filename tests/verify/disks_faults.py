"""Disks that fail: their replicas go offline and are led elsewhere, the rest lives, and when the
disk is back all replicas are equal.
"""

from __future__ import annotations

from typing import Final

from pylog.errors import PylogError
from tests.verify.disks_stage import BROKERS, Blow, NotWithin, Stage, now_ms, wait_until

NOTICE_SECONDS: Final = 15.0
GO_ON_SECONDS: Final = 15.0


class Fault:
    """One blow: a disk of one broker fails, and comes back."""

    def __init__(self, stage: Stage, kind: str) -> None:
        """`kind`: one of `kinds`."""
        rng = stage.rng
        self._stage, self._kind = stage, kind
        struck = rng.choice(stage.partitions())
        role = rng.choice(("leader", "follower"))
        followers = [b for b in struck.replicas if b != struck.leader]
        assert struck.leader is not None
        self._broker = struck.leader if role == "leader" else rng.choice(followers)
        disks = stage.disks[self._broker]
        name = f"{stage.topic}-{struck.partition}"
        self._disk = next(disk for disk in disks if (disk.at / name).is_dir())
        self._struck = stage.on_disk(self._broker, self._disk)
        place = "only disk" if stage.directories == 1 else "one of two disks"
        self.blow = Blow(kind, f"{place} of a {role}", now_ms())

    def strike(self) -> Blow:
        """Do it; what came of it. NotWithin when the cluster does not recover."""
        stage = self._stage
        getattr(self, f"_{self._kind}")()
        begin = now_ms()
        stage.heal()
        self.blow.resumed_ms = now_ms() - begin
        self.blow.broken += stage.judge()
        return self.blow

    # ---- a disk that fails under a running broker -----------------------------------------------

    def _erofs(self) -> None:
        self.blow.struck_ms = now_ms()
        self._disk.abort()
        self._lived_through()

    def _eio(self) -> None:
        self.blow.struck_ms = now_ms()
        self._disk.shut_down()
        self._lived_through()

    def _taken_away(self) -> None:
        """Open files go on to work; the next that has to be made cannot be."""
        self.blow.struck_ms = now_ms()
        self._disk.unmount()
        self._lived_through()

    def _lived_through(self) -> None:
        """Noticed, led elsewhere, the rest goes on; then the disk and the broker come back."""
        stage, broker = self._stage, self._broker
        try:
            wait_until(NOTICE_SECONDS, self._is_noticed, "others lead what was on the disk")
            self.blow.notice_ms = now_ms() - self.blow.struck_ms
        except NotWithin as late:
            self.blow.broken.append(str(late))
        self._others_go_on()
        if stage.directories > 1 and not stage.running(broker):
            self.blow.broken.append("the broker ended, though its other disk works")
        if stage.rng.random() < 0.5:
            stage.cluster.stop(broker)
        else:
            stage.cluster.kill(broker)
        self._mount_anew()
        stage.cluster.start(broker)

    def _is_noticed(self) -> bool:
        try:
            found = self._stage.partitions()
        except PylogError:
            return False
        return all(
            p.leader not in (None, self._broker) and self._broker not in p.isr
            for p in found
            if p.partition in self._struck
        )

    def _others_go_on(self) -> None:
        begin, stage = now_ms(), self._stage
        try:
            wait_until(GO_ON_SECONDS, lambda: stage.written_since(begin), "the rest goes on")
        except NotWithin as late:
            self.blow.broken.append(str(late))

    def _mount_anew(self) -> None:
        """Check that the folder below was not taken for the disk, and mount the disk."""
        if self._disk.mounted:
            self._disk.unmount()
        made = sorted(path.name for path in self._disk.at.iterdir())
        if any(name.startswith(self._stage.topic) for name in made):
            self.blow.broken.append(f"made below the mount point: {made}")
        self._disk.mount()

    # ---- a disk that is not right when its broker starts ----------------------------------------

    def _read_only_at_the_start(self) -> None:
        stage, broker = self._stage, self._broker
        stage.cluster.kill(broker)
        self._disk.make_read_only()
        self._start_without(f"{self._disk} is read-only")
        self._others_go_on()
        stage.cluster.kill(broker)
        self._disk.make_writable()
        stage.cluster.start(broker)

    def _missing_at_the_start(self) -> None:
        stage, broker = self._stage, self._broker
        stage.cluster.kill(broker)
        self._disk.unmount()
        self._start_without(f"{self._disk} is missing")
        self._others_go_on()
        stage.cluster.kill(broker)
        self._mount_anew()
        stage.cluster.start(broker)

    def _start_without(self, what: str) -> None:
        """With another disk the broker starts, with none it says why it does not."""
        stage, broker = self._stage, self._broker
        try:
            stage.cluster.start(broker)
        except PylogError as error:
            if stage.directories > 1 or str(self._disk) not in str(error):
                self.blow.broken.append(f"{what}, and the broker did not start: {error}")
            return
        if stage.directories == 1:
            self.blow.broken.append(f"{what}, and the broker started without any")
            return
        path = str(self._disk)
        found = {d.path: d for d in stage.admin.describe_log_dirs([broker])[broker]}
        if found[path].error is None:
            self.blow.broken.append(f"{what}, and it is in use")

    # ---- a disk that forgets --------------------------------------------------------------------

    def _forgets(self) -> None:
        """The broker is killed, and its disk comes back without what was not synced."""
        stage, broker = self._stage, self._broker
        stage.cluster.kill(broker)
        self._forget()
        stage.cluster.start(broker)

    def _all_die_one_forgets(self) -> None:
        """The same while everything is killed: nobody tells that broker what it lacks."""
        stage = self._stage
        stage.cluster.kill_controller()
        for broker in BROKERS:
            stage.cluster.kill(broker)
        self._forget()
        stage.cluster.start_controller()
        for broker in stage.rng.sample(BROKERS, len(BROKERS)):
            stage.cluster.start(broker)

    def _forget(self) -> None:
        self._disk.abort()
        self._mount_anew()


def kinds(directories: int) -> tuple[str, ...]:
    """The faults that can befall a broker with so many log directories."""
    if directories == 1:
        # A missing only disk is an empty directory: a new broker's, as far as anybody can tell.
        return tuple(kind for kind in _KINDS if kind != "missing_at_the_start")
    return _KINDS


_KINDS: Final = (
    "erofs",
    "eio",
    "taken_away",
    "read_only_at_the_start",
    "missing_at_the_start",
    "forgets",
    "all_die_one_forgets",
)
