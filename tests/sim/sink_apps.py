"""The queries and jobs of a run whose batches count once, and what befalls them.

A driver crashes, with its executors or without, is followed by another one on the same checkpoint
while it believes to be the only one, stands still, or goes on from an older checkpoint; a worker
crashes or stands still; an operator aborts, or forgets, a sink. A query that commits what it has
read loses its checkpoint, and a new one goes on in its place; the old one may be started again. At
the end all are good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylog.client.admin import sink_wire as admin_wire
from pylog.client.sinks.sink_types import SinkKey
from pylog.rpc import apis
from pylog.rpc.v1 import sink_pb2
from tests.sim.rpc import Actor, Machine
from tests.sim.scheduler import US_PER_MS
from tests.sim.sink_calls import SinkCaller
from tests.sim.sink_drivers import Checkpoint, Driver, Work
from tests.sim.sink_ghost import SinkGhost
from tests.sim.sink_workers import SinkWorker

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

PAUSE_MS_MAX = 4_000
JOB_KEEP_MS = 2_000
OPERATOR_MS = 3_000
FORGOTTEN_SHARE = 0.3
COMES_BACK_MS = 3_000
"""So soon an old query is started again when all is well."""
LOST_SHARE = 0.3
"""The share of drivers that die over a batch whose checkpoint is lost with them."""
YOUNG_SHARE = 0.3
"""The share of queries that may lose their checkpoints before they have written anything."""
TAKEOVER_SHARE = 0.6
"""The share of new queries whose user says at once that they are to go on for the old ones."""


class _Place:
    """The place of one run after the other: of a query, or of jobs."""

    def __init__(self, name: str, *, is_job: bool, reads: bool = False) -> None:
        self.name = name
        self.is_job = is_job
        self.reads = reads
        self.sink = SinkKey(f"query-{name}", "t")
        self.checkpoint = Checkpoint()
        self.runs = 0
        self.driver: Driver | None = None
        self.takes_over = False
        self.earlier: list[tuple[SinkKey, Checkpoint]] = []
        """Of the queries that have lost their checkpoints."""
        if reads:
            self._new_query()

    def lose_checkpoint(self, *, takes_over: bool) -> None:
        """Another query goes on in its place."""
        self.earlier.append((self.sink, self.checkpoint))
        self.takes_over = takes_over
        self._new_query()

    def _new_query(self) -> None:
        """Its id is one of Spark's."""
        number, count = int(self.name[1:]), len(self.earlier)
        query_id = f"{number:08x}-{count:04x}-4000-8000-000000000000"
        self.sink = SinkKey(query_id, f"copy-{self.name}")
        self.checkpoint = Checkpoint()


class SinkApps:
    """All of a cluster's."""

    def __init__(self, cluster: Cluster) -> None:
        swarm = cluster.swarm.sinks
        assert swarm is not None
        assert cluster.transactions is not None
        self._cluster = cluster
        self._swarm = swarm
        self.rng = cluster.scheduler.rng("sink applications")
        self.ghost = SinkGhost(cluster, cluster.transactions.ghost)
        self._places = [
            _Place(f"u{number}", is_job=False, reads=swarm.progress)
            for number in range(swarm.queries)
        ]
        self._places += [_Place(f"j{number}", is_job=True) for number in range(swarm.jobs)]
        self._drivers: list[Driver] = []
        self._workers: list[SinkWorker] = []
        self._attempts = 0
        self._is_over = False
        self._operator = Actor(Machine("operator", cluster.scheduler, 0))
        self._calls = SinkCaller(cluster, self._operator, cluster.scheduler.rng("operator"))

    # ---- drivers and workers

    def start(self) -> None:
        """One driver after the other."""
        for place in self._places:
            self._later(self.rng.expovariate(1 / 700), self._fill, place)
        self._next()

    def _later(self, wait_ms: float, fn: object, *args: object) -> None:
        self._cluster.scheduler.after(int(wait_ms * US_PER_MS), fn, *args)  # type: ignore[arg-type]

    def _fill(self, place: _Place, behind: int = 0) -> None:
        if place.driver is not None and place.driver.alive:
            return
        place.runs += 1
        name = f"{place.name}d{place.runs}"
        self._cluster.scheduler.note("comes", name)
        self._cluster.sometimes[f"sinks: {'job' if place.is_job else 'run of a query'}"] += 1
        driver = Driver(self._cluster, self, name, f"run-{name}", self._work(place))
        place.driver = driver
        self._drivers.append(driver)
        driver.says_last = self._is_over
        looks_up = bool(place.earlier)
        driver.hear(lambda: driver.start(behind=behind, looks_up=looks_up))

    def _work(self, place: _Place) -> Work:
        if not place.is_job:
            if place.takes_over:
                self.ghost.progress.may_follow(place.sink)
            return Work(
                place.sink, place.checkpoint, reads=place.reads, takes_over=place.takes_over
            )
        if self.rng.random() < 0.5:
            sink = SinkKey(f"job:{place.name}-{place.runs}", "t")
            return Work(sink, keep_ms=JOB_KEEP_MS)
        number = self.rng.randrange(self._swarm.keys)
        keep_ms = self._swarm.keep_ms
        return Work(SinkKey(f"key:{number}", "t"), None, keep_ms, is_keyed=True)

    def worker(self) -> SinkWorker:
        """One that has nothing to do."""
        idle = [each for each in self._workers if each.is_idle and not each.machine.paused]
        if idle and self.rng.random() < 0.8:
            known = self.rng.choice(idle)
            known.is_taken = True
            return known
        worker = SinkWorker(self._cluster, self, f"e{len(self._workers)}")
        self._workers.append(worker)
        self._cluster.producers.append(worker)
        worker.is_taken = True
        worker.hear(worker.start)
        return worker

    def next_attempt(self) -> int:
        """A number that no attempt has."""
        self._attempts += 1
        return self._attempts

    def ended(self, driver: Driver, *, dies: bool = False) -> None:
        """A run has ended; another one comes, sooner or later. One that `dies` may take the query's
        checkpoint along.
        """
        for place in self._places:
            if place.driver is driver and not (self._is_over and driver.has_written_last):
                # whoever reads the error says that it is meant
                place.takes_over = place.takes_over or driver.is_refused
                if dies and place.reads and self.rng.random() < LOST_SHARE:
                    self._lose(place)
                self._later(self._away_ms(), self._fill, place)

    def _away_ms(self) -> float:
        return 50 if self._is_over else self.rng.expovariate(1 / self._swarm.away_ms)

    # ---- what befalls them

    def _next(self) -> None:
        self._later(self.rng.expovariate(1 / self._swarm.interval_ms), self._act)

    def _act(self) -> None:
        if self._is_over:
            return
        place = self.rng.choice(self._places)
        kind = self.rng.choice(self._swarm.faults)
        driver = place.driver
        if driver is not None and driver.alive:
            self._cluster.scheduler.note("to a driver", kind, driver.name)
            self._cluster.sometimes[f"sinks: {kind}"] += 1
            self._strike(kind, place, driver)
        self._next()

    def _strike(self, kind: str, place: _Place, driver: Driver) -> None:
        rng = self.rng
        match kind:
            case "crash":
                for worker in driver.workers():
                    worker.crash()
                driver.crash()
                self._later(self._away_ms(), self._fill, place)
            case "lonely":
                driver.crash()
                self._later(self._away_ms(), self._fill, place)
            case "double":
                # the old one is not dead as yet, but forgotten
                place.driver = None
                self._fill(place)
                self._later(rng.randint(500, 6_000), driver.crash)
            case "pause":
                self._pause(driver)
            case "worker":
                for worker in driver.workers()[:1]:
                    worker.crash()
            case "worker_pause":
                for worker in driver.workers()[:1]:
                    self._pause(worker)
            case "old":
                driver.crash()
                self._later(self._away_ms(), self._fill, place, rng.randint(1, 3))
            case "lost" if place.reads and self._may_lose(place):
                self._lose(place)
                self._later(self._away_ms(), self._fill, place)
            case "back" if place.reads:
                self._come_back(place)
            case "lost" | "back":
                pass
            case "operator":
                self._operate(place.driver.work.sink if place.driver is not None else place.sink)
            case _:
                raise AssertionError(kind)

    def _may_lose(self, place: _Place) -> bool:
        return self.ghost.progress.has_written(place.sink) or self.rng.random() < YOUNG_SHARE

    def _lose(self, place: _Place) -> None:
        """The checkpoint is gone. Somebody sees to it that the query does not run any more; its
        executors may linger.
        """
        is_thorough = self.rng.random() < 0.5
        for driver in self._drivers:
            if driver.alive and driver.work.sink == place.sink:
                for worker in driver.workers() if is_thorough else ():
                    worker.crash()
                driver.crash()
        place.lose_checkpoint(takes_over=self.rng.random() < TAKEOVER_SHARE)
        self._cluster.sometimes["sinks: checkpoint lost"] += 1

    def _come_back(self, place: _Place) -> None:
        """Somebody starts a query again in whose place another one has gone on, with its old
        checkpoint.
        """
        moved_on = [each for each in place.earlier if self.ghost.progress.has_moved_on(each[0])]
        if not moved_on:
            return
        sink, checkpoint = self.rng.choice(moved_on)
        place.runs += 1
        name = f"{place.name}d{place.runs}"
        self._cluster.sometimes["sinks: earlier query started again"] += 1
        work = Work(sink, checkpoint, reads=True)
        driver = Driver(self._cluster, self, name, f"run-{name}", work)
        driver.is_misled = True
        self._drivers.append(driver)
        driver.hear(driver.start)

    def _pause(self, actor: Actor) -> None:
        actor.machine.pause()
        self._later(self.rng.randint(50, PAUSE_MS_MAX), actor.machine.resume)

    def _operate(self, sink: SinkKey) -> None:
        """`pylog sinks abort`, or `forget`: what is decided then may be written again."""
        forgets = self.rng.random() < FORGOTTEN_SHARE and not self._swarm.progress
        self._cluster.sometimes[f"sinks: operator {'forgets' if forgets else 'aborts'}"] += 1
        key = admin_wire.key_message(*sink)
        if forgets:
            self.ghost.asked_to_forget(sink)
            api, request = apis.FORGET_SINK, sink_pb2.ForgetSinkRequest(sink=key)
            self._calls.ask(sink, api, request, lambda _: None, OPERATOR_MS)
            return
        abort = sink_pb2.AbortSinkBatchRequest(sink=key, whole_sink=True)
        self._calls.ask(sink, apis.ABORT_SINK_BATCH, abort, lambda _: None, OPERATOR_MS)

    # ---- the end

    def settle(self) -> None:
        """Every place has a driver, which writes one batch more."""
        self._is_over = True
        kept = [place.driver for place in self._places]
        for worker in self._workers:
            worker.machine.resume()
        for driver in self._drivers:
            driver.machine.resume()
            driver.says_last = True
            if driver not in kept and driver.alive:
                driver.crash()
        for place in self._places:
            if place.driver is not None and place.driver.is_misled and place.driver.alive:
                place.driver.crash()
            if place.driver is None or not place.driver.alive:
                self._fill(place)
            if place.reads:
                self._later(self.rng.randint(100, COMES_BACK_MS), self._come_back, place)

    @property
    def waits_for(self) -> list[str]:
        """L1: what is not settled."""
        found = [
            f"{place.name} has not written its last batch"
            for place in self._places
            if place.driver is None or not place.driver.has_written_last
        ]
        return found + self.ghost.waits_for
