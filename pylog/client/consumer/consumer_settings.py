"""A consumer's settings, parsed and checked; and the user's own code among them: deserializers and
interceptors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pylog import errors
from pylog.client.arguments import addresses
from pylog.client.background import logger
from pylog.client.cluster_listeners import ClusterListeners
from pylog.client.consumer.consumer_records import ConsumerRecords
from pylog.client.consumer.decoding import Deserialize
from pylog.client.fetching.fetch_state import FetcherSettings
from pylog.client.fetching.positions import BY_DURATION
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.client.user_code import chain_of, method_of

RESET_POLICIES: Final = ("latest", "earliest", "none")
_PREFIX: Final = f"{BY_DURATION}:"
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,3})?)S)?)?"
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def parse_settings(
    bootstrap_servers: str | Iterable[str], group_id: str | None, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Values by Kafka's names. InvalidConfig names the setting, its value and what to do."""
    group = {} if group_id is None else {"group_id": group_id}
    given = {"bootstrap_servers": addresses(bootstrap_servers), **group, **config}
    values = CONSUMER_SETTINGS.parse(given)
    policy = values["auto.offset.reset"] = _in_one_case(values["auto.offset.reset"])
    if policy not in RESET_POLICIES:
        duration_ms(policy)
    return values


def given_names(config: Mapping[str, Any]) -> frozenset[str]:
    """The settings that a user has named, by their dotted names."""
    return frozenset(name.replace("_", ".") for name, value in config.items() if value is not None)


def _in_one_case(policy: str) -> str:
    """A reset policy as the rest of the client knows it: Kafka takes it in any case."""
    name, colon, duration = policy.partition(":")
    return f"{name.lower()}{colon}{duration.upper()}"


def duration_ms(policy: str) -> int:
    """Milliseconds of a reset policy `by_duration:<ISO 8601>` (KIP-1106); InvalidConfig for
    anything else.
    """
    text = policy.removeprefix(_PREFIX)
    found = _DURATION.fullmatch(text) if policy.startswith(_PREFIX) else None
    parts = {} if found is None else {k: v for k, v in found.groupdict().items() if v is not None}
    if not parts:
        raise errors.InvalidConfig(
            f"auto_offset_reset={policy!r}: it must be one of {', '.join(RESET_POLICIES)}, or "
            f"by_duration: and a duration such as P7D or PT1H30M"
        )
    return round(sum(float(value) * _SECONDS[name] for name, value in parts.items()) * 1000)


def fetcher_settings(values: Mapping[str, Any]) -> FetcherSettings:
    """The parsed settings that the fetcher needs."""
    policy: str = values["auto.offset.reset"]
    return FetcherSettings(
        read_committed=values["isolation.level"] == "read_committed",
        auto_offset_reset=policy if policy in RESET_POLICIES else BY_DURATION,
        reset_duration_ms=0 if policy in RESET_POLICIES else duration_ms(policy),
        fetch_max_wait_ms=values["fetch.max.wait.ms"],
        fetch_max_bytes=values["fetch.max.bytes"],
        max_partition_fetch_bytes=values["max.partition.fetch.bytes"],
        request_timeout_ms=values["request.timeout.ms"],
        retry_backoff_ms=values["retry.backoff.ms"],
        retry_backoff_max_ms=values["retry.backoff.max.ms"],
        leaderless_patience_ms=values["default.api.timeout.ms"],
        follower_lease_ms=values["metadata.max.age.ms"],
    )


class Interceptors:
    """A chain, in the order of the setting. Each may have `on_consume(records) -> records` and
    `close()` (KIP-42). An error that one of them raises is logged and changes nothing.
    """

    def __init__(self, chain: Iterable[Any]) -> None:
        self._chain = list(chain)

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """The records that `poll` returns, as the chain leaves them."""
        for one in self._chain:
            method: Callable[[ConsumerRecords], Any] | None = getattr(one, "on_consume", None)
            if method is None:
                continue
            try:
                changed = method(records)
            except Exception:  # noqa: BLE001  a user's code: the records go on as they were
                logger.exception("an interceptor's on_consume raised")
                continue
            if isinstance(changed, ConsumerRecords):
                records = changed
            else:
                logger.error(
                    "an interceptor's on_consume returned %s, not ConsumerRecords: the records go "
                    "on as they were",
                    type(changed).__name__,
                )
        return records

    def close(self) -> None:
        """The consumer closed."""
        for one in self._chain:
            try:
                if hasattr(one, "close"):
                    one.close()
            except Exception:  # noqa: BLE001  a user's code
                logger.exception("an interceptor's close raised")


@dataclass(frozen=True, slots=True)
class UserCode:
    """The user's code that runs inside a poll."""

    deserialize_key: Deserialize | None
    deserialize_value: Deserialize | None
    interceptors: Interceptors
    cluster: ClusterListeners | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> UserCode:
        """Out of parsed settings; InvalidConfig for what cannot be called or imported."""
        shape, name = "(topic, data) -> object", "deserialize"
        both = method_of("deserializer", values["deserializer"], name, shape)
        key = method_of("key_deserializer", values["key.deserializer"], name, shape)
        value = method_of("value_deserializer", values["value.deserializer"], name, shape)
        chain = chain_of("interceptor_classes", values["interceptor.classes"], ("on_consume",))
        key, value = key or both, value or both
        listeners = ClusterListeners.among(*chain, key, value)
        return cls(key, value, Interceptors(chain), listeners)
