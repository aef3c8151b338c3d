"""The software of this broker, as it tells the controller."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from pylog_broker.kafka.generated import (
    add_partitions_to_txn,
    api_versions,
    delete_share_group_state,
    fetch,
    initialize_share_group_state,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    sasl_authenticate,
    sasl_handshake,
    write_share_group_state,
    write_txn_markers,
)
from pylog_broker.kafka.headers import OFFERED
from pylog_broker.metadata.features import SUPPORTED
from pylog_broker.metadata.records import Software

NAME: Final = "pylog"
DISTRIBUTION: Final = "pylog-spark"
NOT_INSTALLED: Final = "0"

_NAMES: Final = {
    add_partitions_to_txn.KEY: "AddPartitionsToTxn",
    api_versions.KEY: "ApiVersions",
    delete_share_group_state.KEY: "DeleteShareGroupState",
    fetch.KEY: "Fetch",
    initialize_share_group_state.KEY: "InitializeShareGroupState",
    list_offsets.KEY: "ListOffsets",
    offset_for_leader_epoch.KEY: "OffsetForLeaderEpoch",
    produce.KEY: "Produce",
    read_share_group_state.KEY: "ReadShareGroupState",
    read_share_group_state_summary.KEY: "ReadShareGroupStateSummary",
    sasl_authenticate.KEY: "SaslAuthenticate",
    sasl_handshake.KEY: "SaslHandshake",
    write_share_group_state.KEY: "WriteShareGroupState",
    write_txn_markers.KEY: "WriteTxnMarkers",
}


def this_software() -> Software:
    """Name and version, the APIs for other brokers, and the features."""
    try:
        installed = version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a folder, or out of an archive
        installed = NOT_INSTALLED
    apis = tuple(sorted((_NAMES[key], versions[-1]) for key, versions in OFFERED.items()))
    return Software(NAME, installed, apis, SUPPORTED)
