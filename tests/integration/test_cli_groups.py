"""`pylog groups` and `pylog consume --group` against a running cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylog import Consumer, LocalCluster, Producer, ShareConsumer
from pylog.cli.main import main
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, config={"offsets.topic.num.partitions": "4"}) as running:
        yield running


@pytest.fixture
def run(
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Run:
    """Exit status, standard output and standard error of a command."""
    monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return call


@pytest.fixture
def topic(cluster: LocalCluster, run: Run, request: pytest.FixtureRequest) -> str:
    """Two partitions with ten records each."""
    name: str = request.node.name.replace("_", "-")
    assert run("topics", "create", name, "--partitions", "2")[0] == 0
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(20):
            producer.send(name, b"%d" % number, partition=number % 2, timestamp_ms=1_000 + number)
    return name


def offsets(run: Run, group: str) -> dict[int, int | None]:
    status, out, err = run("--json", "groups", "describe", group)
    assert status == 0, err
    [found] = json.loads(out)
    return {each["partition"]: each["committed_offset"] for each in found["partitions"]}


def test_a_group_prints_each_record_once(run: Run, topic: str) -> None:
    first = run("consume", topic, "--group", topic, "--from-beginning", "--max-messages", "7")
    assert first[0] == 0
    rest = run("consume", topic, "--group", topic, "--from-beginning", "--max-messages", "13")
    assert rest[0] == 0
    printed = [*first[1].split(), *rest[1].split()]
    assert sorted(printed, key=int) == [str(number) for number in range(20)]
    assert offsets(run, topic) == {0: 10, 1: 10}
    status, out, _ = run("groups", "list")
    assert (status, topic in out, "Empty" in out) == (0, True, True)
    status, out, _ = run("groups", "describe", topic)
    assert "lag in all: 0 records" in out


def test_offsets_are_set_where_asked(run: Run, topic: str, tmp_path: Path) -> None:
    def reset(*arguments: str) -> tuple[int, str, str]:
        return run("groups", "reset-offsets", topic, *arguments)

    status, _, err = reset("--topic", topic, "--to-earliest")
    assert (status, "nothing is changed" in err) == (0, True)
    assert run("groups", "list")[1].count(topic) == 0
    assert reset("--topic", topic, "--to-offset", "3", "--execute")[0] == 0
    assert offsets(run, topic) == {0: 3, 1: 3}
    assert reset("--topic", f"{topic}:1", "--to-latest", "--execute")[0] == 0
    assert offsets(run, topic) == {0: 3, 1: 10}
    status, _, err = reset("--all-topics", "--shift-by", "-5", "--execute")
    assert (status, "-2 is before its first offset; 0 is taken" in err) == (0, True)
    assert offsets(run, topic) == {0: 0, 1: 5}
    assert reset("--all-topics", "--to-datetime", "1005", "--execute")[0] == 0
    assert offsets(run, topic) == {0: 3, 1: 2}
    status, exported, _ = reset("--all-topics", "--to-current", "--export")
    assert exported == f"{topic},0,3\n{topic},1,2\n"
    kept = tmp_path / "offsets.csv"
    kept.write_text(exported)
    assert reset("--all-topics", "--by-duration", "P1D", "--execute")[0] == 0
    assert offsets(run, topic) == {0: 10, 1: 10}
    assert reset("--from-file", str(kept), "--execute")[0] == 0
    assert offsets(run, topic) == {0: 3, 1: 2}
    assert run("groups", "delete", topic)[:2] == (0, f"deleted {topic}\n")
    status, _, err = run("groups", "describe", topic)
    assert (status, "GROUP_ID_NOT_FOUND" in err) == (1, True)


def test_a_group_with_members_is_shown_and_left_alone(
    cluster: LocalCluster, run: Run, topic: str
) -> None:
    with Consumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic, client_id="mine"
    ) as consumer:
        while len(consumer.assignment()) < 2:
            consumer.poll(0.05)
        status, out, _ = run("groups", "members", topic)
        assert (status, "mine" in out, f"{topic}-0, {topic}-1" in out) == (0, True, True)
        status, _, err = run(
            "groups", "reset-offsets", topic, "--topic", topic, "--to-latest", "--execute"
        )
        assert (status, "NON_EMPTY_GROUP" in err, "stop them first" in err) == (1, True, True)
        status, _, err = run("groups", "delete", topic)
        assert (status, "NON_EMPTY_GROUP" in err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("describe",), "give groups, or --all-groups"),
        (("reset-offsets", "g", "--topic", "t"), "give one of --to-earliest"),
        (("reset-offsets", "g", "--to-latest"), "give one of --topic"),
        (("reset-offsets", "g", "--topic", "t:x", "--to-latest"), "write TOPIC or TOPIC:0,1,2"),
        (("reset-offsets", "g", "--topic", "t", "--by-duration", "x"), "is not a span of time"),
        (("reset-offsets", "g", "--topic", "t", "--to-datetime", "x"), "write a time such as"),
    ],
)
def test_what_is_asked_wrongly_is_told(run: Run, arguments: tuple[str, ...], words: str) -> None:
    status, _, err = run("groups", *arguments)
    assert status == 2
    assert words in " ".join(err.split())


def test_top_shows_topics_and_groups_and_what_moves(
    cluster: LocalCluster, topic: str, run: Run
) -> None:
    with Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="watched",
        auto_offset_reset="earliest",
    ) as consumer:
        assert len(consumer.poll(10)) > 0
        consumer.commit()
        status, out, err = run("top", "--count", "2", "--interval", "0.1", "--json")
        assert status == 0, err
        first, second = map(json.loads, out.splitlines())
        [shown] = [each for each in first["topics"] if each["topic"] == topic]
        assert shown == {
            "topic": topic,
            "partitions": 2,
            "offline": 0,
            "under_replicated": 0,
            "records": None,
        }
        [group] = [each for each in second["groups"] if each["group"] == "watched"]
        assert (group["state"], group["members"], group["records"]) == ("Stable", 1, 0.0)
    status, out, err = run("top", "--count", "1")
    assert status == 0, err
    assert topic in out
    assert "watched" in out


# ---- share groups ------------------------------------------------------------------------------


def test_a_share_group_prints_each_record_once_and_is_looked_after(run: Run, topic: str) -> None:
    earliest = "share.auto.offset.reset=earliest"
    assert run("configs", "alter", "group", topic, "--set", earliest)[0] == 0
    share = ("consume", topic, "--share-group", topic)
    first = run(*share, "--max-messages", "7")
    assert first[0] == 0, first[2]
    small = ("--format", "%v\n", "--config", "max_poll_records=3")
    rest = run(*share, "--max-messages", "13", *small)
    assert rest[0] == 0, rest[2]
    printed = [*first[1].split(), *rest[1].split()]
    assert sorted(printed, key=int) == [str(number) for number in range(20)]
    assert f"{topic}  share  Empty  share" in _single_spaced(run("groups", "list")[1])
    status, out, err = run("groups", "describe", topic)
    assert status == 0, err
    assert "share protocol" in out
    assert "lag in all: 0 records" in out
    assert offsets(run, topic) == {0: 10, 1: 10}
    reset = ("groups", "reset-offsets", topic, "--topic", topic, "--to-offset", "8")
    assert run(*reset)[0] == 0
    assert offsets(run, topic) == {0: 10, 1: 10}
    assert run(*reset, "--execute")[0] == 0
    assert offsets(run, topic) == {0: 8, 1: 8}
    again = run(*share, "--max-messages", "4")
    assert sorted(again[1].split(), key=int) == ["16", "17", "18", "19"]
    assert run("groups", "delete", topic)[0] == 0
    assert run("groups", "describe", topic)[0] != 0


def test_members_of_a_share_group_are_shown(run: Run, cluster: LocalCluster, topic: str) -> None:
    servers = cluster.bootstrap_servers
    with ShareConsumer(topic, bootstrap_servers=servers, group_id=topic) as consumer:
        both = f"{topic}-0, {topic}-1"

        def has_both() -> bool:
            consumer.poll(0.05)
            return both in run("groups", "members", topic)[1]

        eventually(30, has_both, "the member has both partitions")
        status, _, err = run("groups", "reset-offsets", topic, "--all-topics", "--to-latest")
        assert status != 0
        assert "has 1 live members" in err
        consumer.unsubscribe()


@pytest.mark.parametrize("other", ["--from-beginning", "--until-end", "--group=g", "--offset=1"])
def test_a_share_group_knows_where_it_is(run: Run, other: str) -> None:
    status, _, err = run("consume", "t", "--share-group", "g", other)
    assert status != 0
    assert "--share-group goes with none of" in err


def _single_spaced(table: str) -> str:
    return "\n".join("  ".join(line.split()) for line in table.splitlines())
