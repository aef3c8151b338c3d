"""Acquired records on their way to the user, by a collector over a loop that holds one batch."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, cast

from pylog.client.cluster_listeners import ClusterListeners
from pylog.client.consumer.consumer_settings import Interceptors, UserCode
from pylog.client.share_consumer.share_collecting import ShareCollector
from pylog.client.sharing.messages import Acquired, AcquiredRange, SharedPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.records.builder import encode_batch


def test_deserializers_know_the_cluster_before_the_first_record() -> None:
    told: list[tuple[str, Any]] = []
    ranges = (AcquiredRange(0, 0, 1),)
    batch = encode_batch([b"v"])
    there = [Acquired(SharedPartition("id", "t", 0), 1, 0, ranges, batch, 0)]
    requests = SimpleNamespace(
        take=lambda _now_ms: there.pop() if there else None, holds=lambda *_: True
    )
    loop = SimpleNamespace(
        core=SimpleNamespace(requests=requests),
        lock=contextlib.nullcontext(),
        cluster=SimpleNamespace(metadata=SimpleNamespace(cluster_id="c")),
    )

    def deserialize(_topic: str, data: bytes) -> bytes:
        told.append(("deserialize", data))
        return data

    listeners = ClusterListeners([lambda cluster_id: told.append(("cluster", cluster_id))])
    code = UserCode(None, deserialize, Interceptors(()), listeners)
    collector = ShareCollector(
        cast(Any, loop), code, SYSTEM_CLOCK, max_poll_records=5, strict=False, check_crcs=True
    )
    ((_, records),) = collector.collect()
    assert [record.value for record in records] == [b"v"]
    assert told == [("cluster", "c"), ("deserialize", b"v")]
