"""The quota that gives some clients a fresh producer id and makes others wait for one (after
KIP-936).

Pure. A token bucket, as Kafka's quota of controller mutations (KIP-599), for each address and for
each client id: full, it holds what the limit allows within the window, and it fills up evenly. One
broker counts by itself, so a cluster of three gives three times as many. An address is what a
stranger cannot choose; a client id keeps one bad application from taking what others at its
address, or behind the same gateway, may have.

Not here: how many ids a partition knows (`pylog_broker.storage.producers.producer_budget`). That
holds also against ids that were never given out.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Final

from pylog.errors import InvalidConfig, ThrottlingQuotaExceeded
from pylog_broker.config import BrokerConfig

SOURCES_MAX: Final = 10_000
"""Addresses, and client ids, that are counted one by one. The others share one count."""
THROTTLE_MS_MAX: Final = 30_000
"""A client that waits longer would not notice that the limit was raised."""

_OTHERS: Final = ""
_V6_NETWORK_BITS: Final = 64


@dataclass(slots=True)
class _Bucket:
    """`tokens` at `at_ms`; it fills up from then on."""

    tokens: float
    at_ms: int


class _Buckets:
    """One limit's buckets, the one that was asked longest ago first."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def of(self, now_ms: int, source: str, limit: int, window_ms: int) -> _Bucket:
        """The bucket of a source, as full as it is now."""
        buckets = self._buckets
        if source not in buckets and len(buckets) >= SOURCES_MAX:
            oldest = next(iter(buckets))
            idle_ms = now_ms - buckets[oldest].at_ms
            if buckets[oldest].tokens + idle_ms * limit / window_ms >= limit:
                del buckets[oldest]  # as good as new
            else:
                source = _OTHERS
        bucket = buckets.get(source)
        if bucket is None:
            bucket = buckets[source] = _Bucket(limit, now_ms)
        buckets.move_to_end(source)
        filled = bucket.tokens + (now_ms - bucket.at_ms) * limit / window_ms
        bucket.tokens, bucket.at_ms = min(limit, filled), now_ms
        return bucket


class ProducerIdQuota:
    """Owned by the broker's loop. `refused` counts by limit, for the metrics."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        """`config`: the broker's settings as they are now."""
        self._config = config
        self._by_ip = _Buckets()
        self._by_client = _Buckets()
        self.refused: dict[str, int] = {"ip": 0, "client.id": 0}

    def admit(self, now_ms: int, address: str, client_id: str, delivery_timeout_ms: int) -> None:
        """A client at the host `address` asks for an id; it gets one when nothing is raised.

        ThrottlingQuotaExceeded, with the time to wait, when its address or its client id has had
        too many. InvalidConfig for one that would send a batch again (up to `delivery_timeout_ms`,
        0: not told) when a partition may have forgotten that it has it.
        """
        config = self._config()
        longest_ms = config.producer_id_expiration_ms // 2
        if delivery_timeout_ms > longest_ms:
            raise InvalidConfig(
                f"delivery.timeout.ms={delivery_timeout_ms} is above {longest_ms}, half of the "
                f"broker's producer.id.expiration.ms={config.producer_id_expiration_ms}: a batch "
                "that is sent again so late could be stored twice; lower the one, or raise the "
                "other"
            )
        window_ms = config.producer_id_quota_window_seconds * 1000
        limit = config.max_producer_ids_per_ip
        address = source_of(address)
        buckets = [self._by_ip.of(now_ms, address, limit, window_ms)]
        if buckets[0].tokens < 1:
            self._refuse("ip", f"address {address}", buckets[0], limit, window_ms)
        if client_id:
            limit = config.max_producer_ids_per_client_id
            buckets.append(self._by_client.of(now_ms, client_id, limit, window_ms))
            if buckets[1].tokens < 1:
                whose = f"client.id {client_id!r}"
                self._refuse("client.id", whose, buckets[1], limit, window_ms)
        for bucket in buckets:
            bucket.tokens -= 1

    def _refuse(self, kind: str, whose: str, bucket: _Bucket, limit: int, window_ms: int) -> None:
        self.refused[kind] += 1
        wait_ms = min(THROTTLE_MS_MAX, ceil((1 - bucket.tokens) * window_ms / limit))
        raise ThrottlingQuotaExceeded(
            f"{whose} has taken its share of new producer ids, max.producer.ids.per.{kind}={limit} "
            f"within producer.id.quota.window.seconds={window_ms // 1000}; next in {wait_ms} ms: "
            "keep a producer instead of making one for each task, or raise that limit",
            throttle_time_ms=wait_ms,
        )


def source_of(host: str) -> str:
    """The name under which an address is counted: for IPv6 its network, out of which a host may
    take any address. A text that is no address stands for itself.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _V6_NETWORK_BITS), strict=False))
