"""One poller for all viewers: it asks the cluster for each part of a `Snapshot` at its interval.

Each part has a thread of its own, because one that waits for a broker that is gone must not hold up
the others. They share `_snapshot` and the courses under one lock. When the process works too much,
all intervals grow; when nobody looks, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pylog import errors
from pylog.client.background import logger
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.console import asking
from pylog.console.history import Changes, Courses, partition_changes, rates
from pylog.console.snapshot import Part, Snapshot, partition_sizes

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient

INTERVALS_MS: Final = {
    "cluster": 2_000,
    "topics": 4_000,
    "ends": 2_000,
    "groups": 4_000,
    "disks": 15_000,
    "transactions": 5_000,
}
"""Between the end of one question and the next."""
IDLE_MS: Final = 30_000
"""Without a viewer for so long, everything is asked less often."""
IDLE_FACTOR: Final = 5.0
PACE_MAX: Final = 16.0
CPU_SHARE_HIGH: Final = 0.06
CPU_SHARE_LOW: Final = 0.03
"""The shares of one core above which the console asks less often, and below which it asks more
often. Between the two nothing changes."""
PACE_WINDOW_MS: Final = 5_000
TOTAL: Final = ""
"""Among the courses of topics: of all together."""

Ask = Callable[["AdminClient", Snapshot], tuple[Any, str]]

ASKS: Final[dict[str, Ask]] = {
    "cluster": lambda admin, _: asking.cluster(admin),
    "topics": lambda admin, _: asking.topics(admin),
    "ends": lambda admin, snapshot: asking.ends(admin, snapshot.topics.value),
    "groups": lambda admin, _: asking.groups(admin),
    "disks": lambda admin, _: asking.disks(admin),
    "transactions": lambda admin, _: asking.transactions(admin),
}


def next_pace(pace: float, cpu_share: float) -> float:
    """The factor by which the intervals are multiplied from now on."""
    if cpu_share > CPU_SHARE_HIGH:
        return min(pace * 1.5, PACE_MAX)
    if cpu_share < CPU_SHARE_LOW:
        return max(pace / 1.5, 1.0)
    return pace


class Knowledge:
    """The newest snapshot and how numbers went until then. Thread safe; changed by `learn` and
    `fail` only.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._snapshot = Snapshot()
        self._ends_at_ms = 0
        self._disks_at_ms = 0
        self.topic_rates: Courses[str] = Courses()
        self.group_lags: Courses[str] = Courses()
        self.changes = Changes()
        self.on_change: Callable[[], None] = lambda: None

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def learn(self, part: str, value: Any, fault: str = "") -> None:
        """The answer to a question for one part."""
        now_ms, monotonic_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        with self._lock:
            before = self._snapshot
            if part == "ends" and fault:  # of a broker that is away, the last that is known
                value = {**before.ends.value, **value}
            old: Part[Any] = getattr(before, part)
            self._tell_changes(part, old, value, fault, now_ms)
            if fault and old.failing_since_ms is None:
                self.changes.add(now_ms, "fault", f"{part} cannot all be had: {fault}")
            changed: dict[str, Any] = {part: old.learnt(value, now_ms, fault)}
            if part == "ends":
                if old.at_ms is not None:
                    moved = rates(old.value, value, monotonic_ms - self._ends_at_ms)
                    changed["rates"] = moved
                    self.topic_rates.add(now_ms, {TOTAL: sum(moved.values()), **moved})
                self._ends_at_ms = monotonic_ms
            elif part == "disks":
                if old.at_ms is not None:
                    sizes = partition_sizes(old.value), partition_sizes(value)
                    changed["byte_rates"] = rates(*sizes, monotonic_ms - self._disks_at_ms)
                self._disks_at_ms = monotonic_ms
            elif part == "groups":
                lags = {name: look.lag for name, look in value.items()}
                known = {name: float(lag) for name, lag in lags.items() if lag is not None}
                self.group_lags.add(now_ms, known)
            self._snapshot = replace(before, version=before.version + 1, **changed)
        self.on_change()

    def fail(self, part: str, fault: str) -> None:
        """A question for one part that was not answered."""
        now_ms = self._clock.wall_ms()
        with self._lock:
            before = self._snapshot
            old: Part[Any] = getattr(before, part)
            if old.failing_since_ms is None:
                self.changes.add(now_ms, "fault", f"{part} cannot be had: {fault}")
            failed = {part: old.failed(now_ms, fault)}
            if part == "ends":
                failed["rates"] = {}  # type: ignore[assignment]
            elif part == "disks":
                failed["byte_rates"] = {}  # type: ignore[assignment]
            self._snapshot = replace(before, version=before.version + 1, **failed)  # type: ignore[arg-type]
        self.on_change()

    def _tell_changes(self, part: str, old: Part[Any], value: Any, fault: str, now_ms: int) -> None:
        def tell(kind: str, text: str) -> None:
            self.changes.add(now_ms, kind, text)

        if old.failing_since_ms is not None and not fault:
            tell("fault", f"{part} can be had again")
        if old.at_ms is None:
            return
        if part == "topics":
            partition_changes(old.value, value, tell)
        elif part == "cluster" and old.value is not None:
            served = {broker.id for broker in old.value.brokers if not broker.fenced}
            serves = {broker.id for broker in value.brokers if not broker.fenced}
            for broker in sorted(served - serves):
                tell("broker", f"broker {broker} does not serve any more")
            for broker in sorted(serves - served):
                tell("broker", f"broker {broker} serves")
            if value.controller_epoch != old.value.controller_epoch:
                tell("controller", f"controller epoch {value.controller_epoch}, which was "
                     f"{old.value.controller_epoch}")  # fmt: skip


class Poller:
    """The threads that ask. `start` once, `stop` once."""

    def __init__(self, admin: AdminClient, knowledge: Knowledge, clock: Clock = SYSTEM_CLOCK):
        self._admin = admin
        self._knowledge = knowledge
        self._clock = clock
        self._wanted = threading.Condition()
        self._stopped = False
        self._pace = 1.0
        self._looked_at_ms = clock.monotonic_ms()
        self._measured = (clock.monotonic_ms(), time.process_time())
        self._threads = [
            threading.Thread(target=self._run, args=(part,), name=f"console-{part}", daemon=True)
            for part in ASKS
        ]

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask no more. A question that is under way is not waited for long."""
        with self._wanted:
            self._stopped = True
            self._wanted.notify_all()
        for thread in self._threads:
            thread.join(1.0)

    def touch(self) -> None:
        """Somebody looks. Called for each request."""
        now_ms = self._clock.monotonic_ms()
        was_idle = now_ms - self._looked_at_ms > IDLE_MS
        self._looked_at_ms = now_ms
        if was_idle:
            with self._wanted:
                self._wanted.notify_all()

    def _run(self, part: str) -> None:
        while not self._stopped:
            self.ask(part)
            self._rest(part)

    def ask(self, part: str) -> None:
        """Ask for one part now."""
        try:
            value, fault = ASKS[part](self._admin, self._knowledge.snapshot)
        except errors.PylogError as error:
            if not self._stopped:
                self._knowledge.fail(part, asking.words_of(error))
        except Exception as error:  # noqa: BLE001  the top of a thread: the page tells it
            logger.exception("the console failed to ask for %s", part)
            self._knowledge.fail(part, f"a defect of the console: {asking.words_of(error)}")
        else:
            self._knowledge.learn(part, value, fault)

    def _rest(self, part: str) -> None:
        began_ms = self._clock.monotonic_ms()
        first = part == "ends" and self._knowledge.snapshot.topics.at_ms is None
        with self._wanted:
            while not self._stopped:
                wait_ms = self._interval_ms(part) - (self._clock.monotonic_ms() - began_ms)
                if first and self._knowledge.snapshot.topics.at_ms is not None:
                    return
                if wait_ms <= 0:
                    return
                self._wanted.wait(min(wait_ms / 1000, 0.1 if first else 60.0))

    def _interval_ms(self, part: str) -> float:
        now_ms = self._clock.monotonic_ms()
        since_ms, cpu_s = self._measured
        if now_ms - since_ms >= PACE_WINDOW_MS:
            spent_s = time.process_time()
            self._pace = next_pace(self._pace, (spent_s - cpu_s) * 1000 / (now_ms - since_ms))
            self._measured = (now_ms, spent_s)
        idle = IDLE_FACTOR if now_ms - self._looked_at_ms > IDLE_MS else 1.0
        return INTERVALS_MS[part] * self._pace * idle
