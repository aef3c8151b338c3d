"""Topics, partitions and records, by kafka-python's calls."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pylog import errors, model
from pylog.clock import SYSTEM_CLOCK
from pylog.compat.kafka_python.admin.calls import (
    Calls,
    Response,
    code_and_text,
    first_of,
    partitions_asked,
)
from pylog.compat.kafka_python.admin.outcomes import outcomes
from pylog.compat.kafka_python.admin.resources import (
    IsolationLevel,
    NewPartitions,
    NewTopic,
)
from pylog.compat.kafka_python.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from pylog.compat.kafka_python.settings import isolation_of
from pylog.compat.kafka_python.structs import OffsetAndTimestamp, TopicPartition, ours, theirs
from pylog.compat.kafka_python.translation import translated, translating
from pylog.model import TopicDescription, topic_id_to_bytes

_SPECS: Final = {-1: "latest", -2: "earliest", -3: "max_timestamp"}


class TopicCalls(Calls):
    """Topics, partitions and records."""

    def list_topics(self) -> list[str]:
        """All topics' names."""
        with translating():
            return self._admin.list_topics(internal=True)

    def describe_topics(self, topics: Iterable[Any] | None = None) -> list[dict[str, Any]]:
        """A dictionary for each topic, with its partitions; `error_code` 3 for one that is not
        there. None given: all topics.
        """
        found: dict[str, TopicDescription]
        faults: dict[str, errors.PylogError]
        with translating():
            names = None if topics is None else [self._named(topic) for topic in topics]
            if names is None:
                found, faults = self._admin.describe_topics(), {}
            elif not names:
                return []
            else:
                found, faults = outcomes(names, lambda: self._admin.describe_topics(names))
        described = [_described(topic) for topic in found.values()]
        return described + [
            {
                "error_code": fault.code,
                "name": name,
                "topic_id": uuid.UUID(int=0),
                "is_internal": False,
                "partitions": [],
                "topic_authorized_operations": [],
            }
            for name, fault in faults.items()
        ]

    def describe_topic_partitions(
        self,
        topics: Iterable[str],
        response_partition_limit: int = 2000,
        cursor: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The same with the replicas that may lead though they are out of sync (KIP-966), all at
        once, so there is no next cursor.
        """
        names = list(topics)
        with translating():
            found, _ = outcomes(names, lambda: self._admin.describe_topics(names))
        rows = self.describe_topics(names)
        for row in rows:
            eligible = {
                p.partition: list(p.eligible_leader_replicas)
                for p in (found[row["name"]].partitions if row["name"] in found else ())
            }
            for partition in row["partitions"]:
                partition["eligible_leader_replicas"] = eligible.get(
                    partition["partition_index"], []
                )
                partition["last_known_elr"] = None
        return {"topics": rows, "next_cursor": None}

    def _named(self, topic: Any) -> str:
        """The topic's name, out of a name or an id."""
        if not isinstance(topic, uuid.UUID):
            return str(topic)
        for each in self._admin.describe_topics().values():
            if topic_id_to_bytes(model.TopicId(each.topic_id)) == topic.bytes:
                return each.name
        raise UnknownTopicOrPartitionError(f"there is no topic with the id {topic}")

    def create_topics(
        self,
        new_topics: Any,
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> dict[str, Any]:
        """Create topics: names, `{name: {num_partitions, replication_factor, assignments,
        configs}}`, or NewTopics. Raises the first error unless `raise_errors` is off. Each has its
        leaders when this returns.
        """
        if validate_only and wait_for_metadata:
            raise ValueError("validate_only and wait_for_metadata are mutually exclusive")
        topics = {topic.name: topic for topic in _new_topics(new_topics)}
        with translating():
            made, faults = outcomes(
                topics,
                lambda: self._admin.create_topics(
                    [_new_topic(topic) for topic in topics.values()],
                    timeout=self._seconds(timeout_ms),
                    validate_only=validate_only,
                ),
            )
        if faults and raise_errors:
            raise first_of(faults)  # type: ignore[arg-type]
        rows = []
        for name, topic in topics.items():
            code, text = code_and_text(faults.get(name))
            rows.append(
                {
                    "name": name,
                    "topic_id": _uuid(made[name]) if made.get(name) else uuid.UUID(int=0),
                    "error_code": code,
                    "error_message": text,
                    "num_partitions": topic.num_partitions,
                    "replication_factor": topic.replication_factor,
                }
            )
        return {"topics": rows}

    def delete_topics(
        self, topics: Iterable[Any], timeout_ms: float | None = None, raise_errors: bool = True
    ) -> dict[str, Any]:
        """Delete topics, by name or id. Raises the first error unless `raise_errors` is off."""
        with translating():
            names = [self._named(topic) for topic in topics]
            gone, faults = outcomes(
                names,
                lambda: self._admin.delete_topics(names, timeout=self._seconds(timeout_ms)),
            )
        if faults and raise_errors:
            raise first_of(faults)  # type: ignore[arg-type]
        rows = []
        for name in names:
            code, text = code_and_text(faults.get(name))
            topic_id = _uuid(gone[name]) if gone.get(name) else uuid.UUID(int=0)
            rows.append(
                {"name": name, "topic_id": topic_id, "error_code": code, "error_message": text}
            )
        return {"topics": rows}

    def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float = 10_000) -> None:
        """Return when each topic is there with all its leaders; KafkaTimeoutError after that."""
        names = list(topic_names)
        until_ms = SYSTEM_CLOCK.monotonic_ms() + timeout_ms
        while names:
            rows = {row["name"]: row for row in self.describe_topics(names)}
            pending = [name for name in names if not _is_ready(rows.get(name))]
            if not pending:
                return
            if SYSTEM_CLOCK.monotonic_ms() >= until_ms:
                raise KafkaTimeoutError(f"topics not ready after {timeout_ms} ms: {pending}")
            SYSTEM_CLOCK.sleep(0.1)

    def create_partitions(
        self,
        topic_partitions: Mapping[str, Any],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> Response:
        """Grow topics: `{name: total}`, or a NewPartitions or {count, assignments} for each."""
        wanted = {name: _growth(given) for name, given in topic_partitions.items()}
        with translating():
            _, faults = outcomes(
                wanted,
                lambda: self._admin.create_partitions(
                    wanted, timeout=self._seconds(timeout_ms), validate_only=validate_only
                ),
            )
        if faults and raise_errors:
            raise first_of(faults)  # type: ignore[arg-type]
        rows = []
        for name in wanted:
            code, text = code_and_text(faults.get(name))
            rows.append(Response(name=name, error_code=code, error_message=text))
        return Response(results=rows)

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, Any]]:
        """Remove all records before each offset (-1: all); low watermarks by partition."""
        wanted = {ours(tp): offset for tp, offset in records_to_delete.items()}
        with translating():
            low, faults = outcomes(
                wanted,
                lambda: self._admin.delete_records(wanted, timeout=self._seconds(timeout_ms)),
            )
        if faults:
            raise first_of(faults)  # type: ignore[arg-type]
        return {
            theirs(tp): {"partition_index": tp.partition, "low_watermark": at, "error_code": 0}
            for tp, at in low.items()
        }

    def elect_leaders(
        self,
        election_type: int,
        topic_partitions: Any = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> Response:
        """Elect leaders: 0 for preferred ones, 1 for unclean ones; None given: of all partitions.
        The outcome by topic and partition.
        """
        wanted: list[model.TopicPartition] | None = None
        with translating():
            if topic_partitions is not None:
                wanted = self._partitions(partitions_asked(topic_partitions))
            elected, faults = outcomes(
                wanted or [],
                lambda: self._admin.elect_leaders(
                    wanted, unclean=bool(int(election_type)), timeout=self._seconds(timeout_ms)
                ),
            )
        raised = {
            tp: fault
            for tp, fault in faults.items()
            if not isinstance(fault, errors.ElectionNotNeeded)
        }
        if raised and raise_errors:
            raise first_of(raised)  # type: ignore[arg-type]
        rows: dict[str, list[Response]] = {}
        for tp in sorted({*elected, *faults}):
            code, text = code_and_text(faults.get(tp))
            row = Response(partition_id=tp.partition, error_code=code, error_message=text)
            rows.setdefault(tp.topic, []).append(row)
        results = [Response(topic=topic, partition_result=row) for topic, row in rows.items()]
        return Response(error_code=0, replica_election_results=results)

    def alter_partition_reassignments(
        self, reassignments: Mapping[Any, Iterable[int] | None], timeout_ms: float | None = None
    ) -> dict[TopicPartition, type[Exception] | None]:
        """Move partitions to other brokers, or cancel that (None); the class of each one's error,
        None where the move has begun.
        """
        with translating():
            wanted = {ours(tp): replicas for tp, replicas in reassignments.items()}
            _, faults = outcomes(
                wanted,
                lambda: self._admin.alter_partition_reassignments(
                    wanted, timeout=self._seconds(timeout_ms)
                ),
            )
        return {theirs(tp): type(translated(faults[tp])) if tp in faults else None for tp in wanted}

    def list_partition_reassignments(
        self, topic_partitions: Any = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, dict[str, list[int]]]:
        """The moves that go on, of these partitions or of all."""
        wanted: list[model.TopicPartition] | None = None
        with translating():
            if topic_partitions is not None:
                wanted = self._partitions(partitions_asked(topic_partitions))
            found = self._admin.list_partition_reassignments(
                wanted, timeout=self._seconds(timeout_ms)
            )
        return {
            theirs(tp): {
                "replicas": list(move.replicas),
                "adding_replicas": list(move.adding_replicas),
                "removing_replicas": list(move.removing_replicas),
            }
            for tp, move in found.items()
        }

    def _partitions(self, asked: list[tuple[str, int | None]]) -> list[model.TopicPartition]:
        found = []
        for topic, number in asked:
            if number is not None:
                found.append(model.TopicPartition(topic, number))
                continue
            partitions = self._admin.describe_topics([topic])[topic].partitions
            found += [model.TopicPartition(topic, p.partition) for p in partitions]
        return found

    def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, Any],
        isolation_level: IsolationLevel | str | int = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Each partition's offset by an OffsetSpec, or by a time in milliseconds since 1970; -1
        where no record is that late.
        """
        level = isolation_of(isolation_level)
        wanted = {ours(tp): _spec(spec) for tp, spec in topic_partition_specs.items()}
        with translating():
            found = self._admin.list_offsets(
                wanted,
                isolation_level=level,
                timeout=self._seconds(timeout_ms),
            )
        return {
            theirs(tp): OffsetAndTimestamp(-1, -1, None)
            if at is None
            else OffsetAndTimestamp(at.offset, at.timestamp_ms, at.leader_epoch)
            for tp, at in found.items()
        }


def _spec(spec: Any) -> str | int:
    number = int(spec)
    if number >= 0:
        return number
    if number not in _SPECS:
        raise ValueError(f"{spec!r}: give OffsetSpec.EARLIEST, LATEST or MAX_TIMESTAMP, or a time")
    return _SPECS[number]


def _new_topics(given: Any) -> list[NewTopic]:
    topics = []
    if isinstance(given, Mapping):
        for name, options in given.items():
            topics.append(
                NewTopic(
                    name,
                    options.get("num_partitions", -1),
                    options.get("replication_factor", -1),
                    options.get("assignments"),
                    options.get("configs"),
                )
            )
    else:
        listed = [given] if isinstance(given, str | NewTopic) else list(given)
        for item in listed:
            if not isinstance(item, str | NewTopic):
                raise ValueError(f"No valid topics found in new_topics: {given}")
            topics.append(NewTopic(item) if isinstance(item, str) else item)
    if not topics:
        raise ValueError(f"No valid topics found in new_topics: {given}")
    return topics


def _new_topic(topic: NewTopic) -> model.NewTopic:
    placed = bool(topic.replica_assignments)
    return model.NewTopic(
        topic.name,
        1 if placed else topic.num_partitions,
        -1 if placed else topic.replication_factor,
        replica_assignment=topic.replica_assignments if placed else None,
        config={name: str(value) for name, value in topic.topic_configs.items()} or None,
    )


def _growth(given: Any) -> model.NewPartitions:
    if isinstance(given, NewPartitions):
        return model.NewPartitions(given.total_count, given.new_assignments)
    if isinstance(given, Mapping):
        return model.NewPartitions(given["count"], given.get("assignments"))
    return model.NewPartitions(given)


def _described(topic: TopicDescription) -> dict[str, Any]:
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": _uuid(topic.topic_id),
        "is_internal": topic.internal,
        "partitions": [
            {
                "error_code": 0 if p.leader is not None else errors.LeaderNotAvailable.code,
                "partition_index": p.partition,
                "leader_id": -1 if p.leader is None else p.leader,
                "leader_epoch": p.leader_epoch,
                "replica_nodes": list(p.replicas),
                "isr_nodes": list(p.isr),
                "offline_replicas": list(p.offline_replicas),
            }
            for p in topic.partitions
        ],
        "topic_authorized_operations": [],
    }


def _uuid(topic_id: str) -> uuid.UUID:
    return uuid.UUID(bytes=topic_id_to_bytes(model.TopicId(topic_id)))


def _is_ready(row: dict[str, Any] | None) -> bool:
    if row is None or row["error_code"]:
        return False
    return all(partition["error_code"] == 0 for partition in row["partitions"])
