"""All APIs of a broker's own protocol: one row each, for both sides and both carriers.

A row tells what an API is called, which messages it takes and gives, and under which number it goes
over framed streams. gRPC calls it by service and name. A new unary API is a row here, its messages
and its `rpc` line in `proto/`, a handler in `pylog_broker.api`, and a codec on each side.

Keys are Kafka's where Kafka has the API; those of pylog alone begin at 10,000. `version_max` is the
highest version of the API's messages that this release speaks: it is raised when a message gains
a meaning that an older peer must not be sent. Both sides tell theirs in the greeting and speak the
lower one.
"""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from pylog.rpc.v1 import (
    admin_pb2,
    group_pb2,
    log_pb2,
    records_service_pb2,
    share_pb2,
    sink_pb2,
    streams_group_pb2,
    transaction_pb2,
)

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


class UnaryApi(NamedTuple, Generic[RequestT, ResponseT]):
    """One request, one answer."""

    key: int
    service: str
    name: str
    request: type[RequestT]
    response: type[ResponseT]
    version_max: int = 0

    @property
    def path(self) -> str:
        """gRPC's name of it."""
        return f"/pylog.v1.{self.service}/{self.name}"

    @property
    def is_for_brokers(self) -> bool:
        """Whether brokers answer it; else the controller's gateway alone, which has no framed
        port.
        """
        return self.service not in ("Admin", "Records")


LIST_OFFSETS: Final = UnaryApi(
    2, "Log", "ListOffsets", log_pb2.ListOffsetsRequest, log_pb2.ListOffsetsResponse
)
METADATA: Final = UnaryApi(3, "Log", "Metadata", log_pb2.MetadataRequest, log_pb2.MetadataResponse)
OFFSET_COMMIT: Final = UnaryApi(
    8, "Group", "OffsetCommit", group_pb2.OffsetCommitRequest, group_pb2.OffsetCommitResponse
)
OFFSET_FETCH: Final = UnaryApi(
    9, "Group", "OffsetFetch", group_pb2.OffsetFetchRequest, group_pb2.OffsetFetchResponse
)
FIND_COORDINATOR: Final = UnaryApi(
    10,
    "Group",
    "FindCoordinator",
    group_pb2.FindCoordinatorRequest,
    group_pb2.FindCoordinatorResponse,
)
JOIN_GROUP: Final = UnaryApi(
    11, "Group", "JoinGroup", group_pb2.JoinGroupRequest, group_pb2.JoinGroupResponse
)
HEARTBEAT: Final = UnaryApi(
    12, "Group", "Heartbeat", group_pb2.GroupHeartbeatRequest, group_pb2.GroupHeartbeatResponse
)
LEAVE_GROUP: Final = UnaryApi(
    13, "Group", "LeaveGroup", group_pb2.LeaveGroupRequest, group_pb2.LeaveGroupResponse
)
SYNC_GROUP: Final = UnaryApi(
    14, "Group", "SyncGroup", group_pb2.SyncGroupRequest, group_pb2.SyncGroupResponse
)
DESCRIBE_GROUPS: Final = UnaryApi(
    15, "Group", "DescribeGroups", group_pb2.DescribeGroupsRequest, group_pb2.DescribeGroupsResponse
)
LIST_GROUPS: Final = UnaryApi(
    16, "Group", "ListGroups", group_pb2.ListGroupsRequest, group_pb2.ListGroupsResponse
)
CREATE_TOPICS: Final = UnaryApi(
    19, "Admin", "CreateTopics", admin_pb2.CreateTopicsRequest, admin_pb2.CreateTopicsResponse
)
DELETE_TOPICS: Final = UnaryApi(
    20, "Admin", "DeleteTopics", admin_pb2.DeleteTopicsRequest, admin_pb2.DeleteTopicsResponse
)
DELETE_RECORDS: Final = UnaryApi(
    21, "Log", "DeleteRecords", log_pb2.DeleteRecordsRequest, log_pb2.DeleteRecordsResponse
)
INIT_PRODUCER_ID: Final = UnaryApi(
    22, "Log", "InitProducerId", log_pb2.InitProducerIdRequest, log_pb2.InitProducerIdResponse
)
OFFSET_FOR_LEADER_EPOCH: Final = UnaryApi(
    23,
    "Log",
    "OffsetForLeaderEpoch",
    log_pb2.OffsetForLeaderEpochRequest,
    log_pb2.OffsetForLeaderEpochResponse,
)
ADD_PARTITIONS_TO_TXN: Final = UnaryApi(
    24,
    "Transaction",
    "AddPartitionsToTxn",
    transaction_pb2.AddPartitionsToTxnRequest,
    transaction_pb2.AddPartitionsToTxnResponse,
)
ADD_OFFSETS_TO_TXN: Final = UnaryApi(
    25,
    "Transaction",
    "AddOffsetsToTxn",
    transaction_pb2.AddOffsetsToTxnRequest,
    transaction_pb2.AddOffsetsToTxnResponse,
)
END_TXN: Final = UnaryApi(
    26,
    "Transaction",
    "EndTxn",
    transaction_pb2.EndTxnRequest,
    transaction_pb2.EndTxnResponse,
)
WRITE_TXN_MARKERS: Final = UnaryApi(
    27,
    "Transaction",
    "WriteTxnMarkers",
    transaction_pb2.WriteTxnMarkersRequest,
    transaction_pb2.WriteTxnMarkersResponse,
)
TXN_OFFSET_COMMIT: Final = UnaryApi(
    28,
    "Transaction",
    "TxnOffsetCommit",
    transaction_pb2.TxnOffsetCommitRequest,
    transaction_pb2.TxnOffsetCommitResponse,
)
DESCRIBE_CONFIGS: Final = UnaryApi(
    32,
    "Admin",
    "DescribeConfigs",
    admin_pb2.DescribeConfigsRequest,
    admin_pb2.DescribeConfigsResponse,
)
DESCRIBE_LOG_DIRS: Final = UnaryApi(
    35,
    "BrokerAdmin",
    "DescribeLogDirs",
    admin_pb2.DescribeLogDirsRequest,
    admin_pb2.DescribeLogDirsResponse,
)
CREATE_PARTITIONS: Final = UnaryApi(
    37,
    "Admin",
    "CreatePartitions",
    admin_pb2.CreatePartitionsRequest,
    admin_pb2.CreatePartitionsResponse,
)
DELETE_GROUPS: Final = UnaryApi(
    42, "Group", "DeleteGroups", group_pb2.DeleteGroupsRequest, group_pb2.DeleteGroupsResponse
)
ELECT_LEADERS: Final = UnaryApi(
    43, "Admin", "ElectLeaders", admin_pb2.ElectLeadersRequest, admin_pb2.ElectLeadersResponse
)
ALTER_CONFIGS: Final = UnaryApi(  # Kafka's IncrementalAlterConfigs: what is not named stays
    44, "Admin", "AlterConfigs", admin_pb2.AlterConfigsRequest, admin_pb2.AlterConfigsResponse
)
ALTER_PARTITION_REASSIGNMENTS: Final = UnaryApi(
    45,
    "Admin",
    "AlterPartitionReassignments",
    admin_pb2.AlterPartitionReassignmentsRequest,
    admin_pb2.AlterPartitionReassignmentsResponse,
)
LIST_PARTITION_REASSIGNMENTS: Final = UnaryApi(
    46,
    "Admin",
    "ListPartitionReassignments",
    admin_pb2.ListPartitionReassignmentsRequest,
    admin_pb2.ListPartitionReassignmentsResponse,
)
OFFSET_DELETE: Final = UnaryApi(
    47, "Group", "OffsetDelete", group_pb2.OffsetDeleteRequest, group_pb2.OffsetDeleteResponse
)
UPDATE_FEATURES: Final = UnaryApi(
    57,
    "Admin",
    "UpdateFeatures",
    admin_pb2.UpdateFeaturesRequest,
    admin_pb2.UpdateFeaturesResponse,
)
DESCRIBE_CLUSTER: Final = UnaryApi(
    60,
    "Admin",
    "DescribeCluster",
    admin_pb2.DescribeClusterRequest,
    admin_pb2.DescribeClusterResponse,
)
DESCRIBE_PRODUCERS: Final = UnaryApi(
    61,
    "Transaction",
    "DescribeProducers",
    transaction_pb2.DescribeProducersRequest,
    transaction_pb2.DescribeProducersResponse,
)
UNREGISTER_BROKER: Final = UnaryApi(
    64,
    "Admin",
    "UnregisterBroker",
    admin_pb2.UnregisterBrokerRequest,
    admin_pb2.UnregisterBrokerResponse,
)
DESCRIBE_TRANSACTIONS: Final = UnaryApi(
    65,
    "Transaction",
    "DescribeTransactions",
    transaction_pb2.DescribeTransactionsRequest,
    transaction_pb2.DescribeTransactionsResponse,
)
LIST_TRANSACTIONS: Final = UnaryApi(
    66,
    "Transaction",
    "ListTransactions",
    transaction_pb2.ListTransactionsRequest,
    transaction_pb2.ListTransactionsResponse,
)
CONSUMER_GROUP_HEARTBEAT: Final = UnaryApi(
    68,
    "Group",
    "ConsumerGroupHeartbeat",
    group_pb2.ConsumerGroupHeartbeatRequest,
    group_pb2.ConsumerGroupHeartbeatResponse,
)
CONSUMER_GROUP_DESCRIBE: Final = UnaryApi(
    69,
    "Group",
    "ConsumerGroupDescribe",
    group_pb2.ConsumerGroupDescribeRequest,
    group_pb2.ConsumerGroupDescribeResponse,
)
SHARE_GROUP_HEARTBEAT: Final = UnaryApi(
    76,
    "Share",
    "ShareGroupHeartbeat",
    share_pb2.ShareGroupHeartbeatRequest,
    share_pb2.ShareGroupHeartbeatResponse,
)
SHARE_GROUP_DESCRIBE: Final = UnaryApi(
    77,
    "Share",
    "ShareGroupDescribe",
    share_pb2.ShareGroupDescribeRequest,
    share_pb2.ShareGroupDescribeResponse,
)
SHARE_FETCH: Final = UnaryApi(
    78,
    "Share",
    "ShareFetch",
    share_pb2.ShareFetchRequest,
    share_pb2.ShareFetchResponse,
)
SHARE_ACKNOWLEDGE: Final = UnaryApi(
    79,
    "Share",
    "ShareAcknowledge",
    share_pb2.ShareAcknowledgeRequest,
    share_pb2.ShareAcknowledgeResponse,
)
DESCRIBE_SHARE_GROUP_OFFSETS: Final = UnaryApi(
    90,
    "Share",
    "DescribeShareGroupOffsets",
    share_pb2.DescribeShareGroupOffsetsRequest,
    share_pb2.DescribeShareGroupOffsetsResponse,
)
ALTER_SHARE_GROUP_OFFSETS: Final = UnaryApi(
    91,
    "Share",
    "AlterShareGroupOffsets",
    share_pb2.AlterShareGroupOffsetsRequest,
    share_pb2.AlterShareGroupOffsetsResponse,
)
DELETE_SHARE_GROUP_OFFSETS: Final = UnaryApi(
    92,
    "Share",
    "DeleteShareGroupOffsets",
    share_pb2.DeleteShareGroupOffsetsRequest,
    share_pb2.DeleteShareGroupOffsetsResponse,
)
STREAMS_GROUP_HEARTBEAT: Final = UnaryApi(
    88,
    "StreamsGroup",
    "StreamsGroupHeartbeat",
    streams_group_pb2.StreamsGroupHeartbeatRequest,
    streams_group_pb2.StreamsGroupHeartbeatResponse,
)
STREAMS_GROUP_DESCRIBE: Final = UnaryApi(
    89,
    "StreamsGroup",
    "StreamsGroupDescribe",
    streams_group_pb2.StreamsGroupDescribeRequest,
    streams_group_pb2.StreamsGroupDescribeResponse,
)
# As a broker knows them, without the controller: Kafka has no second API for that.
DESCRIBE_CONFIGS_OF_BROKER: Final = UnaryApi(
    10_000,
    "BrokerAdmin",
    "DescribeConfigs",
    admin_pb2.DescribeConfigsRequest,
    admin_pb2.DescribeConfigsResponse,
)
# Kafka tells features in ApiVersions, which every connection asks.
DESCRIBE_FEATURES: Final = UnaryApi(
    10_001,
    "Admin",
    "DescribeFeatures",
    admin_pb2.DescribeFeaturesRequest,
    admin_pb2.DescribeFeaturesResponse,
)
# Apache Kafka's brokers tell this by JMX and logs alone.
DESCRIBE_BROKER: Final = UnaryApi(
    10_002,
    "BrokerAdmin",
    "DescribeBroker",
    admin_pb2.DescribeBrokerRequest,
    admin_pb2.DescribeBrokerResponse,
)
# Records as they are, without batches.
SEND: Final = UnaryApi(
    10_003,
    "Records",
    "Send",
    records_service_pb2.SendRequest,
    records_service_pb2.SendResponse,
)
# Kafka's brokers tell no sizes of ranges.
SPLIT_RANGES: Final = UnaryApi(
    10_004, "Log", "SplitRanges", log_pb2.SplitRangesRequest, log_pb2.SplitRangesResponse
)
# Kafka's Fetch waits for bytes, and brings them.
AWAIT_RECORDS: Final = UnaryApi(
    10_005, "Log", "AwaitRecords", log_pb2.AwaitRecordsRequest, log_pb2.AwaitRecordsResponse
)
# Kafka's DescribeProducers tells of open transactions alone.
DESCRIBE_TRANSACTIONS_IN_RANGE: Final = UnaryApi(
    10_006,
    "Log",
    "DescribeTransactionsInRange",
    log_pb2.DescribeTransactionsInRangeRequest,
    log_pb2.DescribeTransactionsInRangeResponse,
)
# Kafka's readers hold nothing: retention may overtake them.
LEASE_READS: Final = UnaryApi(
    10_007, "Log", "LeaseReads", log_pb2.LeaseReadsRequest, log_pb2.LeaseReadsResponse
)
# Kafka gives no files to its readers.
OPEN_LOCAL_READ: Final = UnaryApi(
    10_020, "Log", "OpenLocalRead", log_pb2.OpenLocalReadRequest, log_pb2.OpenLocalReadResponse
)
# Kafka has no sinks of queries.
BEGIN_SINK_TASK: Final = UnaryApi(
    10_100, "Sink", "BeginSinkTask", sink_pb2.BeginSinkTaskRequest, sink_pb2.BeginSinkTaskResponse
)
RENEW_SINK_TASK: Final = UnaryApi(
    10_101, "Sink", "RenewSinkTask", sink_pb2.RenewSinkTaskRequest, sink_pb2.RenewSinkTaskResponse
)
PREPARE_SINK_TASK: Final = UnaryApi(
    10_102,
    "Sink",
    "PrepareSinkTask",
    sink_pb2.PrepareSinkTaskRequest,
    sink_pb2.PrepareSinkTaskResponse,
)
DECIDE_SINK_BATCH: Final = UnaryApi(
    10_103,
    "Sink",
    "DecideSinkBatch",
    sink_pb2.DecideSinkBatchRequest,
    sink_pb2.DecideSinkBatchResponse,
)
ABORT_SINK_BATCH: Final = UnaryApi(
    10_104,
    "Sink",
    "AbortSinkBatch",
    sink_pb2.AbortSinkBatchRequest,
    sink_pb2.AbortSinkBatchResponse,
)
LIST_SINKS: Final = UnaryApi(
    10_105, "Sink", "ListSinks", sink_pb2.ListSinksRequest, sink_pb2.ListSinksResponse
)
FORGET_SINK: Final = UnaryApi(
    10_106, "Sink", "ForgetSink", sink_pb2.ForgetSinkRequest, sink_pb2.ForgetSinkResponse
)

UNARY_APIS: Final[tuple[UnaryApi[Any, Any], ...]] = (
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DELETE_RECORDS,
    INIT_PRODUCER_ID,
    OFFSET_FOR_LEADER_EPOCH,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    WRITE_TXN_MARKERS,
    TXN_OFFSET_COMMIT,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    CREATE_PARTITIONS,
    DELETE_GROUPS,
    ELECT_LEADERS,
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    OFFSET_DELETE,
    UPDATE_FEATURES,
    DESCRIBE_CLUSTER,
    DESCRIBE_PRODUCERS,
    UNREGISTER_BROKER,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
    SHARE_GROUP_DESCRIBE,
    SHARE_FETCH,
    SHARE_ACKNOWLEDGE,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_DESCRIBE,
    DESCRIBE_CONFIGS_OF_BROKER,
    DESCRIBE_FEATURES,
    DESCRIBE_BROKER,
    SEND,
    SPLIT_RANGES,
    AWAIT_RECORDS,
    DESCRIBE_TRANSACTIONS_IN_RANGE,
    LEASE_READS,
    OPEN_LOCAL_READ,
    BEGIN_SINK_TASK,
    RENEW_SINK_TASK,
    PREPARE_SINK_TASK,
    DECIDE_SINK_BATCH,
    ABORT_SINK_BATCH,
    LIST_SINKS,
    FORGET_SINK,
)
