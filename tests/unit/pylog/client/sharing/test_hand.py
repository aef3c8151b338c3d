"""The records in a user's hands: accepted as they are taken, or decided one by one; renewed."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.client.sharing.acknowledgements import AckParcel
from pylog.client.sharing.hand import Hand
from pylog.client.sharing.messages import AckRange, Acquired, SharedPartition
from pylog.model import AcknowledgeType, TopicPartition
from pylog.records.record import Record

T0 = SharedPartition("id", "t", 0)
TP0 = TopicPartition("t", 0)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def records(*offsets: int) -> list[Record]:
    return [Record.of("t", 0, offset) for offset in offsets]


def hand_with(*offsets: int, explicit: bool = False, session: int = 0) -> Hand:
    hand = Hand(explicit=explicit)
    hand.add(Acquired(T0, 1, session, (), b"", 0), records(*offsets))
    return hand


def told(parcels: list[AckParcel]) -> list[tuple[int, int, tuple[AckRange, ...]]]:
    return [(parcel.broker, parcel.session, parcel.ranges) for parcel in parcels]


def test_all_that_was_taken_is_accepted() -> None:
    hand = hand_with(3, 4, 5, session=2)
    assert told(hand.accept(2)) == [(1, 2, (AckRange(3, 4, b"\x01"),))]
    assert len(hand) == 1
    assert told(hand.accept()) == [(1, 2, (AckRange(5, 5, b"\x01"),))]
    assert hand.accept() == []
    assert len(hand) == 0


def test_what_the_user_had_is_released() -> None:
    hand = hand_with(3, 4, 5)
    hand.accept(1)
    assert told(hand.release(1)) == [(1, 0, (AckRange(4, 4, b"\x02"),))]
    assert len(hand) == 1


def test_what_is_taken_counts_over_all_deliveries() -> None:
    hand = hand_with(3, 4)
    hand.add(Acquired(T0, 2, 0, (), b"", 0), records(1, 2))
    assert told(hand.accept(3)) == [
        (1, 0, (AckRange(3, 4, b"\x01"),)),
        (2, 0, (AckRange(1, 1, b"\x01"),)),
    ]


def test_the_last_word_counts_until_it_is_sent() -> None:
    hand = hand_with(3, 4, 5, explicit=True)
    hand.decide(TP0, 3, ACCEPT)
    hand.decide(TP0, 4, REJECT)
    hand.decide(TP0, 3, RELEASE)
    assert told(hand.take_decided()) == [(1, 0, (AckRange(3, 4, b"\x02\x03"),))]
    assert len(hand) == 1
    assert hand.take_decided() == []


@pytest.mark.parametrize(("tp", "offset"), [(TP0, 9), (TopicPartition("t", 1), 3), (TP0, 4)])
def test_what_is_not_in_hand_cannot_be_acknowledged(tp: TopicPartition, offset: int) -> None:
    hand = hand_with(3, 4, explicit=True)
    hand.decide(TP0, 4, ACCEPT)
    hand.take_decided()
    with pytest.raises(errors.InvalidRequest, match="cannot be acknowledged"):
        hand.decide(tp, offset, ACCEPT)


def test_a_renewed_record_comes_back() -> None:
    hand = hand_with(3, 4, explicit=True)
    hand.decide(TP0, 3, RENEW)
    hand.decide(TP0, 4, ACCEPT)
    (parcel,) = hand.take_decided()
    assert parcel.renews
    assert (len(hand), hand.renews, hand.awaits_renewals) == (0, True, True)
    hand.on_renewal(parcel, is_granted=True)
    assert not hand.awaits_renewals
    assert hand.take_renewed() == [(T0, records(3))]
    assert (len(hand), hand.renews) == (1, False)
    hand.decide(TP0, 3, ACCEPT)
    assert told(hand.take_decided()) == [(1, 0, (AckRange(3, 3, b"\x01"),))]


def test_a_record_whose_renewal_is_refused_is_lost() -> None:
    hand = hand_with(3, explicit=True)
    hand.decide(TP0, 3, RENEW)
    (parcel,) = hand.take_decided()
    hand.on_renewal(parcel, is_granted=False)
    assert (hand.renews, hand.take_renewed(), len(hand)) == (False, [], 0)
