"""Names, arguments and codes, compared with a table of confluent-kafka 2.16.1's own
(`tests/golden/confluent_kafka_names.json`).
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, Final

import pytest

from pylog.compat import confluent_kafka
from pylog.compat.confluent_kafka import admin, aio, serialization
from pylog.compat.confluent_kafka.error import KafkaError

GOLDEN: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "golden" / "confluent_kafka_names.json").read_text()
)
NOT_TAKEN: Final = {"kafkatest"}
_TYPING: Final = {"Any", "Dict", "List", "Optional", "Set", "Tuple", "Union"}


def test_every_name_of_the_package_is_there() -> None:
    assert aio.__all__ == ["AIOConsumer", "AIOProducer"]
    missing = {name for name in GOLDEN["names"] if name not in NOT_TAKEN} - set(
        dir(confluent_kafka)
    )
    assert missing == set()


@pytest.mark.parametrize("name", ["schema_registry", "avro", "kafkatest"])
def test_what_is_not_there_says_why(name: str) -> None:
    with pytest.raises(ImportError, match=name):
        exec(f"from pylog.compat.confluent_kafka import {name}")


def test_every_name_of_admin_and_serialization_is_there() -> None:
    wanted = set(GOLDEN["admin names"]) - _TYPING - {"KafkaError", "KafkaException"}
    assert wanted - set(dir(admin)) == set()
    assert set(GOLDEN["admin methods"]) - set(dir(admin.AdminClient)) == set()
    assert set(GOLDEN["serialization"]) - set(dir(serialization)) == set()


def test_codes_are_the_same() -> None:
    found = {name: getattr(KafkaError, name) for name in GOLDEN["codes"]}
    assert found == GOLDEN["codes"]


@pytest.mark.parametrize("place", sorted(GOLDEN["arguments"]))
def test_methods_take_the_same_arguments(place: str) -> None:
    owner, _, name = place.partition(".")
    item = getattr(getattr(confluent_kafka, owner), name)
    found = list(inspect.signature(item).parameters)[1:]
    assert found == GOLDEN["arguments"][place]
