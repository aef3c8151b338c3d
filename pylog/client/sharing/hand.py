"""The records that a user has been given and that are not acknowledged yet. Pure.

Records are handed out in order, delivery by delivery, and an iteration takes them one by one:
`taken` of them, counted over all deliveries, are in the user's hands. In the implicit mode all that
was taken is accepted at once; in the explicit mode the user says what becomes of each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pylog import errors
from pylog.client.sharing.ack_ranges import ranges_of, ranges_of_one
from pylog.client.sharing.acknowledgements import AckParcel
from pylog.client.sharing.messages import AckRange, Acquired, SharedPartition
from pylog.model import AcknowledgeType, TopicPartition
from pylog.records.record import Record


@dataclass(slots=True, eq=False)
class Delivery:
    """Records of one partition that were acquired together."""

    partition: SharedPartition
    broker: int
    session: int
    records: list[Record]
    decided: dict[int, AcknowledgeType] = field(default_factory=dict)
    renewing: dict[int, Record] = field(default_factory=dict)
    """By offset: their renewal is on its way, or was granted; they are not in `records`."""
    renewed: set[int] = field(default_factory=set)
    """Those of `renewing` whose lock has begun anew."""
    by_offset: dict[int, Record] = field(default_factory=dict)
    """The records, where the user decides one by one."""


class Hand:
    """Owned by the user's thread, but for what becomes of renewals, which comes under the lock."""

    def __init__(self, *, explicit: bool) -> None:
        self.explicit = explicit
        self._deliveries: list[Delivery] = []

    def __len__(self) -> int:
        """The number of records that wait for an acknowledgement, taken or not."""
        return sum(len(delivery.records) for delivery in self._deliveries)

    def offsets_of(self, partition: SharedPartition, broker: int, session: int) -> set[int]:
        """The records of the partition, from that session, that wait for an acknowledgement or are
        being renewed.
        """
        asked = (partition, broker, session)
        found: set[int] = set()
        for delivery in self._deliveries:
            if (delivery.partition, delivery.broker, delivery.session) == asked:
                found.update(record.offset for record in delivery.records)
                found.update(delivery.renewing)
        return found

    def add(self, acquired: Acquired, records: Sequence[Record]) -> None:
        """These are handed out."""
        delivery = Delivery(acquired.partition, acquired.broker, acquired.session, list(records))
        if self.explicit:
            delivery.by_offset = {record.offset: record for record in delivery.records}
        self._deliveries.append(delivery)

    # ---- implicit -----------------------------------------------------------------------------

    def accept(self, taken: int | None = None) -> list[AckParcel]:
        """The user is done with what it has: with the first `taken` records, or with all."""
        return self._give(AcknowledgeType.ACCEPT, taken)

    def release(self, taken: int) -> list[AckParcel]:
        """The user ends with the first `taken` records in its hands: they are for others, and this
        delivery counts, as the program may have failed because of one of them.
        """
        return self._give(AcknowledgeType.RELEASE, taken)

    def _give(self, kind: AcknowledgeType, taken: int | None) -> list[AckParcel]:
        parcels: list[AckParcel] = []
        left = len(self) if taken is None else taken
        for delivery in self._deliveries:
            done, delivery.records = delivery.records[:left], delivery.records[left:]
            left -= len(done)
            if done:
                ranges = ranges_of_one([r.offset for r in done], kind)
                parcels.append(_parcel(delivery, ranges))
        self._forget_empty()
        return parcels

    # ---- explicit -----------------------------------------------------------------------------

    def decide(self, tp: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """The user says what becomes of a record. Until that is sent the last word counts.

        Raises InvalidRequest for a record that is not in the user's hands.
        """
        for delivery in reversed(self._deliveries):
            if offset in delivery.by_offset and delivery.partition.topic_partition == tp:
                delivery.decided[offset] = kind
                return
        raise errors.InvalidRequest(
            f"{tp} at offset {offset} cannot be acknowledged: it is none of the records that the "
            "last poll returned, or it is acknowledged already"
        )

    def take_decided(self) -> list[AckParcel]:
        """The user's decisions since the last time. Renewed records come back."""
        parcels: list[AckParcel] = []
        for delivery in self._deliveries:
            decided, delivery.decided = delivery.decided, {}
            if not decided:
                continue
            for offset, kind in decided.items():
                record = delivery.by_offset.pop(offset)
                if kind is AcknowledgeType.RENEW:
                    delivery.renewing[offset] = record
            delivery.records = [r for r in delivery.records if r.offset not in decided]
            parcels.append(_parcel(delivery, ranges_of(decided.items())))
        self._forget_empty()
        return parcels

    # ---- renewals -----------------------------------------------------------------------------

    @property
    def renews(self) -> bool:
        """Whether records are to come back, now or when their renewal is answered."""
        return any(delivery.renewing for delivery in self._deliveries)

    @property
    def awaits_renewals(self) -> bool:
        """Whether a renewal is not answered yet."""
        return any(len(d.renewed) < len(d.renewing) for d in self._deliveries)

    def on_renewal(self, parcel: AckParcel, *, is_granted: bool) -> None:
        """The outcome of the renewals in a parcel. A record whose renewal is refused is lost: it is
        delivered again to somebody.
        """
        for delivery in self._deliveries:
            if (delivery.partition, delivery.broker, delivery.session) != (
                parcel.partition,
                parcel.broker,
                parcel.session,
            ):
                continue
            for each in parcel.ranges:
                for offset in range(each.first_offset, each.last_offset + 1):
                    if offset in delivery.renewing and is_granted:
                        delivery.renewed.add(offset)
                    elif offset in delivery.renewing:
                        del delivery.renewing[offset]
        self._forget_empty()

    def take_renewed(self) -> list[tuple[SharedPartition, list[Record]]]:
        """Records whose lock has begun anew: the user has them again."""
        found: list[tuple[SharedPartition, list[Record]]] = []
        for delivery in self._deliveries:
            back = [delivery.renewing.pop(offset) for offset in sorted(delivery.renewed)]
            delivery.renewed.clear()
            if back:
                delivery.records = sorted([*delivery.records, *back], key=lambda r: r.offset)
                delivery.by_offset.update((record.offset, record) for record in back)
                found.append((delivery.partition, back))
        return found

    # ---- the end ------------------------------------------------------------------------------

    def clear(self) -> None:
        """Nothing is in the user's hands any more."""
        self._deliveries.clear()

    def _forget_empty(self) -> None:
        self._deliveries = [d for d in self._deliveries if d.records or d.renewing]


def _parcel(delivery: Delivery, ranges: tuple[AckRange, ...]) -> AckParcel:
    return AckParcel(delivery.partition, delivery.broker, delivery.session, ranges)
