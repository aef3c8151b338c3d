"""`AsyncAdminClient`: the admin client for asyncio, by the same names.

Its calls are few and long, so each simply waits in a thread of the running loop's pool. A call that
is cancelled waits no more; what it asked for may still be done.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from pylog.client.admin.admin import AdminClient
from pylog.client.callers import on_a_thread
from pylog.client.closing import AsyncClosing
from pylog.client.cluster.shown import AsyncShown
from pylog.client.not_offered import ADMIN_NOT_OFFERED, refuses
from pylog.client.typed_settings import AdminSettings

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[AdminClient, P], T],
) -> Callable[Concatenate[AsyncAdminClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def call(self: AsyncAdminClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await on_a_thread(functools.partial(method, self._inner, *args, **kwargs))

    return call


@refuses(ADMIN_NOT_OFFERED)
class AsyncAdminClient(AsyncClosing, AsyncShown):
    """As AdminClient, each method to be awaited. For one event loop or several."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        bootstrap_servers: str | Iterable[str] | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        self._inner = AdminClient(config, bootstrap_servers=bootstrap_servers, **settings)

    create_topics = _awaited(AdminClient.create_topics)
    delete_topics = _awaited(AdminClient.delete_topics)
    delete_topics_by_id = _awaited(AdminClient.delete_topics_by_id)
    list_topics = _awaited(AdminClient.list_topics)
    describe_topics = _awaited(AdminClient.describe_topics)
    create_partitions = _awaited(AdminClient.create_partitions)
    describe_configs = _awaited(AdminClient.describe_configs)
    incremental_alter_configs = _awaited(AdminClient.incremental_alter_configs)
    list_offsets = _awaited(AdminClient.list_offsets)
    delete_records = _awaited(AdminClient.delete_records)
    list_groups = _awaited(AdminClient.list_groups)
    describe_groups = _awaited(AdminClient.describe_groups)
    delete_groups = _awaited(AdminClient.delete_groups)
    list_group_offsets = _awaited(AdminClient.list_group_offsets)
    alter_group_offsets = _awaited(AdminClient.alter_group_offsets)
    delete_group_offsets = _awaited(AdminClient.delete_group_offsets)
    list_share_group_offsets = _awaited(AdminClient.list_share_group_offsets)
    alter_share_group_offsets = _awaited(AdminClient.alter_share_group_offsets)
    delete_share_group_offsets = _awaited(AdminClient.delete_share_group_offsets)
    remove_group_members = _awaited(AdminClient.remove_group_members)
    group_lag = _awaited(AdminClient.group_lag)
    describe_cluster = _awaited(AdminClient.describe_cluster)
    describe_features = _awaited(AdminClient.describe_features)
    update_features = _awaited(AdminClient.update_features)
    describe_brokers = _awaited(AdminClient.describe_brokers)
    describe_log_dirs = _awaited(AdminClient.describe_log_dirs)
    elect_leaders = _awaited(AdminClient.elect_leaders)
    alter_partition_reassignments = _awaited(AdminClient.alter_partition_reassignments)
    list_partition_reassignments = _awaited(AdminClient.list_partition_reassignments)
    unregister_broker = _awaited(AdminClient.unregister_broker)
    list_transactions = _awaited(AdminClient.list_transactions)
    describe_transactions = _awaited(AdminClient.describe_transactions)
    describe_producers = _awaited(AdminClient.describe_producers)
    abort_transaction = _awaited(AdminClient.abort_transaction)
    fence_producers = _awaited(AdminClient.fence_producers)
    find_hanging_transactions = _awaited(AdminClient.find_hanging_transactions)
    list_sinks = _awaited(AdminClient.list_sinks)
    abort_sink = _awaited(AdminClient.abort_sink)
    forget_sink = _awaited(AdminClient.forget_sink)
    close = _awaited(AdminClient.close)
