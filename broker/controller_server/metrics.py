"""The metrics of a controller."""

from __future__ import annotations

import asyncio
from typing import Final

from pylog.model import NO_LEADER
from pylog_broker.controller_server.server import ControllerServer
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metrics import names
from pylog_broker.metrics.exposition import Page

SLICE: Final = 1_000
"""Partitions between two turns of the loop: well under a millisecond."""


async def add_controller(page: Page, server: ControllerServer, expected_brokers: int) -> None:
    """The controller's metrics, those of all partitions of the cluster among them."""
    controller, shell = server.controller, server.shell
    image = controller.image
    fenced = sum(broker.fenced for broker in image.brokers.values())
    page.add(names.ACTIVE_CONTROLLER, int(not shell.failed.done()))
    page.add(names.ACTIVE_BROKERS, len(image.brokers) - fenced)
    page.add(names.FENCED_BROKERS, fenced)
    page.add(names.EXPECTED_BROKERS, expected_brokers)
    page.add(names.CONTROLLER_EPOCH, controller.controller_epoch)
    page.add(names.ELECTIONS, controller.elections.elections)
    page.add(names.UNCLEAN_ELECTIONS, controller.elections.unclean)
    page.add(names.METADATA_END, controller.decided.offset)
    page.add(names.METADATA_COMMITTED, image.offset)
    page.add_all(
        names.BROKER_LAG,
        {
            (broker,): max(0, image.offset - offset)
            for broker, offset in controller.applied_offsets().items()
        },
    )
    page.add(names.EVENT_QUEUE, shell.queue_size)
    page.add_histograms(names.EVENT_QUEUE_SECONDS, {(): shell.queue_seconds})
    page.add(names.NO_ROOM, int(bool(shell.no_room)))
    await _add_partitions(page, image)


async def _add_partitions(page: Page, image: MetadataImage) -> None:
    partitions = list(image.partitions())
    offline = away = 0
    for first in range(0, len(partitions), SLICE):
        for partition in partitions[first : first + SLICE]:
            offline += partition.leader == NO_LEADER
            away += partition.leader not in (NO_LEADER, partition.replicas[0])
        await asyncio.sleep(0)
    page.add(names.TOPICS, len(image.topics_by_name))
    page.add(names.GLOBAL_PARTITIONS, len(partitions))
    page.add(names.OFFLINE_PARTITIONS, offline)
    page.add(names.IMBALANCE, away)
