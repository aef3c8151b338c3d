"""The next step after each error of `pylog.errors`: `docs/errors.md` lists them, and the `pylog`
command shows the one of its error.

An error that is not named here has the step of the class above it. `PylogError` itself has none, so
that a test finds an error without a step.
"""

from __future__ import annotations

from typing import Final

from pylog import errors as e

_SECURITY: Final = (
    "Leave security settings out: pylog has no TLS, authentication or ACLs yet. docs/security.md "
    "says how to run it safely."
)
_INTERNAL: Final = (
    "Brokers and controller settle this among themselves. If it stays, look into the broker's log."
)
_REJOIN: Final = (
    "The member joins its group again with its next poll. If it happens often, poll more often, "
    "or raise `max.poll.interval.ms`."
)
_NEW_PRODUCER: Final = (
    "Close this producer and make a new one; two live ones must not share a transactional id."
)
_NAME: Final = "`pylog topics list` shows the topics, `pylog topics create NAME` makes one."
_REPORT: Final = (
    "This should not happen between clients and brokers of pylog: please report it with the log."
)
_NO_TIERS: Final = "Read from an offset that the log still holds: pylog has no tiered storage."

_STEPS: Final[dict[type[e.PylogError], str]] = {
    # families
    e.RetriableError: "Try again: clients do so until their time is up. If it stays, see `pylog "
    "cluster describe` and the broker's log.",
    e.StaleMetadataError: "Try again: clients ask for metadata and the new leader first. If it "
    "stays, `pylog topics describe --unavailable-partitions` shows partitions without a leader.",
    e.FatalError: _NEW_PRODUCER,
    e.AbortableError: "Call `abort_transaction()`, then begin the transaction again.",
    # topics and partitions
    e.UnknownTopicOrPartition: _NAME,
    e.UnknownTopicId: "The topic was deleted or created again: " + _NAME,
    e.InconsistentTopicId: "The topic was deleted and created again: make the client anew.",
    e.TopicAlreadyExists: "Use the topic that is there, choose another name, or delete it first "
    "(`--if-not-exists` takes it as it is).",
    e.InvalidTopic: "Take a name of at most 249 of the characters a-z A-Z 0-9 . _ -, and leave "
    "internal topics to the cluster.",
    e.InvalidPartitions: "Give a total of at least 1; it can only grow (`pylog topics describe "
    "NAME`).",
    e.InvalidReplicationFactor: "Give a factor of at most the number of live brokers, which "
    "`pylog cluster describe` shows, or add brokers (docs/adding-brokers.md).",
    e.InvalidReplicaAssignment: "Name registered brokers (`pylog cluster describe`), each once "
    "for each partition.",
    e.TopicDeletionDisabled: _REPORT,
    e.ReassignmentInProgress: "Wait until `pylog reassign list` shows no move of it, or cancel "
    "that.",
    e.NoReassignmentInProgress: "Nothing is to be done: `pylog reassign list` shows the moves "
    "that go on.",
    e.ElectionNotNeeded: "Nothing is to be done: the preferred leader leads.",
    e.PreferredLeaderNotAvailable: "Start the first broker of the partition's replicas, or let "
    "another lead.",
    e.EligibleLeadersNotAvailable: "Start a broker that was in the ISR (docs/recovering-disks.md).",
    e.LogDirNotFound: "Name a directory that `pylog cluster log-dirs` shows.",
    e.KafkaStorageError: "Look at the broker's disk: `pylog cluster log-dirs`, then "
    "docs/recovering-disks.md.",
    # reading and writing
    e.OffsetOutOfRange: "Seek to an offset that the log holds (`pylog topics offsets NAME --at "
    "earliest`), or set `auto_offset_reset`.",
    e.NoOffsetForPartition: "Set `auto_offset_reset` to 'earliest' or 'latest', or seek.",
    e.LogTruncated: "Decide what the lost records mean to you, then seek to the offset that the "
    "error names.",
    e.OffsetMovedToTieredStorage: _NO_TIERS,
    e.PositionOutOfRange: _INTERNAL,
    e.SnapshotNotFound: _INTERNAL,
    e.CorruptMessage: "Step over the batch with `error.next_offset`; docs/recovering-disks.md "
    "says how to get it back from another replica.",
    e.InvalidFetchSize: "Give `fetch.max.bytes` and `max.partition.fetch.bytes` of at least 1.",
    e.MessageTooLarge: "Send smaller records, or raise the topic's `max.message.bytes` and the "
    "producer's `max.request.size`.",
    e.RecordListTooLarge: "Send smaller batches, or raise the topic's `segment.bytes`.",
    e.InvalidRequiredAcks: "Give `acks` of 0, 1 or 'all'.",
    e.InvalidTimestamp: "Give a time in milliseconds since 1970 that the topic's "
    "`message.timestamp.before.max.ms` and `.after.max.ms` allow.",
    e.InvalidRecord: "Change the record as the message says; a compacted topic needs keys.",
    e.UnsupportedForMessageFormat: _REPORT,
    e.UnsupportedCompressionType: "Take none, gzip, snappy, lz4 or zstd, or upgrade the brokers.",
    e.NotEnoughReplicas: "Start the brokers that are away (`pylog topics describe "
    "--under-min-isr-partitions`); the producer tries again meanwhile.",
    e.NotEnoughReplicasAfterAppend: "Start the brokers that are away; the record may be stored "
    "already, so an idempotent producer tries it again.",
    e.OutOfOrderSequenceNumber: "Close this producer and make a new one; records that failed are "
    "not stored.",
    e.DuplicateSequenceNumber: "Nothing is to be done: the records are stored.",
    e.UnknownProducerId: "Close this producer and make a new one.",
    e.DeliveryTimedOut: "Find out why the brokers do not answer (`pylog cluster describe`), or "
    "raise `delivery.timeout.ms`.",
    e.BufferExhausted: "Send more slowly, or raise `buffer.memory` or `max.block.ms`.",
    e.SerializationFailed: "Change the value, or the serializer or deserializer, that the message "
    "names.",
    # reaching the cluster
    e.BootstrapFailed: "Check `bootstrap_servers`, and that the cluster runs (`pylog cluster "
    "describe`).",
    e.BrokerUnreachable: "Check that the broker runs and that its address can be reached from "
    "here; else set `client_routing='gateway'`.",
    e.BrokerNotAvailable: "Start what is away (`pylog cluster describe`), or free the address or "
    "folder that the message names.",
    e.NetworkException: "Try again: clients connect anew. If it stays, look into the broker's log.",
    e.RequestTimedOut: "Try again, or give the call more time (`default.api.timeout.ms`).",
    e.ThrottlingQuotaExceeded: "Ask more slowly: the answer names the time to wait.",
    e.RebootstrapRequired: "Make the client anew with addresses of live brokers.",
    e.UnknownServerError: "Look into the log of the broker or the controller, which has the cause.",
    e.UnsupportedVersion: "Upgrade the older side: client and brokers must share a version of the "
    "request.",
    e.MismatchedEndpointType: "Use the address of a broker or of the driver, whichever the "
    "message names.",
    e.UnsupportedEndpointType: "Use the address of a broker or of the driver, whichever the "
    "message names.",
    # groups
    e.GroupIdNotFound: "`pylog groups list` shows the groups that exist.",
    e.InvalidGroupId: "Give a `group_id` that is not empty, or none at all.",
    e.NonEmptyGroup: "Stop the group's members first (`pylog groups members NAME`).",
    e.GroupSubscribedToTopic: "Stop the members that read the topic first.",
    e.GroupMaxSizeReached: "Stop members, or raise `group.max.size` or `group.consumer.max.size`.",
    e.InconsistentGroupProtocol: "Give all members of the group one protocol, and a common "
    "assignor.",
    e.UnsupportedAssignor: "Take 'uniform' or 'range'.",
    e.InvalidSessionTimeout: "Take a time between `group.min.session.timeout.ms` and "
    "`group.max.session.timeout.ms`.",
    e.InvalidRegularExpression: "Correct the pattern: the coordinator reads it as RE2 does.",
    e.IllegalGeneration: _REJOIN,
    e.UnknownMemberId: _REJOIN,
    e.RebalanceInProgress: _REJOIN,
    e.MemberIdRequired: _REJOIN,
    e.FencedMemberEpoch: _REJOIN,
    e.CommitFailed: "Handle the records again after the rebalance. Poll more often, or raise "
    "`max.poll.interval.ms`.",
    e.FencedInstanceId: "Give each live member a `group_instance_id` of its own.",
    e.UnreleasedInstanceId: "Stop the other member of that `group_instance_id`, or wait for its "
    "session.",
    e.OffsetMetadataTooLarge: "Shorten the metadata, or raise `offset.metadata.max.bytes`.",
    e.InvalidCommitOffsetSize: "Shorten the metadata of the offsets, or commit fewer at a time.",
    e.StreamsInvalidTopology: "Correct the topology as the message says.",
    e.StreamsInvalidTopologyEpoch: "Give the epoch of the topology that the group has.",
    e.StreamsTopologyFenced: "Start the member with the topology of the group.",
    e.InvalidRecordState: "Acknowledge a record once, while its lock lasts.",
    e.FencedStateEpoch: _INTERNAL,
    # transactions and sinks
    e.InvalidTransactionTimeout: "Give a `transaction.timeout.ms` of at most the brokers' "
    "`transaction.max.timeout.ms`.",
    e.TransactionalIdNotFound: "`pylog transactions list` shows the transactional ids that are "
    "known.",
    e.InvalidTxnState: "Look at what is open: `pylog transactions producers TOPIC`. A producer "
    "calls `abort_transaction()`, then begins the transaction again.",
    e.TransactionAborted: "Begin the transaction again; none of its records counts.",
    e.TransactionalIdAuthorizationFailed: _SECURITY,
    e.ConcurrentTransactions: "Try again: the coordinator completes the transaction before it.",
    e.SinkRunSuperseded: "Stop this run: a newer run of the query writes now (docs/spark.md).",
    e.SinkBatchDecided: "Nothing is to be done: the batch counts already (`pylog sinks list`).",
    # calls
    e.InvalidConfig: "Correct the setting that the message names; docs/configuration.md lists "
    "them all.",
    e.InvalidRequest: "Correct the argument that the message names.",
    e.ResourceNotFound: "Name something that exists, as the message says.",
    e.DuplicateResource: "Keep one of the two that the message names.",
    e.PolicyViolation: "Keep to the limit that the message names.",
    e.NotOffered: "Do without it, or as the message says; docs/comparison.md lists what pylog "
    "lacks.",
    e.OperationNotAttempted: "Repair the earlier part, then ask for the whole again.",
    e.PartialFailure: "Look at `error.errors`, which has the reason of each part that failed; the "
    "others are done.",
    e.ClientClosed: "Make a new client: this one is closed.",
    e.WrongThread: "Use the consumer in one thread at a time.",
    e.ForkedProcess: "Make the client in the process that uses it, after the fork.",
    e.WokenUp: "Nothing is to be done: another thread called `wakeup()`.",
    # brokers and controller
    e.DuplicateBrokerRegistration: "Stop the other broker of that id, or give this one another id.",
    e.BrokerIdNotRegistered: "`pylog cluster describe` shows the ids of the brokers.",
    e.InconsistentClusterId: "Use the data directory, or the address, of one and the same cluster.",
    e.InvalidUpdateVersion: "Take a level that `pylog features describe` shows.",
    e.FeatureUpdateFailed: "Upgrade all brokers first; `pylog features describe` shows their "
    "levels.",
    e.StaleControllerEpoch: _INTERNAL,
    e.StaleBrokerEpoch: _INTERNAL,
    e.IneligibleReplica: _INTERNAL,
    e.NewLeaderElected: _INTERNAL,
    e.InconsistentVoterSet: _INTERNAL,
    e.UnknownControllerId: _INTERNAL,
    e.InvalidRegistration: "Correct the broker's settings as its log says, and start it again.",
    e.InvalidVoterKey: _INTERNAL,
    e.DuplicateVoter: _INTERNAL,
    e.VoterNotFound: _INTERNAL,
    # security
    e.TopicAuthorizationFailed: _SECURITY,
    e.GroupAuthorizationFailed: _SECURITY,
    e.ClusterAuthorizationFailed: "Give brokers and controller the same cluster secret "
    "(docs/security.md); in the console, load the page again.",
    e.UnsupportedSaslMechanism: _SECURITY,
    e.IllegalSaslState: _SECURITY,
    e.SaslAuthenticationFailed: _SECURITY,
    e.SecurityDisabled: _SECURITY,
    e.DelegationTokenAuthDisabled: _SECURITY,
    e.DelegationTokenNotFound: _SECURITY,
    e.DelegationTokenOwnerMismatch: _SECURITY,
    e.DelegationTokenRequestNotAllowed: _SECURITY,
    e.DelegationTokenAuthorizationFailed: _SECURITY,
    e.DelegationTokenExpired: _SECURITY,
    e.InvalidPrincipalType: _SECURITY,
    e.UnacceptableCredential: _SECURITY,
    e.PrincipalDeserializationFailure: _SECURITY,
}

OWN_WORDS: Final = frozenset(
    (
        e.BootstrapFailed,
        e.BrokerNotAvailable,
        e.DuplicateResource,
        e.InvalidConfig,
        e.InvalidRequest,
        e.NotOffered,
    )
)
"""Errors whose messages say what to do, so that commands need not say it again."""


def next_step(error: type[e.PylogError]) -> str:
    """The step of a user after an error of this class: that of the nearest class that has one."""
    return next((_STEPS[each] for each in error.__mro__ if each in _STEPS), "")
