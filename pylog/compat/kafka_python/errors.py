"""kafka-python's errors: one class per error code of Kafka, and those that its clients raise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final


class KafkaError(Exception):
    """The base of all errors of this adapter."""

    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False
    """Whether new metadata may help."""

    def __str__(self) -> str:
        name = type(self).__name__
        return f"{name}: {super().__str__()}" if self.args else name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self), str(self)))


class RetriableError(KafkaError):
    """The same call may succeed later."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """The same call may succeed after a metadata refresh."""

    invalid_metadata = True


class BrokerResponseError(KafkaError):
    """An error that has a code of Kafka's."""

    errno: ClassVar[int | None] = None
    message: ClassVar[str | None] = None

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


class CommitFailedError(KafkaError):
    """The group has gone on without this member."""

    def __init__(self, *args: Any) -> None:
        reason = "the group has gone on without this member: its partitions may be another's by now"
        super().__init__(*(args or (reason,)))


class LogTruncationError(KafkaError):
    """The log was truncated below the consumer's position (KIP-320)."""

    def __init__(self, divergent_offsets: Any, *args: Any) -> None:
        self.divergent_offsets = divergent_offsets
        super().__init__(*(args or (f"the log was truncated: {divergent_offsets}",)))


# ---- raised by clients, and kept for programs that catch them -----------------------------------


class Cancelled(RetriableError):
    pass


class IllegalArgumentError(KafkaError):
    pass


class IllegalStateError(KafkaError):
    pass


class KafkaConfigurationError(KafkaError):
    pass


class KafkaConnectionError(InvalidMetadataError):
    pass


class KafkaProtocolError(KafkaError):
    pass


class CorrelationIdError(RetriableError, KafkaProtocolError):
    pass


class InvalidReceiveError(KafkaProtocolError):
    pass


class KafkaTimeoutError(RetriableError):
    pass


class MetadataEmptyBrokerList(RetriableError):
    pass


class NoOffsetForPartitionError(KafkaError):
    pass


class NodeNotReadyError(RetriableError):
    pass


class UnknownBrokerIdError(KafkaError):
    pass


class QuotaViolationError(KafkaError):
    pass


class StaleMetadata(InvalidMetadataError):
    pass


class TooManyInFlightRequests(RetriableError):
    pass


class UnrecognizedBrokerVersion(KafkaError):
    pass


class UnsupportedCodecError(KafkaError):
    pass


class TransactionAbortedError(KafkaError):
    message = "Failing batch since transaction was aborted"


class AuthorizationError(BrokerResponseError):
    pass


class NoError(BrokerResponseError):
    errno = 0
    message = "NO_ERROR"


class UnknownError(BrokerResponseError):
    errno = -1
    message = "UNKNOWN"


class OffsetOutOfRangeError(BrokerResponseError):
    errno = 1
    message = "OFFSET_OUT_OF_RANGE"


class CorruptRecordError(BrokerResponseError):
    errno = 2
    message = "CORRUPT_MESSAGE"


CorruptRecordException = CorruptRecordError


class UnknownTopicOrPartitionError(InvalidMetadataError, BrokerResponseError):
    errno = 3
    message = "UNKNOWN_TOPIC_OR_PARTITION"


class InvalidFetchRequestError(BrokerResponseError):
    errno = 4
    message = "INVALID_FETCH_SIZE"


class LeaderNotAvailableError(InvalidMetadataError, BrokerResponseError):
    errno = 5
    message = "LEADER_NOT_AVAILABLE"


class NotLeaderForPartitionError(InvalidMetadataError, BrokerResponseError):
    errno = 6
    message = "NOT_LEADER_FOR_PARTITION"


class RequestTimedOutError(RetriableError, BrokerResponseError):
    errno = 7
    message = "REQUEST_TIMED_OUT"


class BrokerNotAvailableError(BrokerResponseError):
    errno = 8
    message = "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailableError(InvalidMetadataError, BrokerResponseError):
    errno = 9
    message = "REPLICA_NOT_AVAILABLE"


class MessageSizeTooLargeError(BrokerResponseError):
    errno = 10
    message = "MESSAGE_SIZE_TOO_LARGE"


class StaleControllerEpochError(BrokerResponseError):
    errno = 11
    message = "STALE_CONTROLLER_EPOCH"


class OffsetMetadataTooLargeError(BrokerResponseError):
    errno = 12
    message = "OFFSET_METADATA_TOO_LARGE"


class NetworkExceptionError(InvalidMetadataError, BrokerResponseError):
    errno = 13
    message = "NETWORK_EXCEPTION"


class CoordinatorLoadInProgressError(RetriableError, BrokerResponseError):
    errno = 14
    message = "COORDINATOR_LOAD_IN_PROGRESS"


class CoordinatorNotAvailableError(RetriableError, BrokerResponseError):
    errno = 15
    message = "COORDINATOR_NOT_AVAILABLE"


class NotCoordinatorError(RetriableError, BrokerResponseError):
    errno = 16
    message = "NOT_COORDINATOR"


class InvalidTopicError(BrokerResponseError):
    errno = 17
    message = "INVALID_TOPIC"


class RecordListTooLargeError(BrokerResponseError):
    errno = 18
    message = "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicasError(RetriableError, BrokerResponseError):
    errno = 19
    message = "NOT_ENOUGH_REPLICAS"


class NotEnoughReplicasAfterAppendError(RetriableError, BrokerResponseError):
    errno = 20
    message = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"


class InvalidRequiredAcksError(BrokerResponseError):
    errno = 21
    message = "INVALID_REQUIRED_ACKS"


class IllegalGenerationError(BrokerResponseError):
    errno = 22
    message = "ILLEGAL_GENERATION"


class InconsistentGroupProtocolError(BrokerResponseError):
    errno = 23
    message = "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupIdError(BrokerResponseError):
    errno = 24
    message = "INVALID_GROUP_ID"


class UnknownMemberIdError(BrokerResponseError):
    errno = 25
    message = "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeoutError(BrokerResponseError):
    errno = 26
    message = "INVALID_SESSION_TIMEOUT"


class RebalanceInProgressError(BrokerResponseError):
    errno = 27
    message = "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSizeError(BrokerResponseError):
    errno = 28
    message = "INVALID_COMMIT_OFFSET_SIZE"


class TopicAuthorizationFailedError(AuthorizationError):
    errno = 29
    message = "TOPIC_AUTHORIZATION_FAILED"


class GroupAuthorizationFailedError(AuthorizationError):
    errno = 30
    message = "GROUP_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailedError(AuthorizationError):
    errno = 31
    message = "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestampError(BrokerResponseError):
    errno = 32
    message = "INVALID_TIMESTAMP"


class UnsupportedSaslMechanismError(BrokerResponseError):
    errno = 33
    message = "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslStateError(BrokerResponseError):
    errno = 34
    message = "ILLEGAL_SASL_STATE"


class UnsupportedVersionError(BrokerResponseError):
    errno = 35
    message = "UNSUPPORTED_VERSION"


class IncompatibleBrokerVersion(UnsupportedVersionError):
    pass


class TopicAlreadyExistsError(BrokerResponseError):
    errno = 36
    message = "TOPIC_ALREADY_EXISTS"


class InvalidPartitionsError(BrokerResponseError):
    errno = 37
    message = "INVALID_PARTITIONS"


class InvalidReplicationFactorError(BrokerResponseError):
    errno = 38
    message = "INVALID_REPLICATION_FACTOR"


class InvalidReplicationAssignmentError(BrokerResponseError):
    errno = 39
    message = "INVALID_REPLICATION_ASSIGNMENT"


class InvalidConfigurationError(BrokerResponseError):
    errno = 40
    message = "INVALID_CONFIG"


class NotControllerError(RetriableError, BrokerResponseError):
    errno = 41
    message = "NOT_CONTROLLER"


class InvalidRequestError(BrokerResponseError):
    errno = 42
    message = "INVALID_REQUEST"


class UnsupportedForMessageFormatError(BrokerResponseError):
    errno = 43
    message = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolationError(BrokerResponseError):
    errno = 44
    message = "POLICY_VIOLATION"


class OutOfOrderSequenceNumberError(BrokerResponseError):
    errno = 45
    message = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumberError(BrokerResponseError):
    errno = 46
    message = "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpochError(BrokerResponseError):
    errno = 47
    message = "INVALID_PRODUCER_EPOCH"


class InvalidTxnStateError(BrokerResponseError):
    errno = 48
    message = "INVALID_TXN_STATE"


class InvalidProducerIdMappingError(BrokerResponseError):
    errno = 49
    message = "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeoutError(BrokerResponseError):
    errno = 50
    message = "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactionsError(RetriableError, BrokerResponseError):
    errno = 51
    message = "CONCURRENT_TRANSACTIONS"


class TransactionCoordinatorFencedError(BrokerResponseError):
    errno = 52
    message = "TRANSACTION_COORDINATOR_FENCED"


class TransactionalIdAuthorizationFailedError(AuthorizationError):
    errno = 53
    message = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class SecurityDisabledError(BrokerResponseError):
    errno = 54
    message = "SECURITY_DISABLED"


class OperationNotAttemptedError(BrokerResponseError):
    errno = 55
    message = "OPERATION_NOT_ATTEMPTED"


class KafkaStorageError(InvalidMetadataError, BrokerResponseError):
    errno = 56
    message = "KAFKA_STORAGE_ERROR"


class LogDirNotFoundError(BrokerResponseError):
    errno = 57
    message = "LOG_DIR_NOT_FOUND"


class SaslAuthenticationFailedError(BrokerResponseError):
    errno = 58
    message = "SASL_AUTHENTICATION_FAILED"


class UnknownProducerIdError(BrokerResponseError):
    errno = 59
    message = "UNKNOWN_PRODUCER_ID"


class ReassignmentInProgressError(BrokerResponseError):
    errno = 60
    message = "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabledError(BrokerResponseError):
    errno = 61
    message = "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFoundError(BrokerResponseError):
    errno = 62
    message = "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatchError(BrokerResponseError):
    errno = 63
    message = "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowedError(BrokerResponseError):
    errno = 64
    message = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailedError(AuthorizationError):
    errno = 65
    message = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpiredError(BrokerResponseError):
    errno = 66
    message = "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalTypeError(BrokerResponseError):
    errno = 67
    message = "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroupError(BrokerResponseError):
    errno = 68
    message = "NON_EMPTY_GROUP"


class GroupIdNotFoundError(BrokerResponseError):
    errno = 69
    message = "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFoundError(RetriableError, BrokerResponseError):
    errno = 70
    message = "FETCH_SESSION_ID_NOT_FOUND"


class InvalidFetchSessionEpochError(RetriableError, BrokerResponseError):
    errno = 71
    message = "INVALID_FETCH_SESSION_EPOCH"


class ListenerNotFoundError(InvalidMetadataError, BrokerResponseError):
    errno = 72
    message = "LISTENER_NOT_FOUND"


class TopicDeletionDisabledError(BrokerResponseError):
    errno = 73
    message = "TOPIC_DELETION_DISABLED"


class FencedLeaderEpochError(InvalidMetadataError, BrokerResponseError):
    errno = 74
    message = "FENCED_LEADER_EPOCH"


class UnknownLeaderEpochError(InvalidMetadataError, BrokerResponseError):
    errno = 75
    message = "UNKNOWN_LEADER_EPOCH"


class UnsupportedCompressionTypeError(BrokerResponseError):
    errno = 76
    message = "UNSUPPORTED_COMPRESSION_TYPE"


class StaleBrokerEpochError(BrokerResponseError):
    errno = 77
    message = "STALE_BROKER_EPOCH"


class OffsetNotAvailableError(RetriableError, BrokerResponseError):
    errno = 78
    message = "OFFSET_NOT_AVAILABLE"


class MemberIdRequiredError(BrokerResponseError):
    errno = 79
    message = "MEMBER_ID_REQUIRED"


class PreferredLeaderNotAvailableError(InvalidMetadataError, BrokerResponseError):
    errno = 80
    message = "PREFERRED_LEADER_NOT_AVAILABLE"


class GroupMaxSizeReachedError(BrokerResponseError):
    errno = 81
    message = "GROUP_MAX_SIZE_REACHED"


class FencedInstanceIdError(BrokerResponseError):
    errno = 82
    message = "FENCED_INSTANCE_ID"


class EligibleLeadersNotAvailableError(InvalidMetadataError, BrokerResponseError):
    errno = 83
    message = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


class ElectionNotNeededError(InvalidMetadataError, BrokerResponseError):
    errno = 84
    message = "ELECTION_NOT_NEEDED"


class NoReassignmentInProgressError(BrokerResponseError):
    errno = 85
    message = "NO_REASSIGNMENT_IN_PROGRESS"


class GroupSubscribedToTopicError(BrokerResponseError):
    errno = 86
    message = "GROUP_SUBSCRIBED_TO_TOPIC"


class InvalidRecordError(BrokerResponseError):
    errno = 87
    message = "INVALID_RECORD"


class UnstableOffsetCommitError(RetriableError, BrokerResponseError):
    errno = 88
    message = "UNSTABLE_OFFSET_COMMIT"


class ThrottlingQuotaExceededError(RetriableError, BrokerResponseError):
    errno = 89
    message = "THROTTLING_QUOTA_EXCEEDED"


class ProducerFencedError(BrokerResponseError):
    errno = 90
    message = "PRODUCER_FENCED"


class ResourceNotFoundError(BrokerResponseError):
    errno = 91
    message = "RESOURCE_NOT_FOUND"


class DuplicateResourceError(BrokerResponseError):
    errno = 92
    message = "DUPLICATE_RESOURCE"


class UnacceptableCredentialError(BrokerResponseError):
    errno = 93
    message = "UNACCEPTABLE_CREDENTIAL"


class InconsistentVoterSetError(BrokerResponseError):
    errno = 94
    message = "INCONSISTENT_VOTER_SET"


class InvalidUpdateVersionError(BrokerResponseError):
    errno = 95
    message = "INVALID_UPDATE_VERSION"


class FeatureUpdateFailedError(BrokerResponseError):
    errno = 96
    message = "FEATURE_UPDATE_FAILED"


class PrincipalDeserializationFailureError(BrokerResponseError):
    errno = 97
    message = "PRINCIPAL_DESERIALIZATION_FAILURE"


class SnapshotNotFoundError(BrokerResponseError):
    errno = 98
    message = "SNAPSHOT_NOT_FOUND"


class PositionOutOfRangeError(BrokerResponseError):
    errno = 99
    message = "POSITION_OUT_OF_RANGE"


class UnknownTopicIdError(InvalidMetadataError, BrokerResponseError):
    errno = 100
    message = "UNKNOWN_TOPIC_ID"


class DuplicateBrokerRegistrationError(BrokerResponseError):
    errno = 101
    message = "DUPLICATE_BROKER_REGISTRATION"


class BrokerIdNotRegisteredError(BrokerResponseError):
    errno = 102
    message = "BROKER_ID_NOT_REGISTERED"


class InconsistentTopicIdError(InvalidMetadataError, BrokerResponseError):
    errno = 103
    message = "INCONSISTENT_TOPIC_ID"


class InconsistentClusterIdError(BrokerResponseError):
    errno = 104
    message = "INCONSISTENT_CLUSTER_ID"


class TransactionalIdNotFoundError(BrokerResponseError):
    errno = 105
    message = "TRANSACTIONAL_ID_NOT_FOUND"


class FetchSessionTopicIdError(RetriableError, BrokerResponseError):
    errno = 106
    message = "FETCH_SESSION_TOPIC_ID_ERROR"


class IneligibleReplicaError(BrokerResponseError):
    errno = 107
    message = "INELIGIBLE_REPLICA"


class NewLeaderElectedError(BrokerResponseError):
    errno = 108
    message = "NEW_LEADER_ELECTED"


class OffsetMovedToTieredStorageError(BrokerResponseError):
    errno = 109
    message = "OFFSET_MOVED_TO_TIERED_STORAGE"


class FencedMemberEpochError(BrokerResponseError):
    errno = 110
    message = "FENCED_MEMBER_EPOCH"


class UnreleasedInstanceIdError(BrokerResponseError):
    errno = 111
    message = "UNRELEASED_INSTANCE_ID"


class UnsupportedAssignorError(BrokerResponseError):
    errno = 112
    message = "UNSUPPORTED_ASSIGNOR"


class StaleMemberEpochError(BrokerResponseError):
    errno = 113
    message = "STALE_MEMBER_EPOCH"


class MismatchedEndpointTypeError(BrokerResponseError):
    errno = 114
    message = "MISMATCHED_ENDPOINT_TYPE"


class UnsupportedEndpointTypeError(BrokerResponseError):
    errno = 115
    message = "UNSUPPORTED_ENDPOINT_TYPE"


class UnknownControllerIdError(BrokerResponseError):
    errno = 116
    message = "UNKNOWN_CONTROLLER_ID"


class UnknownSubscriptionIdError(BrokerResponseError):
    errno = 117
    message = "UNKNOWN_SUBSCRIPTION_ID"


class TelemetryTooLargeError(BrokerResponseError):
    errno = 118
    message = "TELEMETRY_TOO_LARGE"


class InvalidRegistrationError(BrokerResponseError):
    errno = 119
    message = "INVALID_REGISTRATION"


class TransactionAbortableError(BrokerResponseError):
    errno = 120
    message = "TRANSACTION_ABORTABLE"


class InvalidRecordStateError(BrokerResponseError):
    errno = 121
    message = "INVALID_RECORD_STATE"


class ShareSessionNotFoundError(RetriableError, BrokerResponseError):
    errno = 122
    message = "SHARE_SESSION_NOT_FOUND"


class InvalidShareSessionEpochError(RetriableError, BrokerResponseError):
    errno = 123
    message = "INVALID_SHARE_SESSION_EPOCH"


class FencedStateEpochError(BrokerResponseError):
    errno = 124
    message = "FENCED_STATE_EPOCH"


class InvalidVoterKeyError(BrokerResponseError):
    errno = 125
    message = "INVALID_VOTER_KEY"


class DuplicateVoterError(BrokerResponseError):
    errno = 126
    message = "DUPLICATE_VOTER"


class VoterNotFoundError(BrokerResponseError):
    errno = 127
    message = "VOTER_NOT_FOUND"


class NoBrokersAvailable(KafkaTimeoutError):
    """No bootstrap server answered: the name that kafka-python had for it before version 3."""


def _by_code() -> dict[int, type[BrokerResponseError]]:
    found: dict[int, type[BrokerResponseError]] = {}
    for item in globals().values():
        if isinstance(item, type) and issubclass(item, BrokerResponseError):
            errno = vars(item).get("errno")
            if isinstance(errno, int):
                found.setdefault(errno, item)
    return found


kafka_errors: Final[Mapping[int, type[BrokerResponseError]]] = _by_code()
"""Kafka's numeric code -> error class."""


def for_code(error_code: int) -> type[BrokerResponseError]:
    """The error class of a code; an unknown code has a class of its own."""
    found = kafka_errors.get(error_code)
    if found is None:
        return type("UnrecognizedBrokerError", (UnknownError,), {"errno": error_code})
    return found
