"""The Group service's APIs, bound to a broker's handlers."""

from __future__ import annotations

from pylog.rpc import apis
from pylog.rpc.v1 import group_pb2, streams_group_pb2
from pylog_broker.api.api import GroupApi
from pylog_broker.api.groups.find_coordinator import FindCoordinatorHandler
from pylog_broker.api.groups.streams import StreamsHandler
from pylog_broker.protobuf import groups, streams_groups
from pylog_broker.protobuf.groups import refusal
from pylog_broker.protobuf.unary import AnyBound, Bound


def group_apis(api: GroupApi) -> tuple[AnyBound, ...]:
    """The APIs of a broker for members of groups, and for those who look after groups."""
    return (
        find_coordinator_api(api.find_coordinator),
        *_member_apis(api),
        *_offset_apis(api),
        *_admin_apis(api),
        *_streams_apis(api.streams),
    )


def find_coordinator_api(handler: FindCoordinatorHandler) -> AnyBound:
    """The API by which any broker tells of coordinators."""
    return Bound(apis.FIND_COORDINATOR, groups.keys_from, handler.handle, groups.coordinators_found)


def _member_apis(api: GroupApi) -> tuple[AnyBound, ...]:
    members = api.members
    return (
        Bound(apis.JOIN_GROUP, groups.join_from, members.join, groups.joined, groups.join_refused),
        Bound(
            apis.SYNC_GROUP,
            groups.sync_from,
            members.sync,
            groups.synced,
            refusal(group_pb2.SyncGroupResponse),
        ),
        Bound(
            apis.HEARTBEAT,
            groups.heartbeat_from,
            members.heartbeat,
            groups.heartbeat_taken,
            refusal(group_pb2.GroupHeartbeatResponse),
            may_wait=lambda _: True,
        ),
        Bound(
            apis.LEAVE_GROUP,
            groups.leave_from,
            members.leave,
            groups.left,
            refusal(group_pb2.LeaveGroupResponse),
        ),
        Bound(
            apis.CONSUMER_GROUP_HEARTBEAT,
            groups.consumer_heartbeat_from,
            members.consumer_heartbeat,
            groups.consumer_heartbeat_answered,
            refusal(group_pb2.ConsumerGroupHeartbeatResponse),
            may_wait=groups.has_no_news,
        ),
    )


def _offset_apis(api: GroupApi) -> tuple[AnyBound, ...]:
    offsets = api.offsets
    return (
        Bound(
            apis.OFFSET_COMMIT,
            groups.commit_from,
            offsets.commit,
            groups.committed,
            refusal(group_pb2.OffsetCommitResponse),
        ),
        Bound(
            apis.OFFSET_FETCH,
            groups.fetch_from,
            offsets.fetch,
            groups.fetched,
            refusal(group_pb2.OffsetFetchResponse),
        ),
        Bound(
            apis.OFFSET_DELETE,
            groups.deletion_from,
            offsets.delete,
            groups.deleted,
            refusal(group_pb2.OffsetDeleteResponse),
        ),
    )


def _admin_apis(api: GroupApi) -> tuple[AnyBound, ...]:
    admin = api.admin
    return (
        Bound(
            apis.LIST_GROUPS,
            groups.filters_from,
            admin.list_groups,
            groups.listed,
            refusal(group_pb2.ListGroupsResponse),
        ),
        Bound(apis.DESCRIBE_GROUPS, groups.groups_from, admin.describe, groups.described),
        Bound(
            apis.CONSUMER_GROUP_DESCRIBE,
            groups.groups_from,
            admin.describe_consumer,
            groups.described_consumers,
        ),
        Bound(apis.DELETE_GROUPS, groups.groups_from, admin.delete_groups, groups.groups_deleted),
    )


def _streams_apis(handler: StreamsHandler) -> tuple[AnyBound, ...]:
    return (
        Bound(
            apis.STREAMS_GROUP_HEARTBEAT,
            streams_groups.heartbeat_from,
            handler.heartbeat,
            streams_groups.heartbeat_answered,
            refusal(streams_group_pb2.StreamsGroupHeartbeatResponse),
        ),
        Bound(
            apis.STREAMS_GROUP_DESCRIBE,
            streams_groups.groups_from,
            handler.describe,
            streams_groups.described,
        ),
    )
