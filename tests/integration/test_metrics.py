"""Metrics, health and the dashboard, against a live cluster."""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, errors
from pylog.client.ranges import range_fetcher
from pylog.client.ranges.range_reader import Batches, RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog_broker.metrics import names
from pylog_broker.metrics.counters import PARTS
from tests.fakes.alert_rules import Samples
from tests.fakes.raw_client import RawClient
from tests.fakes.raw_sinks import RawSink
from tests.fakes.raw_transactions import RawTransactions
from tests.fakes.scrapes import ALERTS, firing, get, scrape, seen_by_prometheus, value
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
HISTOGRAM_ENDINGS = ("_bucket", "_sum", "_count")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"metrics.listen": "127.0.0.1:0", "min.insync.replicas": "2"}
    with LocalCluster(3, config=config) as running:
        where = {"bootstrap_servers": running.bootstrap_servers}
        with AdminClient(**where) as admin:
            small = NewTopic("small", 1, 1, config={"max.message.bytes": "1000"})
            admin.create_topics([NewTopic("t", 3, 3), small])
        with Producer(**where) as producer:
            for number in range(300):
                producer.send("t", bytes(1000), partition=number % 3)
            producer.flush(20)
            with pytest.raises(errors.MessageTooLarge):
                producer.send("small", bytes(2000)).result(20)
        with Consumer("t", auto_offset_reset="earliest", **where) as consumer:
            read = 0
            while read < 300:
                read += len(consumer.poll(10))
        yield running


@pytest.fixture(scope="module")
def coordinating() -> Iterator[LocalCluster]:
    """One broker with a group that has committed, a transaction, and a reader of its files."""
    with LocalCluster(1, config={"metrics.listen": "127.0.0.1:0"}) as running:
        where = {"bootstrap_servers": running.bootstrap_servers}
        with AdminClient(**where) as admin, Producer(**where) as producer:
            admin.create_topics(NewTopic("t", 1, 1))
            producer.send("t", b"v").result(20)
            with Producer(transactional_id="p", **where) as transactional:
                transactional.init_transactions()
                with transactional.transaction():
                    transactional.send("t", b"w")
            with RawClient(running.bootstrap_servers) as raw:
                sink = RawSink(RawTransactions(raw), "8f3b")
                sink.decide(0, sink.staged(0, "t", [b"x"]))
                sink.staged(1, "t", [b"y"])
            with Consumer("t", group_id="g", auto_offset_reset="earliest", **where) as member:
                assert len(member.poll(20)) >= 1
                member.commit()
                read_files(running.bootstrap_servers)
                yield running


def read_files(address: str) -> None:
    """The first record of t, out of its segment."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(range_fetcher, "LOCAL_BYTES_MIN", 1)
        reader = RangeReader(
            CONSUMER_SETTINGS.parse({"bootstrap_servers": address}), local_reads=True
        )
        reader.topics(["t"])
        assert [type(item) for item in reader.read("t", "", 0, 0, 1)] == [Batches]
        assert reader.local_reads is not None
        assert reader.local_reads.bytes_read
        reader.close()


def scrape_all(cluster: LocalCluster) -> dict[str | int, Samples]:
    return {who: scrape(url) for who, url in cluster.metrics_urls.items()}


def exported(cluster: LocalCluster) -> set[str]:
    return {name for samples in scrape_all(cluster).values() for name, _ in samples}


def test_figures_are_what_happened(cluster: LocalCluster) -> None:
    every = scrape_all(cluster)
    assert set(every) == {"controller", 1, 2, 3}
    brokers = [samples for who, samples in every.items() if who != "controller"]
    assert sum(value(b, "pylog_leaders") for b in brokers) == 4
    written = sum(value(b, "pylog_bytes_in_total", topic="t") for b in brokers)
    assert 300_000 < written < 330_000
    assert sum(value(b, "pylog_bytes_out_total", topic="t") for b in brokers) >= written
    assert sum(value(b, "pylog_replication_bytes_out_total") for b in brokers) == 2 * written
    assert sum(value(b, "pylog_replication_bytes_in_total") for b in brokers) == 2 * written
    for broker in brokers:
        assert value(broker, "pylog_broker_fenced") == 0
        assert value(broker, "pylog_under_replicated_partitions") == 0
        for partition in ("0", "1", "2"):
            at = {"topic": "t", "partition": partition}
            assert value(broker, "pylog_log_end_offset", **at) == 100
            assert value(broker, "pylog_high_watermark", **at) == 100
            assert value(broker, "pylog_log_start_offset", **at) == 0
            assert value(broker, "pylog_log_size_bytes", **at) > 100_000
        assert value(broker, "process_open_fds") > 10
    controller = every["controller"]
    assert value(controller, "pylog_controller_active_brokers") == 3
    assert value(controller, "pylog_controller_global_partitions") == 4
    for broker in brokers:
        for request in ("Produce", "Fetch", "FetchFollower"):
            if ("pylog_request_seconds_sum", frozenset({("request", request)})) not in broker:
                continue
            spent = {
                part: value(broker, "pylog_request_part_seconds_total", request=request, part=part)
                for part in PARTS
            }
            assert spent["response"] > 0, request
            whole = value(broker, "pylog_request_seconds_sum", request=request)
            assert sum(spent.values()) - spent["response"] == pytest.approx(whole)
            if request in ("Produce", "FetchFollower"):
                assert spent["remote"] > 0, "it waits for other replicas, or records"
    errors_of = {at for b in brokers for name, at in b if name == "pylog_request_errors_total"}
    assert errors_of == {frozenset({("request", "Produce"), ("error", "MESSAGE_TOO_LARGE")})}
    assert value(controller, "pylog_request_seconds_count", request="CreateTopics") == 1


def test_every_metric_of_the_catalogue_is_shown_and_no_other(cluster: LocalCluster) -> None:
    families = set()
    for url in cluster.metrics_urls.values():
        for family in text_string_to_metric_families(get(f"{url}/metrics")[1]):
            families.add(family.name + ("_total" if family.type == "counter" else ""))
    own = {name for name in families if name.startswith("pylog_")}
    assert own == {metric.name for metric in names.ALL}


@pytest.mark.parametrize("file", ["grafana.json", "alerts.yml"])
def test_each_metric_that_dashboard_and_alerts_name_exists(
    cluster: LocalCluster, coordinating: LocalCluster, file: str
) -> None:
    text = (ROOT / "monitoring" / file).read_text()
    if file.endswith(".json"):
        panels = json.loads(text)["panels"]
        text = "\n".join(t["expr"] for panel in panels for t in panel.get("targets", ()))
        queries = json.loads((ROOT / "monitoring" / file).read_text())["templating"]["list"]
        text += "\n".join(str(q["query"]) for q in queries)
    else:
        text = "\n".join(re.findall(r"expr: (.+(?:\n {10,}.+)*)", text))
    named = set(re.findall(r"\b(?:pylog|process|python)_\w+", text))
    assert len(named) > 5
    assert named - exported(cluster) - exported(coordinating) == set()


# The events of each rule: the series that change, and their values. No others do.
TROUBLE: Final[dict[str, dict[str, float]]] = {
    "PylogDown": {"up": 0},
    "PylogNoController": {"pylog_controller_active": 0},
    "PylogTwoControllers": {"pylog_controller_active": 2},
    "PylogBrokerMissing": {"pylog_controller_active_brokers": 2},
    "PylogOfflinePartitions": {"pylog_controller_offline_partitions": 1},
    "PylogUnderMinIsr": {"pylog_under_min_isr_partitions": 1},
    "PylogUnderReplicated": {"pylog_under_replicated_partitions": 1},
    "PylogUncleanElection": {"pylog_controller_unclean_leader_elections_total": 1},
    "PylogOfflineReplica": {"pylog_offline_replicas": 1},
    "PylogOfflineLogDirectory": {"pylog_offline_log_directories": 1},
    "PylogIsrFlapping": {"pylog_isr_shrinks_total": 1_000},
    "PylogMetadataLag": {"pylog_controller_broker_metadata_lag_records": 1_001},
    "PylogDiskFilling": {"pylog_disk_free_bytes": 1},
    "PylogDiskErrors": {"pylog_disk_errors_total": 1},
    "PylogNoRoom": {"pylog_controller_no_room": 1},
    "PylogLoopSlow": {"pylog_event_loop_lag_seconds_bucket": 1_000_000},
    "PylogGroupMemberLost": {"pylog_group_members_lost_total": 1},
    "PylogTransactionLeftOpen": {"pylog_transaction_oldest_open_seconds": 901},
    "PylogTransactionNotTold": {"pylog_transaction_markers_pending": 1},
    "PylogSinkUndecided": {"pylog_sink_prepared_seconds": 301},
    "PylogConnectionsRefused": {"pylog_connections_refused_total": 1_000},
    "PylogFewDescriptors": {"process_open_fds": 10**9},
}


def test_every_alert_fires_for_its_trouble_and_for_nothing_else(
    cluster: LocalCluster, coordinating: LocalCluster
) -> None:
    assert set(TROUBLE) == set(ALERTS)
    well = seen_by_prometheus(cluster)
    known = {name for name, _ in well}
    more = seen_by_prometheus(coordinating).items()
    well.update({at: number for at, number in more if at[0] not in known})
    # the disk of the machine that runs this may be as full as it likes
    for name, labels in well:
        if name == "pylog_disk_free_bytes":
            well[name, labels] = well["pylog_disk_total_bytes", labels]
    assert firing(well, well) == set()
    for alert, changed in TROUBLE.items():
        troubled = {
            (name, labels): changed[name]
            if name in changed and dict(labels).get("le", "+Inf") == "+Inf"
            else number
            for (name, labels), number in well.items()
        }
        assert troubled != well, f"nothing exports what {alert} looks at"
        assert firing(well, troubled) == {alert}


def test_sinks_are_told_by_their_query(coordinating: LocalCluster) -> None:
    broker = scrape(coordinating.metrics_urls[1])
    assert value(broker, "pylog_sinks") == 1
    assert value(broker, "pylog_sink_attempts", state="prepared") == 1
    assert value(broker, "pylog_sink_attempts", state="writing") == 0
    assert value(broker, "pylog_sink_prepared_seconds", query="8f3b", sink="orders") >= 0
    assert value(broker, "pylog_sink_batches_total") == 1
    assert value(broker, "pylog_sink_producer_ids_total") in (1, 2), (
        "the first may not have been free yet"
    )


def test_the_dashboard_shows_every_metric() -> None:
    text = (ROOT / "monitoring" / "grafana.json").read_text()
    assert [metric.name for metric in names.ALL if metric.name not in text] == []


def test_the_driver_tells_where_to_scrape() -> None:
    base = free_port_before(3)
    with LocalCluster(2, config={"metrics.listen": f"127.0.0.1:{base}"}) as cluster:
        targets = json.loads(get(f"http://127.0.0.1:{base}/targets")[1])
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            cluster_name = admin.describe_cluster().cluster_id
        assert [(t["targets"], t["labels"].get("pylog_broker")) for t in targets] == [
            ([f"127.0.0.1:{base}"], None),
            ([f"127.0.0.1:{base + 1}"], "1"),
            ([f"127.0.0.1:{base + 2}"], "2"),
        ]
        assert {t["labels"]["pylog_cluster_id"] for t in targets} == {cluster_name}
        for target in targets:
            assert get(f"http://{target['targets'][0]}/readyz")[0] == 200
        assert get(f"http://127.0.0.1:{base + 1}/targets")[0] == 404


def free_port_before(count: int) -> int:
    """The first of so many neighbouring ports that nobody listens on."""
    for base in range(random.randrange(20_000, 31_000), 32_000, count):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(base, base + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return base
    raise AssertionError("no free ports")


def test_health_follows_the_state(cluster: LocalCluster) -> None:
    urls = cluster.metrics_urls
    assert get(f"{urls['controller']}/healthz")[0] == 200
    assert get(f"{urls['controller']}/readyz") == (200, "3 of 3 brokers are live\n")
    assert get(f"{urls[1]}/readyz")[0] == 200
    address = cluster.bootstrap_servers.split(",")[1]
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def status(service: str) -> int:
            request = health_pb2.HealthCheckRequest(service=service)
            return int(stub.Check(request, timeout=5, wait_for_ready=True).status)

        serving = 1
        assert status("") == status("pylog.v1.Log") == serving
        # Paused for longer than its lease it is fenced; it hears so when it goes on.
        cluster.pause(1)
        wait_for(cluster, "2 of 3 brokers are live\n")
        eventually(
            30,
            lambda: value(scrape(urls["controller"]), "pylog_controller_fenced_brokers") == 1,
            "the paused broker is fenced",
        )
        # Each that has a replica on it, but for what it led alone.
        eventually(
            30,
            lambda: total(cluster, (2, 3), "pylog_under_replicated_partitions") == 3,
            "its replicas are missed",
        )
        cluster.resume(1)
        wait_for(cluster, "3 of 3 brokers are live\n")
        eventually(30, lambda: status("pylog.v1.Log") == serving, "broker 1 serves again")
        eventually(30, lambda: get(f"{urls[1]}/readyz")[0] == 200, "broker 1 is ready")
    elections = value(scrape(urls["controller"]), "pylog_controller_leader_elections_total")
    assert elections >= 1
    eventually(
        30, lambda: total(cluster, (2, 3), "pylog_isr_expands_total") >= 1, "the ISRs grow again"
    )


def total(cluster: LocalCluster, brokers: Sequence[int], name: str) -> float:
    return sum(value(scrape(cluster.metrics_urls[broker]), name) for broker in brokers)


def wait_for(cluster: LocalCluster, ready: str) -> None:
    eventually(
        30,
        lambda: get(f"{cluster.metrics_urls['controller']}/readyz")[1] == ready,
        "the controller is ready",
    )


def test_a_wrong_metrics_listener_is_refused_by_name() -> None:
    """Bad input 51, for this listener."""
    for setting, words in (
        ("0.0.0.0:9500", "metrics.listen=0.0.0.0:9500: it is not loopback"),
        ("localhost", "metrics.listen='localhost': it must be host:port"),
        ("127.0.0.1:65535", "broker 1 would serve metrics on 65536"),
    ):
        with pytest.raises(errors.InvalidConfig, match=re.escape(words)):
            LocalCluster(1, config={"metrics.listen": setting})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(errors.BrokerNotAvailable, match=f"metrics cannot listen on {address}"):
            LocalCluster(1, config={"metrics.listen": address})
