"""The request manager of share sessions: it acquires records and acknowledges them. Pure.

Kafka's `ShareConsumeRequestManager`. A member has one share session with each leader of partitions
that it reads, and one request under way in it: a fetch, which takes acknowledgements along, or
acknowledgements alone where nothing is to be acquired. Records are acquired only while a poll waits
and nothing is buffered: what lies here is locked for everybody else.

A session that a broker does not know any more, or whose connection broke, begins anew, and what was
acquired in it is nobody's: acknowledgements of it fail, and buffered records are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.cluster.metadata import ClusterMetadata, Leader
from pylog.client.fetching.fetch_events import Effect as FetchEffect
from pylog.client.fetching.fetch_events import RefreshMetadata
from pylog.client.fetching.leader_finder import LeaderFinder
from pylog.client.sharing.ack_ranges import merged, offsets_of
from pylog.client.sharing.acknowledgements import AckParcel
from pylog.client.sharing.messages import (
    AckRange,
    Acks,
    Acquired,
    AcquiredRange,
    PartitionShared,
    ShareAcknowledge,
    ShareAnswer,
    SharedPartition,
    ShareFetch,
)
from pylog.model import AcknowledgeType

FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
CROWDED_WAIT_MS: Final = 50
"""The time for which one leader is waited for while others wait: there is not a record for each of
them."""

LOCK_TIMEOUT_MS: Final = 30_000
"""Kafka's default, where a broker does not tell its own."""
RELEASED: Final = bytes((AcknowledgeType.RELEASE,))

_MOVED: Final = (
    errors.NotLeaderOrFollower.code,
    errors.FencedLeaderEpoch.code,
    errors.UnknownLeaderEpoch.code,
    errors.UnknownTopicOrPartition.code,
    errors.UnknownTopicId.code,
    errors.LeaderNotAvailable.code,
    errors.ReplicaNotAvailable.code,
)
"""Another broker leads, or will: what this one had acquired for the member is free again."""


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The settings of a share consumer that the core needs."""

    fetch_max_wait_ms: int = 500
    max_poll_records: int = 500
    strict: bool = False
    """Whether no more than `max_poll_records` are acquired at a time (KIP-1206: record_limit)."""
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    def backoff_ms(self, failures: int, jitter: float) -> int:
        """The milliseconds to wait after so many failures: exponential, within 20 % (KIP-580)."""
        wait = self.retry_backoff_ms * 2 ** min(max(failures - 1, 0), 30)
        return int(min(wait, self.retry_backoff_max_ms) * (0.8 + 0.4 * jitter))


Effect = ShareFetch | ShareAcknowledge | FetchEffect


class Requests(NamedTuple):
    """The result of a poll: requests, and when to poll again without another event."""

    requests: list[Effect]
    deadline_ms: int | None


@dataclass(slots=True, eq=False)
class ShareSession:
    """The session with one broker. Invariant: with epoch 0 the broker knows no partition."""

    broker: int
    number: int = 0
    """Counts the sessions with this broker: an older one's records are not this one's."""
    epoch: int = 0
    told: dict[SharedPartition, None] = field(default_factory=dict)
    """The partitions that the broker keeps in the session."""
    parcels: list[AckParcel] = field(default_factory=list)
    in_flight: ShareFetch | ShareAcknowledge | None = None
    sent_at_ms: int = 0
    sent: list[AckParcel] = field(default_factory=list)
    """The parcels of the request in flight."""
    wanted: dict[SharedPartition, int] = field(default_factory=dict)
    """The session's partitions when the fetch in flight is answered, with the leader epochs."""
    failures: int = 0
    retry_at_ms: int = 0
    ended: bool = False


class ShareRequests:
    """Owned by the consumer's lock."""

    def __init__(
        self,
        settings: ShareSettings,
        metadata: ClusterMetadata,
        leaders: LeaderFinder,
        on_settled: Callable[[AckParcel, errors.PylogError | None], None],
        in_hand: Callable[[SharedPartition, int, int], set[int]],
        jitter: Callable[[], float],
    ) -> None:
        """`on_settled` hears what becomes of each parcel, once; `in_hand` tells which records of a
        partition the user has from a broker's session.
        """
        self.wants = False
        """Whether a poll waits for records, or its first look is still to be made."""
        self.buffer: deque[Acquired] = deque()
        self.lock_timeout_ms: int | None = None
        """The time for which records are acquired, as a broker has told last."""
        self._settings = settings
        self._metadata = metadata
        self._leaders = leaders
        self._on_settled = on_settled
        self._in_hand = in_hand
        self._jitter = jitter
        self._assigned: dict[SharedPartition, None] = {}
        self._anew: set[SharedPartition] = set()
        """Those that were assigned since a fetch has named them. Nothing counts that was acquired
        of them by a request before: see `assign`."""
        self._sessions: dict[int, ShareSession] = {}
        self._resting: dict[SharedPartition, tuple[int, int]] = {}  # failures, until when
        self._first = 0  # the leader whose turn it is, where there is not a record for each
        self._has_looked = self._stops = False
        self._closed: Answer[None] | None = None
        self._error: errors.PylogError | None = None

    # ---- the user -----------------------------------------------------------------------------

    def assign(self, partitions: Iterable[SharedPartition]) -> None:
        """Read these. Buffered records of other partitions are released.

        A partition that the member gets once more, as it was out of its group, is named to the
        session that has it, too: when a member begins to read, the leader makes sure that nobody
        has altered the group's offsets since.
        """
        assigned = dict.fromkeys(partitions)
        self._anew.intersection_update(assigned)
        self._anew.update(place for place in assigned if place not in self._assigned)
        self._assigned = assigned
        for place in [place for place in self._resting if place not in self._assigned]:
            del self._resting[place]
        kept: deque[Acquired] = deque()
        for acquired in self.buffer:
            if acquired.partition in self._assigned:
                kept.append(acquired)
            else:
                self._release(acquired)
        self.buffer = kept

    def want(self) -> None:
        """A poll waits for records."""
        if not self.wants:
            self._has_looked = False
        self.wants, self._stops = self._closed is None, False

    def stop(self) -> None:
        """No poll waits any more. One that had no time to wait has its records fetched for the
        next.
        """
        if self._has_looked:
            self.wants = False
        else:
            self._stops = self.wants

    @property
    def assigned(self) -> list[SharedPartition]:
        """The partitions that are read."""
        return list(self._assigned)

    def take(self, now_ms: int) -> Acquired | None:
        """The records that were acquired first, unless their lock has run out meanwhile."""
        while self.buffer:
            acquired = self.buffer.popleft()
            if self.holds(now_ms, acquired):
                return acquired
            self._release(acquired)
        return None

    def holds(self, now_ms: int, acquired: Acquired) -> bool:
        """Whether the records are still this member's, as far as it can know: not when a new leader
        may have given them to others.
        """
        session = self._sessions.get(acquired.broker)
        if session is None or session.number != acquired.session:
            return False
        place = acquired.partition
        leader = self._metadata.leader(place.topic, place.partition)
        is_led = leader is None or leader == Leader(acquired.broker, acquired.leader_epoch)
        return is_led and now_ms < acquired.expires_at_ms

    def acknowledge(self, parcels: Iterable[AckParcel]) -> None:
        """Have these sent with the next request in their session."""
        for parcel in parcels:
            session = self._sessions.get(parcel.broker)
            if session is None or session.number != parcel.session or session.ended:
                self._on_settled(parcel, _lost(parcel))
            else:
                session.parcels.append(parcel)

    def close(self) -> Answer[None]:
        """Send what is to be acknowledged, and end all sessions: whatever else they have acquired
        is free for others. Answered when that is done.
        """
        if self._closed is None:
            self._closed = Answer()
            self.wants = False
            self.buffer.clear()
        return self._closed

    def take_error(self) -> errors.PylogError | None:
        """The error of a broker that refuses for good, once."""
        error, self._error = self._error, None
        return error

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Requests:
        """Everything that can be decided now."""
        requests: list[Effect] = []
        due: list[int] = []
        wanted = self._by_leader(now_ms, due) if self._is_fetching else {}
        shares = self._shares(wanted)
        for broker in dict.fromkeys([*self._sessions, *wanted]):
            session = self._sessions.setdefault(broker, ShareSession(broker))
            if session.in_flight is not None and not self._may_interrupt(session):
                continue
            has_ended = self._closed is not None and session.epoch == 0
            if now_ms < session.retry_at_ms and not has_ended:
                due.append(session.retry_at_ms)
                continue
            request = self._next(session, wanted.get(broker, ()), shares)
            if request is not None:
                session.in_flight, session.sent_at_ms = request, now_ms
                requests.append(request)
        self._has_looked = True
        if self._stops:
            self.wants = self._stops = False
        self._look_at_the_end()
        return Requests(requests, min(due, default=None))

    def _may_interrupt(self, session: ShareSession) -> bool:
        """Whether the session may end while its fetch waits for records: the broker gives none to
        a session that has ended.
        """
        fetch = session.in_flight
        is_fetch = isinstance(fetch, ShareFetch) and fetch.epoch > 0
        return self._closed is not None and is_fetch and not session.sent

    @property
    def _is_fetching(self) -> bool:
        return self.wants and not self.buffer and self._closed is None

    def _by_leader(self, now_ms: int, due: list[int]) -> dict[int, tuple[SharedPartition, ...]]:
        found: dict[int, list[SharedPartition]] = {}
        for place in self._assigned:
            _, rests_until_ms = self._resting.get(place, (0, 0))
            if now_ms < rests_until_ms:
                due.append(rests_until_ms)
                continue
            leader = self._metadata.leader(place.topic, place.partition)
            if leader is None or self._metadata.topic_id(place.topic) != place.topic_id:
                self._leaders.is_missing(place.topic_partition)
                continue
            found.setdefault(leader.broker, []).append(place)
        return {broker: tuple(places) for broker, places in found.items()}

    def _epoch_of(self, place: SharedPartition) -> int:
        leader = self._metadata.leader(place.topic, place.partition)
        return -1 if leader is None else leader.epoch

    def _shares(self, wanted: dict[int, tuple[SharedPartition, ...]]) -> dict[int, int]:
        """The number of records that each leader may be asked for."""
        count = self._settings.max_poll_records
        if not self._settings.strict or not wanted:
            return dict.fromkeys(wanted, count)
        brokers = sorted(wanted)
        asked = sum(
            s.in_flight.max_records
            for s in self._sessions.values()
            if isinstance(s.in_flight, ShareFetch)
        )
        free = [b for b in brokers if b not in self._sessions or not self._sessions[b].in_flight]
        if not free:
            return {}
        each, over = divmod(max(count - asked, 0), len(free))
        self._first += 1
        turned = [free[(self._first + index) % len(free)] for index in range(len(free))]
        return {broker: each + (index < over) for index, broker in enumerate(turned)}

    def _next(
        self,
        session: ShareSession,
        wanted: tuple[SharedPartition, ...],
        shares: dict[int, int],
    ) -> ShareFetch | ShareAcknowledge | None:
        parcels = session.parcels
        if self._closed is not None:
            if session.ended:
                return None
            if session.epoch == 0:
                session.ended = True
                return None
            return self._acknowledgement(session, FINAL_EPOCH)
        renews = any(parcel.renews for parcel in parcels)
        records = shares.get(session.broker, 0)
        fetches = wanted and records and not renews
        known = dict.fromkeys(wanted)
        # Acknowledgements of a partition leave before a fetch says that it is read anew.
        if fetches and all(
            parcel.partition in known and parcel.partition not in self._anew for parcel in parcels
        ):
            added = tuple(
                place for place in wanted if place not in session.told or place in self._anew
            )
            self._anew.difference_update(added)
            session.sent, session.parcels = parcels, []
            session.wanted = {place: self._epoch_of(place) for place in wanted}
            crowded = any(count == 0 for count in shares.values())
            wait_ms = self._settings.fetch_max_wait_ms
            return ShareFetch(
                session.broker,
                session.epoch,
                min(wait_ms, CROWDED_WAIT_MS) if crowded else wait_ms,
                records,
                added,
                tuple(place for place in session.told if place not in known),
                _acks(parcels),
            )
        return self._acknowledgement(session, session.epoch) if parcels else None

    def _acknowledgement(self, session: ShareSession, epoch: int) -> ShareAcknowledge:
        session.sent, session.parcels = session.parcels, []
        renews = any(parcel.renews for parcel in session.sent)
        return ShareAcknowledge(session.broker, epoch, _acks(session.sent), renews)

    # ---- answers ------------------------------------------------------------------------------

    def on_answer(
        self, now_ms: int, request: ShareFetch | ShareAcknowledge, answer: ShareAnswer
    ) -> list[Effect]:
        """The broker has answered."""
        session = self._sessions[request.broker]
        if session.in_flight is not request:
            return []
        if answer.code:
            error = errors.from_code(answer.code, answer.message)
            self._restart(now_ms, session, error)
            return []
        session.in_flight = None
        session.failures = 0
        sent, session.sent = session.sent, []
        if answer.lock_timeout_ms:
            self.lock_timeout_ms = answer.lock_timeout_ms
        if request.epoch == FINAL_EPOCH:
            session.ended = True
        else:
            session.epoch = 1 if request.epoch == EPOCH_MAX else request.epoch + 1
        if isinstance(request, ShareFetch):
            session.told = dict.fromkeys(session.wanted)
        known = {(p.topic_id, p.partition): p for p in (*session.told, *_places(sent))}
        told: dict[SharedPartition, PartitionShared] = {}
        effects: list[Effect] = []
        for each in answer.partitions:
            place = known.get((each.topic_id, each.partition))
            if place is not None:
                told[place] = each
        self._settle_all(now_ms, session, sent, told)
        for place, each in told.items():
            effects += self._take_in(now_ms, session, request, place, each)
        return effects

    def on_no_answer(
        self, now_ms: int, request: ShareFetch | ShareAcknowledge, error: errors.PylogError
    ) -> None:
        """The call has failed: nobody knows what came of it."""
        session = self._sessions[request.broker]
        if session.in_flight is request:
            self._leaders.is_stuck({place.topic for place in self._assigned})
            self._restart(now_ms, session, error)

    def _restart(self, now_ms: int, session: ShareSession, error: errors.PylogError) -> None:
        """The session is no more, and with it all that was acquired in it."""
        lost, session.sent, session.parcels = [*session.sent, *session.parcels], [], []
        session.in_flight, session.epoch, session.told = None, 0, {}
        session.number += 1
        session.failures += 1
        if session.failures > 1 or not isinstance(
            error, errors.ShareSessionNotFound | errors.InvalidShareSessionEpoch
        ):
            wait_ms = self._settings.backoff_ms(session.failures, self._jitter())
            session.retry_at_ms = now_ms + wait_ms
        if not error.retriable:
            self._error = error
        self.buffer = deque(each for each in self.buffer if each.broker != session.broker)
        if self._closed is not None:
            session.ended = True
        for parcel in lost:
            self._on_settled(parcel, error)

    def _settle_all(
        self,
        now_ms: int,
        session: ShareSession,
        sent: list[AckParcel],
        told: dict[SharedPartition, PartitionShared],
    ) -> None:
        for parcel in sent:
            each = told.get(parcel.partition)
            where = str(parcel.partition.topic_partition)
            error: errors.PylogError | None = None
            if each is None:
                error = errors.InvalidRecordState(
                    f"{where}: the broker does not tell what became of the acknowledgements"
                )
            elif each.ack_code:
                error = errors.from_code(each.ack_code, f"{where}: {each.ack_message}")
            may_retry = error is not None and error.retriable and error.code not in _MOVED
            if may_retry and now_ms < parcel.deadline_ms and self._closed is None:
                session.failures += 1
                wait_ms = self._settings.backoff_ms(session.failures, self._jitter())
                session.retry_at_ms = now_ms + wait_ms
                session.parcels.append(parcel)
            else:
                self._on_settled(parcel, error)

    def _take_in(
        self,
        now_ms: int,
        session: ShareSession,
        request: ShareFetch | ShareAcknowledge,
        place: SharedPartition,
        each: PartitionShared,
    ) -> list[Effect]:
        effects: list[Effect] = []
        code = each.code or (each.ack_code if each.ack_code in _MOVED else 0)
        if code in _MOVED:
            learnt = each.leader >= 0 and self._metadata.learn_leader(
                place.topic, place.partition, each.leader, each.leader_epoch
            )
            if not learnt:
                self._rest(now_ms, place)
                effects.append(RefreshMetadata((place.topic,)))
        elif code:
            self._rest(now_ms, place)
            error = errors.from_code(code, f"{place.topic_partition}: {each.message}")
            if not error.retriable:
                self._error = error
        elif isinstance(request, ShareFetch):
            self._resting.pop(place, None)
        acquired_now = self._without_known(session, place, each.acquired)
        if acquired_now:
            # It may have lain here while the process was stopped; it is no older than its request.
            lock_ms = self.lock_timeout_ms or LOCK_TIMEOUT_MS
            acquired = Acquired(
                place,
                session.broker,
                session.number,
                acquired_now,
                each.batches,
                session.sent_at_ms + lock_ms,
                session.wanted.get(place, -1),
            )
            if self._closed is not None:
                pass  # the end of the session releases it
            elif place in self._assigned and place not in self._anew:
                self.buffer.append(acquired)
            else:
                self._release(acquired)
        return effects

    def _without_known(
        self, session: ShareSession, place: SharedPartition, ranges: tuple[AcquiredRange, ...]
    ) -> tuple[AcquiredRange, ...]:
        """A leader that was elected again knows nothing of the locks it gave, and gives records
        once more that the user has: they are acknowledged by what becomes of those.
        """
        known = self._in_hand(place, session.broker, session.number)
        for parcel in session.parcels:
            if parcel.partition == place:
                known |= {offset for offset, _ in offsets_of(parcel.ranges)}
        if not known:
            return ranges
        return tuple(
            AcquiredRange(offset, offset, each.delivery_count)
            for each in ranges
            for offset in range(each.first_offset, each.last_offset + 1)
            if offset not in known
        )

    def _rest(self, now_ms: int, place: SharedPartition) -> None:
        failures = self._resting.get(place, (0, 0))[0] + 1
        until_ms = now_ms + self._settings.backoff_ms(failures, self._jitter())
        self._resting[place] = (failures, until_ms)

    def _release(self, acquired: Acquired) -> None:
        self.acknowledge([released(acquired)])

    def _look_at_the_end(self) -> None:
        closed = self._closed
        if closed is None or closed.done:
            return
        if all(s.ended and s.in_flight is None for s in self._sessions.values()):
            closed.succeed(None)


def released(acquired: Acquired) -> AckParcel:
    """Everything of it is for others."""
    ranges = tuple(
        AckRange(each.first_offset, each.last_offset, RELEASED) for each in acquired.ranges
    )
    return AckParcel(
        acquired.partition,
        acquired.broker,
        acquired.session,
        ranges,
        deadline_ms=acquired.expires_at_ms,
        by_user=False,
    )


def _acks(parcels: Iterable[AckParcel]) -> Acks:
    by_place: dict[SharedPartition, list[AckRange]] = {}
    for parcel in parcels:
        by_place.setdefault(parcel.partition, []).extend(parcel.ranges)
    return tuple((place, merged(ranges)) for place, ranges in by_place.items())


def _places(parcels: Iterable[AckParcel]) -> list[SharedPartition]:
    return [parcel.partition for parcel in parcels]


def _lost(parcel: AckParcel) -> errors.PylogError:
    return errors.ShareSessionNotFound(
        f"{parcel.partition.topic_partition}: the share session with broker {parcel.broker}, in "
        "which the records were acquired, has ended; they are delivered again"
    )
