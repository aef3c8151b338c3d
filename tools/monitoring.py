"""Generates what is known of metrics from one table: docs/metrics.md and monitoring/grafana.json.

`python tools/monitoring.py`, or with `--check` says whether they are up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from pylog_broker.metrics.names import ALL

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/metrics.md"
DASHBOARD = ROOT / "monitoring/grafana.json"

HEAD = """\
# Metrics

The metrics that a driver and its brokers serve at `http://<metrics.listen>/metrics`, in Prometheus' text format. This page is generated
(`make docs`). How to switch it on, what to watch and what to do is in `docs/operating.md`; `monitoring/grafana.json` is a
dashboard over all of it, `monitoring/alerts.yml` rules for Prometheus.

Beside these, each process shows Prometheus' usual `process_*` (CPU, memory, descriptors) and `python_*` (garbage collection).
Topics beyond the first 1,000 of a process share the label `(other)` in `pylog_bytes_in_total` and `pylog_bytes_out_total`; replicas
beyond 10,000 on one broker are counted, but not shown one by one.

| metric | kind | labels | meaning |
| --- | --- | --- | --- |
"""

RATE = "[$__rate_interval]"
HERE = '{job=~"$job",instance=~"$instance"}'
TOPIC = '{job=~"$job",instance=~"$instance",topic=~"$topic"}'

# title, unit, {legend: expression}
Panel = tuple[str, str, dict[str, str]]


def rate(metric: str, by: str, where: str = HERE) -> str:
    return f"sum by ({by}) (rate({metric}{where}{RATE}))"


def quantile(q: float, metric: str, by: str = "", where: str = HERE) -> str:
    keep = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({keep}) (rate({metric}_bucket{where}{RATE})))"


ROWS: list[tuple[str, list[Panel]]] = [
    ("Is it well?", [
        ("Live brokers", "short", {
            "live": f"pylog_controller_active_brokers{HERE}",
            "controllers": f"sum(pylog_controller_active{HERE})",
            "expected": f"pylog_controller_expected_brokers{HERE}",
            "fenced": f"pylog_controller_fenced_brokers{HERE}"}),
        ("Offline partitions", "short", {
            "offline": f"pylog_controller_offline_partitions{HERE}",
            "offline replicas": f"sum(pylog_offline_replicas{HERE})"}),
        ("Under-replicated partitions", "short", {
            "under-replicated": f"sum(pylog_under_replicated_partitions{HERE})",
            "under min ISR": f"sum(pylog_under_min_isr_partitions{HERE})",
            "at min ISR": f"sum(pylog_at_min_isr_partitions{HERE})",
            "reassigning": f"sum(pylog_reassigning_partitions{HERE})"}),
        ("Elections per second", "ops", {
            "elections": rate("pylog_controller_leader_elections_total", "job"),
            "unclean": rate("pylog_controller_unclean_leader_elections_total", "job")}),
    ]),
    ("Traffic", [
        ("Bytes in, by topic", "Bps", {"{{topic}}": rate("pylog_bytes_in_total", "topic", TOPIC)}),
        ("Bytes out, by topic", "Bps",
         {"{{topic}}": rate("pylog_bytes_out_total", "topic", TOPIC)}),
        ("Records committed per second, by topic", "ops", {
            "{{topic}}": "sum by (topic) (max by (topic, partition) "
                         f"(deriv(pylog_high_watermark{TOPIC}[5m])))"}),
        ("Replication", "Bps", {
            "in, {{instance}}": rate("pylog_replication_bytes_in_total", "instance"),
            "out, {{instance}}": rate("pylog_replication_bytes_out_total", "instance")}),
        ("Requests per second", "ops",
         {"{{request}}": rate("pylog_request_seconds_count", "request")}),
        ("Bytes per second that readers took from local files, by topic", "Bps",
         {"{{topic}}": rate("pylog_local_read_bytes_total", "topic", TOPIC)}),
        ("Local reads per second", "ops", {
            "opened": rate("pylog_local_reads_opened_total", "job"),
            "fell back: {{cause}}": rate("pylog_local_read_fallbacks_total", "cause")}),
        ("Local readers", "short", {
            "reads, {{instance}}": f"pylog_local_reads{HERE}",
            "files, {{instance}}": f"pylog_local_read_descriptors{HERE}"}),
        ("Errors per second", "ops",
         {"{{request}} {{error}}": rate("pylog_request_errors_total", "request, error")}),
    ]),
    ("Latency", [
        ("Produce", "s", {
            "p50": quantile(0.5, "pylog_request_seconds", where=HERE[:-1] + ',request="Produce"}'),
            "p99": quantile(0.99, "pylog_request_seconds", where=HERE[:-1] + ',request="Produce"}'),
        }),
        ("p99 by request (fetches include their wait)", "s",
         {"{{request}}": quantile(0.99, "pylog_request_seconds", "request")}),
        ("Where a request's time goes, by part: the mean", "s",
         {"{{request}} {{part}}": rate("pylog_request_part_seconds_total", "request, part")
          + " / on (request) group_left " + rate("pylog_request_seconds_count", "request")}),
        ("Event loop: how late, p99", "s",
         {"{{instance}}": quantile(0.99, "pylog_event_loop_lag_seconds", "instance")}),
        ("Requests that wait", "short", {
            "{{request}}": f"sum by (request) (pylog_purgatory_size{HERE})"}),
        ("Bytes that wait: of writes for their acknowledgement, of reads for their client", "bytes",
         {"{{request}}, {{instance}}": f"pylog_request_queue_bytes{HERE}"}),
    ]),
    ("Replicas", [
        ("ISR changes per second", "ops", {
            "shrinks": rate("pylog_isr_shrinks_total", "job"),
            "expands": rate("pylog_isr_expands_total", "job")}),
        ("Largest lag of a follower, records", "short", {
            "{{instance}}": f"pylog_replica_max_lag_records{HERE}"}),
        ("Lag by replica (ten largest)", "short", {
            "{{topic}}-{{partition}} on {{replica}}": f"topk(10, pylog_replica_lag_records{TOPIC})"}),
        ("Missing members of the ISR, by topic", "short", {
            "{{topic}}": f"sum by (topic) (pylog_partition_replicas{TOPIC} "
                         f"- pylog_partition_isr_size{TOPIC})"}),
        ("Fetch sessions of followers", "short",
         {"{{instance}}": f"pylog_fetch_sessions{HERE}"}),
        ("Leaders and replicas by broker", "short", {
            "leads, {{instance}}": f"pylog_leaders{HERE}",
            "holds, {{instance}}": f"pylog_partitions{HERE}"}),
        ("Leader epochs by topic", "short", {
            "{{topic}}": f"max by (topic) (pylog_partition_leader_epoch{TOPIC})"}),
    ]),
    ("Logs", [
        ("Bytes on disk, by topic", "bytes",
         {"{{topic}}": f"sum by (topic) (pylog_log_size_bytes{TOPIC})"}),
        ("Bytes on disk, by log directory", "bytes",
         {"{{directory}}, {{instance}}": f"pylog_log_directory_size_bytes{HERE}"}),
        ("Free, by directory", "percentunit",
         {"{{directory}}, {{instance}}":
          f"pylog_disk_free_bytes{HERE} / pylog_disk_total_bytes{HERE}"}),
        ("Errors of disks per second", "ops",
         {"{{kind}}, {{instance}}": rate("pylog_disk_errors_total", "kind, instance")}),
        ("Syncs of logs", "s", {
            "p50": quantile(0.5, "pylog_log_flush_seconds"),
            "p99": quantile(0.99, "pylog_log_flush_seconds")}),
        ("Reads that waited for the disk, per second", "ops",
         {"{{instance}}": rate("pylog_cold_reads_total", "instance")}),
        ("Other events of logs, per second", "ops", {
            "segments deleted, {{instance}}": rate("pylog_log_segments_deleted_total", "instance"),
            "batches recompressed, {{instance}}":
                rate("pylog_log_recompressed_batches_total", "instance"),
            "clock jumps, {{instance}}": rate("pylog_clock_jumps_total", "instance")}),
        ("Read leases", "short", {
            "held, {{instance}}": f"pylog_read_leases{HERE}",
            "ended per second, {{reason}}": rate("pylog_read_leases_ended_total", "reason")}),
        ("Bytes that read leases keep", "bytes",
         {"{{instance}}": f"pylog_read_lease_kept_bytes{HERE}"}),
        ("Skew: the largest partition by the mean of its topic", "short",
         {"{{topic}} {{partition}}": f"max by (topic, partition) (pylog_topic_skew{TOPIC})"}),
        ("Newest batches in memory", "bytes",
         {"{{instance}}": f"pylog_tail_cache_bytes{HERE}"}),
        ("Offline log directories", "short",
         {"{{instance}}": f"pylog_offline_log_directories{HERE}"}),
        ("Cleaner", "short", {
            "set aside": f"sum(pylog_log_cleaner_uncleanable_partitions{HERE})",
            "largest dirty ratio": f"max(pylog_log_cleaner_max_dirty_ratio{HERE})",
            "passes per second": rate("pylog_log_cleaner_passes_total", "job")}),
        ("Producer ids", "short", {
            "known, {{instance}}": f"pylog_producer_ids{HERE}",
            "most in a partition, {{instance}}": f"pylog_producer_ids_partition_max{HERE}"}),
        ("Producer ids refused per second, by limit", "ops",
         {"{{limit}}": rate("pylog_producer_ids_refused_total", "limit")}),
        ("Segments, by broker", "short",
         {"{{instance}}": f"sum by (instance) (pylog_log_segments{TOPIC})"}),
        ("Records kept, by topic", "short", {
            "{{topic}}": f"sum by (topic) (max by (topic, partition) (pylog_log_end_offset{TOPIC} "
                         f"- pylog_log_start_offset{TOPIC}))"}),
        ("Not committed yet, by topic", "short", {
            "{{topic}}": f"sum by (topic) (max by (topic, partition) (pylog_log_end_offset{TOPIC} "
                         f"- pylog_high_watermark{TOPIC}))"}),
    ]),
    ("Groups", [
        ("Groups by state", "short",
         {"{{type}}, {{state}}": f"sum by (type, state) (pylog_groups{HERE})"}),
        ("Members lost per second", "ops",
         {"{{type}}": rate("pylog_group_members_lost_total", "type")}),
        ("Lag by group, records", "short",
         {"{{group}}": f"max by (group) (pylog_group_lag_records{HERE})"}),
        ("Lag by group, age of the oldest record", "s",
         {"{{group}}": f"max by (group) (pylog_group_lag_seconds{HERE})"}),
        ("Positions by group, the sum over partitions", "short",
         {"{{group}}": "sum by (group) (max by (group, topic, partition) "
                       f"(pylog_group_committed_offset{HERE}))"}),
        ("Groups that are not shown one by one", "short",
         {"{{instance}}": f"pylog_groups_without_detail{HERE}"}),
        ("Committed offsets kept", "short",
         {"{{instance}}": f"sum by (instance) (pylog_group_offsets{HERE})"}),
        ("Transactional ids by state", "short",
         {"{{state}}": f"sum by (state) (pylog_transactions{HERE})"}),
        ("Oldest open transaction", "s",
         {"{{instance}}": f"pylog_transaction_oldest_open_seconds{HERE}"}),
        ("Decided transactions with partitions to tell", "short",
         {"{{instance}}": f"pylog_transaction_markers_pending{HERE}"}),
        ("Transactions that timed out per second", "ops",
         {"{{instance}}": rate("pylog_transactions_timed_out_total", "instance")}),
        ("Sinks of queries and their attempts", "short", {
            "sinks": f"sum(pylog_sinks{HERE})",
            "{{state}}": f"sum by (state) (pylog_sink_attempts{HERE})"}),
        ("How long prepared attempts wait for the end of their batch", "s",
         {"{{query}}, {{sink}}": f"max by (query, sink) (pylog_sink_prepared_seconds{HERE})"}),
        ("Batches of sinks per second", "ops",
         {"{{instance}}": rate("pylog_sink_batches_total", "instance")}),
        ("Sinks: new producer ids, and attempts that expired, per second", "ops", {
            "producer ids": f"sum(rate(pylog_sink_producer_ids_total{HERE}{RATE}))",
            "expired": f"sum(rate(pylog_sink_attempts_expired_total{HERE}{RATE}))"}),
        ("Partitions that coordinate", "short", {
            "{{topic}}, {{state}}":
                f"sum by (topic, state) (pylog_coordinator_partitions{HERE})"}),
        ("How long one takes to load, p99", "s",
         {"{{topic}}": quantile(0.99, "pylog_coordinator_load_seconds", by="topic")}),
        ("Loads again after a failure, per second", "ops",
         {"{{topic}}": rate("pylog_coordinator_failures_total", "topic")}),
        ("Share groups: sessions and partitions", "short", {
            "sessions, {{instance}}": f"pylog_share_sessions{HERE}",
            "partitions, {{instance}}": f"pylog_share_partitions{HERE}"}),
        ("Share groups: records per second", "ops", {
            "acquired": rate("pylog_share_records_acquired_total", "job"),
            "locks expired": rate("pylog_share_locks_expired_total", "job"),
            "dead letters": rate("pylog_share_dead_letters_written_total", "job"),
            "dead letters given up": rate("pylog_share_dead_letters_given_up_total", "job")}),
        ("Share groups: dead letters on their way", "short",
         {"{{instance}}": f"pylog_share_dead_letters_waiting{HERE}"}),
    ]),
    ("Controller and gateway", [
        ("Topics and partitions", "short", {
            "topics": f"pylog_controller_global_topics{HERE}",
            "partitions": f"pylog_controller_global_partitions{HERE}",
            "led by another than the preferred":
                f"pylog_controller_preferred_replica_imbalance{HERE}"}),
        ("Metadata log", "short", {
            "end": f"pylog_controller_metadata_log_end_offset{HERE}",
            "committed": f"pylog_controller_metadata_committed_offset{HERE}",
            "applied by {{instance}}": f"pylog_metadata_applied_offset{HERE}"}),
        ("Metadata records that a broker lacks", "short",
         {"broker {{broker}}": f"pylog_controller_broker_metadata_lag_records{HERE}"}),
        ("Decisions that wait for the disk", "short", {
            "waiting": f"pylog_controller_event_queue_size{HERE}",
            "no room": f"pylog_controller_no_room{HERE}"}),
        ("From a decision to its fsync", "s", {
            "p50": quantile(0.5, "pylog_controller_event_queue_seconds"),
            "p99": quantile(0.99, "pylog_controller_event_queue_seconds")}),
        ("Gateway", "short", {
            "connections": f"pylog_gateway_connections{HERE}",
            "joined to brokers": f"pylog_gateway_tunnels{HERE}"}),
        ("Connections, by listener", "short",
         {"{{listener}}, {{instance}}": f"pylog_connections{HERE}"}),
        ("Connections refused per second", "ops",
         {"{{listener}}: {{reason}}":
          rate("pylog_connections_refused_total", "listener, reason")}),
        ("Bytes through the gateway", "Bps",
         {"{{direction}}": rate("pylog_gateway_tunnel_bytes_total", "direction")}),
        ("Epochs", "short", {
            "controller, as {{instance}} knows": f"pylog_controller_epoch{HERE}",
            "broker, {{instance}}": f"pylog_broker_epoch{HERE}",
            "fenced, {{instance}}": f"pylog_broker_fenced{HERE}"}),
    ]),
    ("Processes", [
        ("CPU, cores", "short", {"{{instance}}": rate("process_cpu_seconds_total", "instance")}),
        ("Memory", "bytes", {"{{instance}}": f"process_resident_memory_bytes{HERE}"}),
        ("Open descriptors", "short", {
            "{{instance}}": f"process_open_fds{HERE}",
            "limit, {{instance}}": f"process_max_fds{HERE}"}),
        ("Garbage collections per second", "ops",
         {"{{instance}}": rate("python_gc_collections_total", "instance")}),
        ("Versions", "short", {
            "{{role}} {{broker}} {{version}}": f"pylog_info{HERE}",
            "not shown one by one, {{instance}}": f"pylog_partitions_without_detail{HERE}"}),
    ]),
]  # fmt: skip


def page() -> str:
    rows = (
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in ALL
    )
    return HEAD + "\n".join(rows) + "\n"


def panels() -> Iterator[dict[str, Any]]:
    width, height, y = 8, 8, 0
    number = 0
    for title, row in ROWS:
        number += 1
        yield {
            "id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        }  # fmt: skip
        y += 1
        for index, (name, unit, lines) in enumerate(row):
            number += 1
            at = {"x": index % 3 * width, "y": y + index // 3 * height, "w": width, "h": height}
            yield {
                "id": number, "type": "timeseries", "title": name, "gridPos": at,
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list"}},
                "targets": [
                    {"refId": chr(ord("A") + n), "expr": expression, "legendFormat": legend}
                    for n, (legend, expression) in enumerate(lines.items())
                ],
            }  # fmt: skip
        y += (len(row) + 2) // 3 * height


def variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name, "type": "query", "query": {"query": query, "refId": name},
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def dashboard() -> str:
    whole = {
        "uid": "pylog", "title": "pylog", "tags": ["pylog"], "schemaVersion": 39, "editable": True,
        "refresh": "15s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            variable("job", "label_values(pylog_info, job)"),
            variable("instance", 'label_values(pylog_info{job=~"$job"}, instance)'),
            variable("topic", 'label_values(pylog_high_watermark{job=~"$job"}, topic)'),
        ]},
        "annotations": {"list": []},
        "panels": list(panels()),
    }  # fmt: skip
    return json.dumps(whole, indent=1) + "\n"


def main() -> int:
    wanted = {PAGE: page(), DASHBOARD: dashboard()}
    if "--check" in sys.argv[1:]:
        stale = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date: make docs")
        return 1 if stale else 0
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
