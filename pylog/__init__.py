"""pylog: a streaming log for people who live in Spark and Python.

The names below are loaded at first use, so that `import pylog` costs milliseconds: Spark imports
packages of this distribution in short-lived processes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pylog import errors
    from pylog.client.admin.admin import AdminClient
    from pylog.client.admin.admin_types import AlterConfigOp, ConfigResource
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.producer.producer import Producer
    from pylog.client.share_consumer.share_consumer import ShareConsumer
    from pylog.client.sinks.receipts import WriteReceipt, write_receipts
    from pylog.local import LocalCluster
    from pylog.model import (
        AcknowledgeType,
        NewPartitions,
        NewTopic,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RecordMetadata,
        TopicPartition,
    )
    from pylog.records.record import Record

    __version__: str

__all__ = [
    "AcknowledgeType",
    "AdminClient",
    "AlterConfigOp",
    "ConfigResource",
    "Consumer",
    "LocalCluster",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "Record",
    "RecordMetadata",
    "ShareConsumer",
    "TopicPartition",
    "WriteReceipt",
    "errors",
    "write_receipts",
]

_HOMES = {
    "AcknowledgeType": "pylog.model",
    "AdminClient": "pylog.client.admin.admin",
    "AlterConfigOp": "pylog.client.admin.admin_types",
    "ConfigResource": "pylog.client.admin.admin_types",
    "Consumer": "pylog.client.consumer.consumer",
    "LocalCluster": "pylog.local",
    "NewPartitions": "pylog.model",
    "NewTopic": "pylog.model",
    "OffsetAndMetadata": "pylog.model",
    "OffsetAndTimestamp": "pylog.model",
    "Producer": "pylog.client.producer.producer",
    "Record": "pylog.records.record",
    "RecordMetadata": "pylog.model",
    "ShareConsumer": "pylog.client.share_consumer.share_consumer",
    "TopicPartition": "pylog.model",
    "WriteReceipt": "pylog.client.sinks.receipts",
    "write_receipts": "pylog.client.sinks.receipts",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is not None:
        value = getattr(import_module(home), name)
    elif name == "errors":
        value = import_module("pylog.errors")
    elif name == "__version__":
        value = import_module("pylog.distribution").version()
    else:
        raise AttributeError(f"module 'pylog' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
