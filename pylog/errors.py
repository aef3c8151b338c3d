"""Every error that pylog raises: one class per Kafka error code, and a few that have no code.

One table (`ERRORS_BY_CODE`) maps the wire's code to its class; the gRPC and Kafka edges map once.
`retriable`: the same call may succeed later. `refreshes_metadata`: ask for new metadata first.
`fatal`: this client object is of no more use. `abortable`: the transaction must be aborted.
Codes and names are Apache Kafka's (its `Errors` table).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pylog.plain_text import escaped

if TYPE_CHECKING:
    from pylog.model import TopicPartition


class PylogError(Exception):
    """The base of every pylog error.

    The message says which address, topic, partition, setting or limit is meant, and what to do.
    """

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    refreshes_metadata: ClassVar[bool] = False
    fatal: ClassVar[bool] = False
    abortable: ClassVar[bool] = False
    default_message: ClassVar[str] = ""
    topic: str | None = None
    topic_partition: TopicPartition | None = None
    """The topic, and of that the partition, that a consumer's error is about; None where it is
    about none, or about several.
    """

    def __init_subclass__(cls) -> None:
        # A class whose text says all has no other one to be described by.
        if cls.__doc__ is None and cls.default_message:
            cls.__doc__ = f"{cls.default_message[0].upper()}{cls.default_message[1:]}."

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.default_message)

    def about(self, what: TopicPartition | str) -> Self:
        """The same error, which is now known to be about that partition, or topic."""
        if isinstance(what, str):
            self.topic = what
        else:
            self.topic, self.topic_partition = what.topic, what
        return self

    @property
    def name(self) -> str:
        """Kafka's name of the error, for example `NOT_LEADER_OR_FOLLOWER`."""
        return error_name(type(self))


def error_name(error: type[PylogError]) -> str:
    """Kafka's spelling of an error class: `NotLeaderOrFollower` -> `NOT_LEADER_OR_FOLLOWER`."""
    letters = [("_" + c if c.isupper() and i else c) for i, c in enumerate(error.__name__)]
    return "".join(letters).upper()


class RetriableError(PylogError):
    """The same call may succeed later."""

    retriable = True


class StaleMetadataError(RetriableError):
    """The same call may succeed after a metadata refresh."""

    refreshes_metadata = True


class FatalError(PylogError):
    """This client object cannot go on."""

    fatal = True


class AbortableError(PylogError):
    """The transaction must be aborted; then the producer can go on."""

    abortable = True


# ---- Kafka's error codes ----------------------------------------------------------------------


class UnknownServerError(PylogError):
    code = -1
    default_message = "the server met an unexpected error; its log tells more"


class OffsetOutOfRange(PylogError):
    code = 1
    default_message = "the offset is outside the range that the log holds"


class CorruptMessage(RetriableError):
    """The batch failed its CRC check or its size is wrong.

    `next_offset` is the offset to `seek()` to, so as to go on behind the batch; None but for a
    consumer that reads it.
    """

    code = 2
    default_message = "the batch failed its CRC check or its size is wrong"

    def __init__(self, message: str = "", *, next_offset: int | None = None) -> None:
        super().__init__(message)
        self.next_offset = next_offset


class UnknownTopicOrPartition(StaleMetadataError):
    code = 3
    default_message = "this server does not host that topic or partition"


class InvalidFetchSize(PylogError):
    code = 4
    default_message = "the fetch size is invalid"


class LeaderNotAvailable(StaleMetadataError):
    code = 5
    default_message = "the partition has no leader at the moment"


class NotLeaderOrFollower(StaleMetadataError):
    code = 6
    default_message = "this broker is not the leader of the partition"


class RequestTimedOut(RetriableError):
    code = 7
    default_message = "the request was not satisfied within its time"


class BrokerNotAvailable(PylogError):
    code = 8
    default_message = "the broker is not available"


class ReplicaNotAvailable(StaleMetadataError):
    code = 9
    default_message = "the replica is not available for the asked partition"


class MessageTooLarge(PylogError):
    code = 10
    default_message = "the batch is larger than `max.message.bytes`"


class StaleControllerEpoch(PylogError):
    code = 11
    default_message = "the controller epoch is older than one already seen"


class OffsetMetadataTooLarge(PylogError):
    code = 12
    default_message = "the metadata of a committed offset is too large"


class NetworkException(StaleMetadataError):
    code = 13
    default_message = "the connection broke before an answer came"


class CoordinatorLoadInProgress(RetriableError):
    code = 14
    default_message = "the coordinator is loading its state"


class CoordinatorNotAvailable(RetriableError):
    code = 15
    default_message = "the coordinator is not available"


class NotCoordinator(RetriableError):
    code = 16
    default_message = "this broker is not the coordinator"


class InvalidTopic(PylogError):
    code = 17
    default_message = "the topic name is not legal, or the topic may not be written"


class RecordListTooLarge(PylogError):
    code = 18
    default_message = "the batch is larger than a segment"


class NotEnoughReplicas(RetriableError):
    code = 19
    default_message = "fewer in-sync replicas than `min.insync.replicas`; nothing was written"


class NotEnoughReplicasAfterAppend(RetriableError):
    code = 20
    default_message = "written, but to fewer in-sync replicas than required"


class InvalidRequiredAcks(PylogError):
    code = 21
    default_message = "acks must be 0, 1 or all (-1)"


class IllegalGeneration(PylogError):
    code = 22
    default_message = "the group generation is not the current one"


class InconsistentGroupProtocol(PylogError):
    code = 23
    default_message = "the member's protocols do not match the group's"


class InvalidGroupId(PylogError):
    code = 24
    default_message = "the group id is not legal"


class UnknownMemberId(PylogError):
    code = 25
    default_message = "the coordinator does not know this member"


class InvalidSessionTimeout(PylogError):
    code = 26
    default_message = "the session time-out is outside the allowed range"


class RebalanceInProgress(PylogError):
    code = 27
    default_message = "the group is rebalancing"


class InvalidCommitOffsetSize(PylogError):
    code = 28
    default_message = "the committed offset data is too large"


class TopicAuthorizationFailed(PylogError):
    code = 29
    default_message = "not authorized for the topic"


class GroupAuthorizationFailed(PylogError):
    code = 30
    default_message = "not authorized for the group"


class ClusterAuthorizationFailed(PylogError):
    code = 31
    default_message = "not authorized for the cluster"


class InvalidTimestamp(PylogError):
    code = 32
    default_message = "a record's timestamp is outside the allowed range"


class UnsupportedSaslMechanism(PylogError):
    code = 33
    default_message = "the server does not offer that SASL mechanism"


class IllegalSaslState(PylogError):
    code = 34
    default_message = "the request is not legal in this state of authentication"


class UnsupportedVersion(PylogError):
    code = 35
    default_message = "that version of the request or format is not supported"


class TopicAlreadyExists(PylogError):
    code = 36
    default_message = "a topic of that name exists"


class InvalidPartitions(PylogError):
    code = 37
    default_message = "the number of partitions is not legal"


class InvalidReplicationFactor(PylogError):
    code = 38
    default_message = "the replication factor is below 1 or above the number of brokers"


class InvalidReplicaAssignment(PylogError):
    code = 39
    default_message = "the replica assignment is not legal"


class InvalidConfig(PylogError):
    code = 40
    default_message = "a configuration is not legal"


class NotController(RetriableError):
    code = 41
    default_message = "this node is not the active controller"


class InvalidRequest(PylogError):
    code = 42
    default_message = "the request does not make sense"


class UnsupportedForMessageFormat(PylogError):
    code = 43
    default_message = "the message format does not allow this"


class PolicyViolation(PylogError):
    code = 44
    default_message = "the request violates a policy"


class OutOfOrderSequenceNumber(PylogError):
    code = 45
    default_message = "the producer's sequence number leaves a gap"


class DuplicateSequenceNumber(PylogError):
    code = 46
    default_message = "the producer's sequence number was already seen"


class InvalidProducerEpoch(AbortableError):
    code = 47
    default_message = "a newer instance of this producer has taken over"


class InvalidTxnState(AbortableError):
    code = 48
    default_message = "the transaction is not in a state that allows this"


class InvalidProducerIdMapping(FatalError):
    code = 49
    default_message = "the producer id does not belong to this transactional id"


class InvalidTransactionTimeout(FatalError):
    code = 50
    default_message = "the transaction time-out is outside the allowed range"


class ConcurrentTransactions(RetriableError):
    code = 51
    default_message = "a previous transaction is still being completed"


class TransactionCoordinatorFenced(FatalError):
    code = 52
    default_message = "a newer transaction coordinator has taken over"


class TransactionalIdAuthorizationFailed(FatalError):
    code = 53
    default_message = "not authorized for the transactional id"


class SecurityDisabled(PylogError):
    code = 54
    default_message = "security features are off"


class OperationNotAttempted(PylogError):
    code = 55
    default_message = "not attempted, because an earlier part failed"


class KafkaStorageError(StaleMetadataError):
    code = 56
    default_message = "the broker's disk failed or the replica is offline"


class LogDirNotFound(PylogError):
    code = 57
    default_message = "the log directory does not exist"


class SaslAuthenticationFailed(PylogError):
    code = 58
    default_message = "authentication failed"


class UnknownProducerId(PylogError):
    code = 59
    default_message = "the broker knows nothing of this producer"


class ReassignmentInProgress(PylogError):
    code = 60
    default_message = "a reassignment is in progress"


class DelegationTokenAuthDisabled(PylogError):
    code = 61
    default_message = "delegation tokens are off"


class DelegationTokenNotFound(PylogError):
    code = 62
    default_message = "no such delegation token"


class DelegationTokenOwnerMismatch(PylogError):
    code = 63
    default_message = "the token belongs to somebody else"


class DelegationTokenRequestNotAllowed(PylogError):
    code = 64
    default_message = "delegation tokens are not allowed on this channel"


class DelegationTokenAuthorizationFailed(PylogError):
    code = 65
    default_message = "not authorized for the delegation token"


class DelegationTokenExpired(PylogError):
    code = 66
    default_message = "the delegation token expired"


class InvalidPrincipalType(PylogError):
    code = 67
    default_message = "the principal type is not supported"


class NonEmptyGroup(PylogError):
    code = 68
    default_message = "the group still has members"


class GroupIdNotFound(PylogError):
    code = 69
    default_message = "no such group"


class FetchSessionIdNotFound(RetriableError):
    code = 70
    default_message = "no such fetch session"


class InvalidFetchSessionEpoch(RetriableError):
    code = 71
    default_message = "the fetch session's epoch is wrong"


class ListenerNotFound(StaleMetadataError):
    code = 72
    default_message = "no such listener on the leader"


class TopicDeletionDisabled(PylogError):
    code = 73
    default_message = "topic deletion is off"


class FencedLeaderEpoch(StaleMetadataError):
    code = 74
    default_message = "the leader epoch in the request is older than the broker's"


class UnknownLeaderEpoch(RetriableError):
    code = 75
    default_message = "the leader epoch in the request is newer than the broker's"


class UnsupportedCompressionType(PylogError):
    code = 76
    default_message = "that compression type is not supported"


class StaleBrokerEpoch(PylogError):
    code = 77
    default_message = "the broker epoch is not the current one"


class OffsetNotAvailable(RetriableError):
    code = 78
    default_message = "a new leader does not know its high watermark yet"


class MemberIdRequired(PylogError):
    code = 79
    default_message = "join again with the member id that was handed out"


class PreferredLeaderNotAvailable(StaleMetadataError):
    code = 80
    default_message = "the preferred leader is not available"


class GroupMaxSizeReached(PylogError):
    code = 81
    default_message = "the group is full"


class FencedInstanceId(FatalError):
    code = 82
    default_message = "a newer member has the same instance id"


class EligibleLeadersNotAvailable(StaleMetadataError):
    code = 83
    default_message = "no eligible leader is available"


class ElectionNotNeeded(StaleMetadataError):
    code = 84
    default_message = "no election is needed"


class NoReassignmentInProgress(PylogError):
    code = 85
    default_message = "no reassignment is in progress"


class GroupSubscribedToTopic(PylogError):
    code = 86
    default_message = "a member is subscribed to the topic"


class InvalidRecord(PylogError):
    """The broker's validation refused a record.

    `record_index` is its place in the batch, -1 when the batch as a whole is meant.
    """

    code = 87
    default_message = "the broker's validation refused a record"

    def __init__(self, message: str = "", *, record_index: int = -1) -> None:
        super().__init__(message)
        self.record_index = record_index


class UnstableOffsetCommit(RetriableError):
    code = 88
    default_message = "offsets of an open transaction are pending"


class ThrottlingQuotaExceeded(RetriableError):
    """The quota is used up. `throttle_time_ms`: when to try again, 0 when nobody told."""

    code = 89
    default_message = "the quota is used up"

    def __init__(self, message: str = "", *, throttle_time_ms: int = 0) -> None:
        super().__init__(message)
        self.throttle_time_ms = throttle_time_ms


class ProducerFenced(FatalError):
    code = 90
    default_message = "a newer producer has the same transactional id"


class ResourceNotFound(PylogError):
    code = 91
    default_message = "no such resource"


class DuplicateResource(PylogError):
    code = 92
    default_message = "the resource stands there twice"


class UnacceptableCredential(PylogError):
    code = 93
    default_message = "the credential is not acceptable"


class InconsistentVoterSet(PylogError):
    code = 94
    default_message = "the voters differ from the known ones"


class InvalidUpdateVersion(PylogError):
    code = 95
    default_message = "the update version is not legal"


class FeatureUpdateFailed(PylogError):
    code = 96
    default_message = "the feature update failed"


class PrincipalDeserializationFailure(PylogError):
    code = 97
    default_message = "the forwarded principal could not be read"


class SnapshotNotFound(PylogError):
    code = 98
    default_message = "no such snapshot"


class PositionOutOfRange(PylogError):
    code = 99
    default_message = "the position is outside the snapshot"


class UnknownTopicId(StaleMetadataError):
    code = 100
    default_message = "this server does not know that topic id"


class DuplicateBrokerRegistration(PylogError):
    code = 101
    default_message = "a live broker has the same id"


class BrokerIdNotRegistered(PylogError):
    code = 102
    default_message = "that broker id is not registered"


class InconsistentTopicId(StaleMetadataError):
    code = 103
    default_message = "the topic id differs from the partition's"


class InconsistentClusterId(PylogError):
    code = 104
    default_message = "the cluster id differs from this cluster's"


class TransactionalIdNotFound(PylogError):
    code = 105
    default_message = "no such transactional id"


class FetchSessionTopicIdError(RetriableError):
    code = 106
    default_message = "the fetch session's topic ids are inconsistent"


class IneligibleReplica(PylogError):
    code = 107
    default_message = "a proposed in-sync replica is fenced, stopping or unknown"


class NewLeaderElected(PylogError):
    code = 108
    default_message = "the request changed the leader"


class OffsetMovedToTieredStorage(PylogError):
    code = 109
    default_message = "the offset is in tiered storage"


class FencedMemberEpoch(PylogError):
    code = 110
    default_message = "the member epoch is fenced"


class UnreleasedInstanceId(PylogError):
    code = 111
    default_message = "the instance id is still in use"


class UnsupportedAssignor(PylogError):
    code = 112
    default_message = "the group does not support that assignor"


class StaleMemberEpoch(RetriableError):
    code = 113
    default_message = "the member epoch is stale"


class MismatchedEndpointType(PylogError):
    code = 114
    default_message = "the request went to the wrong kind of endpoint"


class UnsupportedEndpointType(PylogError):
    code = 115
    default_message = "that kind of endpoint is not supported"


class UnknownControllerId(PylogError):
    code = 116
    default_message = "no such controller id"


class InvalidRegistration(PylogError):
    code = 119
    default_message = "the registration does not make sense"


class TransactionAbortable(AbortableError):
    code = 120
    default_message = "the transaction must be aborted"


class InvalidRecordState(PylogError):
    code = 121
    default_message = "the record state does not allow this"


class ShareSessionNotFound(RetriableError):
    code = 122
    default_message = "no such share session"


class InvalidShareSessionEpoch(RetriableError):
    code = 123
    default_message = "the share session's epoch is wrong"


class FencedStateEpoch(PylogError):
    code = 124
    default_message = "the share coordinator fenced this state epoch"


class InvalidVoterKey(PylogError):
    code = 125
    default_message = "the voter key does not match"


class DuplicateVoter(PylogError):
    code = 126
    default_message = "the voter exists already"


class VoterNotFound(PylogError):
    code = 127
    default_message = "no such voter"


class InvalidRegularExpression(PylogError):
    code = 128
    default_message = "the regular expression is not valid"


class RebootstrapRequired(PylogError):
    code = 129
    default_message = "the client must bootstrap again"


class StreamsInvalidTopology(PylogError):
    code = 130
    default_message = "the topology is not valid"


class StreamsInvalidTopologyEpoch(PylogError):
    code = 131
    default_message = "the epoch of the topology is not valid"


class StreamsTopologyFenced(PylogError):
    code = 132
    default_message = "the epoch of the topology is outdated"


class ShareSessionLimitReached(RetriableError):
    code = 133
    default_message = "the broker has as many share sessions as it may"


# ---- pylog's own codes -------------------------------------------------------------------------


class SinkRunSuperseded(FatalError):
    """A newer run of the query writes to the sink: this one writes nothing more."""

    code = 10_000


class SinkBatchDecided(PylogError):
    """The batch, or a later one, was written to the sink already."""

    code = 10_001


# ---- errors of the client, which no server sends ---------------------------------------------


class BootstrapFailed(RetriableError):
    """No bootstrap server answered; the message names each address and its fault."""


class BrokerUnreachable(StaleMetadataError):
    """A broker could not be reached; the message names its address and the fault."""

    code = 13


class BufferExhausted(RetriableError):
    """`buffer.memory` stayed full for `max.block.ms`."""


class DeliveryTimedOut(RequestTimedOut):
    """A record was not acknowledged within `delivery.timeout.ms`. It may or may not be stored."""


class ClientClosed(PylogError):
    """The client object was closed."""


class WrongThread(PylogError):
    """A consumer was used from two threads at once."""


class ForkedProcess(PylogError):
    """A client made in a forked child of a process that has had clients: gRPC, which they share,
    does not outlive a fork. Processes that are spawned (`multiprocessing.get_context("spawn")`),
    or forked before the first client, have none of this.
    """


class WokenUp(PylogError):
    """`wakeup()` ended a blocking call."""


class NoOffsetForPartition(PylogError):
    """No position for a partition, and `auto.offset.reset` is `none`."""


class CommitFailed(PylogError):
    """The group has gone on without this member: offsets of partitions that may be another
    member's by now were not committed. The next poll joins the group again.
    """


class TransactionAborted(PylogError):
    """The transaction was aborted before the record was stored, or the call was done."""


class LogTruncated(PylogError):
    """The log was cut below the consumer's position: what was read there is gone (KIP-320)."""


class SerializationFailed(PylogError):
    """A serializer or deserializer failed; the message names topic, partition and offset.

    `record`: on a consumer, the record as it came, with key, value and headers as bytes.
    """

    def __init__(self, message: str = "", record: Any = None) -> None:
        super().__init__(message)
        self.record = record


class NotOffered(PylogError):
    """Part of the public surface that this version does not offer yet."""

    code = 35


class PartialFailure(PylogError):
    """Some items of a call failed.

    `results` holds the value of each item that succeeded, `errors` the error of each that did not.
    """

    def __init__(
        self, results: Mapping[object, object], errors: Mapping[object, PylogError]
    ) -> None:
        faults = "; ".join(f"{item}: {error}" for item, error in errors.items())
        super().__init__(f"{len(errors)} of {len(errors) + len(results)} failed: {faults}")
        self.results = results
        self.errors = errors

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.results, self.errors)


def _by_code() -> dict[int, type[PylogError]]:
    table: dict[int, type[PylogError]] = {}
    for error in globals().values():
        if not isinstance(error, type) or not issubclass(error, PylogError):
            continue
        if error is not PylogError and "code" in vars(error):
            table.setdefault(error.code, error)
    return table


ERRORS_BY_CODE: Final[Mapping[int, type[PylogError]]] = _by_code()
"""Kafka's numeric code -> error class."""


def from_code(code: int, message: str = "") -> PylogError:
    """The error for a wire code (not 0), with what the other side said of it, escaped; an unknown
    code becomes `UnknownServerError` that names it.
    """
    message = escaped(message)
    error = ERRORS_BY_CODE.get(code)
    if error is None:
        return UnknownServerError(f"error code {code}: {message}")
    return error(message)
