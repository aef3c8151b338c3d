"""The costs of a page: records that are too large or too many for one read."""

from __future__ import annotations

import re

import pytest

from pylog.console import reading, tailing
from tests.unit.pylog.console.conftest import World


def offsets(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"Partition 0, offset (\d+)", text)]


def test_the_newest_are_shown_though_not_all_of_a_page_can_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ_BYTES", 300_000)
    world.cluster.create_topic("t")
    for _ in range(40):
        world.produce("t", b"x" * 100_000)
    world.learn()
    shown = offsets(world.browser.get("/topics/t/messages").text)
    assert shown[0] == 39
    assert shown == sorted(shown, reverse=True)
    assert len(shown) >= 2


def test_a_search_ends_at_its_limit_and_goes_on_where_it_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ_RECORDS", 10)
    world.cluster.create_topic("t")
    for number in range(30):
        world.produce("t", b"v%d" % number)
    world.learn()
    target, looked_at, found = "/topics/t/messages?from=earliest&contains=v29", 0, []
    for _ in range(10):
        text = world.browser.get(target).text
        looked_at += int(re.findall(r"of (\d+) that were looked at", text)[0])
        found += offsets(text)
        onward = re.search(r'href="\?([^"]+)">Go on', text)
        if onward is None:
            break
        target = f"/topics/t/messages?{onward[1].replace('&amp;', '&')}"
    assert (looked_at, found) == (30, [29])


def test_a_search_among_the_newest_looks_further_back_until_it_has_enough(world: World) -> None:
    world.cluster.create_topic("t")
    world.produce("t", b"needle", *(b"hay" for _ in range(200)))
    world.learn()
    text = world.browser.get("/topics/t/messages?contains=needle&limit=1").text
    assert offsets(text) == [0]
    assert "1 messages of 201 that were looked at" in text


def test_a_topic_of_many_partitions_is_read_in_part(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PARTITIONS_MAX", 2)
    world.cluster.create_topic("t", 3)
    world.produce("t", b"v", partition=2)
    world.learn()
    text = world.browser.get("/topics/t/messages").text
    assert "of which the first 2 are read here" in text
    assert "There are no messages there" in text
    assert "Partition 2, offset 0" in world.browser.get("/topics/t/messages?partition=2").text


def test_what_comes_too_fast_is_counted_and_not_shown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "SHOWN_MAX", 5)
    monkeypatch.setattr(tailing, "TURN_SECONDS", 0.0)
    world.cluster.create_topic("t")
    world.learn()
    told = {"rows": 0, "passed": 0}

    def enough(body: bytes) -> bool:
        if body.count(b"event: records") == 1:
            world.produce("t", *(b"v%d" % number for number in range(100)))
        told["rows"] = body.count(b'class=\\"record\\"')
        told["passed"] = sum(map(int, re.findall(rb'"passed": (\d+)', body)))
        return told["rows"] + told["passed"] >= 100

    world.browser.ask("GET", "/topics/t/tail/events", enough=enough)
    assert told["rows"] + told["passed"] == 100
    assert 5 <= told["rows"] < 100
