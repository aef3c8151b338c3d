"""kafka-python's `KafkaAdminClient` over pylog's admin client."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Final, NoReturn

from pylog.compat.kafka_python import settings
from pylog.compat.kafka_python.admin.clusters import ClusterCalls
from pylog.compat.kafka_python.admin.configs import ConfigCalls
from pylog.compat.kafka_python.admin.groups import GroupCalls
from pylog.compat.kafka_python.admin.topics import TopicCalls
from pylog.compat.kafka_python.admin.transactions import TransactionCalls
from pylog.compat.kafka_python.clusters import admin_of
from pylog.compat.kafka_python.errors import KafkaConfigurationError, UnsupportedVersionError
from pylog.compat.kafka_python.translation import constructing, translating

_SECURITY: Final = "pylog has no authorization, users and quotas yet; leave the call out"
NOT_TAKEN: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "create_acls",
            "describe_acls",
            "delete_acls",
            "alter_user_scram_credentials",
            "describe_user_scram_credentials",
        ),
        _SECURITY,
    ),
    "alter_replica_log_dirs": "pylog moves no replicas between directories",
    "describe_metadata_quorum": "pylog has one controller, on the driver, and no quorum",
    "api_versions": "they are of Kafka's protocol, which this client does not speak",
    "get_broker_version_data": "it is of Kafka's protocol, which this client does not speak",
}
"""Methods that cannot do what kafka-python's do, and why."""


class KafkaAdminClient(TopicCalls, ConfigCalls, GroupCalls, ClusterCalls, TransactionCalls):
    """Administers a cluster; thread safe. The constructor waits for the cluster.

    Answers have kafka-python's shapes: dictionaries with the field names of Kafka's protocol.
    Settings are kafka-python's; an unknown one is a KafkaConfigurationError.
    """

    DEFAULT_CONFIG: ClassVar[Mapping[str, Any]] = settings.ADMIN_DEFAULTS

    def __init__(self, **configs: Any) -> None:
        strange = settings.unknown(configs, settings.ADMIN | settings.ADMIN_OWN)
        if strange:
            raise KafkaConfigurationError(f"Unrecognized configs: {sorted(strange)}")
        self.config = {**self.DEFAULT_CONFIG, **configs}
        self._timeout_ms = self.config["request_timeout_ms"]
        with constructing():
            self._admin = admin_of(configs)

    def close(self) -> None:
        """Let go of connections."""
        with translating():
            self._admin.close()

    def __enter__(self) -> KafkaAdminClient:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()


def _refusal(name: str, reason: str) -> Any:
    def refuse(_self: KafkaAdminClient, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise UnsupportedVersionError(f"{name}: {reason}")

    refuse.__name__ = name
    refuse.__doc__ = f"Raises UnsupportedVersionError: {reason}."
    return refuse


for _name, _reason in NOT_TAKEN.items():
    setattr(KafkaAdminClient, _name, _refusal(_name, _reason))
