"""Tells a consumer group what a stream has finished (`pylog.commit.group`), beside the query.

A thread of its own commits, with a client of its own: neither a coordinator that hangs nor one that
refuses delays or fails the query, and what went wrong stands in the log. `GroupProgress` says what
to commit and when. Only the coordinator can say that a group has live members, and it refuses the
commits of others while it has: therefore nothing is overwritten, whatever this process believes.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.model import OffsetAndMetadata, TopicPartition
from pylog_connector.clients import admin_for
from pylog_connector.errors import CommitGroupInUse, InvalidOption
from pylog_connector.group_progress import GroupProgress, Positions, in_words, repeat_ms
from pylog_connector.option_names import COMMIT_GROUP, in_options
from pylog_connector.options import SourceOptions

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient

logger = logging.getLogger("pylog.connector")

CHECK_S: Final = 10.0
"""The time for which a query that starts waits for the coordinator to say that the group has no
members."""
COMMIT_S: Final = 20.0
"""The longest time that one commit may take."""
FLUSH_S: Final = 5.0
"""The longest time that a query that ends by itself waits for its last commit."""
SAME_S_MIN: Final = 60
"""A warning that says the same as the one before comes so seldom."""
METADATA_CHARS_MAX: Final = 200

_RETENTION: Final = "offsets.retention.minutes"
_OF_MEMBERS: Final = (
    errors.UnknownMemberId,
    errors.RebalanceInProgress,
    errors.IllegalGeneration,
    errors.StaleMemberEpoch,
    errors.FencedMemberEpoch,
)
"""The errors with which coordinators refuse a commit of others than the group's members."""
_OF_PARTITIONS: Final = (errors.UnknownTopicOrPartition, errors.UnknownTopicId)
"""The errors of a topic that was deleted meanwhile: the query notices it by itself."""


class GroupCommits:
    """One query's commits to its group. `_changed` guards `_progress`, `_closed`, `_stopped`; the
    client belongs to the thread once it runs.
    """

    def __init__(
        self,
        options: SourceOptions,
        *,
        option: str = COMMIT_GROUP,
        make_admin: Callable[[SourceOptions], AdminClient] = admin_for,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`option`: that names the group."""
        group = options.commit_group if option == COMMIT_GROUP else options.progress_group
        assert group is not None
        self._group = group
        self._option = option
        self._options = options
        self._make_admin = make_admin
        self._clock = clock
        self._metadata = _metadata(str(options.client.get("client.id") or ""))
        self._progress = GroupProgress()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._warned = ("", 0)
        self._asked_ms: int | None = None  # when the retention was looked up

    # ---- by the query --------------------------------------------------------------------------

    def check(self) -> None:
        """CommitGroupInUse when the group has live members, InvalidOption when it cannot have
        offsets. A coordinator that does not answer is no reason not to start.
        """
        try:
            with self._make_admin(self._options) as admin:
                try:
                    # A commit of nothing: the coordinator says whether it would take one.
                    admin.alter_group_offsets(self._group, {}, timeout=CHECK_S)
                except _OF_MEMBERS:
                    raise self._in_use(admin) from None
        except errors.PylogError as error:
            if isinstance(error, CommitGroupInUse):
                raise
            why = self._told(error)
            if not _passes(error):
                raise InvalidOption(f"{self._option}={self._group!r}: {why}") from error
            self._warn(f"cannot ask whether group {self._group!r} has live members: {why}")

    def finished(self, positions: Positions) -> None:
        """The query has finished up to here. Returns at once."""
        with self._changed:
            if self._closed or not self._progress.finished(positions):
                return
            if self._thread is None:
                name = f"pylog commits to {self._group}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until the group knows what was finished, no longer than that; whether it does."""
        with self._changed:
            told = self._changed.wait_for(lambda: self._progress.is_told, timeout_s)
        if not told:
            self._warn(
                f"group {self._group!r} has not taken the last offsets within {timeout_s:g} s: the "
                "query commits them when it starts again"
            )
        return told

    def close(self) -> None:
        """Nothing more is committed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # ---- on the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        admin: AdminClient | None = None
        try:
            while (positions := self._next()) is not None:
                try:
                    if admin is None:
                        admin = self._make_admin(self._options)
                    self._look_up_retention(admin)
                    self._commit(admin, positions)
                except errors.PylogError as error:
                    self._failed(error)
        finally:
            if admin is not None:
                with contextlib.suppress(errors.PylogError):
                    admin.close()

    def _next(self) -> Positions | None:
        """Wait until positions are due, and give them; None after `close`."""
        with self._changed:
            while not self._closed:
                now_ms = self._clock.monotonic_ms()
                due = self._progress.due(now_ms)
                if due:
                    return due
                wait_ms = self._progress.wait_ms(now_ms)
                self._changed.wait(None if wait_ms is None else max(wait_ms, 1) / 1000)
            return None

    def _commit(self, admin: AdminClient, positions: Positions) -> None:
        offsets = {
            tp: OffsetAndMetadata(at.offset, self._metadata, at.epoch if at.epoch >= 0 else None)
            for tp, at in positions.items()
        }
        faults: dict[TopicPartition, errors.PylogError] = {}
        try:
            admin.alter_group_offsets(self._group, offsets, timeout=COMMIT_S)
        except errors.PartialFailure as error:
            faults = {tp: fault for tp, fault in error.errors.items() if tp in offsets}
        except _OF_PARTITIONS as error:
            faults = dict.fromkeys(offsets, error)
        passing = [
            tp
            for tp, fault in faults.items()
            if _passes(fault) and not isinstance(fault, _OF_PARTITIONS)
        ]
        if faults:
            why = self._told(next(iter(faults.values())))
            self._warn(f"group {self._group!r} did not take offsets of {in_words(faults)}: {why}")
        now_ms = self._clock.monotonic_ms()
        with self._changed:
            taken = {tp: at for tp, at in positions.items() if tp not in passing}
            self._progress.committed(taken, now_ms)
            if passing:
                self._progress.failed(now_ms)
            self._changed.notify_all()

    def _failed(self, error: errors.PylogError) -> None:
        with self._changed:
            self._progress.failed(self._clock.monotonic_ms())
        if isinstance(error, _OF_MEMBERS):
            self._warn(
                f"group {self._group!r} has live members by now, and they alone commit: its "
                "offsets are no longer those of this query; give consumers a group of their own"
            )
        else:
            self._warn(f"cannot commit to group {self._group!r}: {self._told(error)}")

    def _look_up_retention(self, admin: AdminClient) -> None:
        """Learn how long the cluster keeps offsets that nobody commits again, and from that how
        often idle positions are to be repeated.
        """
        now_ms, every_ms = self._clock.monotonic_ms(), self._progress.repeat_ms
        if self._asked_ms is not None and now_ms - self._asked_ms < every_ms:
            return
        self._asked_ms = now_ms
        retention_ms = None
        with contextlib.suppress(errors.PylogError, LookupError, ValueError, StopIteration):
            broker = next(iter(admin.describe_cluster(timeout=CHECK_S).brokers))
            resource = ("broker", str(broker.id))
            [entries] = admin.describe_configs({resource: [_RETENTION]}, timeout=CHECK_S).values()
            retention_ms = int(str(entries[_RETENTION].value)) * 60_000
        with self._changed:
            self._progress.repeat_ms = repeat_ms(retention_ms)

    # ---- words ---------------------------------------------------------------------------------

    def _in_use(self, admin: AdminClient) -> CommitGroupInUse:
        who = ""
        with contextlib.suppress(errors.PylogError):
            [group] = admin.describe_groups(self._group, timeout=CHECK_S).values()
            clients = sorted({f"{m.client_id} at {m.client_host}" for m in group.members})
            who = f" ({len(group.members)}: {', '.join(clients[:3])})" if clients else ""
        return CommitGroupInUse(
            f"{self._option}={self._group!r}: the group has live members{who}, and they alone "
            "commit: stop them, or give the query a group of its own"
        )

    def _told(self, error: errors.PylogError) -> str:
        return in_options(str(error), self._options.bootstrap_option)

    def _warn(self, text: str) -> None:
        now_ms = self._clock.monotonic_ms()
        last, at_ms = self._warned
        if text != last or now_ms - at_ms >= SAME_S_MIN * 1000:
            self._warned = text, now_ms
            logger.warning("%s: %s", self._option, text)


def _passes(error: errors.PylogError) -> bool:
    return error.retriable or isinstance(error, errors.BrokerNotAvailable)


def _metadata(client_id: str) -> str:
    """The metadata of each commit: the query, as far as its reader knows it, and the host. Spark
    does not tell the reader the query's id.
    """
    what = f"Spark query {client_id}" if client_id else "Spark query"
    return f"{what} on {socket.gethostname()}"[:METADATA_CHARS_MAX]
