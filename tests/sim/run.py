"""Runs of the simulator: one seed, many seeds over several processes, and their reports."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import subprocess
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import ModuleType

from pylog.model import CONSUMER_OFFSETS
from pylog_broker.controller import metadata_batches
from pylog_broker.controller.settings import SHARE_GROUP_STATE, TRANSACTION_STATE
from pylog_broker.coordinator.groups.share import protocol
from pylog_broker.coordinator.runtime import shard
from pylog_broker.node import coordinators
from pylog_broker.node.share import dead_letters, persister, share_groups
from tests.sim.cluster import Cluster
from tests.sim.nemesis import Nemesis
from tests.sim.scheduler import US_PER_S, Trace
from tests.sim.share_apps import WRITE_MS
from tests.sim.swarm import Modes
from tests.sim.variant import overridden
from tests.sim.variants import VARIANTS
from tests.sim.violation import Violation

FAULTS_S = 20
PERSISTER_SECONDS = 4.0
PERSISTER_CALL_SECONDS = 1.5
ASKED_MS = 8_000
DEAD_LETTER_SECONDS = 1.0
"""Waits of share groups, shortened in the same proportion: a run has only seconds."""

REQUIRED = (
    "acknowledged",
    "log cut",
    "divergence told",
    "ISR of one",
    "stale fetch refused",
    "tail lost in recovery",
    "torn write",
    "duplicate answered",
    "ELR election",
    "leader changed",
    "controller restart",
    "kill all",
    "power loss",
    "clean stop",
    "cluster stop",
    "cold read",
    "read",
    "retention",
    "compaction",
    "records deleted",
    "reader out of range",
    "topic re-created",
    "topic grown",
    "min.insync.replicas changed",
    "cleanup.policy changed",
    "clock set",
    "disk failed",
    "log directory failed",
    "log directory offline at start",
    "log directory came back",
    "replica moved",
    "replica copied",
    "replica restored",
    "leadership began",
    "leadership ended",
    # producers
    "late producer",
    "producer left",
    "several requests in a produce message",
    "several partitions in a produce",
    "compressed batches produced",
    "produced without acks",
    "sent past the queue",
    "batch split",
    "fresh producer id",
    "produce throttled",
    "producer cuts a stream",
    "send: DELIVERY_TIMED_OUT",
    # consumers, and others who ask
    "several partitions in a fetch",
    "standing fetch answered",
    "read committed",
    "consumer's fetch names epochs",
    "consumer sent to a follower",
    "follower read by a consumer",
    "fetch cut",
    "consumer meets a new topic",
    "epoch end asked",
    "offset listed",
    "offset by time",
    # work beside the loop, and what is refused for a moment
    "log synced by upkeep",
    "log synced for its acks",
    "checkpoints written beside the loop",
    "died with work at the disk",
    "died over a sync",
    "died over a checkpoint",
    "died over a close",
    "died over a start",
    "short of descriptors or memory",
    "access refused for a moment",
    # the metadata log
    "metadata append in parts",
    "metadata append never finished",
    "controller without room",
    # commands
    "metadata appended over a snapshot",
    "settings of cluster changed",
    "settings of broker changed",
    "preferred leader by command",
    "broker unregistered",
    "task end reported",
    "unclean election with data",
    # moves of partitions
    "move begun",
    "move ended",
    "move took the leader away",
    "move cancelled",
    "move replaced",
    "replica taken away",
    "replica made again",
    # occasions that are waited for
    "refused ISR change comes again",
    "eligible broker taken for gone",
    "log cut under a sync",
    "power loss after a sync over a cut",
    "checkpoint over a newer one",
    "new leader does not know the end yet",
)
"""Things that must happen at least once in a set of runs, or the set has proved nothing."""

REQUIRED_OF_GROUPS = (
    # calls, and what coordinators refuse
    "FindCoordinator",
    "FindCoordinator answered CoordinatorNotAvailable",
    "JoinGroup",
    "JoinGroup answered MemberIdRequired",
    "JoinGroup answered UnknownMemberId",
    "SyncGroup",
    "SyncGroup: REBALANCE_IN_PROGRESS",
    "Heartbeat",
    "Heartbeat answered RebalanceInProgress",
    "Heartbeat answered UnknownMemberId",
    "LeaveGroup",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupHeartbeat answered CoordinatorLoadInProgress",
    "ConsumerGroupHeartbeat answered CoordinatorNotAvailable",
    "ConsumerGroupHeartbeat answered NotCoordinator",
    "ConsumerGroupHeartbeat answered UnknownMemberId",
    "ConsumerGroupHeartbeat answered UnreleasedInstanceId",
    "OffsetCommit",
    "OffsetCommit: NOT_COORDINATOR",
    "OffsetCommit: COORDINATOR_NOT_AVAILABLE",
    "OffsetCommit: STALE_MEMBER_EPOCH",
    "OffsetCommit: UNKNOWN_MEMBER_ID",
    "OffsetFetch",
    "JoinGroup not answered",
    "SyncGroup not answered",
    "Heartbeat not answered",
    "ConsumerGroupHeartbeat not answered",
    "OffsetCommit not answered",
    "OffsetFetch not answered",
    "answer heard twice",
    "caller gone",
    # members
    "crash",
    "close",
    "restart",
    "replace",
    "stall",
    "pause",
    "resubscribe",
    "classic member PREPARING_REBALANCE",
    "classic member COMPLETING_REBALANCE",
    "classic member STABLE",
    "classic member UNJOINED",
    "consumer member JOINING",
    "consumer member RECONCILING",
    "consumer member ACKNOWLEDGING",
    "consumer member STABLE",
    "consumer member FENCED",
    "consumer member STALE",
    "listener told: assigned",
    "listener told: revoked",
    "listener told: lost",
    "closed in time",
    "sync commit done",
    "async commit done",
    "async commit CommitFailed",
    # coordinators
    "internal topic asked for",
    "append refused",
    "generation or epoch in the log",
    "commit acknowledged",
    "partition begun",
    "position expired",
    "group gone",
    "memory compared with the log",
)
"""The same for groups of consumers."""

REQUIRED_OF_TRANSACTIONS = (
    # calls, and what is refused
    "FindCoordinator",
    "FindCoordinator answered CoordinatorNotAvailable",
    "InitProducerId",
    "InitProducer not answered",
    "EndTxn",
    "EndTransaction not answered",
    "WriteTxnMarkersOfBroker not answered",
    "caller gone",
    "verification refused",
    "verification: InvalidProducerEpoch",
    "verification: TransactionAbortable",
    # producers
    "crash",
    "zombie",
    "stall",
    "pause",
    "committed",
    "aborted",
    "unknown to its producer",
    "end asked for again",
    "user hears TRANSACTION_ABORTABLE",
    # coordinators
    "PrepareCommit in the log",
    "PrepareAbort in the log",
    "CompleteCommit in the log",
    "CompleteAbort in the log",
    "timed out",
    "fenced",
    "coordinator changed during prepare",
    "marker sent again",
    "memory compared with the log",
    # readers
    "read what is committed",
    "read what is aborted",
    "read what is open",
)
"""The same for transactions."""

REQUIRED_OF_SHARES = (
    # calls, and what coordinators and leaders refuse
    "FindCoordinator",
    "FindCoordinator answered CoordinatorNotAvailable",
    "ShareGroupHeartbeat",
    "ShareHeartbeat answered CoordinatorNotAvailable",
    "ShareHeartbeat answered NotCoordinator",
    "ShareHeartbeat answered UnknownMemberId",
    "ShareFetch",
    "ShareFetch answered InvalidShareSessionEpoch",
    "ShareFetch answered ShareSessionNotFound",
    "ShareAcknowledge",
    "ShareHeartbeat not answered",
    "ShareFetch not answered",
    "ShareAcknowledge not answered",
    "ReadShareGroupStateOfBroker not answered",
    "WriteShareGroupStateOfBroker not answered",
    "answer heard twice",
    "caller gone",
    "member's connection ended",
    # members
    *("crash", "close", "raise", "stall", "pause", "replace", "disconnect"),
    "closed in time",
    "user says ACCEPT",
    "user says RELEASE",
    "user says REJECT",
    "user says RENEW",
    "commit done",
    "user's acknowledgements: taken",
    "user's acknowledgements: INVALID_RECORD_STATE",
    "user's acknowledgements: NOT_LEADER_OR_FOLLOWER",
    "delivered though it is done meanwhile",
    # records
    "record acquired",
    "record acquired again",
    "record accepted",
    "record rejected",
    "record released",
    "record archived at the limit",
    "record given back with its session, seen",
    "record given back with its session, unseen",
    "record gone from the log",
    "record gone before it was read",
    "delivery at the limit",
    "lock expired",
    "lock renewed",
    "ACCEPT acknowledged",
    "RELEASE acknowledged",
    "REJECT acknowledged",
    # leaders
    "state reloaded",
    "state loaded by a leader that was replaced",
    "delivered by a leader that was replaced",
    "fenced by leader epoch",
    "partition ended: NOT_LEADER_OR_FOLLOWER",
    "partition ended: COORDINATOR_NOT_AVAILABLE",
    # coordinators
    "internal topic asked for",
    "append refused",
    "state log pruned",
    "state compared with the log",
    "groups compared with the log",
)
"""The same for share groups, in seeds that have them."""

REQUIRED_OF_SHARED_TRANSACTIONS = (
    "record passed over, aborted",
    "record passed over, marker",
    "record waited for its transaction",
    "leader changed while a record waited",
    "user gets what is committed",
    "user gets what is aborted",
    "user gets what is open",
)
"""The same for share groups to which some producers send in transactions."""

REQUIRED_OF_DEAD_LETTERS = (
    "dead-letter topic asked for",
    "record rejected, to be a dead letter",
    "record archived at the limit, to be a dead letter",
    "record in the dead-letter topic",
    "dead letters written",
    "dead letters refused",
    "dead letter with its record",
    "dead letter there twice",
    "dead letter of the leader before",
    "ProduceOfBroker not answered",
)
"""The same for share groups that have a dead-letter topic."""

REQUIRED_OF_INTERNAL_MOVES = (
    "move begun",
    "move ended",
    "move took the leader away",
    "move cancelled",
    "move replaced",
    "coordinator moved away",
    "coordinator moved away with decisions under way",
)
"""The same for each internal topic that moves, in seeds that have its coordinators."""

MOVED_WHILE_IT_LOADED = "moves: coordinator moved away while it loaded"
"""The same for all of them together."""

REQUIRED_OF_THROTTLES = (
    "leader counted",
    "follower counted",
    "leader holds back",
    "follower holds back",
    "lifted",
    "widened",
)
"""The same for throttled moves, in seeds that have them."""

REQUIRED_OF_OFFSETS = (
    "offsets altered",
    "offsets deleted",
    "offsets refused: NonEmptyGroup",
    "state begun anew",
    "delivered after an alteration",
    "delivered to a member that came after an alteration",
    "member came too early",
)
"""The same for share groups whose offsets are altered."""


REQUIRED_OF_SINKS = (
    # calls, and what coordinators refuse
    "BeginSinkTask not answered",
    "BeginSinkTask answered InvalidTxnState",
    "BeginSinkTask answered SinkBatchDecided",
    "BeginSinkTask answered SinkRunSuperseded",
    "RenewSinkTask not answered",
    "RenewSinkTask answered InvalidTxnState",
    "PrepareSinkTask not answered",
    "PrepareSinkTask answered InvalidTxnState",
    "DecideSinkBatch not answered",
    "DecideSinkBatch answered InvalidTxnState",
    "DecideSinkBatch answered SinkRunSuperseded",
    "AbortSinkBatch not answered",
    # drivers, their tasks, and operators
    *("crash", "lonely", "double", "pause", "worker", "worker_pause", "old", "operator"),
    "run of a query",
    "job",
    "batch replayed",
    "batch that counts already",
    "batch without rows",
    "batch fails with SinkBatchDecided",
    "batch fails with SinkRunSuperseded",
    "batch fails with InvalidTxnState",
    "batch aborted, and its run goes on",
    "run ended by its driver",
    "driver dies before the decision",
    "driver dies with the decision",
    "driver dies behind the decision",
    "second attempt while the first runs",
    "report of a second attempt that is left out",
    "report that comes late",
    "attempt aborted by its task",
    "attempt of a batch that counts already",
    "decision is new",
    "decision was made before",
    "operator aborts",
    "operator forgets",
    # coordinators and leaders
    "attempt prepared in the log",
    "attempt committed in the log",
    "attempt aborted in the log",
    "decision in the log",
    "decision leaves others out",
    "decision forgotten",
    "run superseded",
    "run ended in the log",
    "partition overwritten",
    "nothing written where it overwrites",
    "memory compared with the log",
    # readers
    "attempt counts",
    "attempt was prepared in vain",
    "attempt fails",
)
"""The same for queries whose batches count once, in seeds that have them."""


REQUIRED_OF_PROGRESS = (
    # calls
    "ListSinks not answered",
    "positions sent",
    "positions wait for the decision",
    "positions not told: UnstableOffsetCommit",
    "positions not told: no answer",
    "open batch of another query aborted",
    # queries in each other's place
    "checkpoint lost",
    "query looks up its group",
    "query looks up its group, and takes over",
    "query begins where the group has come to",
    "query begins behind what was decided",
    "query cannot begin: RequestTimedOut",
    "batch fails with SinkTaken",
    "new query refused",
    "earlier query started again",
    "earlier query refused",
    "task of a query that goes on for another one",
    "query goes on in the place of another one",
    # coordinators
    "decision with positions in the log",
    "positions are there with their batch",
    # readers
    "attempt with positions counts",
    "numbers written once",
)
"""The same for those that commit what they have read, in seeds that have them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one seed. `invariant` is empty when everything held."""

    seed: int
    hash: int
    events: int
    sometimes: Counter[str]
    invariant: str = ""
    report: str = field(default="", repr=False)


def run_seed(
    seed: int,
    variant: str = "production",
    echo: Callable[[str], None] | None = None,
    **modes: bool,
) -> Outcome:
    """Run one seed from start to end, in those `Modes`."""
    trace = Trace(echo=echo)
    # recovery warns of every cut tail, and here that is the daily bread
    for name in ("pylog_broker", "pylog"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    gc.disable()  # a run allocates much and keeps it; collecting in between doubles its time
    gc.freeze()  # what was there before it need not be looked at
    try:
        with VARIANTS[variant].installed() as installed:
            cluster = Cluster(seed, trace, installed.leaning, installed.modes(modes))
            invariant = report = ""
            try:
                _run(cluster)
            except Violation as violation:
                invariant, report = violation.invariant, str(violation)
            except Exception:  # noqa: BLE001 - whatever a core raises is a finding
                invariant, report = "raised", traceback.format_exc()
            if invariant:
                flags = "".join(f" --{name.replace('_', '-')}" for name in modes if modes[name])
                report = _failure(seed, variant, report, cluster, flags)
            cluster.scheduler.close()
            return Outcome(
                seed, trace.hash, cluster.scheduler.events, cluster.sometimes, invariant, report
            )
    finally:
        gc.enable()
        gc.collect()


def _run(cluster: Cluster) -> None:
    limits: list[tuple[ModuleType, str, float]] = [
        (metadata_batches, "BATCH_RECORDS_MAX", cluster.swarm.metadata_batch_records)
    ]
    groups = cluster.swarm.groups or cluster.swarm.shares
    if groups is not None:
        limits += [
            (coordinators, "SLICE_BYTES", groups.slice_bytes),
            (coordinators, "SMALL_SLICE_BYTES", groups.small_slice_bytes),
        ]
    if cluster.swarm.shares is not None:
        limits += [
            (persister, "SECONDS_MAX", PERSISTER_SECONDS),
            (persister, "CALL_SECONDS_MAX", PERSISTER_CALL_SECONDS),
            (protocol, "ASKED_MS", ASKED_MS),
            (dead_letters, "TIMEOUT_MS", WRITE_MS),
            (dead_letters, "RETRY_SECONDS_LAST", DEAD_LETTER_SECONDS),
            (share_groups, "ANSWER_SECONDS", DEAD_LETTER_SECONDS),
        ]
    if cluster.swarm.sinks is not None:
        limits.append((shard, "APPEND_BYTES_MAX", cluster.swarm.sinks.append_bytes))
    with ExitStack() as stack:
        for owner, name, instead in limits:
            stack.enter_context(overridden(owner, name, instead))
        _run_to_the_end(cluster)


def _run_to_the_end(cluster: Cluster) -> None:
    cluster.come_up()
    nemesis = Nemesis(cluster)
    nemesis.start()
    cluster.scheduler.run_until(cluster.scheduler.now_us + FAULTS_S * US_PER_S)
    nemesis.stopped = True
    cluster.heal()
    cluster.check_end()


def _failure(seed: int, variant: str, report: str, cluster: Cluster, flags: str) -> str:
    lines = cluster.scheduler.trace.lines()
    return "\n".join(
        [
            *lines,
            *cluster.scheduler.histories.lines(report),
            f"seed {seed} variant {variant} commit {_commit()} {cluster.swarm}",
            report,
            cluster.describe(),
            f"again: python -m tests.sim --seed {seed} --variant {variant} --trace{flags}",
        ]
    )


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def run_seeds(
    seeds: Iterable[int],
    jobs: int = 2,
    variant: str = "production",
    *,
    stop_at_failure: bool = False,
    heard: Callable[[Outcome], None] | None = None,
    **modes: bool,
) -> list[Outcome]:
    """Run many seeds, over `jobs` processes; outcomes in the order of the seeds."""
    work = [(seed, variant, modes) for seed in seeds]
    found: list[Outcome] = []
    if jobs <= 1:
        for each in work:
            found.append(_one(each))
            if heard is not None:
                heard(found[-1])
            if stop_at_failure and found[-1].invariant:
                break
        return found
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs) as pool:
        for outcome in pool.imap(_one, work, chunksize=1):
            found.append(outcome)
            if heard is not None:
                heard(outcome)
            if stop_at_failure and outcome.invariant:
                pool.terminate()
                break
    return found


def _one(work: tuple[int, str, dict[str, bool]]) -> Outcome:
    seed, variant, modes = work
    return run_seed(seed, variant, **modes)


def never_happened(outcomes: Iterable[Outcome], **asked: bool) -> list[str]:
    """The names of what is required in these `Modes` and no run has seen: of the last of them that
    has such names; of `moves`, of each internal topic that there is.
    """
    modes = Modes(**asked)
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total += outcome.sometimes
    wanted = (
        *REQUIRED,
        *(f"groups: {name}" for name in REQUIRED_OF_GROUPS),
        *(f"transactions: {name}" for name in REQUIRED_OF_TRANSACTIONS),
    )
    if modes.shares:
        wanted = tuple(f"shares: {name}" for name in REQUIRED_OF_SHARES)
        if modes.transactions:
            wanted = tuple(f"shares: {name}" for name in REQUIRED_OF_SHARED_TRANSACTIONS)
        if modes.dead_letters:
            wanted = tuple(f"shares: {name}" for name in REQUIRED_OF_DEAD_LETTERS)
    if modes.sinks:
        wanted = tuple(f"sinks: {name}" for name in REQUIRED_OF_SINKS)
        if modes.progress:
            wanted = tuple(f"sinks: {name}" for name in REQUIRED_OF_PROGRESS)
    moving: tuple[str, ...] = ()
    if modes.moves:
        moving += (CONSUMER_OFFSETS,) if modes.groups or modes.shares else ()
        moving += (TRANSACTION_STATE,) if modes.transactions else ()
        moving += (SHARE_GROUP_STATE,) if modes.shares else ()
    if moving:
        wanted = (
            MOVED_WHILE_IT_LOADED,
            *(f"moves: {topic}: {name}" for topic in moving for name in REQUIRED_OF_INTERNAL_MOVES),
        )
    if modes.throttles:
        wanted = (
            *(f"throttles: {name}" for name in REQUIRED_OF_THROTTLES),
            *(name for name in REQUIRED if name.startswith("move ")),
        )
    if modes.offsets:
        wanted = tuple(f"shares: {name}" for name in REQUIRED_OF_OFFSETS)
    return [name for name in wanted if not total[name]]
