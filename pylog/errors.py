"""Every error that pylog raises: one class per Kafka error code, and a few that have no code.

One table (`ERRORS_BY_CODE`) maps the wire's code to its class; the gRPC and Kafka edges map once.
`retriable`: the same call may succeed later. `refreshes_metadata`: ask for new metadata first.
`fatal`: this client object is of no more use. `abortable`: the transaction must be aborted.
Codes and names are Apache Kafka's (its `Errors` table).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pylog.plain_text import escaped


class PylogError(Exception):
    """What every pylog error derives from.

    The message says which address, topic, partition, setting or limit is meant, and what to do.
    """

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    refreshes_metadata: ClassVar[bool] = False
    fatal: ClassVar[bool] = False
    abortable: ClassVar[bool] = False
    default_message: ClassVar[str] = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.default_message)

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
    """The server met an unexpected error; its log tells more."""

    code = -1
    default_message = "the server met an unexpected error; its log tells more"


class OffsetOutOfRange(PylogError):
    """The offset is outside the range that the log holds."""

    code = 1
    default_message = "the offset is outside the range that the log holds"


class CorruptMessage(RetriableError):
    """The batch failed its CRC check or its size is wrong.

    Where a consumer meets one, `next_offset` is where to `seek()` to go on behind it; else None.
    """

    code = 2
    default_message = "the batch failed its CRC check or its size is wrong"

    def __init__(self, message: str = "", *, next_offset: int | None = None) -> None:
        super().__init__(message)
        self.next_offset = next_offset


class UnknownTopicOrPartition(StaleMetadataError):
    """This server does not host that topic or partition."""

    code = 3
    default_message = "this server does not host that topic or partition"


class InvalidFetchSize(PylogError):
    """The fetch size is invalid."""

    code = 4
    default_message = "the fetch size is invalid"


class LeaderNotAvailable(StaleMetadataError):
    """The partition has no leader at the moment."""

    code = 5
    default_message = "the partition has no leader at the moment"


class NotLeaderOrFollower(StaleMetadataError):
    """This broker is not the leader of the partition."""

    code = 6
    default_message = "this broker is not the leader of the partition"


class RequestTimedOut(RetriableError):
    """The request was not satisfied within its time."""

    code = 7
    default_message = "the request was not satisfied within its time"


class BrokerNotAvailable(PylogError):
    """The broker is not available."""

    code = 8
    default_message = "the broker is not available"


class ReplicaNotAvailable(StaleMetadataError):
    """The replica is not available for the asked partition."""

    code = 9
    default_message = "the replica is not available for the asked partition"


class MessageTooLarge(PylogError):
    """The batch is larger than `max.message.bytes`."""

    code = 10
    default_message = "the batch is larger than `max.message.bytes`"


class StaleControllerEpoch(PylogError):
    """The controller epoch is older than one already seen."""

    code = 11
    default_message = "the controller epoch is older than one already seen"


class OffsetMetadataTooLarge(PylogError):
    """The metadata of a committed offset is too large."""

    code = 12
    default_message = "the metadata of a committed offset is too large"


class NetworkException(StaleMetadataError):
    """The connection broke before an answer came."""

    code = 13
    default_message = "the connection broke before an answer came"


class CoordinatorLoadInProgress(RetriableError):
    """The coordinator is loading its state."""

    code = 14
    default_message = "the coordinator is loading its state"


class CoordinatorNotAvailable(RetriableError):
    """The coordinator is not available."""

    code = 15
    default_message = "the coordinator is not available"


class NotCoordinator(RetriableError):
    """This broker is not the coordinator."""

    code = 16
    default_message = "this broker is not the coordinator"


class InvalidTopic(PylogError):
    """The topic name is not legal, or the topic may not be written."""

    code = 17
    default_message = "the topic name is not legal, or the topic may not be written"


class RecordListTooLarge(PylogError):
    """The batch is larger than a segment."""

    code = 18
    default_message = "the batch is larger than a segment"


class NotEnoughReplicas(RetriableError):
    """Fewer in-sync replicas than `min.insync.replicas`; nothing was written."""

    code = 19
    default_message = "fewer in-sync replicas than `min.insync.replicas`; nothing was written"


class NotEnoughReplicasAfterAppend(RetriableError):
    """Written, but to fewer in-sync replicas than required."""

    code = 20
    default_message = "written, but to fewer in-sync replicas than required"


class InvalidRequiredAcks(PylogError):
    """Acks must be 0, 1 or all (-1)."""

    code = 21
    default_message = "acks must be 0, 1 or all (-1)"


class IllegalGeneration(PylogError):
    """The group generation is not the current one."""

    code = 22
    default_message = "the group generation is not the current one"


class InconsistentGroupProtocol(PylogError):
    """The member's protocols do not match the group's."""

    code = 23
    default_message = "the member's protocols do not match the group's"


class InvalidGroupId(PylogError):
    """The group id is not legal."""

    code = 24
    default_message = "the group id is not legal"


class UnknownMemberId(PylogError):
    """The coordinator does not know this member."""

    code = 25
    default_message = "the coordinator does not know this member"


class InvalidSessionTimeout(PylogError):
    """The session time-out is outside the allowed range."""

    code = 26
    default_message = "the session time-out is outside the allowed range"


class RebalanceInProgress(PylogError):
    """The group is rebalancing."""

    code = 27
    default_message = "the group is rebalancing"


class InvalidCommitOffsetSize(PylogError):
    """The committed offset data is too large."""

    code = 28
    default_message = "the committed offset data is too large"


class TopicAuthorizationFailed(PylogError):
    """Not authorized for the topic."""

    code = 29
    default_message = "not authorized for the topic"


class GroupAuthorizationFailed(PylogError):
    """Not authorized for the group."""

    code = 30
    default_message = "not authorized for the group"


class ClusterAuthorizationFailed(PylogError):
    """Not authorized for the cluster."""

    code = 31
    default_message = "not authorized for the cluster"


class InvalidTimestamp(PylogError):
    """A record's timestamp is outside the allowed range."""

    code = 32
    default_message = "a record's timestamp is outside the allowed range"


class UnsupportedSaslMechanism(PylogError):
    """The server does not offer that SASL mechanism."""

    code = 33
    default_message = "the server does not offer that SASL mechanism"


class IllegalSaslState(PylogError):
    """The request is not legal in this state of authentication."""

    code = 34
    default_message = "the request is not legal in this state of authentication"


class UnsupportedVersion(PylogError):
    """That version of the request or format is not supported."""

    code = 35
    default_message = "that version of the request or format is not supported"


class TopicAlreadyExists(PylogError):
    """A topic of that name exists."""

    code = 36
    default_message = "a topic of that name exists"


class InvalidPartitions(PylogError):
    """The number of partitions is not legal."""

    code = 37
    default_message = "the number of partitions is not legal"


class InvalidReplicationFactor(PylogError):
    """The replication factor is below 1 or above the number of brokers."""

    code = 38
    default_message = "the replication factor is below 1 or above the number of brokers"


class InvalidReplicaAssignment(PylogError):
    """The replica assignment is not legal."""

    code = 39
    default_message = "the replica assignment is not legal"


class InvalidConfig(PylogError):
    """A configuration is not legal."""

    code = 40
    default_message = "a configuration is not legal"


class NotController(RetriableError):
    """This node is not the active controller."""

    code = 41
    default_message = "this node is not the active controller"


class InvalidRequest(PylogError):
    """The request does not make sense."""

    code = 42
    default_message = "the request does not make sense"


class UnsupportedForMessageFormat(PylogError):
    """The message format does not allow this."""

    code = 43
    default_message = "the message format does not allow this"


class PolicyViolation(PylogError):
    """The request violates a policy."""

    code = 44
    default_message = "the request violates a policy"


class OutOfOrderSequenceNumber(PylogError):
    """The producer's sequence number leaves a gap."""

    code = 45
    default_message = "the producer's sequence number leaves a gap"


class DuplicateSequenceNumber(PylogError):
    """The producer's sequence number was already seen."""

    code = 46
    default_message = "the producer's sequence number was already seen"


class InvalidProducerEpoch(PylogError):
    """A newer instance of this producer has taken over."""

    code = 47
    default_message = "a newer instance of this producer has taken over"


class InvalidTxnState(AbortableError):
    """The transaction is not in a state that allows this."""

    code = 48
    default_message = "the transaction is not in a state that allows this"


class InvalidProducerIdMapping(AbortableError):
    """The producer id does not belong to this transactional id."""

    code = 49
    default_message = "the producer id does not belong to this transactional id"


class InvalidTransactionTimeout(PylogError):
    """The transaction time-out is outside the allowed range."""

    code = 50
    default_message = "the transaction time-out is outside the allowed range"


class ConcurrentTransactions(RetriableError):
    """A previous transaction is still being completed."""

    code = 51
    default_message = "a previous transaction is still being completed"


class TransactionCoordinatorFenced(FatalError):
    """A newer transaction coordinator has taken over."""

    code = 52
    default_message = "a newer transaction coordinator has taken over"


class TransactionalIdAuthorizationFailed(PylogError):
    """Not authorized for the transactional id."""

    code = 53
    default_message = "not authorized for the transactional id"


class SecurityDisabled(PylogError):
    """Security features are off."""

    code = 54
    default_message = "security features are off"


class OperationNotAttempted(PylogError):
    """Not attempted, because an earlier part failed."""

    code = 55
    default_message = "not attempted, because an earlier part failed"


class KafkaStorageError(StaleMetadataError):
    """The broker's disk failed or the replica is offline."""

    code = 56
    default_message = "the broker's disk failed or the replica is offline"


class LogDirNotFound(PylogError):
    """The log directory does not exist."""

    code = 57
    default_message = "the log directory does not exist"


class SaslAuthenticationFailed(PylogError):
    """Authentication failed."""

    code = 58
    default_message = "authentication failed"


class UnknownProducerId(PylogError):
    """The broker knows nothing of this producer."""

    code = 59
    default_message = "the broker knows nothing of this producer"


class ReassignmentInProgress(PylogError):
    """A reassignment is in progress."""

    code = 60
    default_message = "a reassignment is in progress"


class DelegationTokenAuthDisabled(PylogError):
    """Delegation tokens are off."""

    code = 61
    default_message = "delegation tokens are off"


class DelegationTokenNotFound(PylogError):
    """No such delegation token."""

    code = 62
    default_message = "no such delegation token"


class DelegationTokenOwnerMismatch(PylogError):
    """The token belongs to somebody else."""

    code = 63
    default_message = "the token belongs to somebody else"


class DelegationTokenRequestNotAllowed(PylogError):
    """Delegation tokens are not allowed on this channel."""

    code = 64
    default_message = "delegation tokens are not allowed on this channel"


class DelegationTokenAuthorizationFailed(PylogError):
    """Not authorized for the delegation token."""

    code = 65
    default_message = "not authorized for the delegation token"


class DelegationTokenExpired(PylogError):
    """The delegation token expired."""

    code = 66
    default_message = "the delegation token expired"


class InvalidPrincipalType(PylogError):
    """The principal type is not supported."""

    code = 67
    default_message = "the principal type is not supported"


class NonEmptyGroup(PylogError):
    """The group still has members."""

    code = 68
    default_message = "the group still has members"


class GroupIdNotFound(PylogError):
    """No such group."""

    code = 69
    default_message = "no such group"


class FetchSessionIdNotFound(RetriableError):
    """No such fetch session."""

    code = 70
    default_message = "no such fetch session"


class InvalidFetchSessionEpoch(RetriableError):
    """The fetch session's epoch is wrong."""

    code = 71
    default_message = "the fetch session's epoch is wrong"


class ListenerNotFound(StaleMetadataError):
    """No such listener on the leader."""

    code = 72
    default_message = "no such listener on the leader"


class TopicDeletionDisabled(PylogError):
    """Topic deletion is off."""

    code = 73
    default_message = "topic deletion is off"


class FencedLeaderEpoch(StaleMetadataError):
    """The leader epoch in the request is older than the broker's."""

    code = 74
    default_message = "the leader epoch in the request is older than the broker's"


class UnknownLeaderEpoch(RetriableError):
    """The leader epoch in the request is newer than the broker's."""

    code = 75
    default_message = "the leader epoch in the request is newer than the broker's"


class UnsupportedCompressionType(PylogError):
    """That compression type is not supported."""

    code = 76
    default_message = "that compression type is not supported"


class StaleBrokerEpoch(PylogError):
    """The broker epoch is not the current one."""

    code = 77
    default_message = "the broker epoch is not the current one"


class OffsetNotAvailable(RetriableError):
    """A new leader does not know its high watermark yet."""

    code = 78
    default_message = "a new leader does not know its high watermark yet"


class MemberIdRequired(PylogError):
    """Join again with the member id that was handed out."""

    code = 79
    default_message = "join again with the member id that was handed out"


class PreferredLeaderNotAvailable(StaleMetadataError):
    """The preferred leader is not available."""

    code = 80
    default_message = "the preferred leader is not available"


class GroupMaxSizeReached(PylogError):
    """The group is full."""

    code = 81
    default_message = "the group is full"


class FencedInstanceId(FatalError):
    """A newer member has the same instance id."""

    code = 82
    default_message = "a newer member has the same instance id"


class EligibleLeadersNotAvailable(StaleMetadataError):
    """No eligible leader is available."""

    code = 83
    default_message = "no eligible leader is available"


class ElectionNotNeeded(StaleMetadataError):
    """No election is needed."""

    code = 84
    default_message = "no election is needed"


class NoReassignmentInProgress(PylogError):
    """No reassignment is in progress."""

    code = 85
    default_message = "no reassignment is in progress"


class GroupSubscribedToTopic(PylogError):
    """A member is subscribed to the topic."""

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
    """Offsets of an open transaction are pending."""

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
    """A newer producer has the same transactional id."""

    code = 90
    default_message = "a newer producer has the same transactional id"


class ResourceNotFound(PylogError):
    """No such resource."""

    code = 91
    default_message = "no such resource"


class DuplicateResource(PylogError):
    """The resource stands there twice."""

    code = 92
    default_message = "the resource stands there twice"


class UnacceptableCredential(PylogError):
    """The credential is not acceptable."""

    code = 93
    default_message = "the credential is not acceptable"


class InconsistentVoterSet(PylogError):
    """The voters differ from the known ones."""

    code = 94
    default_message = "the voters differ from the known ones"


class InvalidUpdateVersion(PylogError):
    """The update version is not legal."""

    code = 95
    default_message = "the update version is not legal"


class FeatureUpdateFailed(PylogError):
    """The feature update failed."""

    code = 96
    default_message = "the feature update failed"


class PrincipalDeserializationFailure(PylogError):
    """The forwarded principal could not be read."""

    code = 97
    default_message = "the forwarded principal could not be read"


class SnapshotNotFound(PylogError):
    """No such snapshot."""

    code = 98
    default_message = "no such snapshot"


class PositionOutOfRange(PylogError):
    """The position is outside the snapshot."""

    code = 99
    default_message = "the position is outside the snapshot"


class UnknownTopicId(StaleMetadataError):
    """This server does not know that topic id."""

    code = 100
    default_message = "this server does not know that topic id"


class DuplicateBrokerRegistration(PylogError):
    """A live broker has the same id."""

    code = 101
    default_message = "a live broker has the same id"


class BrokerIdNotRegistered(PylogError):
    """That broker id is not registered."""

    code = 102
    default_message = "that broker id is not registered"


class InconsistentTopicId(StaleMetadataError):
    """The topic id differs from the partition's."""

    code = 103
    default_message = "the topic id differs from the partition's"


class InconsistentClusterId(PylogError):
    """The cluster id differs from this cluster's."""

    code = 104
    default_message = "the cluster id differs from this cluster's"


class TransactionalIdNotFound(PylogError):
    """No such transactional id."""

    code = 105
    default_message = "no such transactional id"


class FetchSessionTopicIdError(RetriableError):
    """The fetch session's topic ids are inconsistent."""

    code = 106
    default_message = "the fetch session's topic ids are inconsistent"


class IneligibleReplica(PylogError):
    """A proposed in-sync replica is fenced, stopping or unknown."""

    code = 107
    default_message = "a proposed in-sync replica is fenced, stopping or unknown"


class NewLeaderElected(PylogError):
    """The request changed the leader."""

    code = 108
    default_message = "the request changed the leader"


class OffsetMovedToTieredStorage(PylogError):
    """The offset is in tiered storage."""

    code = 109
    default_message = "the offset is in tiered storage"


class FencedMemberEpoch(PylogError):
    """The member epoch is fenced."""

    code = 110
    default_message = "the member epoch is fenced"


class UnreleasedInstanceId(PylogError):
    """The instance id is still in use."""

    code = 111
    default_message = "the instance id is still in use"


class UnsupportedAssignor(PylogError):
    """The group does not support that assignor."""

    code = 112
    default_message = "the group does not support that assignor"


class StaleMemberEpoch(RetriableError):
    """The member epoch is stale."""

    code = 113
    default_message = "the member epoch is stale"


class MismatchedEndpointType(PylogError):
    """The request went to the wrong kind of endpoint."""

    code = 114
    default_message = "the request went to the wrong kind of endpoint"


class UnsupportedEndpointType(PylogError):
    """That kind of endpoint is not supported."""

    code = 115
    default_message = "that kind of endpoint is not supported"


class UnknownControllerId(PylogError):
    """No such controller id."""

    code = 116
    default_message = "no such controller id"


class InvalidRegistration(PylogError):
    """The registration does not make sense."""

    code = 119
    default_message = "the registration does not make sense"


class TransactionAbortable(AbortableError):
    """The transaction must be aborted."""

    code = 120
    default_message = "the transaction must be aborted"


class InvalidRecordState(PylogError):
    """The record state does not allow this."""

    code = 121
    default_message = "the record state does not allow this"


class ShareSessionNotFound(RetriableError):
    """No such share session."""

    code = 122
    default_message = "no such share session"


class InvalidShareSessionEpoch(RetriableError):
    """The share session's epoch is wrong."""

    code = 123
    default_message = "the share session's epoch is wrong"


class FencedStateEpoch(PylogError):
    """The share coordinator fenced this state epoch."""

    code = 124
    default_message = "the share coordinator fenced this state epoch"


class InvalidVoterKey(PylogError):
    """The voter key does not match."""

    code = 125
    default_message = "the voter key does not match"


class DuplicateVoter(PylogError):
    """The voter exists already."""

    code = 126
    default_message = "the voter exists already"


class VoterNotFound(PylogError):
    """No such voter."""

    code = 127
    default_message = "no such voter"


class InvalidRegularExpression(PylogError):
    """The regular expression is not valid."""

    code = 128
    default_message = "the regular expression is not valid"


class RebootstrapRequired(PylogError):
    """The client must bootstrap again."""

    code = 129
    default_message = "the client must bootstrap again"


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
