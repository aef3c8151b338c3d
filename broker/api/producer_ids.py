"""InitProducerId: a fresh id for an idempotent producer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pylog import errors
from pylog.clock import Clock
from pylog.model import ProducerEpoch, ProducerId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.producer_id_quota import ProducerIdQuota


class InitProducerId(NamedTuple):
    """`delivery_timeout_ms`: how long the producer may send a batch again; 0: it does not say."""

    transactional_id: str
    delivery_timeout_ms: int


class ProducerIdGiven(NamedTuple):
    """An id that nobody else has."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class InitProducerIdHandler:
    """Lives on the broker's loop. `take`: an id that was never given; raises a PylogError when
    there is none at the moment.
    """

    def __init__(
        self, take: Callable[[], Awaitable[ProducerId]], quota: ProducerIdQuota, clock: Clock
    ) -> None:
        self._take = take
        self._quota = quota
        self._clock = clock

    async def handle(self, context: RequestContext, request: InitProducerId) -> ProducerIdGiven:
        """A fresh id, epoch 0. Raises NotOffered for a transactional one,
        ThrottlingQuotaExceeded and InvalidConfig (see `ProducerIdQuota.admit`), and whatever keeps
        the controller from giving ids.
        """
        if request.transactional_id:
            raise errors.NotOffered("transactions are not offered yet: leave transactional_id out")
        self._quota.admit(
            self._clock.monotonic_ms(),
            context.address,
            context.client_id,
            request.delivery_timeout_ms,
        )
        return ProducerIdGiven(await self._take(), ProducerEpoch(0))
