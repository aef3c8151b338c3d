"""The text format, as Prometheus' own parser reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from pylog_broker.metrics import names
from pylog_broker.metrics.common import add_common
from pylog_broker.metrics.counters import BOUNDS, Histogram, RequestCounters
from pylog_broker.metrics.exposition import Page
from pylog_broker.metrics.process import process_metrics


def test_a_page_is_what_prometheus_reads() -> None:
    page = Page()
    page.add(names.PARTITIONS, 3)
    page.add_all(names.BYTES_IN, {("a.b",): 5, ("a_b",): 6, ('"\\\n',): 7})
    histogram = Histogram()
    for seconds in (0.0001, 0.002, 99):
        histogram.observe(seconds)
    page.add_histograms(names.REQUEST_SECONDS, {("Fetch",): histogram})
    families = {f.name: f for f in text_string_to_metric_families(page.text())}
    assert families["pylog_partitions"].samples[0].value == 3
    assert families["pylog_partitions"].type == "gauge"
    assert {s.labels["topic"]: s.value for s in families["pylog_bytes_in"].samples} == {
        "a.b": 5,
        "a_b": 6,
        '"\\\n': 7,
    }
    samples = families["pylog_request_seconds"].samples
    buckets = [(s.labels["le"], s.value) for s in samples if s.name.endswith("_bucket")]
    assert buckets[0] == (str(BOUNDS[0]), 1)
    assert buckets[-1] == ("+Inf", 3)
    assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    assert {s.name: s.value for s in samples}["pylog_request_seconds_count"] == 3


def test_errors_have_kafkas_names() -> None:
    page, counters = Page(), RequestCounters()
    counters.failed("Produce", 6)
    counters.failed("Produce", 12_345)
    add_common(page, counters, Histogram(), ("1", "c", "broker", "1"))
    (family,) = (
        f for f in text_string_to_metric_families(page.text()) if f.name == "pylog_request_errors"
    )
    assert {s.labels["error"] for s in family.samples} >= {"NOT_LEADER_OR_FOLLOWER"}
    assert len(family.samples) == 2


def test_the_process_is_shown_by_prometheus_own_collectors() -> None:
    found = {family.name for family in text_string_to_metric_families(process_metrics()())}
    assert {
        "process_cpu_seconds",
        "process_resident_memory_bytes",
        "process_open_fds",
        "python_gc_collections",
    } <= found


def test_names_are_distinct_and_of_one_style() -> None:
    assert len({metric.name for metric in names.ALL}) == len(names.ALL)
    for metric in names.ALL:
        assert metric.name.startswith("pylog_")
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        # A histogram's own, which promtool complains of elsewhere.
        assert not metric.name.endswith(("_count", "_sum", "_bucket")), metric.name
        assert metric.help.endswith("."), metric.name
