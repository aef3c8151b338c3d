"""Generates docs/configuration.md from the tables that the code goes by:

`python tools/configuration.py`, or with `--check` says whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from pylog import kafka_settings
from pylog.client.settings import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    SHARE_CONSUMER_SETTINGS,
)
from pylog.config import REQUIRED, ConfigKey
from pylog_broker.config import (
    BROKER_CONFIG,
    BROKER_NAMES,
    CLUSTER_WIDE_NAMES,
    DYNAMIC_BROKER_NAMES,
    TOPIC_CONFIG,
    as_text,
)
from pylog_broker.group_settings import BROKER_NAMES as GROUP_BROKER_NAMES
from pylog_broker.group_settings import GROUP_CONFIG
from pylog_broker.spark.settings import TABLE as SPARK_SETTINGS
from pylog_connector import option_names as options
from pylog_connector.described_options import DESCRIBED

PAGE = Path(__file__).resolve().parent.parent / "docs/configuration.md"

HEAD = """\
# Configuration

Every setting that pylog takes, and what becomes of Kafka's others. This page is generated from the code (`make docs`); a setting that is
not here is refused by name, with the nearest one. Names, types and defaults are Apache Kafka's, unless the text says "pylog's own".

- A topic's setting is looked up in the topic, then in the broker's setting of the other name: what was changed for that broker, for all
  brokers (`<default>`), what the broker was started with, the default. `pylog configs describe` shows which holds and why.
- "Changes" says how: `live` by `pylog configs alter` or `AdminClient.incremental_alter_configs`, in effect when the command is back;
  `live, all brokers` the same, but not for a single broker; `restart` only by `spark.pylog.broker.<name>` (`pylog local --config`).
- A size is in bytes, a time in milliseconds where the name ends in `.ms`.

"""


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def default_of(key: ConfigKey) -> str:
    if key.default is REQUIRED:
        return "required"
    if key.default == "":
        return "empty"
    return code(as_text(key.default) or "") or "none"


def allowed(key: ConfigKey) -> str:
    if key.type is list and key.choices is not None:
        return f"{', '.join(key.choices)}; several separated by commas"
    return "a Python object" if key.type is object else key.allowed()


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(columns)
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
    yield ""


def topic_rows() -> Iterator[list[str]]:
    for key in TOPIC_CONFIG:
        broker_name = BROKER_NAMES.get(key.name, "")
        yield [code(key.name), allowed(key), default_of(key), code(broker_name), key.doc]


def group_rows() -> Iterator[list[str]]:
    for key in GROUP_CONFIG:
        broker_name = GROUP_BROKER_NAMES.get(key.name, "")
        yield [code(key.name), allowed(key), default_of(key), code(broker_name), key.doc]


def broker_rows() -> Iterator[list[str]]:
    for key in BROKER_CONFIG:
        how = "live" if key.name in DYNAMIC_BROKER_NAMES else "restart"
        if key.name in CLUSTER_WIDE_NAMES:
            how = "live, all brokers"
        yield [code(key.name), allowed(key), default_of(key), how, key.doc]


def client_rows(keys: Iterable[ConfigKey]) -> Iterator[list[str]]:
    for key in keys:
        yield [code(key.name), allowed(key), default_of(key), key.doc]


def option_rows() -> Iterator[list[str]]:
    offered = {options.BOOTSTRAP, *options.SOURCE, *options.SINK}
    for name, words in DESCRIBED.items():
        if name in offered:
            yield [code(name), words.takes, words.default, words.meaning]


VERDICTS = {
    "producer": kafka_settings.PRODUCER,
    "consumer": kafka_settings.CONSUMER,
    "share consumer": kafka_settings.SHARE_CONSUMER,
    "admin client": kafka_settings.ADMIN,
    "topic": kafka_settings.TOPIC,
    "broker": kafka_settings.BROKER,
}


def verdict_rows() -> Iterator[list[str]]:
    """One row for a name with one verdict and reason, whosever setting it is."""
    found: dict[tuple[str, kafka_settings.Ruling], list[str]] = {}
    for whose, settings in VERDICTS.items():
        for row in settings.rows():
            found.setdefault(row, []).append(whose)
    for (name, ruling), whose in sorted(found.items(), key=lambda item: (item[0][0], item[1])):
        yield [code(name), ", ".join(whose), ruling.verdict.value, ruling.reason]


def page() -> str:
    client = ("name", "takes", "default", "meaning")
    lines = [
        "## Topics", "", "`pylog topics create NAME --config KEY=VALUE`, `pylog configs alter topic NAME "
        "--set KEY=VALUE`. All of them change live.", "",
        *table(("name", "takes", "default", "the broker's name of the default", "meaning"),
               topic_rows()),
        "## Groups", "", "`pylog configs alter group NAME --set KEY=VALUE`, whether there is such a group or not. All of them "
        "change live, within the bounds of the brokers' `group.*.min.*` and `group.*.max.*`.", "",
        *table(("name", "takes", "default", "the broker's name of the default", "meaning"),
               group_rows()),
        "## Brokers", "", "`spark.pylog.broker.<name>=...` in the Spark configuration, `pylog local --config "
        "<name>=...`, `LocalCluster(config={...})`.", "",
        *table(("name", "takes", "default", "changes", "meaning"), broker_rows()),
        "## Spark application", "", "Keys of `spark-submit broker_app.py`, read once at the start.", "",
        *table(client, client_rows(SPARK_SETTINGS)),
        "## Producer", "", "As Python keywords with underscores: `Producer(linger_ms=20)`.", "",
        *table(client, client_rows(PRODUCER_SETTINGS)),
        "## Consumer", "", "As Python keywords with underscores: `Consumer(\"t\", "
        "auto_offset_reset=\"earliest\")`.", "",
        *table(client, client_rows(CONSUMER_SETTINGS)),
        "## Share consumer", "", "As Python keywords with underscores: `ShareConsumer(\"t\", group_id=\"g\", "
        "max_poll_records=10)`.", "",
        *table(client, client_rows(SHARE_CONSUMER_SETTINGS)),
        "## Admin client", "", *table(client, client_rows(ADMIN_SETTINGS)),
        "## Spark format `pylog`", "", "Options of `spark.read`, `spark.readStream` and their writers; names in any "
        "case.", "",
        *table(client, option_rows()),
        "Settings of the client by `pylog.<name>`, of sources:", "",
        *table(client, client_rows(options.SOURCE_CLIENT)),
        "and of sinks:", "",
        *table(client, client_rows(options.SINK_CLIENT)),
        "## Kafka's other settings", "", "Each name that Apache Kafka 4.2 has either stands above, or is taken without effect, with a line in the "
        "log, because it would change nothing that one could count on, or is refused, because ignoring it would change results, "
        "durability or security. `pylog configs alter` and `pylog topics create` refuse both.", "",
        *table(("name", "whose", "verdict", "reason"), verdict_rows()),
    ]  # fmt: skip
    return HEAD + "\n".join(lines).rstrip("\n") + "\n"


def main() -> int:
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text)
        return 0
    if not PAGE.is_file() or PAGE.read_text() != text:
        print("not up to date, run `make docs`: docs/configuration.md", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
