"""The changes that the console makes, and only where its operator wanted that."""

from __future__ import annotations

import re

import pytest

from pylog import AdminClient, Consumer, TopicPartition
from tests.unit.pylog.console.conftest import World

TP = TopicPartition("t", 0)


def positions(world: World, group: str) -> int | None:
    with AdminClient(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
        found = admin.list_group_offsets(group).get(TP)
    return None if found is None else found.offset


def with_group(world: World) -> None:
    world.cluster.create_topic("t")
    world.produce("t", b"0", b"1", b"2", b"3")
    with Consumer(bootstrap_servers=world.cluster.bootstrap_servers, group_id="g") as consumer:
        consumer.assign([TP])
        consumer.commit({TP: 3})
    world.learn()


@pytest.mark.parametrize(
    "path", ["/topics/t/produce", "/group/reset", "/brokers/elect", "/transaction/abort"]
)
def test_a_console_that_only_shows_refuses_all_changes(world: World, path: str) -> None:
    world.cluster.create_topic("t")
    world.learn()
    answer = world.browser.post(path, {**world.token, "value": "x", "id": "g"})
    assert answer.status == 403
    assert "--allow-writes" in answer.text
    assert world.cluster.topics["t"].partitions[0].end == 0


def test_a_console_that_only_shows_has_no_forms_that_change(world: World) -> None:
    with_group(world)
    for path in ("/group?id=g", "/group/reset?id=g", "/brokers", "/topics/t/produce", "/topics/t"):
        assert 'method="post"' not in world.browser.get(path).text, path


@pytest.mark.parametrize(
    ("headers", "form", "status"),
    [
        ({"origin": "http://evil.example"}, {}, 403),
        ({"origin": "null"}, {}, 403),
        ({"origin": ""}, {}, 403),
        ({"sec_fetch_site": "cross-site"}, {}, 403),
        ({}, {"token": "guessed"}, 403),
        ({}, {"token": ""}, 403),
        ({"content_length": "99999999"}, {}, 413),
        ({"content_length": "x"}, {}, 411),
    ],
)
def test_a_form_of_somebody_else_changes_nothing(
    writable: World, headers: dict[str, str], form: dict[str, str], status: int
) -> None:
    writable.cluster.create_topic("t")
    writable.learn()
    given = {**writable.token, "value": "x", **form}
    answer = writable.browser.post("/topics/t/produce", given, **headers)
    assert answer.status == status
    assert writable.cluster.topics["t"].partitions[0].end == 0


def test_a_record_is_written_and_shown(writable: World) -> None:
    writable.cluster.create_topic("t")
    writable.learn()
    form = {"key": "k", "key_form": "text", "value": '{"a": "é"}\r\n', "value_form": "JSON",
            "headers": "h=1\n\nother=a=b", "partition": "0"}  # fmt: skip
    answer = writable.browser.post("/topics/t/produce", {**writable.token, **form})
    assert (answer.status, answer.headers["location"]) == (303, "/topics/t/messages/0/0")
    writable.learn()
    text = writable.browser.get("/topics/t/messages/0/0").text
    assert "&#34;a&#34;: &#34;é&#34;" in text
    assert "other" in text
    assert "a=b" in text


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"value": "{", "value_form": "JSON"}, "value is no JSON"),
        ({"value": "0g", "value_form": "hex"}, "hexadecimal is pairs"),
        ({"value": "v", "value_form": "xml"}, "is not one of text, JSON, hex, null"),
        ({"headers": "nothing"}, "line 1: write name=value"),
        ({"partition": "x"}, "is no number"),
        ({"partition": "9"}, "partition"),
    ],
)
def test_what_cannot_be_written_is_told_and_the_form_keeps_it(
    writable: World, form: dict[str, str], words: str
) -> None:
    writable.cluster.create_topic("t")
    writable.learn()
    answer = writable.browser.post("/topics/t/produce", {**writable.token, "key": "kept", **form})
    assert answer.status == 400
    assert words in answer.text
    assert 'value="kept"' in answer.text
    assert writable.cluster.topics["t"].partitions[0].end == 0


@pytest.mark.parametrize(
    ("form", "new"),
    [
        ({"target": "earliest"}, 0),
        ({"target": "latest"}, 4),
        ({"target": "shift", "to": "-1"}, 2),
        ({"target": "offset", "to": "1"}, 1),
        ({"target": "offset", "to": "99"}, 4),
        ({"target": "time", "to": "2100-01-01"}, 4),
    ],
)
def test_a_reset_shows_its_plan_first_and_then_does_exactly_that(
    writable: World, form: dict[str, str], new: int
) -> None:
    with_group(writable)
    given = {**writable.token, "id": "g", **form}
    preview = writable.browser.post("/group/reset", given)
    assert preview.status == 200, preview.text
    assert "nothing is changed yet" in preview.text
    assert positions(writable, "g") == 3
    plan = re.search(r'name="plan" value="([^"]+)"', preview.text)
    assert plan is not None
    text = plan[1].replace("&#34;", '"')
    done = writable.browser.post("/group/reset", {**writable.token, "id": "g", "plan": text})
    assert done.status == 303
    assert positions(writable, "g") == new


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"target": "time", "to": "never"}, "is no time"),
        ({"target": "shift", "to": "x"}, "is no whole number"),
        ({"target": "elsewhere", "to": "1"}, "is not one of"),
        ({"plan": "junk"}, "no plan that the console has shown"),
        ({"plan": "[]"}, "a plan has 1 to"),
        ({"plan": '[["t", 0, -5]]'}, "a plan has 1 to"),
        ({"target": "earliest", "topic": "absent"}, "absent"),
    ],
)
def test_a_reset_that_cannot_be_is_told(writable: World, form: dict[str, str], words: str) -> None:
    with_group(writable)
    answer = writable.browser.post("/group/reset", {**writable.token, "id": "g", **form})
    assert answer.status == 400
    assert words in answer.text
    assert positions(writable, "g") == 3


def test_an_abort_must_be_meant(writable: World) -> None:
    writable.learn()
    answer = writable.browser.post("/transaction/abort", {**writable.token, "id": "x"})
    assert answer.status == 400
    assert "tick the box" in answer.text
    answer = writable.browser.post(
        "/transaction/abort", {**writable.token, "topic": "t", "partition": "x", "sure": "1"}
    )
    assert "give a partition" in answer.text


def test_preferred_leaders_are_elected(writable: World) -> None:
    writable.cluster.create_topic("t")
    writable.learn()
    answer = writable.browser.post("/brokers/elect", writable.token)
    assert (answer.status, answer.headers["location"]) == (303, "/brokers")
