"""InitProducerId: a fresh id for an idempotent producer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pylog.clock import Clock
from pylog.model import ProducerEpoch, ProducerId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.producer_id_quota import ProducerIdQuota
from pylog_broker.api.transactions.producers import TransactionsHandler
from pylog_broker.coordinator.transactions.messages import InitProducer
from pylog_broker.coordinator.transactions.transaction import NO_IDENTITY, Identity


class InitProducerId(NamedTuple):
    """`delivery_timeout_ms`: how long the producer may send a batch again; 0: it does not say.
    The rest is for a transactional one: see `InitProducer`.
    """

    transactional_id: str
    delivery_timeout_ms: int
    transaction_timeout_ms: int = 0
    expected: Identity = NO_IDENTITY
    two_phase: bool = False
    keeps_prepared: bool = False


class ProducerIdGiven(NamedTuple):
    """An id that nobody else has, or that of a transactional producer. `ongoing`: of the prepared
    transaction that this one keeps.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    ongoing: Identity = NO_IDENTITY


class InitProducerIdHandler:
    """Lives on the broker's loop. `take`: an id that was never given; raises a PylogError when
    there is none at the moment.
    """

    def __init__(
        self,
        take: Callable[[], Awaitable[ProducerId]],
        quota: ProducerIdQuota,
        clock: Clock,
        transactions: TransactionsHandler,
    ) -> None:
        self._take = take
        self._transactions = transactions
        self._quota = quota
        self._clock = clock

    async def handle(self, context: RequestContext, request: InitProducerId) -> ProducerIdGiven:
        """A fresh id, epoch 0; of a transactional producer see `TransactionsHandler.init`. Raises
        ThrottlingQuotaExceeded and InvalidConfig (see `ProducerIdQuota.admit`), and whatever keeps
        the controller from giving ids.
        """
        if request.transactional_id:
            identity, ongoing = await self._transactions.init(
                InitProducer(
                    request.transactional_id,
                    request.transaction_timeout_ms,
                    request.expected,
                    request.two_phase,
                    request.keeps_prepared,
                )
            )
            return ProducerIdGiven(*identity, ongoing)
        self._quota.admit(
            self._clock.monotonic_ms(),
            context.address,
            context.client_id,
            request.delivery_timeout_ms,
        )
        return ProducerIdGiven(await self._take(), ProducerEpoch(0))
