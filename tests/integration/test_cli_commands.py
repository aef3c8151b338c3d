"""Every command against one running cluster: what it prints, and its exit status."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylog import LocalCluster, errors
from pylog.cli.main import main
from pylog.clock import SYSTEM_CLOCK
from pylog.next_steps import next_step
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3) as running:
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


def without_rules(text: str) -> str:
    """Tables without the lines under their heads."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("─"))


def without_ids(text: str) -> str:
    """Topic ids are random."""
    return re.sub(r"\b\w[\w-]{21}(?![\w-])", "AAAAAAAAAAAAAAAAAAAAAA", text)


def test_a_topic_from_its_creation_to_its_end(run: Run) -> None:
    replicas = ("--replicas", "1,2;2,3", "--config", "segment.bytes=4096")
    assert run("topics", "create", "t", *replicas) == (0, "created t\n", "")
    assert run("topics", "create", "t", "--if-not-exists") == (0, "", "")
    assert run("topics", "create", "u", "--dry-run") == (0, "valid u\n", "")
    status, out, _ = run("topics", "describe", "t")
    assert status == 0
    assert without_ids(out) == (
        "Topic: t\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 2\tReplicationFactor: 2"
        "\tConfigs: segment.bytes=4096\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tOffline: "
        "\tLeaderEpoch: 0\n"
        "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\tElr: \tOffline: "
        "\tLeaderEpoch: 0\n"
    )
    assert run("topics", "alter", "t", "--partitions", "3", "--replicas", "3,1",
               "--config", "retention.ms=5000")[:2] == (0, "altered t\n")  # fmt: skip
    status, out, _ = run("topics", "describe", "t", "--json")
    (topic,) = json.loads(out)
    assert topic["configs"] == {"retention.ms": "5000", "segment.bytes": "4096"}
    assert [p["replicas"] for p in topic["partitions"]] == [[1, 2], [2, 3], [3, 1]]
    few = ("--under-replicated-partitions", "--unavailable-partitions")
    assert run("topics", "describe", *few) == (0, "", "")
    assert run("topics", "describe", "--at-min-isr-partitions") == (0, "", "")
    assert run("topics", "alter", "t", "--config", "min.insync.replicas=2")[0] == 0
    status, out, _ = run("topics", "describe", "--at-min-isr-partitions", "--json")
    assert [len(topic["partitions"]) for topic in json.loads(out)] == [3]
    assert run("topics", "describe", "--under-min-isr-partitions") == (0, "", "")
    status, out, _ = run("topics", "offsets", "t", "--json")
    assert [p["offset"] for p in json.loads(out)] == [0, 0, 0]
    assert run("topics", "delete", "t") == (0, "deleted t\n", "")


def test_what_succeeded_and_what_did_not(run: Run) -> None:
    assert run("topics", "create", "p1")[0] == 0
    status, out, err = run("topics", "create", "p1", "p2")
    assert (status, out) == (1, "created p2\n")
    step = next_step(errors.TopicAlreadyExists)
    assert err == f"pylog: TOPIC_ALREADY_EXISTS: topic p1: it already exists. {step}\n"
    status, out, err = run("topics", "delete", "p1", "nope", "p2", "--json")
    assert status == 1
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["p1", "p2"]
    told = json.loads(err)
    assert told["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert told["message"] == "topic nope: it does not exist"


def test_settings_of_a_topic(run: Run) -> None:
    assert run("topics", "create", "c", "--config", "segment.bytes=4096")[0] == 0
    alter = ("configs", "alter", "topic", "c")
    assert run(*alter, "--set", "retention.ms=7", "--dry-run")[1] == "valid for topic c\n"
    assert run(*alter, "--set", "retention.ms=7", "--append", "cleanup.policy=compact")[:2] == (
        0, "changed topic c\n",
    )  # fmt: skip
    status, out, _ = run("configs", "describe", "topic", "c", "--changed")
    assert status == 0
    assert without_rules(out) == (
        "topic c:\n"
        "setting          value            from    changes\n"
        "cleanup.policy   delete,compact   topic   live\n"
        "retention.ms     7                topic   live\n"
        "segment.bytes    4096             topic   live\n"
    )
    run(*alter, "--delete", "retention.ms", "--subtract", "cleanup.policy=compact")
    status, out, _ = run("configs", "describe", "topic", "c", "--key", "retention.ms", "--json")
    (entry,) = json.loads(out)["configs"]
    assert (entry["value"], entry["source"]) == ("604800000", "DEFAULT_CONFIG")
    for given, words in (
        (("--set", "retention.mss=5"), "did you mean retention.ms?"),
        (("--set", "segment.bytes=lots"), "segment.bytes='lots': it must be a whole number from"),
        (("--set", "min.insync.replicas=2"), "above the replication factor 1"),
        (("--append", "segment.bytes=5"), "segment.bytes is no list"),
        (("--set", "remote.storage.enable=true"), "tiered storage is not offered"),
    ):
        status, out, err = run(*alter, *given)
        assert (status, out) == (1, "")
        assert words in err
        assert err.startswith("pylog: INVALID_CONFIG: topic c")
        assert len(err.splitlines()) == 1


def test_settings_of_brokers(run: Run) -> None:
    default = ("configs", "alter", "broker", "<default>")
    assert run(*default, "--set", "log.segment.bytes=5000")[1] == "changed broker <default>\n"
    assert run("configs", "alter", "broker", "2", "--set", "log.segment.bytes=6000")[0] == 0
    status, out, _ = run(
        "configs", "describe", "broker", "1", "2", "--key", "log.segment.bytes", "--sources"
    )
    assert status == 0
    assert without_rules(out) == (
        "broker 1:\n"
        "setting             value   from          changes   all sources\n"
        "log.segment.bytes   5000    all brokers   live      "
        "all brokers: 5000, default: 1073741824\n"
        "broker 2:\n"
        "setting             value   from     changes   all sources\n"
        "log.segment.bytes   6000    broker   live      "
        "broker: 6000, all brokers: 5000, default: 1073741824\n"
    )
    for name in ("2", "default"):
        assert run("configs", "alter", "broker", name, "--delete", "log.segment.bytes")[0] == 0
    assert (
        run("configs", "describe", "broker", "default")[1] == "broker <default>: nothing is set\n"
    )
    status, out, err = run("configs", "describe", "broker", "1", "9")
    assert (status, "broker 1:" in out) == (1, True)
    assert "no broker '9' is registered; there are: 1, 2, 3" in err
    _, _, err = run("configs", "alter", "broker", "1", "--set", "num.partitions=5")
    assert "restart with spark.pylog.broker.num.partitions=..." in err


def test_produce_and_consume_are_exact(run: Run, tmp_path: Path) -> None:
    assert run("topics", "create", "bytes")[0] == 0
    lines = tmp_path / "lines"
    lines.write_bytes(b"k1\tv1\n\xff\xfe\t\x00\x01\n\t\nNULL\tNULL\n")
    sent = run("produce", "bytes", str(lines), "--key-separator", "\t", "--null-marker", "NULL",
               "--headers", "a=1,b=2", "--compression", "zstd")  # fmt: skip
    assert sent == (0, "", "4 records sent to bytes\n")
    everything = ("consume", "bytes", "--from-beginning", "--until-end")
    status, out, _ = run(*everything, "--json")
    assert status == 0
    records = [json.loads(line) for line in out.splitlines()]
    assert [(r["key"], r["value"]) for r in records] == [
        ("k1", "v1"), ({"base64": "//4="}, "\x00\x01"), ("", ""), (None, None),
    ]  # fmt: skip
    assert records[0]["headers"] == [["a", "1"], ["b", "2"]]
    # The same lines go in again, and are the same records.
    copied = tmp_path / "copied"
    copied.write_text(out)
    assert run("topics", "create", "copy")[0] == 0
    assert run("produce", "copy", str(copied), "--input", "json", "-q") == (0, "", "")
    _, again, _ = run("consume", "copy", "--from-beginning", "--until-end", "--json")
    assert [{**json.loads(line), "topic": "bytes"} for line in again.splitlines()] == records
    layout = r"%K:%k|%V:%v|%h\x21\n"
    _, out, _ = run(*everything, "--format", layout, "--null", "-", "--offset", "3")[0:3]
    assert out == ""  # --from-beginning and --offset exclude each other
    _, out, _ = run("consume", "bytes", "--until-end", "--format", layout, "--null", "-",
                    "--offset", "3")  # fmt: skip
    assert out == "-1:-|-1:-|a=1,b=2!\n"
    _, out, _ = run("consume", "bytes", "--offset", "@2020-01-01", "--until-end", "--format", "%o ")
    assert out == "0 1 2 3 "
    _, out, _ = run("consume", "bytes", "--offset", "@99999999999999", "--until-end")
    assert out == ""


def test_what_was_not_sent_is_counted_and_named(run: Run, tmp_path: Path) -> None:
    assert run("topics", "create", "small", "--config", "max.message.bytes=300")[0] == 0
    lines = tmp_path / "lines"
    lines.write_bytes(b"a\n" + b"x" * 1_000 + b"\nb\n")
    tight = ("--config", "linger.ms=0", "--config", "batch.size=0")
    status, _, err = run("produce", "small", str(lines), "--keep-going", *tight)
    assert status == 1
    assert "pylog: line 2: MESSAGE_TOO_LARGE: " in err
    assert "pylog: 2 of 3 lines that were read are acknowledged, 1 are not\n" in err
    status, out, _ = run("produce", "small", str(lines), "--keep-going", "--json", *tight)
    assert (status, json.loads(out)) == (
        1,
        {"topic": "small", "records": 2, "failed": 1, "next_line": 2},
    )
    broken = tmp_path / "broken"
    broken.write_text('{"value": {"base64": "%%%"}}\n')
    status, _, err = run("produce", "small", str(broken), "--input", "json")
    assert status == 1
    assert "line 1 is no record: '%%%' is no base64" in err


def test_leaders(run: Run) -> None:
    assert run("topics", "create", "l", "--replicas", "3,1;1,2")[0] == 0
    status, out, _ = run("leaders", "elect", "l:0", "l", "--json")
    assert (status, json.loads(out)) == (0, [
        {"topic": "l", "partition": 0, "leader": 3}, {"topic": "l", "partition": 1, "leader": 1},
    ])  # fmt: skip
    assert run("leaders", "elect", "--all")[:2] == (0, "every preferred leader leads\n")
    status, _, err = run("leaders", "elect", "l:7")
    assert status == 1
    assert "l-7: there is no such partition" in err
    assert run("leaders", "elect")[0] == 2
    assert run("leaders", "elect", "--all", "--unclean")[0] == 2


def test_the_cluster(run: Run, cluster: LocalCluster) -> None:
    status, out, _ = run("cluster", "describe", "--json")
    assert status == 0
    found = json.loads(out)
    assert [b["id"] for b in found["brokers"]] == [1, 2, 3]
    assert found["offline_partitions"] == 0
    status, out, _ = run("cluster", "describe")
    assert out.splitlines()[1] == "3 of 3 brokers are live"
    assert out.splitlines()[2] == (
        "broker   address           rack   epoch   leads   replicas   state"
    )
    status, out, _ = run("cluster", "log-dirs", "2", "--json")
    assert status == 0
    (directory,) = json.loads(out)
    assert directory["path"] == str(cluster.data_dir / "broker-2")
    assert run("cluster", "log-dirs", "--replicas")[0] == 0
    status, _, err = run("cluster", "unregister", "1", "--yes")
    assert (status, "is running; stop it before" in err) == (1, True)


def test_a_broker_that_has_stopped_is_shown_as_fenced(run: Run, cluster: LocalCluster) -> None:
    def states() -> list[tuple[int, bool]]:
        found = json.loads(run("cluster", "describe", "--json")[1])
        return [(broker["id"], broker["fenced"]) for broker in found["brokers"]]

    cluster.stop(3)
    try:
        away = [(1, False), (2, False), (3, True)]
        eventually(30, lambda: states() == away, "broker 3 is fenced")
        since_ms = json.loads(run("cluster", "describe", "--json")[1])["brokers"][2][
            "fenced_since_ms"
        ]
        assert 0 <= SYSTEM_CLOCK.wall_ms() - since_ms < 60_000
        assert re.search(
            r"\n2 of 3 brokers are live, broker 3 is fenced since \d\d:\d\d:\d\d UTC\n",
            run("cluster", "describe")[1],
        )
    finally:
        cluster.start(3)
    here = [(1, False), (2, False), (3, False)]
    eventually(30, lambda: states() == here, "broker 3 is back")


@pytest.mark.parametrize(
    "arguments",
    [("produce",), ("produce", "--arrow"), ("consume",), ("consume", "--arrow"), ("end-to-end",)],
)
def test_benches_are_bounded_and_leave_nothing(run: Run, arguments: tuple[str, ...]) -> None:
    status, out, err = run("bench", *arguments, "--records", "500", "--seconds", "20", "--json")
    assert (status, err) == (0, "")
    figures = json.loads(out)
    assert (figures["bench"], figures["records"], figures["bytes"]) == (arguments[0], 500, 50_000)
    assert figures["records_per_s"] > 0
    assert ("latency_ms" in figures) == (arguments[0] != "consume")
    names = run("topics", "list", "--names")[1].split()
    assert not [name for name in names if name.startswith("pylog-bench")]


def test_a_bench_ends_by_its_time(run: Run) -> None:
    status, out, _ = run("bench", "produce", "--records", "1000000", "--rate", "50",
                         "--seconds", "0.5", "--json")  # fmt: skip
    assert status == 0
    assert 5 <= json.loads(out)["records"] <= 50
    status, out, _ = run("bench", "produce", "--records", "100")
    assert status == 0
    assert [line.split("  ")[0].strip() for line in out.splitlines()[2:6]] == [
        "records", "seconds", "records/s", "MB/s",
    ]  # fmt: skip


def test_commands_to_come_say_so(run: Run) -> None:
    for name in ("acls", "quotas"):
        status, out, err = run(name, "list", "--whatever")
        assert (status, out) == (1, "")
        assert err.startswith(f"pylog: NOT_OFFERED: pylog {name}: ")
        assert name not in run("--help")[1]
