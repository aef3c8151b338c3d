"""The options of the format `pylog` in words, for the configuration page.

`options.py` decides what is taken; a test holds the two together.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Described(NamedTuple):
    """One option in words: what it takes, its default, what it does."""

    takes: str
    default: str
    meaning: str


DESCRIBED: Final[dict[str, Described]] = {
    "pylog.bootstrap.servers": Described(
        "host:port, several separated by commas", "required",
        "Where the cluster is. `kafka.bootstrap.servers` is taken as well.",
    ),
    "assign": Described(
        'JSON: {"topic": [0, 1]}', "",
        "Exactly these partitions. One of assign, subscribe and subscribePattern is given.",
    ),
    "subscribe": Described("topics, separated by commas", "", "Exactly these topics."),
    "subscribePattern": Described(
        "a regular expression of RE2", "",
        "Every topic in whose name the expression is found, new ones as they appear; "
        "`^` and `$` stand for the name's ends.",
    ),
    "startingOffsets": Described(
        'earliest, latest, JSON: {"topic": {"0": 17, "1": -2}}, or committed:<group>',
        "latest for streams, earliest for batches",
        "Where a new query begins; -2 is the earliest, -1 the latest. A checkpoint wins over it. "
        "`committed:<group>` is where a consumer group has come to; a partition in which it has "
        "committed nothing is an error, unless `committed:<group>,earliest` or "
        "`committed:<group>,latest` says where to begin there.",
    ),
    "startingTimestamp": Described(
        "milliseconds since 1970", "",
        "Begin at the first record at or after this time, in all partitions.",
    ),
    "startingOffsetsByTimestamp": Described(
        'JSON: {"topic": {"0": 1700000000000}}', "", "The same, by partition.",
    ),
    "startingOffsetsByTimestampStrategy": Described(
        "error or latest", "error",
        "The outcome when no record is that late: an error, or a start at the end.",
    ),
    "endingOffsets": Described(
        "latest, or JSON as for startingOffsets", "latest", "Where a batch query ends (exclusive).",
    ),
    "endingTimestamp": Described(
        "milliseconds since 1970", "",
        "End a batch query at the first record at or after this time.",
    ),
    "endingOffsetsByTimestamp": Described(
        'JSON: {"topic": {"0": 1700000000000}}', "", "The same, by partition.",
    ),
    "partitions": Described(
        "numbers and ranges: 0,3,8-11", "all",
        "Only these partitions of each topic, of those that it has. Not with assign.",
    ),
    "keys": Described(
        'JSON: ["JFK", {"base64": "AAE="}, null]', "all",
        "Only records with one of these keys; null stands for records without one. Tasks look for "
        "them before Spark gets any row, in batches and streams.",
    ),
    "minTimestamp": Described(
        "milliseconds since 1970", "",
        "Only records of this time or later, whatever their order. Unlike startingTimestamp, which "
        "says where to begin, it holds for every record. Producers' batches that are older are not "
        "decoded.",
    ),
    "maxTimestamp": Described(
        "milliseconds since 1970", "", "Only records of this time or earlier.",
    ),
    "maxOffsetsPerTrigger": Described(
        "at least 1", "no limit", "Records of one micro-batch at most, spread over partitions.",
    ),
    "maxBytesPerTrigger": Described(
        "bytes, also with k, m or g: 64m", "no limit",
        "Bytes of one micro-batch at most, as the log stores them (compressed), spread over "
        "partitions by their lags. Whole batches of producers are read: one that is larger than "
        "this is read alone. Goes together with the limits of records.",
    ),
    "minOffsetsPerTrigger": Described(
        "at least 1", "", "A micro-batch waits for this many records ...",
    ),
    "maxTriggerDelay": Described(
        "a duration such as 15m", "15m", "... but at most for so long.",
    ),
    "minPartitions": Described(
        "at least 1", "one task for each partition; small ones of a micro-batch share one",
        "Large ranges are split until there are about this many tasks.",
    ),
    "maxRecordsPerPartition": Described(
        "at least 1", "", "Ranges are split into pieces of at most this many records."
    ),
    "maxBytesPerPartition": Described(
        "bytes, also with k, m or g: 64m", "",
        "Ranges are split into pieces of at most this many bytes, about equally large ones, as the "
        "log stores them: compacted and aborted records do not count. A batch of a producer "
        "is never split.",
    ),
    "includeHeaders": Described("true or false", "false", "Adds the column `headers`."),
    "failOnDataLoss": Described(
        "true or false", "true",
        "Whether a query fails when records that it should have read are gone; else it goes on "
        "with what is there and warns.",
    ),
    "kafkaConsumer.pollTimeoutMs": Described(
        "milliseconds", "", "How long a task waits for one answer.",
    ),
    "fetchOffset.numRetries": Described("0 or more", "", "Retries when offsets are looked up."),
    "fetchOffset.retryIntervalMs": Described(
        "milliseconds", "", "The wait between those retries.",
    ),
    "pylog.commit.group": Described(
        "a consumer group's id", "",
        "Streams only: what the query has finished is committed to this group, for tools to show "
        "its lag. The checkpoint remains what counts. Refused while the group has live members.",
    ),
    "pylog.progress.group": Described(
        "a consumer group's id; at the sink one for each source, separated by commas", "",
        "Streams only, given to sources and sink, together with the same `sinkId`: what a batch "
        "has read is committed to the group in the transaction of what it wrote. Each source has "
        "a group of its own. For queries without state.",
    ),
    "pylog.consistent.cut": Described(
        "true or false", "false",
        "Whether each micro-batch, and a batch read to `latest`, has every transaction whole or "
        "not at all, over all partitions and topics of the source. Not with "
        "`pylog.isolation.level=read_uncommitted`.",
    ),
    "pylog.read.lease": Described(
        "true or false", "false",
        "Whether brokers keep the records of a batch from retention and compaction until it is "
        "done, as far as `read.lease.max.bytes` and `read.lease.timeout.ms` of brokers let them.",
    ),
    "pylog.local.reads": Described(
        "true or false", "false",
        "Whether tasks on a broker's machine read the files of the partitions that it leads, in "
        "place of fetching from it. The rows are the same; what cannot be read so is fetched.",
    ),
    "topic": Described(
        "a topic's name", "the column `topic`",
        "Sink: where all rows go. Without it the rows name their topic.",
    ),
    "pylog.exactly.once": Described(
        "true or false", "true",
        "Sink: whether each batch is written exactly once. All rows of a batch are seen by readers "
        "of committed records at the same moment, or none of them is. With false a task that is "
        "run again writes its rows again.",
    ),
    "sinkId": Described(
        "1 to 249 characters", "the topic",
        "Sink: tells apart what one query writes. Two writes of one batch in `foreachBatch` to the "
        "same topic need one each. A source with `pylog.progress.group` names its sink by it.",
    ),
    "pylog.sink.takeover": Described(
        "true or false", "false",
        "Sink: whether a new query may write with a `sinkId` with which another one has written, "
        "as when the checkpoint was deleted; the other one may not go on after that. Without an "
        "explicit `sinkId` it may, with a warning. "
        "Source, with `pylog.progress.group`: what that query left open is aborted before "
        "`startingOffsets=committed:<group>` is looked up.",
    ),
    "pylog.sink.prepared.timeout.ms": Described(
        "milliseconds", "900000",
        "Sink: how long what a task has written waits for the end of its batch. Readers of "
        "committed records wait as long; then it is aborted, and the batch fails. Source, with "
        "`pylog.progress.group`: the same of its positions.",
    ),
    "idempotencyKey": Described(
        "1 to 1,000 characters", "",
        "Sink, batch writes only: a second write to the same destination with this key writes "
        "nothing, and fails if its rows are others.",
    ),
    "pylog.idempotency.retention.ms": Described(
        "milliseconds", "604800000",
        "Sink: for how long an `idempotencyKey` is remembered.",
    ),
}  # fmt: skip
