"""The parts that all calls of kafka-python's admin client share."""

from __future__ import annotations

from typing import Any

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.compat.kafka_python.errors import KafkaError
from pylog.compat.kafka_python.translation import translated


class Calls:
    """A part of `KafkaAdminClient`."""

    _admin: AdminClient
    _timeout_ms: float

    def _seconds(self, timeout_ms: float | None) -> float:
        return (timeout_ms or self._timeout_ms) / 1000


class Response(dict[str, Any]):
    """A response that kafka-python gives as an object: its fields are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"the response has no field {name!r}")
        return self[name]

    def to_dict(self) -> dict[str, Any]:
        """The response as dictionaries."""
        return dict(self)


def first_of(faults: dict[object, errors.PylogError]) -> KafkaError:
    """The error that a call raises for several, which names them all."""
    first = next(iter(faults.values()))
    if len(faults) == 1:
        return translated(first)
    told = type(translated(first))("; ".join(f"{item}: {e}" for item, e in faults.items()))
    told.__cause__ = first
    return told


def code_and_text(error: errors.PylogError | None) -> tuple[int, str | None]:
    """A protocol's error code and message; 0 and None without an error."""
    return (0, None) if error is None else (error.code, str(error))


def partitions_asked(given: object) -> list[tuple[str, int | None]]:
    """(topic, partition) of what kafka-python takes: {topic: [partition]}, [topic], or partitions;
    the partition is None for all of the topic.
    """
    if isinstance(given, dict):
        return [(topic, number) for topic, numbers in given.items() for number in numbers]
    return [(item, None) if isinstance(item, str) else (item[0], item[1]) for item in given]  # type: ignore[attr-defined]
