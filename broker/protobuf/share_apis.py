"""The Share service's APIs, bound to a broker's handlers."""

from __future__ import annotations

from pylog.rpc import apis
from pylog.rpc.v1 import share_pb2
from pylog_broker.api.share_groups.api import ShareApi
from pylog_broker.protobuf import shares
from pylog_broker.protobuf.groups import refusal
from pylog_broker.protobuf.unary import AnyBound, Bound


def share_apis(api: ShareApi) -> tuple[AnyBound, ...]:
    """The APIs of a broker for members of share groups, and for those who look after them."""
    return (
        Bound(
            apis.SHARE_GROUP_HEARTBEAT,
            shares.heartbeat_from,
            api.members.heartbeat,
            shares.heartbeat_answered,
            refusal(share_pb2.ShareGroupHeartbeatResponse),
            may_wait=shares.has_no_news,
        ),
        Bound(
            apis.SHARE_GROUP_DESCRIBE,
            shares.groups_from,
            api.members.describe,
            shares.described,
        ),
        Bound(
            apis.SHARE_FETCH,
            shares.fetch_from,
            api.fetching.fetch,
            shares.fetched,
            refusal(share_pb2.ShareFetchResponse),
        ),
        Bound(
            apis.SHARE_ACKNOWLEDGE,
            shares.acknowledge_from,
            api.fetching.acknowledge,
            shares.acknowledged,
            refusal(share_pb2.ShareAcknowledgeResponse),
        ),
        Bound(
            apis.DESCRIBE_SHARE_GROUP_OFFSETS,
            shares.offsets_asked,
            api.offsets.describe,
            shares.offsets_told,
        ),
        Bound(
            apis.ALTER_SHARE_GROUP_OFFSETS,
            shares.alter_from,
            api.offsets.alter,
            shares.altered,
            refusal(share_pb2.AlterShareGroupOffsetsResponse),
        ),
        Bound(
            apis.DELETE_SHARE_GROUP_OFFSETS,
            shares.delete_from,
            api.offsets.delete,
            shares.deleted,
            refusal(share_pb2.DeleteShareGroupOffsetsResponse),
        ),
    )
