"""The command line against a cluster in this process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pylog import errors
from pylog.cli import consume
from pylog.cli.main import main
from tests.fakes.fake_cluster import FakeCluster

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", ",".join(running.bootstrap_servers))
        yield running


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Exit status, standard output and standard error of a command."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        # gRPC's core logs to stderr when the fake's servers go away.
        told = [line for line in err.decode().splitlines() if "chttp2" not in line]
        return status, out.decode(), "\n".join(told)

    return call


def test_topics(cluster: FakeCluster, run: Run) -> None:
    assert run("topics", "create", "a", "b", "--partitions", "3")[:2] == (
        0, "created a\ncreated b\n",
    )  # fmt: skip
    assert run("topics", "list", "--names")[:2] == (0, "a\nb\n")
    assert run("topics", "list", "--names", "--json")[:2] == (0, '["a", "b"]\n')
    status, out, _ = run("topics", "list", "--json", "--interval", "0.1")
    assert status == 0
    assert json.loads(out)[0] == {
        "name": "a", "partitions": 3, "replicas": 1, "records": 0, "size_bytes": None,
        "disk_bytes": None, "records_per_second": 0.0, "offline": 0, "under_replicated": 0,
    }  # fmt: skip
    status, out, _ = run("topics", "list", "--interval", "0")
    assert [line.split() for line in out.splitlines() if line[:1] in "ab"] == [
        ["a", "3", "1", "0"], ["b", "3", "1", "0"],
    ]  # fmt: skip
    status, out, _ = run("--json", "topics", "describe", "a")
    assert status == 0
    (topic,) = json.loads(out)
    assert (topic["name"], [p["leader"] for p in topic["partitions"]]) == ("a", [1, 2, 1])
    status, out, _ = run("topics", "describe")
    assert status == 0
    topic_id = cluster.topics["a"].topic_id
    assert out.count(topic_id) == 1
    assert out.splitlines()[:2] == [
        f"Topic: a\tTopicId: {topic_id}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: ",
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tOffline: "
        "\tLeaderEpoch: 0",
    ]
    assert run("topics", "delete", "a")[:2] == (0, "deleted a\n")
    assert run("topics", "list", "--names")[:2] == (0, "b\n")


def test_brokers_show_how_they_are(cluster: FakeCluster, run: Run) -> None:
    status, out, _ = run("cluster", "brokers")
    assert status == 0
    assert "broker 1, pylog 1, rack r, epoch 5, registered 1970-01-01 00:00:01 UTC" in out
    assert "not registered" in out
    assert "leaderless" not in out
    assert "leaderless" in run("cluster", "brokers", "1", "--replicas")[1]
    status, out, err = run("cluster", "brokers", "1", "9", "--json")
    (told,) = json.loads(out)
    assert (status, told["id"], told["replicas"][0]["role"]) == (1, 1, "leaderless")
    assert "no broker 9 is live" in err


def test_creating_topics_waits_for_the_brokers_where_asked_to(
    cluster: FakeCluster, run: Run
) -> None:
    cluster.starting = 3
    status, out, err = run("topics", "create", "t")
    assert (status, out) == (1, "")
    assert "only 0 brokers are registered" in err
    assert run("--wait", "30", "topics", "create", "t")[:2] == (0, "created t\n")
    cluster.starting = 4
    assert run("--wait", "30", "topics", "create", "a", "b")[:2] == (0, "created a\ncreated b\n")
    assert cluster.starting == 0
    cluster.starting = 1
    assert run("--wait", "30", "topics", "create", "c", "d")[:2] == (1, "created d\n")


def test_produce_and_consume(cluster: FakeCluster, run: Run, tmp_path: Path) -> None:
    cluster.create_topic("t", 1)
    lines = tmp_path / "lines"
    lines.write_bytes(b"k1:v1\nk2:v:2\n:\nk4:\xff\n")
    status, out, err = run("produce", "t", str(lines), "--key-separator", ":", "--headers", "h=1")
    assert (status, out) == (0, "")
    assert "4 records sent to t" in err
    everything = ("consume", "t", "--from-beginning", "--max-messages", "4")
    status, out, _ = run(*everything, "--json")
    assert status == 0
    records = [json.loads(line) for line in out.splitlines()]
    assert [(r["offset"], r["key"], r["value"]) for r in records] == [
        (0, "k1", "v1"),
        (1, "k2", "v:2"),
        (2, "", ""),
        (3, "k4", {"base64": "/w=="}),
    ]
    assert records[0]["headers"] == [["h", "1"]]
    status, out, _ = run("consume", "t", "--offset", "1", "--max-messages", "2", "--format",
                         r"%t-%p@%o\t%k=%v %h%%\n")  # fmt: skip
    assert (status, out) == (0, "t-0@1\tk2=v:2 h=1%\nt-0@2\t= h=1%\n")
    assert run("consume", "t", "--offset", "-2", "--max-messages", "1", "--format", "%o")[1] == "2"
    assert run("consume", "t", "--timeout", "0.1")[:2] == (0, "")


@pytest.mark.parametrize("ms", [1_001, 1_706_702_400_123, 0])
def test_a_time_is_exact_to_the_millisecond(ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert consume._milliseconds(f"@{moment.isoformat()}") == ms
    assert consume._milliseconds(f"@{moment.replace(tzinfo=None).isoformat()}") == ms


def test_produce_from_standard_input(
    cluster: FakeCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", 1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\nNULL")))
    status, out, _ = run("produce", "t", "--json", "--null-marker", "NULL")
    assert (status, json.loads(out)) == (0, {"topic": "t", "records": 3})
    status, out, _ = run("consume", "t", "--from-beginning", "--max-messages", "3", "--json")
    assert [json.loads(line)["value"] for line in out.splitlines()] == ["a", "b", None]


def test_cluster(cluster: FakeCluster, run: Run) -> None:
    status, out, _ = run("cluster", "describe", "--json")
    assert status == 0
    assert [b["id"] for b in json.loads(out)["brokers"]] == [1, 2]
    status, out, _ = run("cluster", "describe")
    assert status == 0
    assert out.startswith("cluster fake, controller epoch 1 at 127.0.0.1:")
    assert cluster.bootstrap_servers[1] in out
    assert [line.split()[-1] for line in out.splitlines()[-2:]] == ["live", "live"]


def test_a_broker_that_is_away_is_in_the_cluster_all_the_same(
    cluster: FakeCluster, run: Run
) -> None:
    cluster.stop_broker(2)
    status, out, _ = run("cluster", "describe", "--json")
    assert status == 0
    assert [(b["id"], b["fenced"]) for b in json.loads(out)["brokers"]] == [(1, False), (2, True)]
    status, out, _ = run("cluster", "describe")
    assert [line.split()[-1] for line in out.splitlines()[-2:]] == ["live", "fenced"]
    assert "\n1 of 2 brokers is live, broker 2 is fenced\n" in out
    assert cluster.bootstrap_servers[1] in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topics", "create", "a/b"), "pylog: INVALID_TOPIC: "),
        (("topics", "describe", "nope"), "nope"),
        (("consume", "nope"), "nope"),
        (("consume", "t", "--group", ""), "pylog: INVALID_GROUP_ID: group_id=''"),
        (("--api-timeout", "0.3", "-b", "127.0.0.1:1", "topics", "list"), "127.0.0.1:1: conn"),
        (("topics", "list", "-b", "nowhere"), "'nowhere' has no port"),
    ],
)
@pytest.mark.usefixtures("short_grace")
def test_an_error_is_one_line_and_status_1(
    cluster: FakeCluster, run: Run, arguments: tuple[str, ...], words: str
) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (1, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert err.startswith("pylog: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "list"),
        ("topics", "create"),
        ("topics", "create", "a", "--config", "x"),
        ("consume", "t", "--format", "%z"),
        ("consume", "t", "--offset", "soon"),
        ("consume", "t", "--offset", "5", "--from-beginning"),
        ("consume", "t", "--partition", "7"),
        ("produce", "t", "/no/such/file"),
    ],
)
def test_wrong_usage_is_status_2(
    cluster: FakeCluster, run: Run, arguments: tuple[str, ...]
) -> None:
    cluster.create_topic("t", 1)
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "Usage" in err


def test_a_line_without_its_key_is_an_error(cluster: FakeCluster, run: Run, tmp_path: Path) -> None:
    cluster.create_topic("t", 1)
    lines = tmp_path / "lines"
    lines.write_bytes(b"k1:v1\nno key\n")
    status, _, err = run("produce", "t", str(lines), "--key-separator", ":")
    assert status == 1
    assert "line 2 has no ':'" in err


def test_paths(run: Run) -> None:
    status, out, _ = run("paths", "--json")
    assert status == 0
    found = json.loads(out)
    assert Path(found["broker_app"]).is_file()
    assert (Path(found["spark_conf"]) / "local.conf").is_file()


def test_help_lists_every_command(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    for command in ("topics", "produce", "consume", "cluster", "local", "paths"):
        assert f"  {command} " in out


def test_partitions_are_moved(cluster: FakeCluster, run: Run, tmp_path: Path) -> None:
    """In this cluster a move to broker 9 does not end."""
    cluster.create_topic("a", 2)
    status, out, _ = run("reassign", "plan", "a", "--brokers", "2")
    assert status == 0
    target = [{"topic": "a", "partition": n, "replicas": [2]} for n in (0, 1)]
    assert json.loads(out) == {"version": 1, "partitions": target}
    target[0]["replicas"] = [9]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": target}))
    status, out, err = run("reassign", "execute", str(plan), "--throttle", "1000")
    assert (status, err) == (0, "pylog: 2 partitions begin to move, with 1000 B a second at most")
    assert [item["replicas"] for item in json.loads(out)["partitions"]] == [[1], [2]]
    assert cluster.configs[0, ""] == {
        "leader.replication.throttled.rate": "1000",
        "follower.replication.throttled.rate": "1000",
    }
    assert cluster.configs[1, "a"] == {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.replicas": "0:9",
    }
    status, out, _ = run("reassign", "status", str(plan), "--json")
    assert (status, [row["state"] for row in json.loads(out)]) == (0, ["moves", "done"])
    assert run("reassign", "list")[1].splitlines()[-1].split() == ["a", "0", "9,1", "9", "1"]
    assert run("reassign", "cancel", str(plan))[:2] == (0, "cancelled a-0\n")
    assert run("reassign", "cancel", str(plan))[:2] == (0, "no partition of the plan moves\n")
    assert run("reassign", "list", "--json")[:2] == (0, "[]\n")


def test_wrong_plans_are_told(cluster: FakeCluster, run: Run, tmp_path: Path) -> None:
    cluster.create_topic("a")
    plan = tmp_path / "plan.json"
    plan.write_text("7")
    status, _, err = run("reassign", "execute", str(plan))
    assert (status, err.splitlines()[-1][:21]) == (2, "Error: the plan must ")
    plan.write_bytes(b"\xff")
    status, _, err = run("reassign", "status", str(plan))
    assert (status, "Error: the plan is no text in UTF-8: " in err) == (2, True)
    status, _, err = run("reassign", "plan", "a", "--brokers", "7")
    assert status == 1
    assert err.startswith("pylog: BROKER_ID_NOT_REGISTERED: no broker 7 is registered. `pylog ")
    assert run("reassign", "plan", "a", "--brokers", "x")[0] == 2


def test_what_is_there_is_shown_beside_what_is_not(cluster: FakeCluster, run: Run) -> None:
    cluster.create_topic("a")
    for command in ("describe", "offsets"):
        status, out, err = run("topics", command, "a", "nope", "neither", "--json")
        assert status == 1
        assert '"a"' in out
        assert [json.loads(line)["error"] for line in err.splitlines()] == [
            "UNKNOWN_TOPIC_OR_PARTITION"
        ] * 2
        status, out, err = run("topics", command, "nope", "neither")
        assert (status, out) == (1, "")
        assert [line.split(":")[1] for line in err.splitlines()] == [
            " UNKNOWN_TOPIC_OR_PARTITION"
        ] * 2
    for command in ("describe", "members"):
        status, out, err = run("groups", command, "nope", "neither")
        assert (status, out) == (1, "")
        assert [line.split(":")[1] for line in err.splitlines()] == [" GROUP_ID_NOT_FOUND"] * 2


@pytest.mark.parametrize(
    ("at", "offset"),
    [
        ("latest", "2"), ("-1", "2"), ("earliest", "0"), ("-2", "0"),
        ("1970-01-01T00:00:01", "1"), ("1000", "1"),
    ],
)  # fmt: skip
def test_offsets_at_ends_and_times(
    cluster: FakeCluster, run: Run, monkeypatch: pytest.MonkeyPatch, at: str, offset: str
) -> None:
    cluster.create_topic("a")
    lines = b'{"value": "x", "timestamp": 5}\n{"value": "y", "timestamp": 1000}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert run("produce", "a", "--input", "json")[0] == 0
    status, out, _ = run("topics", "offsets", "a", "--at", at)
    assert (status, out.splitlines()[-1].split()[:3]) == (0, ["a", "0", offset])


def test_an_offset_that_is_none(cluster: FakeCluster, run: Run) -> None:
    status, _, err = run("topics", "offsets", "a", "--at", "noon")
    assert (status, "--at noon: give earliest, latest, max_timestamp, milli" in err) == (2, True)


def test_the_way_back_of_moves_that_begin_is_printed_beside_those_that_do_not(
    cluster: FakeCluster, run: Run, tmp_path: Path
) -> None:
    cluster.create_topic("a", 2)
    target = [{"topic": "a", "partition": n, "replicas": [2]} for n in (0, 1)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": target}))
    cluster.item_faults.extend([errors.InvalidReplicaAssignment.code])
    status, out, err = run("reassign", "execute", str(plan), "--json")
    assert status == 1
    assert [item["partition"] for item in json.loads(out)["partitions"]] == [0, 1]
    told = [json.loads(line) for line in err.splitlines()]
    assert [each.get("error") for each in told] == ["INVALID_REPLICA_ASSIGNMENT", None]
    assert told[1]["message"] == "1 partition begins to move"
    plan.write_text(json.dumps({"version": 1, "partitions": target[:1]}))
    cluster.item_faults.extend([0, 0, errors.InvalidReplicaAssignment.code])
    status, out, err = run("reassign", "execute", str(plan), "--throttle", "5")
    assert (status, out) == (1, "")
    assert err.splitlines()[0].startswith("pylog: the throttle stays: `pylog reassign cancel`")


def test_a_partition_beyond_all_numbers(cluster: FakeCluster, run: Run) -> None:
    status, _, err = run("leaders", "elect", f"a:{10**20}")
    assert (status, err.splitlines()[-1]) == (
        2, f"Error: a:{10**20}: write TOPIC:PARTITION, with a number up to 2147483647"
    )  # fmt: skip


def test_a_group_in_a_head_moves_no_cursor(cluster: FakeCluster, run: Run) -> None:
    assert run("configs", "describe", "group", "g\x9b2J", "--changed")[1].startswith(
        r"group g\x9b2J: nothing"
    )


def test_a_reset_of_nothing_says_so(cluster: FakeCluster, run: Run, tmp_path: Path) -> None:
    status, _, err = run("groups", "reset-offsets", "g", "--all-topics", "--to-earliest")
    assert (status, err) == (
        0, "pylog: nothing is to be set: group 'g' has no position in any partition"
    )  # fmt: skip
    file = tmp_path / "empty"
    file.touch()
    status, _, err = run("groups", "reset-offsets", "g", "--from-file", str(file), "--execute")
    assert (status, err) == (0, "pylog: nothing is to be set: group 'g' is in no line of the file")
