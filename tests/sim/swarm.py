"""The choices of a seed: the shape of the cluster, its load, and the rates of faults.

One mix of faults for all seeds would hide whatever needs another mix (a known bug stayed hidden
for thousands of seeds at fixed rates), so everything that could matter is drawn, and each kind of
fault is on in only some seeds. A few profiles lean towards races that need a rare combination.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import NamedTuple

from pylog.config import LONG_MAX
from pylog_broker.controller.metadata_batches import BATCH_RECORDS_MAX
from tests.sim.net import NetParameters

FAULTS = (
    "kill",
    "torn_write",
    "power",
    "power_in_fetch",
    "pause",
    "isolate",
    "one_way",
    "session_breaks",
    "reset",
    "cut_controller",
    "controller_kill",
    "kill_all",
    "disk_full",
    "stop",
)


COMMANDS = ("reconfigure_cluster", "reconfigure_broker", "elect_preferred", "unregister")
"""Administrators' commands that take no record away."""

COMMANDS_SHARE = 0.3

UNCLEAN_SHARE = 0.06
"""The share of seeds in which somebody has replicas elected that lack what was committed: the
promises are off for what they led, and the replicas agree again all the same."""

MOMENTS = ("short_of_files", "one_short_moment")
"""Errors of the moment: no descriptor, no memory, an interrupted call. No disk is to blame."""

METADATA_SHARE = 0.25
MOMENTS_SHARE = 0.25

OCCASIONS = (
    "refusal_outlived",
    "unregister_eligible",
    "sync_outlives_cut",
    "told_leader_dies",
)
"""Faults that strike at a rare moment, and wait for it."""

CHECKPOINT_OUTLIVED = "checkpoint_outlived"
"""The same in seeds where records may go."""

REFUSE_BATCHES = "refuse_batches"
"""Else too few batches are in flight when they are too large of a sudden."""

OCCASIONS_SHARE = 0.25

LATE_LIVES_SHARE = 0.25

UPKEEP_FAULTS = (
    "delete_records",
    "recreate",
    "grow",
    "reconfigure",
    "set_clock",
    "set_clock_while_down",
    "disk_fails",
)
"""Work of administrators and old disks; in seeds where records may go at all."""

UPKEEP_SHARE = 0.4

DISK_FAULTS = (
    "directory_fails",
    "directory_missing",
    "directory_full",
    "replica_moved",
    "replica_copied",
    "replica_restored",
)
"""In seeds whose brokers have several log directories."""

DISKS_SHARE = 0.3

CLUSTER_STOPS_SHARE = 0.15

POLICIES = ("delete", "delete", "compact", "compact", "compact,delete")


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The retention of the topic, and the operations on it meanwhile. Times in milliseconds."""

    policy: str
    retention_ms: int
    retention_bytes: int
    delete_retention_ms: int
    keys: int  # of so many different keys
    tombstone_share: float
    clean_wait_ms: float
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clients:
    """The settings by which applications send and read. Times in milliseconds."""

    linger_ms: int
    batch_size: int
    max_in_flight: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    retry_backoff_ms: int
    request_bytes_max: int  # of batches in flight at one broker
    compressions: tuple[str, ...]
    life_ms: float  # of a producer, on average, before another one takes its place
    weak_acks: int  # of the producers without an id


GROUPS_SHARE = 0.25

MEMBER_FAULTS = ("crash", "close", "restart", "replace", "stall", "pause", "resubscribe")

STRATEGIES = (
    ("range",),
    ("roundrobin",),
    ("sticky",),
    ("cooperative-sticky",),
    ("range", "cooperative-sticky"),
)

PROTOCOLS = (("classic",), ("consumer",), ("consumer",), ("classic", "consumer"))
"""The protocols that the members of one group speak."""


@dataclass(frozen=True, slots=True)
class GroupSwarm:
    """Groups of consumers, and how they are set. Times in milliseconds."""

    groups: int
    members: int  # of each, at most
    partitions: int  # of the internal topic
    protocols: tuple[tuple[str, ...], ...]
    strategies: tuple[tuple[str, ...], ...]  # of members that speak the classic protocol
    static_share: float
    faults: tuple[str, ...]
    interval_ms: float
    away_ms: float
    session_timeout_ms: int
    heartbeat_ms: int
    max_poll_ms: int
    initial_delay_ms: int
    retention_ms: int
    slice_bytes: int  # of a log that is loaded
    small_slice_bytes: int  # more is decoded beside the loop


RACKS_SHARE = 0.2
MOVES_SHARE = 0.2

THROTTLES = ("throttle_rate", "throttle_rate", "throttle_replicas")
"""Another rate for copies of replicas that are out of sync, or other replicas that keep to it."""

INTERNAL_MOVES = ("move_internal", "take_loading_away")
"""A partition of an internal topic moves; one moves whose coordinator is just reading its log."""

TRANSACTIONS_SHARE = 0.3

PRODUCER_FAULTS = ("crash", "zombie", "stall", "pause")


@dataclass(frozen=True, slots=True)
class TransactionSwarm:
    """Transactional producers, and how they are set. Times in milliseconds."""

    producers: int  # each with a transactional id of its own
    partitions: int  # of the internal topic
    timeout_ms: int
    faults: tuple[str, ...]
    interval_ms: float
    away_ms: float


SHARE_FAULTS = ("crash", "close", "raise", "stall", "pause", "replace", "disconnect")

SHARE_UPKEEP = ("grow", "delete_records", "recreate")
"""Work of administrators that share groups must cope with."""

REPLACED_SHARE = 0.3
"""The share of their seeds in which leaders often do not hear that others have taken over."""

SHARED_TRANSACTIONS_SHARE = 0.3
"""The share of their seeds that have transactional producers as well."""

DEAD_LETTERS_SHARE = 0.3
"""The share of their seeds in which groups have a dead-letter topic."""


@dataclass(frozen=True, slots=True)
class ShareSwarm:
    """Share groups, and how they are set. Times in milliseconds."""

    groups: int
    members: int  # of each, at most
    partitions: int  # of the internal topic of groups
    state_partitions: int  # of that of their state
    faults: tuple[str, ...]
    interval_ms: float
    away_ms: float
    session_timeout_ms: int
    heartbeat_ms: int
    max_poll_ms: int
    lock_ms: int
    delivery_limit: int
    locks_max: int  # records of a partition that are under way at a time
    reset: str
    max_poll_records: int
    failing_share: float  # of records, that a user releases, rejects or renews
    tells_of_connections: bool  # whether a broker hears that a connection has ended
    updates_per_snapshot: int
    cold_ms: int
    prune_ms: int
    slice_bytes: int  # of a log that is loaded
    small_slice_bytes: int  # more is decoded beside the loop
    alters: bool = False  # an administrator alters and deletes their offsets
    isolation: tuple[str, ...] = ("read_uncommitted",)  # the groups', in turn
    dead_letters: bool = False  # records that are given up go to a topic
    copies_dead_letters: bool = False  # with key and value


DRIVER_FAULTS = ("crash", "lonely", "double", "pause", "worker", "worker_pause", "old", "operator")

PROGRESS_SHARE = 0.4
"""The share of their seeds whose queries commit to a group what they have read."""

PROGRESS_FAULTS = ("lost", "back")
"""A query loses its checkpoint, and a new one goes on in its place; the old one is started again.
"""


@dataclass(frozen=True, slots=True)
class SinkSwarm:
    """Queries and jobs whose batches count once, and how they are set. Times in milliseconds."""

    queries: int
    jobs: int  # places of one job after the other
    faults: tuple[str, ...]
    interval_ms: float
    away_ms: float
    lease_ms: int
    prepared_ms: int
    slow_ms: float  # of an attempt, from one row to the next, on average
    speculative_share: float
    dying_share: float  # of batches, over which the driver dies
    overwriting_share: float  # of batches
    keep_ms: int  # of the decision of a job with a key; -1: for ever
    keys: int
    append_bytes: int  # of coordinators; more lies in several appends
    progress: bool = False  # queries have explicit sink ids, and commit what they have read


@dataclass(frozen=True, slots=True)
class Swarm:
    """One seed's parameters. Times in milliseconds."""

    brokers: int
    replication_factor: int
    min_insync: int
    partitions: int
    segment_bytes: int
    net: NetParameters
    faults: tuple[str, ...]
    fault_interval_ms: float
    # how long a killed broker stays away, and how long a cut or a pause lasts, at most
    away_ms: int
    write_back_ms: float  # how often the kernel syncs some file of its own accord
    flush_ms: int
    disk_wait_ms: float  # of a thread of the pool, on average, where it waits for the disk
    producers: int
    weak_producers: int  # without an id: they leave tails to cut
    produce_interval_ms: float
    quiet_share: float  # after so many of its batches a producer is quiet for seconds
    records_max: int
    clients: Clients
    session_timeout_ms: int
    rebalance_ms: int
    snapshot_records: int
    replica_lag_ms: int
    fetch_wait_ms: int
    fetch_max_bytes: int
    cold_share: float
    slow_node_ms: float  # mean extra delay of everything one broker hears; 0: none
    flush_messages: int = LONG_MAX
    preallocate: bool = False
    upkeep: Upkeep | None = None  # None: nothing is ever forgotten
    log_dirs: int = 1  # of each broker
    own_min_isr: bool = True  # the topic's, and not what holds for the cluster
    task_ends: bool = False  # Spark reports them, sooner or later
    metadata_batch_records: int = BATCH_RECORDS_MAX  # an append of more lies in several
    groups: GroupSwarm | None = None
    transactions: TransactionSwarm | None = None
    shares: ShareSwarm | None = None
    sinks: SinkSwarm | None = None
    throttles: bool = False  # moves are throttled now and then
    racks: int = 0  # that the brokers stand in; consumers read the replica in their own


class Modes(NamedTuple):
    """The kinds of events that somebody asks a seed for; None: there are some where the seed draws
    them.
    """

    groups: bool | None = None
    """Groups of consumers."""
    transactions: bool | None = None
    """Transactional producers."""
    moves: bool | None = None
    """Partitions that move to other brokers: asked for, also those of the internal topics that
    there are; those that a seed draws are of other topics."""
    racks: bool | None = None
    """Racks, and consumers that read the replica in theirs."""
    shares: bool = False
    """Share groups, in place of other groups."""
    sinks: bool = False
    """Queries whose batches count once, in place of groups."""
    progress: bool | None = None
    """What those have read, committed to a group by the same decisions."""
    throttles: bool = False
    """Partitions that move at a rate."""
    dead_letters: bool | None = None
    """A dead-letter topic of share groups."""
    offsets: bool = False
    """An administrator who alters the offsets of share groups."""


def draw(
    rng: random.Random,
    upkeep_rng: random.Random,
    disks_rng: random.Random,
    stops_rng: random.Random,
    clients_rng: random.Random,
    moments_rng: random.Random,
    commands_rng: random.Random,
    occasions_rng: random.Random,
    metadata_rng: random.Random,
    groups_rng: random.Random,
    transactions_rng: random.Random,
    racks_rng: random.Random,
    moves_rng: random.Random,
    shares_rng: random.Random,
    sinks_rng: random.Random,
    throttles_rng: random.Random,
    shared_transactions_rng: random.Random,
    dead_letters_rng: random.Random,
    progress_rng: random.Random,
    modes: Modes,
) -> Swarm:
    """The parameters of one seed, in those modes. A seed without one of them is what it was before
    there was any.
    """
    groups, transactions, moves = modes.groups, modes.transactions, modes.moves
    if modes.shares or modes.sinks:
        groups = transactions = False
    swarm = _draw(rng, clients_rng)
    late = rng.random() < LATE_LIVES_SHARE
    if late:
        swarm = late_lives(swarm)
    elif upkeep_rng.random() < UPKEEP_SHARE:
        swarm = _forgetful(swarm, upkeep_rng)
    if not late and disks_rng.random() < DISKS_SHARE:
        swarm = several_disks(swarm, disks_rng)
    if not late and stops_rng.random() < CLUSTER_STOPS_SHARE:
        swarm = replace(swarm, faults=(*swarm.faults, "cluster_stop"))
    if not late and commands_rng.random() < COMMANDS_SHARE:
        chosen = tuple(fault for fault in COMMANDS if commands_rng.random() < 0.7)
        own_min_isr = commands_rng.random() < 0.3
        swarm = replace(swarm, faults=(*swarm.faults, *chosen, *chosen), own_min_isr=own_min_isr)
    if not late and commands_rng.random() < UNCLEAN_SHARE:
        swarm = uncleanly_led(swarm)
    swarm = replace(swarm, task_ends=commands_rng.random() < 0.5)
    if not late and moments_rng.random() < MOMENTS_SHARE:
        swarm = replace(swarm, faults=(*swarm.faults, *MOMENTS, *MOMENTS))
    if not late and occasions_rng.random() < OCCASIONS_SHARE:
        chosen = tuple(fault for fault in OCCASIONS if occasions_rng.random() < 0.5)
        if swarm.upkeep is not None and occasions_rng.random() < 0.5:
            chosen = (*chosen, CHECKPOINT_OUTLIVED)
        if occasions_rng.random() < 0.5:
            chosen = (*chosen, REFUSE_BATCHES)
        swarm = replace(swarm, faults=(*swarm.faults, *chosen, *chosen))
    if not late and metadata_rng.random() < METADATA_SHARE:
        faults = (*swarm.faults, "controller_full", "controller_kill")
        records = metadata_rng.choice((1, 2, 3))
        swarm = replace(swarm, faults=faults, metadata_batch_records=records)
    swarm = replace(
        swarm,
        flush_messages=rng.choice((LONG_MAX, LONG_MAX, LONG_MAX, 1, 7)),
        preallocate=rng.random() < 0.25,
    )
    drawn = groups_rng.random() < GROUPS_SHARE
    if drawn if groups is None else groups:
        swarm = with_groups(swarm, groups_rng)
    # beside groups only where somebody asks for both
    drawn = transactions_rng.random() < TRANSACTIONS_SHARE and swarm.groups is None
    if drawn if transactions is None else transactions:
        swarm = with_transactions(swarm, transactions_rng)
    if modes.shares:
        swarm = with_shares(swarm, shares_rng)
        drawn = shared_transactions_rng.random() < SHARED_TRANSACTIONS_SHARE
        if drawn if modes.transactions is None else modes.transactions:
            swarm = with_shared_transactions(swarm, shared_transactions_rng)
        drawn = dead_letters_rng.random() < DEAD_LETTERS_SHARE
        if drawn if modes.dead_letters is None else modes.dead_letters:
            swarm = with_dead_letters(swarm, dead_letters_rng)
    if modes.sinks:
        swarm = with_sinks(swarm, sinks_rng)
        drawn = progress_rng.random() < PROGRESS_SHARE
        if drawn if modes.progress is None else modes.progress:
            swarm = with_progress(swarm, progress_rng)
    if modes.offsets and swarm.shares is not None:
        faults = tuple(fault for fault in swarm.faults if fault != "recreate") or ("kill",)
        swarm = replace(swarm, faults=faults, shares=replace(swarm.shares, alters=True))
    drawn = racks_rng.random() < RACKS_SHARE
    if (drawn if modes.racks is None else modes.racks) and swarm.brokers > 1:
        swarm = replace(swarm, racks=racks_rng.choice((2, 3)))
    drawn = moves_rng.random() < MOVES_SHARE and not late
    if drawn if moves is None else moves:
        swarm = with_moves(swarm, moves_rng)
    if modes.throttles:
        swarm = with_throttles(swarm, throttles_rng)
    if moves and (swarm.groups or swarm.transactions or swarm.shares):
        swarm = with_internal_moves(swarm, moves_rng)
    return swarm


def with_moves(swarm: Swarm, rng: random.Random) -> Swarm:
    """Partitions move between more brokers than they have replicas."""
    brokers = max(swarm.brokers, swarm.replication_factor + rng.choice((1, 1, 2)))
    times = rng.choice((1, 2, 4))
    return replace(swarm, brokers=brokers, faults=(*swarm.faults, *("move",) * times))


def with_throttles(swarm: Swarm, rng: random.Random) -> Swarm:
    """Partitions move, and what is copied for that keeps to a rate now and then."""
    swarm = with_moves(swarm, rng)
    times = rng.choice((1, 2, 4))
    return replace(
        swarm,
        throttles=True,
        faults=(*swarm.faults, *THROTTLES * times, *("move",) * times),
        fault_interval_ms=min(swarm.fault_interval_ms, 700.0),
    )


def with_internal_moves(swarm: Swarm, rng: random.Random) -> Swarm:
    """The partitions of coordinators move as well, while their clients are at work."""
    times = rng.choice((2, 4, 8))
    return replace(
        swarm,
        faults=(*swarm.faults, *INTERNAL_MOVES * times),
        fault_interval_ms=min(swarm.fault_interval_ms, 1_500.0),
    )


def with_transactions(swarm: Swarm, rng: random.Random) -> Swarm:
    """Some producers send in transactions. Nothing is forgotten, and nothing that was promised may
    be lost: what readers see is compared with all that was ever sent.
    """
    if "unclean" in swarm.faults:
        return swarm
    gone = {*UPKEEP_FAULTS, "sync_fails", CHECKPOINT_OUTLIVED}
    chosen = tuple(fault for fault in PRODUCER_FAULTS if rng.random() < 0.6)
    groups = swarm.groups
    if groups is not None:
        groups = replace(groups, retention_ms=86_400_000)  # positions are kept as well
    return replace(
        swarm,
        groups=groups,
        upkeep=None,
        faults=tuple(fault for fault in swarm.faults if fault not in gone) or ("kill",),
        partitions=rng.choice((1, 2, 3)),
        transactions=TransactionSwarm(
            producers=rng.choice((1, 2, 2)),
            partitions=rng.choice((1, 1, 2)),
            timeout_ms=rng.choice((1_000, 2_500, 6_000)),
            faults=chosen or ("crash",),
            interval_ms=rng.choice((500.0, 1_500.0, 4_000.0)),
            away_ms=rng.choice((100.0, 1_000.0)),
        ),
    )


def with_sinks(swarm: Swarm, rng: random.Random) -> Swarm:
    """Queries and jobs write batches that count once, beside producers of other kinds. Records go
    only where a batch overwrites them.
    """
    faults = tuple(fault for fault in swarm.faults if fault != "unclean") or ("kill",)
    swarm = with_transactions(replace(swarm, faults=faults), rng)
    assert swarm.transactions is not None
    chosen = tuple(fault for fault in DRIVER_FAULTS if rng.random() < 0.6)
    return replace(
        swarm,
        transactions=replace(swarm.transactions, producers=rng.choice((0, 1))),
        sinks=SinkSwarm(
            queries=rng.choice((1, 1, 2)),
            jobs=rng.choice((0, 1, 2)),
            faults=chosen or ("crash",),
            interval_ms=rng.choice((500.0, 1_500.0, 4_000.0)),
            away_ms=rng.choice((100.0, 1_000.0)),
            lease_ms=rng.choice((600, 2_000)),
            prepared_ms=rng.choice((1_500, 6_000)),
            slow_ms=rng.choice((5.0, 40.0, 200.0)),
            speculative_share=rng.choice((0.0, 0.2, 0.6)),
            dying_share=rng.choice((0.0, 0.1, 0.3)),
            overwriting_share=rng.choice((0.0, 0.0, 0.2, 0.6)),
            keep_ms=rng.choice((-1, 1_500)),
            keys=rng.choice((1, 3)),
            append_bytes=rng.choice((512 * 1024, 512 * 1024, 200)),
        ),
    )


def with_progress(swarm: Swarm, rng: random.Random) -> Swarm:
    """Queries commit to a group of no members what they have read, with what they write, and lose
    their checkpoints.
    """
    assert swarm.sinks is not None
    times = rng.choice((1, 2))
    sinks = replace(
        swarm.sinks, progress=True, faults=(*swarm.sinks.faults, *PROGRESS_FAULTS * times)
    )
    groups = GroupSwarm(
        groups=0,
        members=0,
        partitions=rng.choice((1, 1, 2)),
        protocols=(),
        strategies=(),
        static_share=0.0,
        faults=(),
        interval_ms=1_000.0,
        away_ms=100.0,
        session_timeout_ms=2_500,
        heartbeat_ms=300,
        max_poll_ms=4_000,
        initial_delay_ms=0,
        retention_ms=86_400_000,
        slice_bytes=rng.choice((150, 1_000, 256 * 1024)),
        small_slice_bytes=rng.choice((0, 8 * 1024)),
    )
    return replace(swarm, sinks=sinks, groups=groups)


def with_groups(swarm: Swarm, rng: random.Random) -> Swarm:
    """Consumers share the topic out. There are none in runs in which committed records may be
    lost.
    """
    if "unclean" in swarm.faults:
        return swarm
    chosen = tuple(fault for fault in MEMBER_FAULTS if rng.random() < 0.6)
    return replace(
        swarm,
        partitions=rng.choice((1, 2, 3)),
        groups=GroupSwarm(
            groups=rng.choice((1, 1, 2)),
            members=rng.choice((1, 2, 2, 3)),
            partitions=rng.choice((1, 1, 2)),
            protocols=rng.choice(((("classic",),), (("consumer",),), PROTOCOLS)),
            strategies=STRATEGIES,
            static_share=rng.choice((0.0, 0.0, 0.5, 1.0)),
            faults=chosen or ("crash",),
            interval_ms=rng.choice((300.0, 1_000.0, 3_000.0)),
            away_ms=rng.choice((100.0, 1_000.0)),
            session_timeout_ms=rng.choice((900, 2_500)),
            heartbeat_ms=rng.choice((150, 300)),
            max_poll_ms=rng.choice((1_500, 4_000)),
            initial_delay_ms=rng.choice((0, 300)),
            retention_ms=rng.choice((2_000, 86_400_000)),
            slice_bytes=rng.choice((150, 1_000, 256 * 1024)),
            small_slice_bytes=rng.choice((0, 8 * 1024)),
        ),
    )


def with_shares(swarm: Swarm, rng: random.Random) -> Swarm:
    """Members of share groups take the topic's records in turn. Records go on request alone, so
    that what became of each one can be told.
    """
    gone = {*UPKEEP_FAULTS, "sync_fails", CHECKPOINT_OUTLIVED, "unclean"}
    faults = tuple(fault for fault in swarm.faults if fault not in gone) or ("kill",)
    upkeep = tuple(fault for fault in SHARE_UPKEEP if rng.random() < 0.2)
    if rng.random() < REPLACED_SHARE:
        upkeep = (*upkeep, *("cut_controller",) * 3)
    chosen = tuple(fault for fault in SHARE_FAULTS if rng.random() < 0.6)
    return replace(
        swarm,
        upkeep=None,
        faults=(*faults, *upkeep),
        partitions=rng.choice((1, 2, 3)),
        shares=ShareSwarm(
            groups=rng.choice((1, 1, 2)),
            members=rng.choice((1, 2, 3, 4)),
            partitions=rng.choice((1, 1, 2)),
            state_partitions=rng.choice((1, 1, 2)),
            faults=chosen or ("crash",),
            interval_ms=rng.choice((300.0, 1_000.0, 3_000.0)),
            away_ms=rng.choice((100.0, 1_000.0)),
            session_timeout_ms=rng.choice((900, 2_500)),
            heartbeat_ms=rng.choice((150, 300)),
            max_poll_ms=rng.choice((1_500, 4_000)),
            lock_ms=rng.choice((500, 1_500, 4_000)),
            delivery_limit=rng.choice((2, 3, 5)),
            locks_max=rng.choice((10, 50, 2_000)),
            reset=rng.choice(("earliest", "earliest", "earliest", "latest")),
            max_poll_records=rng.choice((1, 5, 500)),
            failing_share=rng.choice((0.0, 0.1, 0.4)),
            tells_of_connections=rng.random() < 0.7,
            updates_per_snapshot=rng.choice((2, 7, 500)),
            cold_ms=rng.choice((700, 300_000)),
            prune_ms=rng.choice((500, 300_000)),
            slice_bytes=rng.choice((150, 1_000, 256 * 1024)),
            small_slice_bytes=rng.choice((0, 8 * 1024)),
        ),
    )


def with_shared_transactions(swarm: Swarm, rng: random.Random) -> Swarm:
    """Some producers send to share groups in transactions, and some groups read committed records
    alone.
    """
    assert swarm.shares is not None
    committed, uncommitted = "read_committed", "read_uncommitted"
    choices = ((committed,), (committed, uncommitted), (uncommitted, committed))
    isolation = rng.choice(choices)
    shares = replace(swarm.shares, isolation=isolation, groups=len(isolation))
    grows = tuple(fault for fault in swarm.faults if fault == "grow")
    swarm = with_transactions(replace(swarm, shares=shares), rng)
    return replace(swarm, faults=(*swarm.faults, *grows))


def with_dead_letters(swarm: Swarm, rng: random.Random) -> Swarm:
    """Share groups give up records, and have a topic for them. A letter tells the name of its
    record's topic, so no other one gets that.
    """
    assert swarm.shares is not None
    return replace(
        swarm,
        faults=tuple(fault for fault in swarm.faults if fault != "recreate") or ("kill",),
        shares=replace(
            swarm.shares,
            dead_letters=True,
            copies_dead_letters=rng.random() < 0.6,
            delivery_limit=rng.choice((2, 2, 3)),
            failing_share=rng.choice((0.1, 0.4)),
        ),
    )


def _forgetful(swarm: Swarm, rng: random.Random) -> Swarm:
    """Records go by retention, compaction and on request, while everything else goes on."""
    faults = tuple(fault for fault in UPKEEP_FAULTS if rng.random() < 0.5)
    upkeep = Upkeep(
        policy=rng.choice(POLICIES),
        retention_ms=rng.choice((-1, 700, 1_500, 4_000)),
        retention_bytes=rng.choice((-1, -1, 3_000)),
        delete_retention_ms=rng.choice((0, 1_500, 6_000)),
        keys=rng.choice((2, 10, 40)),
        tombstone_share=rng.choice((0.0, 0.1, 0.3)),
        clean_wait_ms=rng.choice((100.0, 700.0)),
        faults=faults,
    )
    if "disk_fails" in faults and rng.random() < 0.5:
        faults = (*faults, "sync_fails")  # where an old disk refuses to read, or to write
    return replace(
        swarm,
        upkeep=upkeep,
        segment_bytes=min(swarm.segment_bytes, 2_000),
        # each as likely as a fault of the network
        faults=(*swarm.faults, *faults, *faults),
    )


def several_disks(swarm: Swarm, rng: random.Random) -> Swarm:
    """Each broker has log directories on two or three disks, which fail one by one."""
    faults = tuple(fault for fault in DISK_FAULTS if rng.random() < 0.6)
    return replace(
        swarm,
        log_dirs=rng.choice((2, 2, 3)),
        partitions=rng.choice((2, 2, 3)),
        faults=(*swarm.faults, *faults, *faults),
    )


def uncleanly_led(swarm: Swarm) -> Swarm:
    """Followers fall behind, and then lead."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        faults=("unclean", "one_way", "isolate", "unclean", "kill"),
        fault_interval_ms=700.0,
        away_ms=3_000,
        session_timeout_ms=1_000,
        replica_lag_ms=300,
    )


def late_lives(swarm: Swarm) -> Swarm:
    """Messages of a broker's earlier life arrive while its next one has much to catch up with.

    Without this profile the race that KIP-903 closed takes thousands of seeds to meet.
    """
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        partitions=1,
        # a fetch is nearly always on its way, and catching up takes many of them
        net=replace(swarm.net, tail_share=0.01, delay_mean_ms=25.0, linger=0.9),
        fetch_wait_ms=20,
        fetch_max_bytes=500,
        faults=("power_in_fetch", "power_in_fetch", "reset"),
        fault_interval_ms=300.0,
        away_ms=200,
        write_back_ms=60_000.0,
        flush_ms=60_000,
        disk_wait_ms=1.0,
        session_timeout_ms=1_000,
        # bursts: while nothing is written, an old position is still a good one
        producers=1,
        weak_producers=0,
        produce_interval_ms=10.0,
        quiet_share=0.04,
    )


def _draw_clients(rng: random.Random) -> Clients:
    return Clients(
        linger_ms=rng.choice((0, 0, 5, 40)),
        batch_size=rng.choice((150, 300, 1_000)),
        max_in_flight=rng.choice((1, 2, 5, 5)),
        request_timeout_ms=rng.choice((1_000, 2_500, 10_000)),
        delivery_timeout_ms=rng.choice((1_500, 6_000, 60_000)),
        retry_backoff_ms=rng.choice((10, 100)),
        request_bytes_max=rng.choice((400, 2_000, 100_000, 100_000)),
        compressions=rng.choice((("none",), ("none",), ("none", "gzip"), ("lz4", "zstd"))),
        life_ms=rng.choice((1_000.0, 4_000.0, 4_000.0, 1e9)),
        weak_acks=rng.choice((0, 1)),
    )


def _draw(rng: random.Random, clients_rng: random.Random) -> Swarm:
    brokers, factor, min_insync = rng.choice(
        ((3, 3, 2), (3, 3, 2), (3, 3, 2), (3, 3, 2), (3, 3, 1), (4, 3, 2), (5, 5, 3), (1, 1, 1))
    )
    restless = rng.random() < 0.5
    faults = tuple(fault for fault in FAULTS if rng.random() < 0.45)
    if rng.random() < 0.3 and "power" not in faults:
        faults = (*faults, "power")
    tail = rng.choice((0.0, 0.0, 0.01, 0.05, 0.1, 0.2))
    return Swarm(
        brokers=brokers,
        replication_factor=factor,
        min_insync=min_insync,
        partitions=rng.choice((1, 1, 1, 2)),
        segment_bytes=rng.choice((1_024, 2_000, 20_000)),
        net=NetParameters(
            delay_mean_ms=rng.choice((1.0, 3.0, 8.0, 25.0)),
            tail_share=tail,
            drop=rng.choice((0.0, 0.02, 0.15)),
            duplicate=rng.choice((0.0, 0.1, 0.3)),
            reset=rng.choice((0.0, 0.0, 0.002, 0.02)),
            linger=rng.choice((0.0, 0.0, 0.3)),
        ),
        faults=faults or ("kill",),
        fault_interval_ms=rng.choice((250.0, 700.0, 1_500.0, 4_000.0)),
        away_ms=rng.choice((200, 1_500, 5_000)),
        write_back_ms=rng.choice((100.0, 2_000.0, 60_000.0)),
        flush_ms=rng.choice((1, 200, 2_000, 60_000)),
        disk_wait_ms=rng.choice((1.0, 3.0, 40.0)),
        producers=rng.choice((1, 1, 2)),
        weak_producers=rng.choice((0, 1)),
        produce_interval_ms=rng.choice((20.0, 60.0, 200.0)) if restless else 100.0,
        quiet_share=rng.choice((0.0, 0.0, 0.02)),
        records_max=rng.choice((1, 3, 10)),
        clients=_draw_clients(clients_rng),
        session_timeout_ms=rng.choice((1_000, 3_000)),
        rebalance_ms=rng.choice((2_000, 300_000)),
        snapshot_records=rng.choice((20, 20_000)),
        replica_lag_ms=rng.choice((300, 1_000, 3_000)),
        fetch_wait_ms=rng.choice((50, 200, 300)),
        fetch_max_bytes=rng.choice((200, 1_000, 50_000)),
        cold_share=rng.choice((0.0, 0.0, 0.1)),
        slow_node_ms=rng.choice((0.0, 0.0, 50.0)),
    )
