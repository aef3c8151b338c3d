"""A broker's registration: what it tells the controller, above all of its log directories."""

from __future__ import annotations

from pylog.model import BrokerEpoch, ControllerEpoch
from pylog_broker.metadata.messages import LogDirectory, RegisterBroker
from pylog_broker.metadata.records import Listener, Software
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.manager import LogManager


def registration_of(
    logs: LogDirectories,
    *,
    incarnation_id: str,
    host_id: str,
    rack: str | None,
    listeners: tuple[Listener, ...],
    software: Software,
    highest_controller_epoch: ControllerEpoch,
    previous_broker_epoch: BrokerEpoch,
    static_config: tuple[tuple[str, str], ...],
) -> RegisterBroker:
    """A registration with these logs as they are now; the rest as given."""
    first = (*logs.live, *logs.opened)[0]
    return RegisterBroker(
        broker_id=logs.meta.broker_id,
        incarnation_id=incarnation_id,
        cluster_id=logs.meta.cluster_id,
        host_id=host_id,
        rack=rack,
        listeners=listeners,
        software=software,
        directory_id=first.meta.directory_id,
        boot_id=logs.meta.boot_id,
        log_intact=logs.log_intact,
        highest_controller_epoch=highest_controller_epoch,
        failed_replicas=logs.failed_replicas,
        lost_replicas=logs.lost_replicas,
        static_config=static_config,
        log_dirs=tuple(map(_told, logs.live)),
        offline_log_dirs=tuple(gone.directory_id for gone in logs.offline),
        previous_broker_epoch=previous_broker_epoch,
    )


def _told(manager: LogManager) -> LogDirectory:
    logs = ((log.topic_id, log.topic_partition.partition) for log in manager.logs)
    replicas = sorted({*logs, *manager.failed_replicas})
    return LogDirectory(manager.meta.directory_id, manager.log_intact, tuple(replicas))
