"""Two habits of other clients that pylog's own have: a dictionary of Kafka's dotted names, and
serializers and deserializers of one argument.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pylog import AdminClient, Consumer, Producer, ShareConsumer, errors
from pylog.aio import AsyncAdminClient, AsyncConsumer, AsyncProducer
from pylog.client.arguments import settings_of
from pylog.client.user_code import method_of

SERVERS = {"bootstrap.servers": "127.0.0.1:9"}


def test_dotted_names_and_keywords_are_one_set_of_settings() -> None:
    given = settings_of({"linger.ms": 5, **SERVERS}, {"acks": "all", "bootstrap_servers": None})
    assert given == {"linger_ms": 5, "bootstrap_servers": "127.0.0.1:9", "acks": "all"}


@pytest.mark.parametrize(
    ("dotted", "named", "message"),
    [
        ({"linger.ms": 1, **SERVERS}, {"linger_ms": 2}, "linger_ms is given twice"),
        ({"linger.ms": 1}, {"bootstrap_servers": None}, "bootstrap_servers is missing"),
        ({1: 2}, {}, "a name is a text"),
        ("localhost:9092", {}, "a dictionary of Kafka's names"),
    ],
)
def test_wrong_dictionaries_are_told(dotted: Any, named: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=message):
        settings_of(dotted, named)


def test_every_client_takes_the_dictionary() -> None:
    for make in (Producer, AdminClient):
        make(SERVERS).close()
    Consumer({"group.id": "g", **SERVERS}).close()
    ShareConsumer({"group.id": "g", **SERVERS}).close()
    for other in (AsyncProducer, AsyncAdminClient, AsyncConsumer):
        with pytest.raises(errors.InvalidConfig, match="linger_sm"):
            other({"linger.sm": 1, **SERVERS})


def test_topics_may_follow_the_dictionary() -> None:
    with Consumer(SERVERS, "t") as consumer:
        assert consumer.subscription() == {"t"}


def test_the_classic_protocol_is_found_in_a_dictionary_too() -> None:
    with pytest.raises(errors.InvalidConfig, match="group_remote_assignor"):
        Consumer(
            {
                "group.id": "g",
                "session.timeout.ms": 10_000,
                "group.remote.assignor": "uniform",
                **SERVERS,
            }
        )


class Of:
    """Objects with a method of one argument."""

    def serialize(self, data: Any) -> bytes:
        return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (lambda data: f"<{data}>", "<x>"),
        (lambda topic, data: f"{topic}{data}", "tx"),
        (lambda *both: "".join(both), "tx"),
        (lambda topic, *rest: f"{topic}{rest[0]}", "tx"),
        (json.dumps, '"x"'),
        (str.encode, b"x"),
        (Of(), b'"x"'),
        ("json.dumps", '"x"'),
    ],
)
def test_code_gets_the_topic_where_it_takes_two_arguments(
    code: Callable[..., Any], wanted: Any
) -> None:
    call = method_of("serializer", code, "serialize", "(topic, data) -> bytes")
    assert call is not None
    assert call("t", "x") == wanted


def test_builtin_code_that_tells_no_signature_gets_both() -> None:
    assert method_of("serializer", max, "serialize", "(topic, data) -> bytes") is max
