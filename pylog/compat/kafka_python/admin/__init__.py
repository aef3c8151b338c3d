"""kafka-python's admin client and what it takes."""

from typing import Any, Final

from pylog.compat.kafka_python.admin.client import KafkaAdminClient
from pylog.compat.kafka_python.admin.resources import (
    AlterConfigOp,
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    ConfigSourceType,
    ConfigType,
    GroupState,
    GroupType,
    IsolationLevel,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    OffsetTimestamp,
    TransactionState,
    UpdateFeatureType,
)
from pylog.compat.kafka_python.admin.transactions import (
    AbortTransactionSpec,
    PartitionProducerState,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)

__all__ = [
    "AbortTransactionSpec",
    "AlterConfigOp",
    "ConfigFilterType",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSourceType",
    "ConfigType",
    "GroupState",
    "GroupType",
    "IsolationLevel",
    "KafkaAdminClient",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "OffsetTimestamp",
    "PartitionProducerState",
    "ProducerState",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpdateFeatureType",
]

NOT_TAKEN: Final = frozenset(
    {
        "ACL",
        "ACLFilter",
        "ACLOperation",
        "ACLPermissionType",
        "ACLResourcePatternType",
        "ResourcePattern",
        "ResourcePatternFilter",
        "ResourceType",
        "ScramMechanism",
        "UserScramCredentialDeletion",
        "UserScramCredentialUpsertion",
    }
)
"""kafka-python's names for what pylog does not have."""


def __getattr__(name: str) -> Any:
    if name in NOT_TAKEN:
        raise ImportError(f"{name}: pylog has no authorization and no users yet; leave it out")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
