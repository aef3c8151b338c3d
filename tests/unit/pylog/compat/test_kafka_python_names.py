"""Names, signatures, fields and settings, compared with kafka-python's own."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import kafka
import kafka.admin
import kafka.consumer.fetcher
import kafka.errors
import kafka.partitioner
import kafka.producer.future
import kafka.structs
import pytest

from pylog.compat import kafka_python
from pylog.compat.kafka_python import admin, errors, settings, structs
from pylog.compat.kafka_python.admin.client import NOT_TAKEN
from pylog.compat.kafka_python.consumer.fetcher import ConsumerRecord
from pylog.compat.kafka_python.producer.future import FutureRecordMetadata, RecordMetadata

CLASSES = [
    (kafka.KafkaProducer, kafka_python.KafkaProducer),
    (kafka.KafkaConsumer, kafka_python.KafkaConsumer),
    (kafka.KafkaAdminClient, kafka_python.KafkaAdminClient),
    (kafka.ConsumerRebalanceListener, kafka_python.ConsumerRebalanceListener),
    (kafka.producer.future.FutureRecordMetadata, FutureRecordMetadata),
    (kafka.admin.NewTopic, admin.NewTopic),
    (kafka.admin.NewPartitions, admin.NewPartitions),
    (kafka.admin.ConfigResource, admin.ConfigResource),
    (kafka.admin.MemberToRemove, admin.MemberToRemove),
]
INTERNAL = {"max_usable_produce_magic", "rebind"}


def test_every_name_of_the_package_is_there() -> None:
    assert [name for name in kafka.__all__ if not hasattr(kafka_python, name)] == []


def test_every_name_of_admin_is_there_or_says_why_not() -> None:
    missing = [
        name
        for name in (*kafka.admin.__all__, "NewTopic", "NewPartitions")
        if name not in admin.NOT_TAKEN and not hasattr(admin, name)
    ]
    assert missing == []
    with pytest.raises(ImportError, match="pylog has no authorization"):
        exec("from pylog.compat.kafka_python.admin import ACL")


@pytest.mark.parametrize(
    "module",
    [
        "admin.client",
        "consumer.fetcher",
        "consumer.group",
        "consumer.subscription_state",
        "coordinator.assignors.cooperative_sticky",
        "coordinator.assignors.range",
        "coordinator.assignors.roundrobin",
        "coordinator.assignors.sticky.sticky_assignor",
        "errors",
        "future",
        "partitioner",
        "partitioner.default",
        "producer.future",
        "producer.kafka",
        "serializer",
        "serializer.abstract",
        "structs",
        "version",
    ],
)
def test_modules_that_programs_import_are_there(module: str) -> None:
    import_module(f"kafka.{module}")
    import_module(f"pylog.compat.kafka_python.{module}")


def _errors(module: Any) -> dict[str, type[Exception]]:
    return {
        name: item
        for name, item in vars(module).items()
        if isinstance(item, type) and issubclass(item, Exception)
    }


def test_errors_have_the_same_codes_and_kinds() -> None:
    ours = _errors(errors)
    for name, theirs in _errors(kafka.errors).items():
        assert name in ours, name
        assert getattr(ours[name], "errno", None) == getattr(theirs, "errno", None), name
        assert ours[name].retriable == theirs.retriable, name  # type: ignore[attr-defined]
        assert {b.__name__ for b in theirs.__mro__} <= {b.__name__ for b in ours[name].__mro__}
    for code in range(-1, 140):
        assert errors.for_code(code).__name__ == kafka.errors.for_code(code).__name__


def test_errors_read_the_same() -> None:
    for name in ("KafkaTimeoutError", "TopicAlreadyExistsError", "CommitFailedError"):
        for args in ((), ("text",)):
            if args or name != "CommitFailedError":
                ours, theirs = getattr(errors, name)(*args), getattr(kafka.errors, name)(*args)
                assert str(ours) == str(theirs)


def _methods(owner: type) -> dict[str, Any]:
    return {
        name: item
        for name, item in inspect.getmembers(owner)
        if callable(item) and not name.startswith("_") and name not in INTERNAL
    }


@pytest.mark.parametrize(("theirs", "ours"), CLASSES)
def test_methods_take_the_same_arguments(theirs: type, ours: type) -> None:
    for name, method in _methods(theirs).items():
        assert hasattr(ours, name), name
        if name in NOT_TAKEN or not inspect.isfunction(method):
            continue
        wanted = list(inspect.signature(method).parameters.values())
        found = list(inspect.signature(getattr(ours, name)).parameters.values())
        for theirs_, ours_ in zip(wanted, found, strict=False):
            assert (ours_.name, ours_.kind) == (theirs_.name, theirs_.kind), name
            assert ours_.default == theirs_.default, (name, ours_.name)
        assert len(found) >= len(wanted), name


def test_values_have_the_same_fields() -> None:
    for name in ("TopicPartition", "TopicPartitionReplica", "OffsetAndMetadata"):
        assert getattr(structs, name)._fields == getattr(kafka.structs, name)._fields
    for name in ("OffsetAndTimestamp", "ConsumerGroupMetadata"):
        assert getattr(structs, name)._fields == getattr(kafka.structs, name)._fields
    assert structs.OffsetAndMetadata(5) == kafka.structs.OffsetAndMetadata(5)
    assert structs.ConsumerGroupMetadata("g") == kafka.structs.ConsumerGroupMetadata("g")
    assert ConsumerRecord._fields == kafka.consumer.fetcher.ConsumerRecord._fields
    assert RecordMetadata._fields == kafka.producer.future.RecordMetadata._fields
    assert repr(structs.TopicPartition("t", 1)) == repr(kafka.TopicPartition("t", 1))
    for name in ("AbortTransactionSpec", "ProducerState", "TransactionDescription"):
        assert getattr(admin, name)._fields == getattr(kafka.admin, name)._fields


@pytest.mark.parametrize(
    "name",
    [
        "AlterConfigOp",
        "ConfigFilterType",
        "ConfigResourceType",
        "ConfigSourceType",
        "ConfigType",
        "GroupState",
        "GroupType",
        "OffsetSpec",
        "TransactionState",
        "UpdateFeatureType",
    ],
)
def test_enumerations_have_the_same_members(name: str) -> None:
    ours, theirs = getattr(admin, name), getattr(kafka.admin, name)
    assert {m.name: m.value for m in ours} == {m.name: m.value for m in theirs}


@pytest.mark.parametrize(
    ("client", "known"),
    [
        (kafka.KafkaProducer, settings.PRODUCER | settings.PRODUCER_OWN),
        (kafka.KafkaConsumer, settings.CONSUMER | settings.CONSUMER_OWN),
        (kafka.KafkaAdminClient, settings.ADMIN | settings.ADMIN_OWN),
    ],
)
def test_every_setting_is_known(client: Any, known: frozenset[str]) -> None:
    assert settings.unknown(client.DEFAULT_CONFIG, known) == set()
    assert settings.unknown({"linger": 1}, known) == {"linger"}


OBJECTS = {"default_offset_commit_callback", "kafka_client", "partitioner", "socket_options"}


@pytest.mark.parametrize(("theirs", "ours"), CLASSES[:3])
def test_defaults_are_the_same(theirs: Any, ours: Any) -> None:
    for name, default in theirs.DEFAULT_CONFIG.items():
        mine = ours.DEFAULT_CONFIG[name]
        if name == "partition_assignment_strategy":
            assert [each.name for each in mine] == [each.name for each in default]
        elif name not in OBJECTS:
            assert mine == default, name


def test_versions_and_hashes_are_the_same() -> None:
    assert kafka_python.__version__ == kafka.__version__
    for key in (b"", b"k", b"key", b"a longer key", b"\xff" * 7):
        assert kafka_python.partitioner.murmur2(key) == kafka.partitioner.murmur2(key)
