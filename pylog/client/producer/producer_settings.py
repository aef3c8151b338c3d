"""A producer's settings, parsed and checked against each other; and the user's own code among them:
serializers, partitioner, interceptors, given as objects or by their import path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pylog import errors
from pylog.client.arguments import addresses, whole_or_none
from pylog.client.cluster_listeners import ClusterListeners
from pylog.client.producer.interceptors import INTERCEPTS, Interceptors
from pylog.client.sending.partitioners import Partitioner, RoundRobin, TopicPartitions
from pylog.client.settings import PRODUCER_SETTINGS
from pylog.client.user_code import chain_of, check_plain, made, method_of

Serialize = Callable[[str, Any], Any]
Place = Callable[[str, "bytes | None", "bytes | None", TopicPartitions], int]

GROWTH: Final = 16
"""`batch.max.size` in batches of `batch.size`, where it is not given: 256 KiB."""
_ROUND_ROBIN: Final = ("round_robin", "RoundRobinPartitioner")


def parse_settings(
    bootstrap_servers: str | Iterable[str], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Values by Kafka's names. InvalidConfig names the setting, its value and what to do."""
    given = dict(config)
    if whole_or_none(given.get("acks"), -1, 1) is not None:
        given["acks"] = str(given["acks"])
    values = PRODUCER_SETTINGS.parse({"bootstrap_servers": addresses(bootstrap_servers), **given})
    _check_transactions(values, given)
    _check_idempotence(values)
    _check_times(values, given)
    _fit_sizes(values)
    return values


def _check_transactions(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    name = values["transactional.id"]
    if name is None:
        for setting in ("transaction.timeout.ms", "transaction.two.phase.commit.enable"):
            if setting.replace(".", "_") in given:
                raise errors.InvalidConfig(
                    f"{setting.replace('.', '_')} is of transactions: give transactional_id as well"
                )
        return
    if not name:
        raise errors.InvalidConfig("transactional_id='': give a name that is not empty, or none")
    if values["acks"] not in ("all", "-1"):
        raise errors.InvalidConfig(
            f"transactional_id={name!r} needs acks='all', not {values['acks']!r}"
        )
    if values["enable.idempotence"] is False:
        raise errors.InvalidConfig(f"transactional_id={name!r} needs enable_idempotence=True")
    if values["transaction.two.phase.commit.enable"] and "transaction_timeout_ms" in given:
        raise errors.InvalidConfig(
            "transaction_timeout_ms has no meaning with transaction_two_phase_commit_enable=True, "
            "whose transactions do not time out: leave it out"
        )
    values["enable.idempotence"] = True


def _check_idempotence(values: dict[str, Any]) -> None:
    acks_all = values["acks"] in ("all", "-1")
    idempotent = values["enable.idempotence"]
    in_flight = values["max.in.flight.requests.per.connection"]
    if idempotent and not acks_all:
        raise errors.InvalidConfig(
            f"enable_idempotence=True needs acks='all', not {values['acks']!r}"
        )
    if idempotent and in_flight > 5:
        raise errors.InvalidConfig(
            f"enable_idempotence=True allows max_in_flight_requests_per_connection of at most 5, "
            f"not {in_flight}: brokers remember the last five batches of a producer"
        )
    if idempotent is None:
        values["enable.idempotence"] = acks_all and in_flight <= 5


def _check_times(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    shortest = values["linger.ms"] + values["request.timeout.ms"]
    if values["delivery.timeout.ms"] < shortest:
        if "delivery_timeout_ms" in given and "request_timeout_ms" in given:
            raise errors.InvalidConfig(
                f"delivery_timeout_ms={values['delivery.timeout.ms']} must be at least linger_ms "
                f"+ request_timeout_ms = {shortest}"
            )
        values["request.timeout.ms"] = max(values["delivery.timeout.ms"] - values["linger.ms"], 1)


def _fit_sizes(values: dict[str, Any]) -> None:
    most = values["batch.max.size"]
    if most is not None and most < values["batch.size"]:
        raise errors.InvalidConfig(
            f"batch_max_size={most}: it must be at least batch_size={values['batch.size']}, which "
            f"a batch may always reach"
        )
    # A batch that cannot be buffered or sent at once cannot be made.
    limit = min(values["max.request.size"], values["buffer.memory"])
    values["batch.size"] = min(values["batch.size"], limit)
    wanted = values["batch.size"] * GROWTH if most is None else most
    values["batch.max.size"] = min(wanted, limit)


# ---- the user's code ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserCode:
    """The user's code that runs inside `send`; None where the default does the work."""

    serialize_key: Serialize | None
    serialize_value: Serialize | None
    place: Place | None
    interceptors: Interceptors | None
    cluster: ClusterListeners | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether `send` runs no code of the user's."""
        return not (self.serialize_key or self.serialize_value or self.place or self.interceptors)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> UserCode:
        """Out of parsed settings; InvalidConfig for what cannot be called or imported."""

        def serializer(name: str) -> Serialize | None:
            shape = "(topic, data) -> bytes, str or None"
            return method_of(name.replace(".", "_"), values[name], "serialize", shape)

        both = serializer("serializer")
        key = serializer("key.serializer") or both
        value = serializer("value.serializer") or both
        chain = chain_of("interceptor_classes", values["interceptor.classes"], INTERCEPTS)
        return cls(
            key,
            value,
            _place(values),
            Interceptors(chain) if chain else None,
            ClusterListeners.among(*chain, key, value),
        )


def _place(values: Mapping[str, Any]) -> Place | None:
    if values["partitioner"] is not None and values["partitioner.class"] is not None:
        raise errors.InvalidConfig(
            "partitioner and partitioner_class are two names of one setting: give one of them"
        )
    setting = "partitioner" if values["partitioner"] is not None else "partitioner_class"
    given = values["partitioner"] or values["partitioner.class"]
    if given is None:
        return None
    if isinstance(given, str) and given.rpartition(".")[2] in _ROUND_ROBIN:
        return RoundRobin().partition
    found = made(setting, given)
    if isinstance(found, Partitioner):
        return found.partition
    if not callable(found):
        raise errors.InvalidConfig(
            f"{setting}={given!r}: it must be 'round_robin', a callable (topic, key, value, "
            f"partitions) -> partition, an object with a method `partition`, or the import path "
            f"of one"
        )
    check_plain(found, setting, errors.InvalidConfig)
    choose: Callable[..., int] = found

    def place(
        topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions
    ) -> int:
        return choose(topic, key, value, partitions.count)

    return place
