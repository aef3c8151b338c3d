"""Every metric that a broker or a driver shows: its name, kind, labels and meaning.

Names are Prometheus' in form and Kafka's in substance. `docs/metrics.md` is generated from here,
and tests hold scrapes of a live cluster against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """`labels` in the order in which values are given."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


# ---- both kinds of processes ------------------------------------------------------------------

INFO: Final = Metric(
    "pylog_info", "gauge", "Always 1; says which process this is.",
    ("version", "cluster_id", "role", "broker"),
)  # fmt: skip
REQUEST_SECONDS: Final = Metric(
    "pylog_request_seconds", "histogram",
    "Time from a request to its answer, by Kafka's name of the request. Fetch and FetchFollower "
    "include the wait for data, Produce the wait for in-sync replicas.", ("request",),
)  # fmt: skip
REQUEST_PARTS: Final = Metric(
    "pylog_request_part_seconds_total", "counter",
    "Where the time of requests went, as Kafka's request metrics tell it. `queue`: from the last "
    "byte to the handler; `local`: in the handler; `remote`: waiting, for replicas, records or "
    "others; these are the sum of `pylog_request_seconds`. `response`: from the answer to its "
    "bytes in the connection's buffer; 0 over gRPC, whose library writes it.", ("request", "part"),
)  # fmt: skip
REQUEST_ERRORS: Final = Metric(
    "pylog_request_errors_total", "counter",
    "Errors in answers, by Kafka's name of the error; each partition of a request counts.",
    ("request", "error"),
)  # fmt: skip
CONNECTIONS: Final = Metric(
    "pylog_connections", "gauge",
    "Open connections of a listener: `streams`, `replication` (proven brokers; others apart), "
    "`gateway`. gRPC counts none of its own.", ("listener",),
)  # fmt: skip
CONNECTIONS_REFUSED: Final = Metric(
    "pylog_connections_refused_total", "counter",
    "Connections that were closed at once, by the setting or limit that says so. `unproven`: they "
    "had not said what they are when another wanted their place.", ("listener", "reason"),
)  # fmt: skip
LOOP_LAG: Final = Metric(
    "pylog_event_loop_lag_seconds", "histogram",
    "How late the process's event loop came to a timer that is due twice a second.",
)  # fmt: skip

DISK_FREE: Final = Metric(
    "pylog_disk_free_bytes", "gauge",
    "Bytes that are free for this process on the disk of a directory: of each log directory that "
    "works, and of the driver's data.", ("directory",),
)  # fmt: skip
DISK_TOTAL: Final = Metric(
    "pylog_disk_total_bytes", "gauge", "Bytes that the disk of a directory has.", ("directory",)
)

# ---- broker -----------------------------------------------------------------------------------

BYTES_IN: Final = Metric(
    "pylog_bytes_in_total", "counter", "Bytes of batches that producers wrote.", ("topic",)
)
BYTES_OUT: Final = Metric(
    "pylog_bytes_out_total", "counter", "Bytes of batches that consumers fetched.", ("topic",)
)
LOCAL_READS: Final = Metric(
    "pylog_local_reads", "gauge",
    "Reads by processes on this machine that have files of this broker open.",
)  # fmt: skip
LOCAL_READ_DESCRIPTORS: Final = Metric(
    "pylog_local_read_descriptors", "gauge",
    "Files that those readers have, at most local.read.max.descriptors.",
)  # fmt: skip
LOCAL_READS_OPENED: Final = Metric(
    "pylog_local_reads_opened_total", "counter",
    "Times that files were offered to a reader on this machine.",
)  # fmt: skip
LOCAL_READ_BYTES: Final = Metric(
    "pylog_local_read_bytes_total", "counter",
    "Bytes of batches that such readers took from the files themselves, as they tell when they "
    "give them back. pylog_bytes_out_total does not count them.", ("topic",),
)  # fmt: skip
LOCAL_READ_FALLBACKS: Final = Metric(
    "pylog_local_read_fallbacks_total", "counter",
    "Times that such a reader had to ask again or to read over the network: the error of a "
    "refusal (resource_not_found: on another machine, or switched off), what ended a read "
    "(leader_change, log_start, truncated, deleted, storage, expired), unclaimed (nobody came for "
    "the files), damaged (bytes that are no whole batches), foreign_user.", ("cause",),
)  # fmt: skip
REPLICATION_IN: Final = Metric(
    "pylog_replication_bytes_in_total", "counter", "Bytes of batches fetched from leaders."
)
REPLICATION_OUT: Final = Metric(
    "pylog_replication_bytes_out_total", "counter", "Bytes of batches that followers fetched here."
)
PARTITIONS: Final = Metric("pylog_partitions", "gauge", "Replicas on this broker.")
LEADERS: Final = Metric("pylog_leaders", "gauge", "Partitions that this broker leads.")
UNDER_REPLICATED: Final = Metric(
    "pylog_under_replicated_partitions", "gauge",
    "Partitions led here whose ISR is smaller than their replicas, without those that a move adds.",
)  # fmt: skip
REASSIGNING: Final = Metric(
    "pylog_reassigning_partitions", "gauge", "Partitions led here that move to other brokers."
)
UNDER_MIN_ISR: Final = Metric(
    "pylog_under_min_isr_partitions", "gauge",
    "Partitions led here whose ISR is below min.insync.replicas: acks=all is refused.",
)  # fmt: skip
AT_MIN_ISR: Final = Metric(
    "pylog_at_min_isr_partitions", "gauge",
    "Partitions led here whose ISR is just min.insync.replicas: one loss away from refusing.",
)  # fmt: skip
OFFLINE_REPLICAS: Final = Metric(
    "pylog_offline_replicas", "gauge", "Replicas here whose log does not work."
)
OFFLINE_LOG_DIRECTORIES: Final = Metric(
    "pylog_offline_log_directories", "gauge",
    "Log directories of this broker that do not work until it starts again.",
)  # fmt: skip
LOG_DIRECTORY_SIZE: Final = Metric(
    "pylog_log_directory_size_bytes", "gauge", "Bytes of all segments in a log directory.",
    ("directory",),
)  # fmt: skip
DISK_ERRORS: Final = Metric(
    "pylog_disk_errors_total", "counter",
    "Errors that logs met on their disks: `no_room`, `of_the_moment` (too many open files, no "
    "memory), or `failed`, after which the replica is offline.", ("kind",),
)  # fmt: skip
COLD_READS: Final = Metric(
    "pylog_cold_reads_total", "counter",
    "Fetches and look-ups by time that had to wait for the disk: their pages were not in memory.",
)  # fmt: skip
SEGMENTS_DELETED: Final = Metric(
    "pylog_log_segments_deleted_total", "counter",
    "Segments below the start of their log that were given up: by retention, DeleteRecords or "
    "their leader.",
)  # fmt: skip
READ_LEASES: Final = Metric(
    "pylog_read_leases", "gauge",
    "Ranges of partitions that readers hold here, so that retention and compaction leave them.",
)  # fmt: skip
READ_LEASE_BYTES: Final = Metric(
    "pylog_read_lease_kept_bytes", "gauge",
    "Bytes of segments that retention would have given up, or the cleaner cleaned, but for read "
    "leases, as they found them last.",
)  # fmt: skip
READ_LEASES_ENDED: Final = Metric(
    "pylog_read_leases_ended_total", "counter",
    "Read leases that ended without their holders' doing: `expired` (not renewed; so end those of "
    "batch reads), `quota` (read.lease.max.bytes), or `no_room` on the disk.", ("reason",),
)  # fmt: skip
RECOMPRESSED: Final = Metric(
    "pylog_log_recompressed_batches_total", "counter",
    "Batches that came in another codec than their topic's compression.type keeps.",
)  # fmt: skip
CLOCK_JUMPS: Final = Metric(
    "pylog_clock_jumps_total", "counter",
    "Times that the wall clock was set forward or back, as the log directory that has seen most of "
    "them counts.",
)  # fmt: skip
TOPIC_SKEW: Final = Metric(
    "pylog_topic_skew", "gauge",
    "The largest growth of a partition here, in bytes, by the mean of its topic's partitions here, "
    "in the last five minutes that were looked at; 1: all grow alike, or they got less than "
    "10 MiB. Topics with several partitions here. `partition`: the one, where it got four times "
    "the mean or four fifths of all; else empty.", ("topic", "partition"),
)  # fmt: skip
FLUSH_SECONDS: Final = Metric(
    "pylog_log_flush_seconds", "histogram",
    "Time that a sync of a log took, with its wait for a thread.",
)  # fmt: skip
TAIL_CACHE: Final = Metric(
    "pylog_tail_cache_bytes", "gauge",
    "Newest batches that are kept in memory for their readers, at most log.tail.cache.max.bytes.",
)  # fmt: skip
FETCH_SESSIONS: Final = Metric(
    "pylog_fetch_sessions", "gauge", "Fetch sessions of followers with this leader (KIP-227)."
)
ISR_SHRINKS: Final = Metric(
    "pylog_isr_shrinks_total", "counter", "ISRs of partitions led here that became smaller."
)
ISR_EXPANDS: Final = Metric(
    "pylog_isr_expands_total", "counter", "ISRs of partitions led here that became larger."
)
PURGATORY: Final = Metric(
    "pylog_purgatory_size", "gauge", "Requests that wait, by type.", ("request",)
)
QUEUE_BYTES: Final = Metric(
    "pylog_request_queue_bytes", "gauge",
    "Produce: bytes of requests that are coming in, and of batches whose acknowledgement is due; "
    "queued.max.request.bytes is the limit. Fetch: bytes of answers that clients have not taken; "
    "queued.max.response.bytes is the limit.",
    ("request",),
)  # fmt: skip
MAX_LAG: Final = Metric(
    "pylog_replica_max_lag_records", "gauge",
    "The largest number of records that a follower of a partition led here lacks.",
)  # fmt: skip
FENCED: Final = Metric(
    "pylog_broker_fenced", "gauge", "1 while the controller does not let this broker lead."
)
BROKER_EPOCH: Final = Metric(
    "pylog_broker_epoch", "gauge", "Epoch of this incarnation; -1 before it is registered."
)
METADATA_OFFSET: Final = Metric(
    "pylog_metadata_applied_offset", "gauge", "The newest metadata record that was applied."
)
CONTROLLER_EPOCH: Final = Metric(
    "pylog_controller_epoch", "gauge", "The highest controller epoch that was seen."
)
NO_DETAIL: Final = Metric(
    "pylog_partitions_without_detail", "gauge",
    "Replicas beyond the limit of what is shown partition by partition.",
)  # fmt: skip
LOG_START: Final = Metric(
    "pylog_log_start_offset", "gauge", "First offset of the replica.", ("topic", "partition")
)
LOG_END: Final = Metric(
    "pylog_log_end_offset", "gauge", "Offset of the replica's next record (LEO).",
    ("topic", "partition"),
)  # fmt: skip
HIGH_WATERMARK: Final = Metric(
    "pylog_high_watermark", "gauge", "Everything below is committed (HW).", ("topic", "partition")
)
LOG_SIZE: Final = Metric(
    "pylog_log_size_bytes", "gauge", "Bytes of the replica's segments.", ("topic", "partition")
)
LOG_SEGMENTS: Final = Metric(
    "pylog_log_segments", "gauge", "Segments of the replica.", ("topic", "partition")
)
CLEANER_UNCLEANABLE: Final = Metric(
    "pylog_log_cleaner_uncleanable_partitions", "gauge",
    "Compacted replicas that could not be cleaned and are left as they are; the log says why.",
)  # fmt: skip
CLEANER_DIRTY: Final = Metric(
    "pylog_log_cleaner_max_dirty_ratio", "gauge",
    "The largest part, 0 to 1, of a compacted replica that waits for the cleaner.",
)  # fmt: skip
CLEANER_PASSES: Final = Metric(
    "pylog_log_cleaner_passes_total", "counter", "Passes of the cleaner over a log."
)
PRODUCER_IDS: Final = Metric(
    "pylog_producer_ids", "gauge",
    "Producer ids that this broker's partitions know, at most max.producer.ids.",
)  # fmt: skip
PRODUCER_IDS_PARTITION_MAX: Final = Metric(
    "pylog_producer_ids_partition_max", "gauge",
    "The most that one of them knows, at most max.producer.ids.per.partition.",
)  # fmt: skip
PRODUCER_IDS_REFUSED: Final = Metric(
    "pylog_producer_ids_refused_total", "counter",
    "New producer ids that were refused, by whose limit was reached: a partition's or the broker's "
    "(each try of a batch counts), an address's (ip) or a client.id's.", ("limit",),
)  # fmt: skip
LEADER_EPOCH: Final = Metric(
    "pylog_partition_leader_epoch", "gauge", "Leader epoch; leaders only.", ("topic", "partition")
)
ISR_SIZE: Final = Metric(
    "pylog_partition_isr_size", "gauge", "In-sync replicas; leaders only.", ("topic", "partition")
)
REPLICAS: Final = Metric(
    "pylog_partition_replicas", "gauge", "Replicas; leaders only.", ("topic", "partition")
)
REPLICA_LAG: Final = Metric(
    "pylog_replica_lag_records", "gauge",
    "Records that a follower lacks, as its leader knows; leaders only.",
    ("topic", "partition", "replica"),
)  # fmt: skip
COORDINATOR_SHARDS: Final = Metric(
    "pylog_coordinator_partitions", "gauge",
    "Partitions of an internal topic that this broker leads and coordinates: `active`, or "
    "`loading` while requests are turned away.", ("topic", "state"),
)  # fmt: skip
COORDINATOR_LOAD_SECONDS: Final = Metric(
    "pylog_coordinator_load_seconds", "histogram",
    "How long such a partition took to load.", ("topic",),
)  # fmt: skip
COORDINATOR_FAILURES: Final = Metric(
    "pylog_coordinator_failures_total", "counter",
    "Times that one could not be read or written, or met a defect, and was loaded again.",
    ("topic",),
)  # fmt: skip
GROUPS: Final = Metric(
    "pylog_groups", "gauge", "Groups that this broker coordinates.", ("type", "state")
)
GROUP_MEMBERS_LOST: Final = Metric(
    "pylog_group_members_lost_total", "counter",
    "Members that were put out of their groups as they were silent for a session, or did not do in "
    "time what a rebalance asked of them.", ("type",),
)  # fmt: skip
GROUP_OFFSETS: Final = Metric(
    "pylog_group_offsets", "gauge",
    "Committed offsets that it keeps: one for each group and partition.",
)  # fmt: skip
GROUP_COMMITTED: Final = Metric(
    "pylog_group_committed_offset", "gauge",
    "The next record that a group will read; of the first 1,000 groups and 10,000 offsets that "
    "this broker coordinates.", ("group", "topic", "partition"),
)  # fmt: skip
GROUP_LAG: Final = Metric(
    "pylog_group_lag_records", "gauge",
    "Records that a group has not passed, in partitions of which its coordinator has a replica.",
    ("group",),
)  # fmt: skip
GROUP_LAG_SECONDS: Final = Metric(
    "pylog_group_lag_seconds", "gauge",
    "Age of the oldest such record; left out where it is not known. Of 200 partitions at most.",
    ("group",),
)  # fmt: skip
GROUP_NO_DETAIL: Final = Metric(
    "pylog_groups_without_detail", "gauge", "Groups with offsets that are not shown one by one."
)

TRANSACTIONS: Final = Metric(
    "pylog_transactions", "gauge", "Transactional ids that this broker coordinates.", ("state",)
)
TRANSACTION_AGE: Final = Metric(
    "pylog_transaction_oldest_open_seconds", "gauge",
    "How long the oldest one of their open transactions has been open; readers of committed "
    "records wait for its end.",
)  # fmt: skip
TRANSACTION_MARKERS: Final = Metric(
    "pylog_transaction_markers_pending", "gauge",
    "Decided transactions of which a partition has no marker yet.",
)  # fmt: skip
TRANSACTIONS_TIMED_OUT: Final = Metric(
    "pylog_transactions_timed_out_total", "counter",
    "Transactions that were aborted as they were open for longer than their time-out.",
)  # fmt: skip

SINKS: Final = Metric("pylog_sinks", "gauge", "Sinks of queries that this broker coordinates.")
SINK_ATTEMPTS: Final = Metric(
    "pylog_sink_attempts", "gauge",
    "Attempts of their tasks, which write or are prepared: those wait for the end of their batch.",
    ("state",),
)  # fmt: skip
SINK_PREPARED_SECONDS: Final = Metric(
    "pylog_sink_prepared_seconds", "gauge",
    "How long the oldest prepared attempt of a sink waits, and with it readers of committed "
    "records; of the 100 sinks that wait for the longest.",
    ("query", "sink"),
)  # fmt: skip
SINK_BATCHES: Final = Metric(
    "pylog_sink_batches_total", "counter", "Batches of sinks that were decided."
)
SINK_PRODUCER_IDS: Final = Metric(
    "pylog_sink_producer_ids_total", "counter",
    "Producer ids given to sinks; none when a query writes one batch like another.",
)  # fmt: skip
SINK_EXPIRED: Final = Metric(
    "pylog_sink_attempts_expired_total", "counter",
    "Attempts that were aborted as they were not renewed, or not decided about, in time.",
)  # fmt: skip

SHARE_SESSIONS: Final = Metric(
    "pylog_share_sessions", "gauge", "Share sessions that members of share groups have here."
)
SHARE_PARTITIONS: Final = Metric(
    "pylog_share_partitions", "gauge",
    "Partitions that this broker leads and share groups read: one for each group and partition.",
)  # fmt: skip
SHARE_RECORDS_ACQUIRED: Final = Metric(
    "pylog_share_records_acquired_total",
    "counter",
    "Records that members of share groups have acquired; one that is delivered again counts again.",
)
SHARE_LOCKS_EXPIRED: Final = Metric(
    "pylog_share_locks_expired_total",
    "counter",
    "Records that were given back as their member did not acknowledge them in time.",
)
DEAD_LETTERS_WAITING: Final = Metric(
    "pylog_share_dead_letters_waiting", "gauge",
    "Records of share groups on their way to dead-letter topics.",
)  # fmt: skip
DEAD_LETTERS_WRITTEN: Final = Metric(
    "pylog_share_dead_letters_written_total", "counter",
    "Records that were written to dead-letter topics of share groups.",
)  # fmt: skip
DEAD_LETTERS_GIVEN_UP: Final = Metric(
    "pylog_share_dead_letters_given_up_total", "counter",
    "Records that were archived although the group's dead-letter topic is missing, may not be one, "
    "or takes no such record.",
)  # fmt: skip

# ---- controller and gateway -------------------------------------------------------------------

ACTIVE_CONTROLLER: Final = Metric(
    "pylog_controller_active", "gauge",
    "1 where a controller decides; 0 when its metadata log has failed. One in a cluster.",
)  # fmt: skip
ACTIVE_BROKERS: Final = Metric(
    "pylog_controller_active_brokers", "gauge", "Brokers that are registered and not fenced."
)
FENCED_BROKERS: Final = Metric(
    "pylog_controller_fenced_brokers", "gauge", "Brokers that are registered and fenced."
)
EXPECTED_BROKERS: Final = Metric(
    "pylog_controller_expected_brokers", "gauge", "Brokers that the cluster was started with."
)
TOPICS: Final = Metric("pylog_controller_global_topics", "gauge", "Topics of the cluster.")
GLOBAL_PARTITIONS: Final = Metric(
    "pylog_controller_global_partitions", "gauge", "Partitions of the cluster."
)
OFFLINE_PARTITIONS: Final = Metric(
    "pylog_controller_offline_partitions", "gauge", "Partitions without a leader."
)
IMBALANCE: Final = Metric(
    "pylog_controller_preferred_replica_imbalance", "gauge",
    "Partitions that another replica than the preferred one leads.",
)  # fmt: skip
ELECTIONS: Final = Metric(
    "pylog_controller_leader_elections_total", "counter", "Leaders elected since the start."
)
UNCLEAN_ELECTIONS: Final = Metric(
    "pylog_controller_unclean_leader_elections_total", "counter",
    "Elections of a replica that may have lacked acknowledged records.",
)  # fmt: skip
METADATA_END: Final = Metric(
    "pylog_controller_metadata_log_end_offset", "gauge", "The newest record that was decided."
)
METADATA_COMMITTED: Final = Metric(
    "pylog_controller_metadata_committed_offset", "gauge", "The newest record that is durable."
)
BROKER_LAG: Final = Metric(
    "pylog_controller_broker_metadata_lag_records", "gauge",
    "Committed metadata records that a broker has not applied.", ("broker",),
)  # fmt: skip
EVENT_QUEUE: Final = Metric(
    "pylog_controller_event_queue_size", "gauge", "Decisions that wait to be written."
)
EVENT_QUEUE_SECONDS: Final = Metric(
    "pylog_controller_event_queue_seconds", "histogram",
    "Time from a decision to its fsync, which its answer waits for.",
)  # fmt: skip
NO_ROOM: Final = Metric(
    "pylog_controller_no_room", "gauge", "1 while the metadata log's disk is full."
)
GATEWAY_CONNECTIONS: Final = Metric(
    "pylog_gateway_connections", "gauge", "Open connections of the gateway."
)
GATEWAY_TUNNELS: Final = Metric(
    "pylog_gateway_tunnels", "gauge", "Connections that the gateway has joined to a broker."
)
GATEWAY_BYTES: Final = Metric(
    "pylog_gateway_tunnel_bytes_total", "counter", "Bytes between clients and brokers.",
    ("direction",),
)  # fmt: skip

ALL: Final[tuple[Metric, ...]] = tuple(
    value for value in globals().copy().values() if isinstance(value, Metric)
)
