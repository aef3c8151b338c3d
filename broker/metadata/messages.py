"""The messages between brokers and the controller, as values. The edges turn them into gRPC.

Both pure cores (replica manager and controller) and the simulator speak these.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pylog.errors import PylogError
from pylog.model import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    ProducerId,
    TopicId,
)
from pylog_broker.metadata.records import NOT_TOLD, Listener, MetadataRecord, Software

ReplicaKey = tuple[TopicId, int]
"""A replica of the broker that sends the message: topic id and partition."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a value:

    Kafka's code, and a text that says which item, which limit, what to do.
    """

    code: int
    message: str = ""


def failure_of(error: PylogError | None) -> Failure | None:
    """The error as a value."""
    return None if error is None else Failure(error.code, str(error))


@dataclass(frozen=True, slots=True)
class BrokerDirectory:
    """A broker directory that a host found on its disk."""

    broker_id: BrokerId
    directory_id: str
    cluster_id: str
    boot_id: str
    clean: bool
    locked: bool = False


@dataclass(frozen=True, slots=True)
class ClaimBroker:
    """The question of an incarnation which broker it shall be."""

    incarnation_id: str
    host_id: str
    directories: tuple[BrokerDirectory, ...]
    slot: int = -1


@dataclass(frozen=True, slots=True)
class BrokerClaim:
    """The answer: an id and its directory, or `retry_after_ms` when it is too early to decide.

    `directory_id` None: no directory of that broker is on this host, make a new one.
    `broker_epoch`: of the registration that the id has now; -1 for none.
    """

    broker_id: BrokerId
    directory_id: str | None
    cluster_id: str
    controller_epoch: ControllerEpoch
    retry_after_ms: int = 0
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One of several log directories of a broker (KIP-858). `intact`: as `log_intact`, of this one.
    `replicas`: what is in it, whether it works or not.
    """

    directory_id: str
    intact: bool
    replicas: tuple[ReplicaKey, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A new incarnation that has locked its directory and listens.

    `log_intact`: it stopped cleanly, or the same boot and directory, so the page cache (and with it
    the log) survived. Except in the replicas that are named: `failed_replicas` do not work in this
    life, `lost_replicas` do but may lack records. `static_config`: what it was started with, for
    administrators to see; without secrets.

    `log_dirs` names the log directories that work, the first of them also in `directory_id`, and
    what is in them; `offline_log_dirs` has the ids of the others, an empty one for some directory
    whose id nobody knows. Without `log_dirs`: one directory, and it is not told what it holds.

    `previous_broker_epoch`: as the claim told it. A registration replaces that one and nothing
    newer: a late copy of it cannot put an incarnation that has ended in the place of the present
    one. (KIP-966's field of that name is what the broker remembers of a clean stop.)
    """

    broker_id: BrokerId
    incarnation_id: str
    cluster_id: str
    host_id: str
    rack: str | None
    listeners: tuple[Listener, ...]
    directory_id: str
    boot_id: str
    log_intact: bool
    highest_controller_epoch: ControllerEpoch
    failed_replicas: tuple[ReplicaKey, ...] = ()
    lost_replicas: tuple[ReplicaKey, ...] = ()
    static_config: tuple[tuple[str, str], ...] = ()
    software: Software = NOT_TOLD
    log_dirs: tuple[LogDirectory, ...] = ()
    offline_log_dirs: tuple[str, ...] = ()
    previous_broker_epoch: BrokerEpoch = NO_BROKER_EPOCH

    @property
    def live_log_dirs(self) -> tuple[LogDirectory, ...]:
        """The directories that work, also of a broker that has only one."""
        return self.log_dirs or (LogDirectory(self.directory_id, self.log_intact),)


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """The incarnation's epoch. The same incarnation registering twice gets the same one."""

    broker_epoch: BrokerEpoch
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A proposed member of an ISR, with the broker epoch under which it caught up (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class PartitionIsr:
    """One ISR that a leader asks for;

    compared with `partition_epoch` and set only if still current.
    """

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerState, ...]


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """ISR changes of one leader (KIP-497)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[PartitionIsr, ...]


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """The partition as committed, or why not."""

    topic_id: TopicId
    partition: int
    failure: Failure | None = None
    leader: BrokerId = BrokerId(-1)
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    isr: tuple[BrokerId, ...] = ()
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)


@dataclass(frozen=True, slots=True)
class PartitionsAltered:
    """The answer to AlterPartition:

    a failure of the whole (stale broker epoch, ...), or one entry each.
    """

    failure: Failure | None = None
    partitions: tuple[AlteredPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicasFailed:
    """Logs, and whole log directories by their ids, that have failed on this broker for the rest of
    its life.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    replicas: tuple[ReplicaKey, ...]
    reason: str
    log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailuresNoted:
    """They lead nothing and are in no ISR; the broker need not report them again."""


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Producer ids `first` up to but not including `first + count`, durable before they are
    handed out.
    """

    first: ProducerId
    count: int


@dataclass(frozen=True, slots=True)
class EnsureInternalTopic:
    """A coordinator on this broker needs the internal topic of that name."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    name: str


@dataclass(frozen=True, slots=True)
class InternalTopicEnsured:
    """The topic is there, with so many partitions, made now or before. The brokers may hear of it a
    moment later.
    """

    name: str
    topic_id: TopicId
    num_partitions: int


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """Committed metadata on its way to a broker.

    Without `snapshot`, `records[i]` has offset `first_offset + i`. With it, the records replace the
    whole image and stand for everything up to and including `first_offset`.

    `previous_offset` is that of the record before the first one, None: `first_offset - 1`. An
    offset between them is no metadata: a control record of the log, or an append that was never
    finished.
    """

    controller_epoch: ControllerEpoch
    first_offset: Offset
    records: tuple[MetadataRecord, ...] = field(repr=False)
    snapshot: bool = False
    committed_offset: Offset = Offset(-1)
    previous_offset: Offset | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAccepted:
    """The lease is renewed."""

    controller_epoch: ControllerEpoch
    fenced: bool


@dataclass(frozen=True, slots=True)
class ShutdownPermitted:
    """The broker leads nothing any more (`remaining_leaders` 0) and may stop."""

    remaining_leaders: int


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    """The broker's id is forgotten."""

    broker_id: BrokerId
