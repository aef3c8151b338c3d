"""The records that a topic of one partition must hold after its policies have changed. Pure.

A producer of one thread writes keys over and over; a value None is a tombstone. These records may
be gone:

- from the start: by age (`retention.ms`) or size (`retention.bytes`), under a policy that deletes;
- from the middle: what a later record of its key has superseded, or a tombstone of its time, under
  a policy that compacts, and not before `min.compaction.lag.ms`.

Everything else must be there as it was written, and a leader's log start never goes back. Each
replica looks for itself what may go, so another leader may still have what the one before had not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

RECORD_OVERHEAD_MAX = 100
"""Bytes on disk of a record in a batch of its own, besides key and value."""


class Policy(NamedTuple):
    """The settings by which a topic's records may go; -1: without limit."""

    deletes: bool = True
    compacts: bool = False
    retention_ms: int = -1
    retention_bytes: int = -1
    delete_retention_ms: int = 0
    min_lag_ms: int = 0


@dataclass(slots=True)
class Written:
    """A record that was sent. `offset` None: nothing is known of it (yet)."""

    key: bytes
    value: bytes | None
    at_ms: int
    offset: int | None = None

    @property
    def bytes_max(self) -> int:
        """The bytes that it can take on disk."""
        return len(self.key) + len(self.value or b"") + RECORD_OVERHEAD_MAX


class Found(NamedTuple):
    """A record that was read."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class Judge:
    """Invariant: `written` is in the order of sending, which is the order of the log."""

    written: list[Written] = field(default_factory=list)
    start: int = 0
    broken: list[str] = field(default_factory=list)
    """Promises that were not kept."""
    starts_moved: int = 0
    _in_force: list[tuple[int, Policy]] = field(default_factory=list)  # (until when, policy)
    _now: Policy = field(default_factory=Policy)
    _next: Policy | None = None
    _absent: set[int] = field(default_factory=set)  # at the last read of all
    _starts: dict[int, int] = field(default_factory=dict)  # by leader, the last one that it told

    # ---- policies -------------------------------------------------------------------------------

    def changing(self, policy: Policy) -> None:
        """From now on brokers may go by that policy, too."""
        self._next = policy

    def changed(self, now_ms: int) -> None:
        """No broker goes by the earlier one any more."""
        assert self._next is not None
        self._in_force.append((now_ms, self._now))
        self._now, self._next = self._next, None

    def _policies_since(self, since_ms: int) -> list[Policy]:
        found = [policy for until, policy in self._in_force if until >= since_ms]
        return [*found, self._now, *([] if self._next is None else [self._next])]

    # ---- the start ------------------------------------------------------------------------------

    def on_start(self, start: int, now_ms: int, leader: int | None = None) -> None:
        """The leader's log starts there; `leader` None: the leader changed while it was asked.

        Another leader may have moved its start at any time since the records were there: one of the
        policies since must have allowed it.
        """
        if leader is not None:
            told = self._starts.get(leader, 0)
            if start < told:
                self.broken.append(f"{leader}'s log start went back from {told} to {start}")
            self._starts[leader] = start
        if start > self.start:
            self.starts_moved += 1
            gone = [w.at_ms for w in self.written if w.offset is not None and w.offset < start]
            newest_ms = max(gone, default=0)
            past = [(p, until) for until, p in self._in_force if until >= newest_ms]
            present = [(p, now_ms) for p in (self._now, self._next) if p is not None]
            if not any(self._may_go(start, p, ms) for p, ms in past + present):
                self.broken.append(
                    f"the log start moved from {self.start} to {start}, the newest record before "
                    f"being {now_ms - newest_ms} ms old: none of {past + present} allowed it"
                )
        self.start = start

    def _may_go(self, start: int, policy: Policy, until_ms: int) -> bool:
        """Whether a log could start there by a policy, in force until then."""
        if not policy.deletes:
            return False
        if 0 <= policy.retention_ms <= until_ms - self._newest_before(start, until_ms):
            return True
        later = (w for w in self.written if w.offset is None or w.offset >= start)
        left = sum(w.bytes_max for w in later if w.at_ms <= until_ms)
        return 0 <= policy.retention_bytes <= left

    def _newest_before(self, start: int, until_ms: int) -> int:
        """The time of the newest record below the start that must have been there until then: a
        segment is as old as the newest record that compaction has left in it.
        """
        superseded: set[bytes] = set()
        newest_ms = 0
        for record in reversed(self.written):
            if record.at_ms > until_ms:
                continue
            if record.offset is not None and record.offset < start and record.at_ms > newest_ms:
                may_be_gone = record.value is None or record.key in superseded
                policies = self._policies_since(record.at_ms) if may_be_gone else ()
                if not any(policy.compacts for policy in policies):
                    newest_ms = record.at_ms
            superseded.add(record.key)
        return newest_ms

    # ---- the records ----------------------------------------------------------------------------

    def on_read(
        self, found: Iterable[Found], begin: int, end: int, now_ms: int, *, slowly: bool = False
    ) -> int:
        """All that a reader found from offset `begin`, where the log started at the latest when it
        had done, to `end`; how many records it did without. `slowly`: not in one go.
        """
        there = {each.offset: each for each in found}
        absent: set[int] = set()
        later: dict[bytes, Written] = {}
        for record in reversed(self.written):
            at = record.offset
            if at is not None and begin <= at < end:
                seen = there.get(at)
                if seen is None:
                    absent.add(at)
                    self._judge_gone(record, later.get(record.key), now_ms)
                elif (seen.key, seen.value) != (record.key, record.value):
                    self.broken.append(f"offset {at} holds {seen}, written was {record}")
                elif not slowly:
                    self._judge_kept(record, later.get(record.key), absent)
            later[record.key] = record
        if not slowly:
            self._absent = absent
        return len(absent)

    def _judge_gone(self, record: Written, successor: Written | None, now_ms: int) -> None:
        if record.value is None and self._expired(record, now_ms):
            return
        if successor is None and record.value is not None:
            self.broken.append(f"{record} is gone, the last value of its key")
            return
        since_ms = record.at_ms if successor is None else successor.at_ms
        policies = [p for p in self._policies_since(since_ms) if p.compacts]
        age_ms = now_ms - record.at_ms
        if not policies:
            self.broken.append(f"{record} is gone, though nothing has compacted it")
        elif all(age_ms < p.min_lag_ms for p in policies):
            self.broken.append(f"{record} is gone before min.compaction.lag.ms")
        elif successor is None:
            self.broken.append(f"the tombstone {record} is gone before delete.retention.ms")

    def _expired(self, tombstone: Written, now_ms: int) -> bool:
        """Whether it may have gone by its time, be there a later record of its key or not."""
        age_ms = now_ms - tombstone.at_ms
        return any(
            p.compacts and max(p.min_lag_ms, p.delete_retention_ms) <= age_ms
            for p in self._policies_since(tombstone.at_ms)
        )

    def _judge_kept(self, record: Written, successor: Written | None, absent: set[int]) -> None:
        """A value must not outlive the tombstone that took it back. Both may go while one reads,
        and another leader may still have both: the tombstone counts as gone if neither the read
        before nor this one found it.
        """
        if successor is None or successor.value is not None or record.value is None:
            return
        if successor.offset in self._absent & absent:
            self.broken.append(f"{record} is there, its tombstone at {successor.offset} is gone")
