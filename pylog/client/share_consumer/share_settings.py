"""A share consumer's settings, parsed and checked."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pylog import errors
from pylog.client.arguments import addresses
from pylog.client.cluster_listeners import ClusterListeners
from pylog.client.consumer.consumer_settings import Interceptors, UserCode
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.settings import SHARE_CONSUMER_SETTINGS
from pylog.client.share_consumer.share_wire import ShareWire
from pylog.client.sharing.share_requests import ShareSettings
from pylog.client.user_code import method_of
from pylog.model import topic_id_from_bytes


class ShareConfig(NamedTuple):
    """The settings that the parts of a share consumer need."""

    values: Mapping[str, Any]
    membership: MembershipSettings
    sharing: ShareSettings
    identity: GroupIdentity
    wire: ShareWire
    code: UserCode
    explicit: bool


def parse(
    bootstrap_servers: str | Iterable[str], group_id: object, config: Mapping[str, Any]
) -> ShareConfig:
    """InvalidConfig names the setting, its value and what to do; InvalidGroupId for no group."""
    if not isinstance(group_id, str) or not group_id:
        raise errors.InvalidGroupId(
            f"group_id={group_id!r}: a share group's name is a text that is not empty"
        )
    given = {"bootstrap_servers": addresses(bootstrap_servers), "group_id": group_id, **config}
    values = SHARE_CONSUMER_SETTINGS.parse(given)
    strict = values["share.acquire.mode"] == "record_limit"
    timeout_ms = values["default.api.timeout.ms"]
    backoff = (values["retry.backoff.ms"], values["retry.backoff.max.ms"])
    membership = MembershipSettings(
        max_poll_interval_ms=values["max.poll.interval.ms"],
        default_api_timeout_ms=timeout_ms,
        retry_backoff_ms=backoff[0],
        retry_backoff_max_ms=backoff[1],
    )
    sharing = ShareSettings(
        values["fetch.max.wait.ms"], values["max.poll.records"], strict, timeout_ms, *backoff
    )
    # Made here, in Kafka's form, before it joins (KIP-1082).
    identity = GroupIdentity(group_id, member_id=topic_id_from_bytes(uuid.uuid4().bytes))
    wire = ShareWire(
        group_id,
        identity.member_id,
        values["client.id"],
        values["client.rack"],
        values["fetch.min.bytes"],
        values["fetch.max.bytes"],
        values["max.poll.records"],
        strict,
    )
    explicit = values["share.acknowledgement.mode"] == "explicit"
    return ShareConfig(values, membership, sharing, identity, wire, _code(values), explicit)


def _code(values: Mapping[str, Any]) -> UserCode:
    shape, name = "(topic, data) -> object", "deserialize"
    both = method_of("deserializer", values["deserializer"], name, shape)
    key = method_of("key_deserializer", values["key.deserializer"], name, shape)
    value = method_of("value_deserializer", values["value.deserializer"], name, shape)
    key, value = key or both, value or both
    return UserCode(key, value, Interceptors(()), ClusterListeners.among(key, value))
