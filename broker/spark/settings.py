"""`spark.pylog.*`: what a user may set, parsed once on the driver.

Pure: the Spark configuration comes in as a mapping; nothing here imports Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from pylog import errors
from pylog.config import ConfigKey, ConfigTable

PREFIX: Final = "spark.pylog."
BROKER_PREFIX: Final = "spark.pylog.broker."

# Two keys under `spark.pylog.broker.` that are not Kafka's names.
_OWN_BROKER_KEYS: Final = frozenset(
    {"spark.pylog.broker.listen", "spark.pylog.broker.stream.listen"}
)

TABLE: Final = ConfigTable(
    [
        ConfigKey(
            "spark.pylog.brokers",
            int,
            3,
            "Number of brokers: each is one long-lived Spark task.",
            low=1,
            high=1000,
        ),
        ConfigKey(
            "spark.pylog.data.dir",
            str,
            "./pylog-data",
            "Root of broker data on each host; broker n owns `broker-n/` below it, the driver uses "
            "`controller/`. `{slot}` stands for the task's number, for hosts with several roots.",
        ),
        ConfigKey(
            "spark.pylog.listen",
            str,
            "127.0.0.1:9092",
            "Gateway address (gRPC): what clients bootstrap with.",
        ),
        ConfigKey(
            "spark.pylog.broker.listen",
            str,
            "127.0.0.1:0",
            "Address of each broker's own gRPC server; port 0 takes a free one.",
        ),
        ConfigKey(
            "spark.pylog.broker.stream.listen",
            str,
            None,
            "Address of each broker's framed-TCP server for producers and consumers, which use it "
            "instead of gRPC where they reach it. Default: the host of spark.pylog.broker.listen, "
            "a free port; empty: off.",
        ),
        ConfigKey(
            "spark.pylog.replication.listen",
            str,
            "127.0.0.1:0",
            "Address of each broker's framed-TCP server for other brokers.",
        ),
        ConfigKey(
            "spark.pylog.advertised.host",
            str,
            None,
            "The host name that goes into metadata; default: the listen host.",
        ),
        ConfigKey(
            "spark.pylog.allow.plaintext",
            bool,
            False,
            "A listener that is not loopback and has no TLS needs `true`.",
        ),
        ConfigKey(
            "spark.pylog.kafka.listen",
            str,
            "",
            "Kafka-protocol listener; empty: off. Not offered yet.",
        ),
        ConfigKey(
            "spark.pylog.metrics.listen",
            str,
            "",
            "host:port of Prometheus metrics and health checks; the driver binds the port, broker "
            "n port + n; port 0 takes free ones; empty: off.",
        ),
        ConfigKey(
            "spark.pylog.console.listen",
            str,
            "",
            "host:port of the web console on the driver; port 0 takes a free one; empty: off.",
        ),
        ConfigKey(
            "spark.pylog.console.allow.writes",
            bool,
            False,
            "Whether the console also produces, resets groups, elects leaders and aborts "
            "transactions.",
        ),
        ConfigKey(
            "spark.pylog.start.timeout.ms",
            int,
            60_000,
            "How long the driver waits for all brokers before it says which are missing.",
            low=1_000,
        ),
    ],
    what="Spark setting",
)


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The parsed settings. `broker_config` holds Kafka's names; `data_dir` is absolute."""

    brokers: int
    data_dir: str
    listen: str
    broker_listen: str
    replication_listen: str
    stream_listen: str | None
    advertised_host: str | None
    allow_plaintext: bool
    start_timeout_ms: int
    console_listen: str
    console_allow_writes: bool
    broker_config: dict[str, str]


def parse_settings(conf: Mapping[str, str], *, submit_dir: str, master: str) -> SparkSettings:
    """Settings from a Spark configuration; errors.InvalidConfig names key, value and remedy.

    `submit_dir`: what a relative data directory is relative to. Workers on other hosts do not share
    it, so a real cluster must set an absolute one.
    """
    own = {}
    broker_config = {}
    for key, value in conf.items():
        if key in _OWN_BROKER_KEYS or (
            key.startswith(PREFIX) and not key.startswith(BROKER_PREFIX)
        ):
            own[key] = value
        elif key.startswith(BROKER_PREFIX):
            broker_config[key.removeprefix(BROKER_PREFIX)] = value
    values = TABLE.parse(own)
    key = "spark.pylog.kafka.listen"
    if values[key]:
        raise errors.NotOffered(f"{key}={values[key]!r}: not offered yet; remove the setting")
    if values["spark.pylog.metrics.listen"]:
        if "metrics.listen" in broker_config:
            raise errors.InvalidConfig(
                "spark.pylog.metrics.listen and spark.pylog.broker.metrics.listen are the same "
                "setting; give the first one only"
            )
        broker_config["metrics.listen"] = values["spark.pylog.metrics.listen"]
    data_dir = values["spark.pylog.data.dir"]
    if not PurePosixPath(data_dir).is_absolute():
        if not master.startswith("local"):
            raise errors.InvalidConfig(
                f"spark.pylog.data.dir={data_dir!r} is relative, and brokers run on other hosts "
                f"(master {master}); set an absolute path on a local disk of every host"
            )
        data_dir = str(PurePosixPath(submit_dir) / data_dir)
    return SparkSettings(
        brokers=values["spark.pylog.brokers"],
        data_dir=data_dir,
        listen=values["spark.pylog.listen"],
        broker_listen=values["spark.pylog.broker.listen"],
        replication_listen=values["spark.pylog.replication.listen"],
        stream_listen=values["spark.pylog.broker.stream.listen"],
        advertised_host=values["spark.pylog.advertised.host"],
        allow_plaintext=values["spark.pylog.allow.plaintext"],
        start_timeout_ms=values["spark.pylog.start.timeout.ms"],
        console_listen=values["spark.pylog.console.listen"],
        console_allow_writes=values["spark.pylog.console.allow.writes"],
        broker_config=broker_config,
    )
