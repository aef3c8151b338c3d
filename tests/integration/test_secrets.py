"""Secrets are in no log, no error, no command of a process, no `repr` and no file of a run.

Planted are the cluster's own secret, and settings of Kafka that hold passwords, which clients and
brokers do not take: somebody who brings a configuration along must not find it in the error.
`tests/spark/test_standalone.py` looks at the same of a Spark cluster.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, ShareConsumer
from pylog.compat import confluent_kafka, kafka_python
from tests.fakes.scrapes import get
from tests.verify.spark_cluster import descendants

pytestmark = pytest.mark.integration

PASSWORDS = (
    "ssl.key.password", "ssl.keystore.password", "ssl.keystore.key", "ssl.truststore.password",
    "sasl.jaas.config", "sasl.oauthbearer.client.credentials.client.secret",
)  # fmt: skip


def commands() -> str:
    """The command lines of all processes that this one has started."""
    return "\n".join(command for _, _, command in descendants(os.getpid()))


def told(make: Callable[[], Any]) -> str:
    """All that the user of a wrong setting may see."""
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 (whatever it is, it shall not tell)
        return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    with contextlib.closing(made):
        return repr(made)


def test_the_clusters_secret_is_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = {"logging.level": "DEBUG", "metrics.listen": "127.0.0.1:0", "log.dirs": "d1,d2"}
    with caplog.at_level(logging.DEBUG), LocalCluster(2, tmp_path, config, console=True) as cluster:
        where = {"bootstrap_servers": cluster.bootstrap_servers}
        with (
            AdminClient(**where) as admin,
            Producer(**where) as producer,
            Consumer(group_id="g", auto_offset_reset="earliest", **where) as consumer,
        ):
            admin.create_topics(NewTopic("t", 2, 2))
            consumer.subscribe("t")
            producer.send("t", b"v").result(20)
            assert consumer.poll(20)
            configs = admin.describe_configs([("broker", 1), ("broker", ""), ("topic", "t")])
            cluster.kill(2)
            cluster.start(2)
            seen = {
                "reprs": "".join(map(repr, (cluster, admin, producer, consumer, configs))),
                "notebook": cluster._repr_html_(),
                "commands": commands(),
                "metrics": "".join(
                    get(f"{url}/metrics")[1] for url in cluster.metrics_urls.values()
                ),
                "console": get(f"{cluster.console_url}/")[1],
                "pages": get(f"{cluster.console_url}/brokers/1")[1],
            }
        secret = cluster._secret
        cluster.stop(1)
        cluster.kill_controller()
    assert "pylog_broker.node" in seen["commands"]
    seen["log"] = caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" and path.parent.name == "logs" for path in files)
    said = {name: text.encode() for name, text in seen.items()}
    said |= {str(path): path.read_bytes() for path in files}
    forms = (secret.encode(), secret.upper().encode(), bytes.fromhex(secret))
    assert [name for name, text in said.items() if any(form in text for form in forms)] == []


@pytest.mark.parametrize("name", PASSWORDS)
def test_clients_do_not_tell_a_password_that_they_do_not_take(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    planted = secrets.token_hex(16)
    given: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1", name.replace(".", "_"): planted}
    with caplog.at_level(logging.DEBUG):
        seen = [told(lambda make=make: make(**given)) for make in (Producer, Consumer, AdminClient)]
        seen.append(told(lambda: ShareConsumer("t", group_id="g", **given)))
    assert all("is not taken" in text for text in seen), seen
    assert planted not in "".join((*seen, caplog.text))


@pytest.mark.parametrize("name", ["ssl.key.password", "listener.name.client.sasl.jaas.config"])
def test_a_process_that_does_not_start_for_a_password_does_not_tell_it(
    name: str, tmp_path: Path
) -> None:
    planted = secrets.token_hex(16)
    seen = told(lambda: LocalCluster(1, tmp_path, {name: planted}))
    assert "is not taken" in seen
    assert planted not in seen
    assert planted not in "".join(path.read_text() for path in tmp_path.rglob("*.log"))


def test_adapters_do_not_tell_passwords(caplog: pytest.LogCaptureFixture) -> None:
    planted = secrets.token_hex(16)
    with caplog.at_level(logging.DEBUG):
        seen = [
            told(lambda n=name, make=make: make(bootstrap_servers="127.0.0.1:1", **{n: planted}))
            for name in ("sasl_plain_password", "ssl_password")
            for make in (kafka_python.KafkaProducer, kafka_python.KafkaConsumer)
        ]
        seen += [
            told(lambda n=name, make=make: make({
                "bootstrap.servers": "127.0.0.1:1", "group.id": "g", n: planted
            }))
            for name in ("sasl.password", "ssl.key.password", "ssl.keystore.password")
            for make in (confluent_kafka.Producer, confluent_kafka.Consumer)
        ]  # fmt: skip
    assert len(seen) == 10
    assert planted not in "".join((*seen, caplog.text))


def test_a_running_broker_does_not_tell_what_it_refuses(tmp_path: Path) -> None:
    planted = secrets.token_hex(16)
    with (
        LocalCluster(1, tmp_path, {"logging.level": "DEBUG"}) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        seen = [
            told(lambda n=name: admin.incremental_alter_configs({("broker", ""): {n: planted}}))
            for name in PASSWORDS
        ]
    assert planted not in "".join(seen)
    logs = "".join(path.read_text() for path in (tmp_path / "logs").iterdir())
    assert "ended: the cluster stops" in logs
    assert planted not in logs
