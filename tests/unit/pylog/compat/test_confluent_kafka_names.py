"""Names, arguments and codes, compared with a table of confluent-kafka 2.16.1's own
(`tests/golden/confluent_kafka_names.json`).
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from pylog.compat import confluent_kafka
from pylog.compat.confluent_kafka import (
    admin,
    aio,
    cimpl,
    deserializing_share_consumer,
    serialization,
)
from pylog.compat.confluent_kafka.error import KafkaError

GOLDEN: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "golden" / "confluent_kafka_names.json").read_text()
)
NOT_TAKEN: Final = {"kafkatest"}
_TYPING: Final = {"Any", "Dict", "List", "Optional", "Set", "Tuple", "Union"}


def test_every_name_of_the_package_is_there() -> None:
    assert aio.__all__ == [
        "AIOConsumer",
        "AIOProducer",
        "AsyncDeserializingConsumer",
        "AsyncSerializingProducer",
    ]
    missing = {name for name in GOLDEN["names"] if name not in NOT_TAKEN} - set(
        dir(confluent_kafka)
    )
    assert missing == set()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from pylog.compat.confluent_kafka import kafkatest", "tests librdkafka"),
        ("from pylog.compat.confluent_kafka import schema_registry", "leave the line"),
        (
            "from pylog.compat.confluent_kafka.schema_registry import SchemaRegistryClient",
            "leave the line `from confluent_kafka.schema_registry import ...` as it is",
        ),
        (
            "from pylog.compat.confluent_kafka.schema_registry.avro import AvroSerializer",
            "leave the line",
        ),
        ("import pylog.compat.confluent_kafka.schema_registry", "leave the line"),
        ("from pylog.compat.confluent_kafka import avro", "import AvroSerializer`"),
        ("from pylog.compat.confluent_kafka.avro import AvroProducer", "import AvroSerializer`"),
    ],
)
def test_what_is_not_there_says_what_to_write(line: str, words: str) -> None:
    with pytest.raises(ImportError, match=re.escape(words)):
        exec(line)


def test_every_name_of_admin_and_serialization_is_there() -> None:
    wanted = set(GOLDEN["admin names"]) - _TYPING - {"KafkaError", "KafkaException"}
    assert wanted - set(dir(admin)) == set()
    assert set(GOLDEN["admin methods"]) - set(dir(admin.AdminClient)) == set()
    assert set(GOLDEN["serialization"]) - set(dir(serialization)) == set()


def test_the_compiled_module_has_the_names_that_programs_import() -> None:
    for name in cimpl.__all__:
        for owner in (confluent_kafka, admin):
            assert getattr(owner, name, getattr(cimpl, name)) is getattr(cimpl, name)
    assert (cimpl.RESOURCE_TRANSACTIONAL_ID, cimpl.CONFIG_SOURCE_GROUP_CONFIG) == (5, 8)
    assert deserializing_share_consumer.DeserializingShareConsumer is (
        confluent_kafka.DeserializingShareConsumer
    )


def test_codes_are_the_same() -> None:
    found = {name: getattr(KafkaError, name) for name in GOLDEN["codes"]}
    assert found == GOLDEN["codes"]


@pytest.mark.parametrize("place", sorted(GOLDEN["arguments"]))
def test_methods_take_the_same_arguments(place: str) -> None:
    owner, _, name = place.partition(".")
    item = getattr(getattr(confluent_kafka, owner), name)
    found = list(inspect.signature(item).parameters)[1:]
    assert found == GOLDEN["arguments"][place]
