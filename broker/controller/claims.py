"""The choice of the broker that a task becomes: its identity is on disk, the controller grants it.

A task reports its host, its incarnation and the broker directories that it sees. In this order:

1. what this incarnation was granted before;
2. the lowest id whose directory it sees, unlocked, as the metadata knows it; then, while there are
   fewer than N brokers, one that was made for an id that is not registered;
3. when no known broker is missing (or none is known: a new cluster): a new id;
4. after `claim_wait_ms` of waiting for missing directories: a new id while there are fewer than N,
   else an old directory of a missing broker that the metadata no longer knows, else an empty
   replica of a missing broker.

A task that sees a known broker's directory unlocked, while that broker counts as running, is no new
broker: the old process has just died, and the controller is about to notice. It waits, too, but not
for longer, for what it sees may be a copy.

N, the number of task slots, caps the brokers that run at once; one task more is told to wait.
Grants are kept in memory only. They bridge the time between grant and registration; after a
controller's restart the tasks ask again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pylog.errors import InconsistentClusterId, InvalidRegistration, StaleBrokerEpoch
from pylog.model import NO_BROKER_EPOCH, BrokerId
from pylog_broker.controller.sessions import Sessions
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import BrokerClaim, BrokerDirectory, ClaimBroker, Failure

RETRY_MS: Final = 200
"""Short beside the 300 ms that Spark takes to restart a task, and one small call per slot."""

NO_BROKER: Final = BrokerId(-1)


@dataclass(slots=True)
class _Grant:
    """The broker that an incarnation may register as, with which directory (None: a new one)."""

    incarnation_id: str
    directory_id: str | None
    granted_at: int


class Claims:
    """Invariant: at most one grant per broker id and per incarnation."""

    def __init__(self, settings: ControllerSettings, sessions: Sessions) -> None:
        self._settings = settings
        self._sessions = sessions
        self._grants: dict[BrokerId, _Grant] = {}
        self._waiting_since: int | None = None
        # of brokers that count as running: since when somebody has seen their directory unlocked
        self._unlocked_since: dict[BrokerId, int] = {}

    def claim(
        self, image: MetadataImage, observed: int, request: ClaimBroker
    ) -> BrokerClaim | Failure:
        """The broker to be, or when to ask again; a Failure when asking again cannot help."""
        fault = self._fault(image, request)
        if fault is not None:
            return fault
        self._expire(image, observed)
        self._take_back(image, observed, request)
        granted = self._granted_before(image, observed, request)
        if granted is None:
            granted = self._decide(image, observed, request)
        if granted is None:
            return BrokerClaim(NO_BROKER, None, image.cluster_id, image.controller_epoch, RETRY_MS)
        broker, directory = granted
        known = image.brokers.get(broker)
        # One that has registered holds its id by that. Its claim comes late, maybe when it is dead,
        # and a grant would keep the next incarnation from its own directory.
        if known is None or known.incarnation_id != request.incarnation_id:
            self._grants[broker] = _Grant(request.incarnation_id, directory, observed)
        return BrokerClaim(
            broker,
            directory,
            image.cluster_id,
            image.controller_epoch,
            broker_epoch=NO_BROKER_EPOCH if known is None else known.broker_epoch,
        )

    def holder(self, broker: BrokerId) -> str | None:
        """The incarnation to which the id is granted, while it has not registered."""
        grant = self._grants.get(broker)
        return None if grant is None else grant.incarnation_id

    def release(self, incarnation_id: str) -> None:
        """The incarnation has registered, or is gone."""
        for broker, grant in list(self._grants.items()):
            if grant.incarnation_id == incarnation_id:
                del self._grants[broker]

    def missing(self, image: MetadataImage) -> list[BrokerId]:
        """Known brokers that neither run nor are about to."""
        return [
            broker
            for broker in sorted(image.brokers)
            if broker not in self._grants and not self._sessions.is_alive(broker)
        ]

    def _fault(self, image: MetadataImage, request: ClaimBroker) -> Failure | None:
        if not request.incarnation_id:
            return Failure(InvalidRegistration.code, "the claim names no incarnation")
        if self._sessions.has_ended(request.incarnation_id):
            return Failure(
                StaleBrokerEpoch.code,
                f"the incarnation {request.incarnation_id} was replaced or its task has ended; "
                "stop it",
            )
        for directory in request.directories:
            if directory.cluster_id and directory.cluster_id != image.cluster_id:
                return Failure(
                    InconsistentClusterId.code,
                    f"the directory of broker {directory.broker_id} on host {request.host_id} "
                    f"belongs to cluster {directory.cluster_id}, this is cluster "
                    f"{image.cluster_id}; start this cluster with another data directory, or the "
                    "controller with the metadata directory that belongs to the data",
                )
        return None

    def _expire(self, image: MetadataImage, observed: int) -> None:
        for broker, grant in list(self._grants.items()):
            if observed - grant.granted_at >= self._settings.claim_hold_ms:
                del self._grants[broker]
        if not self.missing(image):
            self._waiting_since = None
        for broker in list(self._unlocked_since):
            if not self._sessions.is_running(broker):
                del self._unlocked_since[broker]

    def _take_back(self, image: MetadataImage, observed: int, request: ClaimBroker) -> None:
        """Takes back grants that came to nothing: the task was to lock the directory at once, and
        has not; or it was to begin an empty replica of a broker whose directory is found now.

        Should the task still come, it finds the lock or the id taken and asks anew.
        """
        unlocked = [d for d in request.directories if not d.locked]
        ids = {d.directory_id for d in unlocked}
        registered = [d for d in unlocked if d.broker_id in image.brokers]
        found = {d.broker_id for d in registered if self._is_known(image, d)}
        for broker, grant in list(self._grants.items()):
            if (
                (broker in found if grant.directory_id is None else grant.directory_id in ids)
                and grant.incarnation_id != request.incarnation_id
                and observed - grant.granted_at >= self._settings.claim_unlocked_hold_ms
            ):
                del self._grants[broker]

    def _granted_before(
        self, image: MetadataImage, observed: int, request: ClaimBroker
    ) -> tuple[BrokerId, str | None] | None:
        for broker, registration in sorted(image.brokers.items()):
            if registration.incarnation_id == request.incarnation_id:
                return broker, registration.directory_id
        for broker, grant in sorted(self._grants.items()):
            if grant.incarnation_id != request.incarnation_id:
                continue
            # A directory was granted in vain when another process has locked it since.
            if grant.directory_id is None or any(
                d.directory_id == grant.directory_id and not d.locked for d in request.directories
            ):
                return broker, grant.directory_id
            del self._grants[broker]
        return None

    def _decide(
        self, image: MetadataImage, observed: int, request: ClaimBroker
    ) -> tuple[BrokerId, str | None] | None:
        running = sum(1 for session in self._sessions if session.running)
        if running + self._granted_only() >= self._settings.expected_brokers:
            return None
        free = sorted(
            (d for d in request.directories if not d.locked and self._is_free(d.broker_id)),
            key=lambda d: (d.broker_id not in image.brokers, d.broker_id, d.directory_id),
        )
        has_room = len(image.brokers.keys() | self._grants.keys()) < self._settings.expected_brokers
        for directory in free:
            is_registered = directory.broker_id in image.brokers
            if self._is_known(image, directory) and (is_registered or has_room):
                return directory.broker_id, directory.directory_id
        if any(self._is_about_to_be_free(image, observed, d) for d in request.directories):
            return None
        missing = self.missing(image)
        if missing:
            if self._waiting_since is None:
                self._waiting_since = observed
            if observed - self._waiting_since < self._settings.claim_wait_ms:
                return None
        if has_room:
            return self._new_id(image), None
        for directory in free:
            if directory.broker_id in missing:
                return directory.broker_id, directory.directory_id
        # One that may still run without having called (after a start) is not given away.
        for broker in missing:
            session = self._sessions.get(broker)
            if session is None or session.lost:
                return broker, None
        return None

    def _granted_only(self) -> int:
        return sum(1 for broker in self._grants if not self._sessions.is_running(broker))

    def _is_free(self, broker: BrokerId) -> bool:
        # In the grace after a broken stream, the free lock of its directory proves the old
        # process dead: no need to wait for the rest of it.
        return broker > 0 and broker not in self._grants and not self._sessions.is_running(broker)

    def _is_about_to_be_free(
        self, image: MetadataImage, observed: int, directory: BrokerDirectory
    ) -> bool:
        """Whether its lock says that the broker does not run, and nothing else does so as yet. A
        grant that nobody uses ends by itself.
        """
        broker = directory.broker_id
        if directory.locked or broker not in image.brokers or not self._is_known(image, directory):
            return False
        if not self._sessions.is_running(broker):
            return broker in self._grants
        since = self._unlocked_since.setdefault(broker, observed)
        return observed - since < self._settings.claim_wait_ms

    def _is_known(self, image: MetadataImage, directory: BrokerDirectory) -> bool:
        """Whether the directory is the broker's, or was made for an id that never registered."""
        registration = image.brokers.get(directory.broker_id)
        if registration is not None:
            return directory.directory_id in registration.all_log_dirs
        return directory.broker_id <= self._settings.expected_brokers

    def _new_id(self, image: MetadataImage) -> BrokerId:
        broker = 1
        while broker in image.brokers or broker in self._grants:
            broker += 1
        return BrokerId(broker)
