"""The console in a real Chromium, over real brokers: each page, by mouse and by keyboard.

Needs Chromium and its driver; `AXE` names the file axe.min.js, without which contrast and roles are
not looked at. `make console-browser` brings the latter.
"""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition
from tests.browser.webdriver import ENTER, INSTALLED, TAB, Chromium
from tests.fakes.waiting import eventually

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not INSTALLED, reason="no chromium with chromedriver is installed"),
]
AXE = Path(os.environ.get("AXE", "axe.min.js"))
EVIL = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\u202e"
BIG = b"0123456789abcdef" * 327_680
"""5 MiB."""
PAGES = ["", "topics", "topics/flights", "topics/flights/messages", "topics/flights/tail",
         "topics/flights/groups", "topics/flights/settings", "topics/flights/produce",
         "topics/flights/messages/0/0", "groups", "group?id=loader", "group/reset?id=loader",
         "brokers", "brokers/1", "spark", "transactions", "transactions/hanging", "changes",
         "nowhere"]  # fmt: skip


def status_of(address: str) -> int:
    try:
        with urllib.request.urlopen(address) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"message.max.bytes": str(8 << 20)}
    with LocalCluster(2, config=config, console_allow_writes=True) as running:
        servers = running.bootstrap_servers
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([
                NewTopic("flights", 2, 2), NewTopic("evil", 1, 1), NewTopic("big", 1, 2),
            ])  # fmt: skip
        with Producer(bootstrap_servers=servers, max_request_size=8 << 20) as producer:
            for number in range(20):
                producer.send("flights", b'{"n": %d}' % number, key=b"k%d" % number, partition=0)
            producer.send("evil", EVIL.encode(), key=EVIL.encode(), headers=[(EVIL, EVIL.encode())])
            producer.send("big", BIG)
        with Consumer(bootstrap_servers=servers, group_id="loader") as consumer:
            consumer.assign([("flights", 0)])
            consumer.commit({TopicPartition("flights", 0): 5})
        known = f"{running.console_url}topics/big"
        eventually(60, lambda: status_of(known) == 200, "the console knows the topics")
        known = f"{running.console_url}group?id=loader"
        eventually(60, lambda: status_of(known) == 200, "the console knows the group")
        yield running
        log = (running.data_dir / "logs" / "console.log").read_text()
        assert "Traceback" not in log, log[-5000:]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def at(cluster: LocalCluster) -> str:
    assert cluster.console_url is not None
    return cluster.console_url


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_whole_and_breaks_none_of_its_own_rules(
    chromium: Chromium, at: str, path: str
) -> None:
    chromium.go(at + path)
    chromium.sees("Changes")
    assert chromium.run("return document.querySelectorAll('h1').length") == 1
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert chromium.run(wide) <= 0
    expected = ["404"] if path == "nowhere" else []
    assert [line for line in chromium.complaints() if not any(e in line for e in expected)] == []
    asked = chromium.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in asked if not name.startswith(at)] == []


@pytest.mark.skipif(not AXE.exists(), reason="AXE names no file axe.min.js")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_everybody_can_use_it(tmp_path: Path, at: str, width: int, dark: bool) -> None:
    """Nothing serious by axe-core, on a desk in daylight and on a telephone at night."""
    found = {}
    with Chromium(tmp_path, width=width, dark=dark) as chromium:
        for path in PAGES:
            chromium.go(at + path)
            chromium.run(AXE.read_text())
            faults = chromium.run_later(
                "axe.run().then(r => arguments[0](r.violations.map(v => "
                "[v.id, v.impact, v.nodes.map(n => n.html)])))"
            )
            grave = [fault for fault in faults if fault[1] in ("serious", "critical")]
            if grave:
                found[path] = grave
            wide = "return document.documentElement.scrollWidth - window.innerWidth"
            assert chromium.run(wide) <= 0, path
    assert found == {}


def test_rates_and_ends_change_while_one_looks(
    chromium: Chromium, at: str, cluster: LocalCluster
) -> None:
    chromium.go(at + "topics/flights")
    chromium.sees("Partitions")
    end = "return document.querySelector('tbody tr:nth-child(2) td:nth-child(7)').textContent"
    before = chromium.run(end)
    chromium.run("window.stays = true")
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(500):
            producer.send("flights", b"{}", partition=1)
    chromium.becomes(lambda: chromium.run(end) != before, "another end")
    assert chromium.run("return window.stays") is True  # the page was not loaded anew


def test_new_messages_appear(chromium: Chromium, at: str, cluster: LocalCluster) -> None:
    chromium.go(at + "topics/flights/tail")
    chromium.sees("Waiting for new messages")
    number = iter(range(1_000_000))

    def appeared() -> bool:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("flights", b'{"tail": %d}' % next(number), partition=1)
        return '{"tail":' in chromium.text

    chromium.becomes(appeared, "a new message")
    chromium.click("#pause")
    chromium.sees("Paused")


def test_what_messages_hold_is_never_run(chromium: Chromium, at: str) -> None:
    for path in ("topics/evil/messages", "topics/evil/messages/0/0"):
        chromium.go(at + path)
        chromium.sees("document.title='taken'")
        assert chromium.run("return document.title") != "taken"
        assert chromium.run("return document.images.length") == 0
        assert "\u202e" not in chromium.text
        assert chromium.complaints() == []


def test_a_message_of_five_megabytes(chromium: Chromium, at: str) -> None:
    chromium.go(at + "topics/big/messages")
    chromium.sees("of 5.0 MiB")
    chromium.click(".record a")
    chromium.sees("Only the beginning of 5.0 MiB is shown")
    size = chromium.run_later(
        "fetch(document.querySelector('a[download]').href).then(a => a.blob())"
        ".then(b => arguments[0](b.size))"
    )
    assert size == len(BIG)


def test_a_search_by_key_with_the_keyboard_alone(chromium: Chromium, at: str) -> None:
    chromium.go(at + "topics/flights/messages")
    chromium.run("document.querySelector('[name=key]').focus()")
    chromium.press("k7" + ENTER)
    chromium.becomes(lambda: "key=k7" in chromium.address, "the search")
    chromium.sees('{"n": 7}')
    assert chromium.run("return document.querySelectorAll('.record').length") == 1
    chromium.go(at)
    chromium.press(TAB + ENTER)  # to the content, past the pages' names
    assert chromium.address.endswith("#main")
    chromium.press(TAB)
    inside = "return document.getElementById('main').contains(document.activeElement)"
    assert chromium.run(inside) is True


def test_a_message_is_written(chromium: Chromium, at: str) -> None:
    chromium.go(at + "topics/flights/produce")
    chromium.type("[name=key]", "from-the-console")
    chromium.type("[name=value]", '{"written": "by hand"}')
    chromium.click(".write button")
    place = re.compile(r"/messages/\d/\d+$")
    chromium.becomes(lambda: place.search(chromium.address) is not None, "the written message")
    chromium.sees("by hand")


def test_a_group_is_reset_after_a_preview(
    chromium: Chromium, at: str, cluster: LocalCluster
) -> None:
    chromium.go(at + "group?id=loader")
    chromium.sees("Reset its offsets")
    chromium.click("a.button")
    chromium.click(".filter button")
    chromium.sees("nothing is changed yet")
    chromium.click("button.danger")
    chromium.becomes(lambda: chromium.address.endswith("/group?id=loader"), "the group")
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert admin.list_group_offsets("loader")[TopicPartition("flights", 0)].offset == 0


def test_a_dead_broker_is_told_and_the_page_stays_up(
    chromium: Chromium, at: str, cluster: LocalCluster
) -> None:
    chromium.go(at + "brokers")
    chromium.sees("serves")
    cluster.kill(2)
    chromium.sees("fenced")
    chromium.go(at + "changes")
    chromium.sees("broker 2 does not serve any more")
    chromium.go(at + "topics/flights/messages?partition=0&from=earliest&limit=3")
    chromium.sees('{"n": 2}')
    cluster.start(2)
    chromium.go(at + "brokers")
    table = "return document.querySelector('table').innerText"
    chromium.becomes(lambda: "fenced" not in chromium.run(table), "broker 2 serves")
