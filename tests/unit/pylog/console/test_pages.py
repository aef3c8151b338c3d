"""Every page over a cluster in this process."""

from __future__ import annotations

import re

import pytest

from pylog import Consumer, TopicPartition
from pylog.client.admin.transaction_types import TransactionListing
from tests.unit.pylog.console.conftest import Open, World

PAGES = ["/", "/topics", "/groups", "/brokers", "/spark", "/transactions", "/changes",
         "/transactions/hanging", "/topics/t", "/topics/t/messages", "/topics/t/tail",
         "/topics/t/groups", "/topics/t/settings", "/brokers/1"]  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_whole_before_and_after_anything_is_known(world: World, path: str) -> None:
    before = world.browser.get(path)
    assert "The cluster has not answered yet" in before.text
    assert before.status == (404 if "/t" in path[1:] or path == "/brokers/1" else 200) or (
        path in ("/topics", "/transactions", "/transactions/hanging") and before.status == 200
    )
    world.cluster.create_topic("t", 3)
    world.produce("t", b"one")
    world.learn()
    after = world.browser.get(path)
    assert after.status == 200, after.text
    assert after.text.count("<h1>") == 1
    assert after.text.endswith("</html>")
    assert "not fully known" not in after.text


def test_overview_tells_rates_once_two_ends_are_known(world: World) -> None:
    world.cluster.create_topic("t")
    world.learn()
    world.produce("t", b"1", b"2")
    world.learn("ends")
    assert world.hub.knowledge.snapshot.rates["t"] > 0
    assert re.search(r'id="rate">[\d.,]+<', world.browser.get("/").text)


def test_a_thousand_topics_come_in_pages_sorted_and_filtered_by_the_server(world: World) -> None:
    for number in range(1_000):
        world.cluster.create_topic(f"topic-{number:04}")
    world.learn("topics")
    first = world.browser.get("/topics").text
    assert first.count('scope="row"') == 50
    assert "Page 1 of 20" in first
    last = world.browser.get("/topics?page=99").text
    assert "topic-0999" in last
    found = world.browser.get("/topics?q=077").text
    assert "11 topics with" in found
    assert found.count('scope="row"') == 11


def test_only_what_changes_is_sent_to_a_page_that_is_there_already(world: World) -> None:
    world.cluster.create_topic("t")
    world.learn()
    part = world.browser.get("/topics", x_fragment="1").text
    assert "<html" not in part
    assert "/topics/t" in part


def test_messages_of_a_topic_the_newest_first(world: World) -> None:
    world.cluster.create_topic("t", 2)
    world.produce("t", b'{"a": 1}', b"plain", b"\xff\x00\x01", None, partition=1, key=b"k")
    world.learn()
    text = world.browser.get("/topics/t/messages").text
    offsets = [int(found) for found in re.findall(r"Partition 1, offset (\d+)", text)]
    assert offsets == [3, 2, 1, 0]
    kinds = re.findall(r'<p class="value"><span class="kind">(\w+)<', text)
    assert kinds == ["null", "binary", "text", "JSON"]
    assert "ff 00 01" in text


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("from=earliest", ["v0", "v1", "v2", "v3"]),
        ("from=offset&partition=0&offset=2", ["v2", "v3"]),
        ("from=time&time=1002", ["v2", "v3"]),
        ("from=earliest&limit=3", ["v0", "v1", "v2"]),
        ("key=k1", ["v1"]),
        ("contains=v3", ["v3"]),
        ("limit=2", ["v3", "v2"]),
    ],
)
def test_messages_by_offset_time_key_and_filter(
    world: World, query: str, values: list[str]
) -> None:
    world.cluster.create_topic("t")
    for number in range(4):
        world.produce("t", b"v%d" % number, key=b"k%d" % number, timestamp_ms=1_000 + number)
    world.learn()
    text = world.browser.get(f"/topics/t/messages?{query}").text
    assert re.findall(r'class="value">.*?dir="ltr">(v\d)<', text) == values
    assert ("Go on from here" in text) == ("limit=3" in query)


def test_a_search_goes_on_where_it_ended(world: World) -> None:
    world.cluster.create_topic("t")
    world.produce("t", *(b"v%d" % number for number in range(7)))
    world.learn()
    target, seen = "/topics/t/messages?from=earliest&limit=3", []
    for _ in range(3):
        text = world.browser.get(target).text
        seen.append(re.findall(r'class="value">.*?dir="ltr">(v\d)<', text))
        found = re.search(r'href="\?([^"]+)">Go on', text)
        target = f"/topics/t/messages?{found[1].replace('&amp;', '&')}" if found else ""
    assert seen == [["v0", "v1", "v2"], ["v3", "v4", "v5"], ["v6"]]
    assert target == ""


def test_a_field_of_json_is_looked_for(world: World) -> None:
    world.cluster.create_topic("t")
    world.produce("t", b'{"a": {"b": [1, "x"]}}', b'{"a": 2}', b"no JSON")
    world.learn()
    text = world.browser.get("/topics/t/messages?field=a.b.1&equals=x").text
    assert "1 messages of 3 that were looked at" in text
    assert "1 messages" in world.browser.get("/topics/t/messages?field=a&equals=2").text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from=offset&offset=1", "give the partition and the offset"),
        ("from=offset&partition=9&offset=1", "t has partitions 0 to 0"),
        ("from=time&time=yesterday", "write 2024-01-31T12:00"),
        ("from=nowhere", "it must be one of"),
        ("partition=x", "it must be a whole number"),
        ("limit=" + "9" * 30, "it must be a whole number"),
        ("from=positions&at=junk", "write partition:offset"),
        ("contains=" + "x" * 1_001, "the limit is 1000"),
    ],
)
def test_a_wrong_field_is_told_on_the_page(world: World, query: str, words: str) -> None:
    world.cluster.create_topic("t")
    world.learn()
    answer = world.browser.get(f"/topics/t/messages?{query}")
    assert answer.status == 400
    assert words in answer.text


def test_hostile_content_is_text_everywhere(world: World) -> None:
    evil = '<script>alert(1)</script><img src=x onerror="alert(2)">\u202e\x07'
    world.cluster.create_topic("t")
    world.produce("t", evil.encode(), key=evil.encode(), headers=[(evil, evil.encode())])
    with Consumer(
        bootstrap_servers=world.cluster.bootstrap_servers, group_id=evil, client_id=evil[:200],
        auto_offset_reset="earliest",
    ) as consumer:  # fmt: skip
        consumer.assign([("t", 0)])
        consumer.commit({TopicPartition("t", 0): 1})
    world.learn()
    for path in ("/topics/t/messages", "/topics/t/messages/0/0", "/groups", "/topics/t/groups",
                 "/topics/t/messages?contains=%3Cscript%3E&key=%22%3E%3Cscript%3E", "/",
                 "/topics?q=%3Cscript%3Ealert(1)", "/topics/%3Cscript%3E"):  # fmt: skip
        answer = world.browser.get(path)
        assert "<script>alert" not in answer.text, path
        assert "<img" not in answer.text, path
        assert "\u202e" not in answer.text, path
    assert "\\u202e" in world.browser.get("/topics/t/messages").text


def test_a_message_of_five_megabytes_is_cut_and_can_be_downloaded(world: World) -> None:
    world.cluster.create_topic("t")
    big = b"0123456789abcdef" * 20_000
    world.produce("t", big)
    world.learn()
    listed = world.browser.get("/topics/t/messages")
    assert "of 312.5 KiB" in listed.text
    assert len(listed.body) < 20_000
    shown = world.browser.get("/topics/t/messages/0/0")
    assert "Only the beginning of 312.5 KiB is shown" in shown.text
    assert len(shown.body) < 200_000
    whole = world.browser.get("/topics/t/messages/0/0/value")
    assert whole.body == big
    assert whole.headers["content-disposition"] == 'attachment; filename="t-0-0.value"'
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in whole.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nowhere", 404, "There is no such page"),
        ("/topics/absent", 404, "there is no topic &#39;absent&#39;"),
        ("/topics/t/messages/0/99", 404, "offset 99 is not from 0 to 0"),
        ("/topics/t/messages/7/0", 404, "there is no partition t-7"),
        ("/topics/t/messages/0/99999999999999999999", 400, "an offset 63"),
        ("/topics/t/messages/0/0/other", 400, "give key or value"),
        ("/topics/t/messages/0/0/key", 400, "the record has no key"),
        ("/group?id=nobody", 404, "there is no group"),
        ("/brokers/77", 404, "there is no broker 77"),
        ("/transaction?id=none", 404, "none"),
    ],
)
def test_errors_are_pages_with_words(world: World, path: str, status: int, words: str) -> None:
    world.cluster.create_topic("t")
    world.produce("t", b"v")
    world.learn()
    answer = world.browser.get(path)
    assert answer.status == status
    assert words in answer.text
    assert answer.text.endswith("</html>")


def test_a_group_with_its_lag_and_who_reads(world: World) -> None:
    world.cluster.create_topic("t")
    world.produce("t", b"1", b"2", b"3")
    with Consumer(bootstrap_servers=world.cluster.bootstrap_servers, group_id="g") as consumer:
        consumer.assign([("t", 0)])
        consumer.commit({TopicPartition("t", 0): 1})
    world.learn()
    text = world.browser.get("/group?id=g").text
    assert "<dt>Lag</dt><dd>2</dd>" in text
    assert "Nobody is in it now" in text
    assert '/group?id=g">g</a>' in world.browser.get("/topics/t/groups").text


def test_a_query_of_spark_is_told_by_what_it_commits(world: World) -> None:
    from pylog import OffsetAndMetadata

    world.cluster.create_topic("t")
    world.produce("t", b"1")
    where = world.cluster.bootstrap_servers
    with Consumer(bootstrap_servers=where, group_id="etl", enable_auto_commit=False) as consumer:
        consumer.assign([("t", 0)])
        place = OffsetAndMetadata(1, "Spark query loader on host")
        consumer.commit({TopicPartition("t", 0): place})
    world.learn()
    assert "Spark query loader on host" in world.browser.get("/spark").text


def test_sinks_of_queries_are_told_with_their_transactional_ids(world: World) -> None:
    sink = "4f5c", "flights<b>"
    states = ("Ongoing", "Empty", "Empty")
    listed = [
        TransactionListing(f"__sink/4f5c/flights<b>/{number}", 1, number, state, *sink)
        for number, state in enumerate(states)
    ]
    world.hub.knowledge.learn("transactions", listed)
    text = world.browser.get("/spark").text
    assert '<th scope="row">4f5c</th><td>flights&lt;b&gt;</td><td>2 Empty, 1 Ongoing</td>' in text


def test_a_dead_broker_is_told_and_the_page_stays_up(world: World) -> None:
    world.cluster.create_topic("t", 2)
    world.learn()
    world.cluster.stop_broker(2)
    world.learn("cluster", "ends")
    answer = world.browser.get("/")
    assert answer.status == 200
    assert "Ends of partitions: not fully known since" in answer.text
    assert "fenced" in world.browser.get("/brokers").text
    assert "broker 2 does not serve any more" in world.browser.get("/changes").text
    world.cluster.start_broker(2)
    world.learn()
    assert "not fully known" not in world.browser.get("/").text
    told = [each.text for each in world.hub.knowledge.changes if each.kind == "fault"]
    assert told[0] == "ends can be had again"
    assert told[1].startswith("ends cannot all be had: t-1: ")


def test_news_come_as_events(world: World) -> None:
    world.cluster.create_topic("t")

    def enough(body: bytes) -> bool:
        if body.count(b"event: version") == 1:
            world.hub.knowledge.on_change()
        return body.count(b"event: version") == 2

    answer = world.browser.ask("GET", "/events", enough=enough)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert world.hub.viewers.taken == 0


def test_the_number_of_open_pages_is_bounded(world: World) -> None:
    world.hub.viewers.taken = 50
    assert world.browser.get("/events").status == 503


def test_new_messages_are_followed(world: World) -> None:
    world.cluster.create_topic("t")
    world.produce("t", b"old")
    world.learn()

    def enough(body: bytes) -> bool:
        if body.count(b"event: records") == 1:
            world.produce("t", b"<b>new</b>")
        return b"new" in body

    text = world.browser.ask("GET", "/topics/t/tail/events", enough=enough).text
    assert "old" not in text
    assert "&lt;b&gt;new&lt;/b&gt;" in text
    assert world.hub.tails.taken == 0


def test_avro_is_shown_by_a_schema_that_is_given(open_world: Open) -> None:
    schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'
    world = open_world(schemas={"t": schema})
    world.cluster.create_topic("t")
    world.produce("t", b"\x02", b"\x00\x00\x00\x00\x07\x04")
    world.learn()
    text = world.browser.get("/topics/t/messages").text
    assert text.count('<span class="kind">Avro</span>') == 2
    assert "{&#34;a&#34;: 2}" in text
