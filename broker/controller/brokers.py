"""The life of a broker: registration, fencing and unfencing, stopping, leaving for good.

A broker registers once per incarnation and gets an epoch, higher than any before (the offset of
its registration in the metadata log). It starts fenced: in no ISR, leader of nothing. When it has
replayed the metadata up to its own registration and asks for it, it is unfenced. When it is lost
it is fenced again, and if it was only slow it may be unfenced under the same epoch.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from pylog import errors
from pylog.model import NO_LEADER, BrokerEpoch, BrokerId
from pylog_broker.controller import features
from pylog_broker.controller.claims import Claims
from pylog_broker.controller.configs import Configs
from pylog_broker.controller.effects import Effect, RejectSession, Report, TellSession
from pylog_broker.controller.election import Elections, Returned
from pylog_broker.controller.ledger import Ledger
from pylog_broker.controller.returning import Loss, Returning
from pylog_broker.controller.sessions import Session, Sessions
from pylog_broker.metadata.image import BrokerRegistration
from pylog_broker.metadata.messages import (
    BrokerRegistered,
    BrokerUnregistered,
    Failure,
    FailuresNoted,
    RegisterBroker,
    ReplicaKey,
    ReplicasFailed,
)
from pylog_broker.metadata.records import (
    BROKERS,
    CLIENTS,
    GRPC,
    KAFKA,
    BrokerChangeRecord,
    Endpoint,
    Listener,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    endpoint_of,
)

BROKER_ID_MAX = 1_000_000
"""Far above any cluster; only so that a garbled request is recognised."""

LISTENERS_MAX = 16
LISTENER_NAME_MAX = 64

NAMES_MAX = 5
"""The most partitions that one line of the log names."""


class Brokers:
    """Writes broker records to the ledger, and through `Elections` what follows for partitions.

    Effects other than the append are added to `out`, which the controller seals.
    """

    def __init__(
        self,
        ledger: Ledger,
        sessions: Sessions,
        claims: Claims,
        elections: Elections,
        configs: Configs,
    ) -> None:
        self._ledger = ledger
        self._sessions = sessions
        self._claims = claims
        self._elections = elections
        self._configs = configs
        self.stopping_cluster = False
        self.wall_ms = 0
        """The time of day, for people, of what is being handled; 0: not known."""
        self.out: list[Effect] = []

    # ---- registration --------------------------------------------------------------------------

    def register(self, observed: int, request: RegisterBroker) -> BrokerRegistered | Failure:
        """The epoch of this incarnation: a new one, or the one that it already has.

        The incarnation holds the lock of its directory. So when it has the directory of the
        registered one, that one is dead, whatever its session looks like; with another directory
        it has to wait until that session is over.
        """
        image = self._ledger.decided
        known = image.brokers.get(request.broker_id)
        failure = self._refusal(request, known)
        if failure is not None:
            return failure
        if known is not None and known.incarnation_id == request.incarnation_id:
            session = self._sessions.get(request.broker_id)
            if session is not None:
                session.seen(observed)
            self._claims.release(request.incarnation_id)
            return BrokerRegistered(known.broker_epoch, image.controller_epoch)
        if known is not None:
            self._replace(known)
        epoch, ids = BrokerEpoch(self._ledger.next_offset), _all_ids(request)
        self._ledger.write(
            RegisterBrokerRecord(
                broker_id=request.broker_id,
                broker_epoch=epoch,
                incarnation_id=request.incarnation_id,
                host_id=request.host_id,
                rack=request.rack,
                listeners=request.listeners,
                directory_id=request.directory_id,
                boot_id=request.boot_id,
                static_config=request.static_config,
                log_dirs=ids if len(ids) > 1 else (),
                offline_log_dirs=tuple(filter(None, request.offline_log_dirs)),
                software=request.software,
                fenced_since_ms=self._fenced_since(known),
            )
        )
        returning = Returning(known, request)
        found = self._elections.on_registered(request, returning)
        self._sessions.add(
            Session(request.broker_id, epoch, request.incarnation_id, observed, heard=True)
        )
        self._claims.release(request.incarnation_id)
        loss = returning.loss
        self._report_registration(request, epoch, loss, found, first=known is None)
        self.out += self._configs.not_counted(request.broker_id, request.static_config)
        return BrokerRegistered(epoch, image.controller_epoch)

    def _refusal(self, request: RegisterBroker, known: BrokerRegistration | None) -> Failure | None:
        image = self._ledger.decided
        if request.cluster_id != image.cluster_id:
            return Failure(
                errors.InconsistentClusterId.code,
                f"broker {request.broker_id} is of cluster {request.cluster_id}, this is cluster "
                f"{image.cluster_id}; give it another data directory",
            )
        if request.highest_controller_epoch > image.controller_epoch:
            return Failure(
                errors.StaleControllerEpoch.code,
                f"broker {request.broker_id} has seen the controller epoch "
                f"{request.highest_controller_epoch}, this controller has "
                f"{image.controller_epoch}: it runs on an old copy of the metadata directory",
            )
        if self._sessions.has_ended(request.incarnation_id):
            return Failure(
                errors.StaleBrokerEpoch.code,
                f"the incarnation {request.incarnation_id} of broker {request.broker_id} was "
                "replaced or its task has ended; stop it",
            )
        fault = _fault(request)
        if fault is not None:
            return Failure(errors.InvalidRegistration.code, fault)
        unsupported = features.refusal(image, request)
        if unsupported is not None:
            return unsupported
        for other in image.brokers.values():
            common = set(other.all_log_dirs).intersection(_all_ids(request))
            if other.broker_id != request.broker_id and common:
                return Failure(
                    errors.InvalidRegistration.code,
                    f"the directory {min(common)} belongs to broker {other.broker_id}: "
                    f"broker {request.broker_id} runs on a copy of it",
                )
        return self._duplicate(request, known) or _outdated(request, known)

    def _duplicate(
        self, request: RegisterBroker, known: BrokerRegistration | None
    ) -> Failure | None:
        if known is not None and known.incarnation_id == request.incarnation_id:
            return None  # a repeat, whatever was granted since
        holder = self._claims.holder(request.broker_id)
        if holder is not None and holder != request.incarnation_id:
            return Failure(
                errors.DuplicateBrokerRegistration.code,
                f"the id {request.broker_id} was granted to the incarnation {holder}; claim anew",
            )
        held = {directory.directory_id for directory in request.live_log_dirs}
        if known is None or not held.isdisjoint(known.live_log_dirs):
            return None
        session = self._sessions.get(request.broker_id)
        if session is None or session.lost:
            return None
        return Failure(
            errors.DuplicateBrokerRegistration.code,
            f"broker {request.broker_id} is registered with the directory {known.directory_id} "
            f"and its session is not over; {request.directory_id} may take its place when it is",
        )

    def _replace(self, known: BrokerRegistration) -> None:
        """A newer incarnation is there: the known one is over."""
        self._sessions.end(known.incarnation_id)
        session = self._sessions.get(known.broker_id)
        if session is not None and session.streams > 0:
            self.out.append(
                RejectSession(
                    known.broker_id,
                    known.broker_epoch,
                    Failure(
                        errors.StaleBrokerEpoch.code,
                        f"a newer incarnation of broker {known.broker_id} has registered",
                    ),
                )
            )

    def _report_registration(
        self,
        request: RegisterBroker,
        epoch: BrokerEpoch,
        loss: Loss,
        found: Returned,
        *,
        first: bool,
    ) -> None:
        text = f"broker {request.broker_id} registered from host {request.host_id}, epoch {epoch}"
        failed, lost = len(request.failed_replicas), len(request.lost_replicas)
        known = text
        if loss is not Loss.NONE and not first:
            what = "with another directory" if loss is Loss.ALL else "after an unclean stop"
            text += f", {what}: it may lead nothing until it has caught up"
        elif (failed or lost) and not first:
            text += (
                f": {failed} of its logs do not work and {lost} lack records; these may not "
                "lead until they have caught up"
            )
        if found.gone and loss is not Loss.ALL:
            text += f"; {found.gone} replicas were in log directories that it has no more"
        if request.offline_log_dirs:
            count = len(request.offline_log_dirs)
            text += f"; {count} of its log directories are offline, with {found.offline} replicas"
        if found.alone:
            text += (
                f"; it holds the only replica of {found.alone} partitions, whose last records may "
                "be gone"
            )
        self.out.append(Report(text, warning=text != known))

    def replicas_failed(self, request: ReplicasFailed) -> FailuresNoted | Failure:
        """Logs failed under a broker that is otherwise well. A repeat changes nothing."""
        image = self._ledger.decided
        registration = image.brokers.get(request.broker_id)
        if registration is None or registration.broker_epoch != request.broker_epoch:
            return stale(registration, request.broker_id, request.broker_epoch)
        replicas = (*request.replicas, *self._directories_failed(registration, request))
        changed = self._elections.on_replicas_failed(request.broker_id, replicas)
        if changed:
            names = [f"{image.topic_name(p.topic_id)}-{p.partition}" for p in changed[:NAMES_MAX]]
            more = f" and {len(changed) - NAMES_MAX} more" if len(changed) > NAMES_MAX else ""
            offline = sum(p.leader == NO_LEADER for p in changed)
            self.out.append(
                Report(
                    f"broker {request.broker_id} cannot use its logs of {', '.join(names)}{more} "
                    f"until it starts again; {offline} of these partitions have no leader now: "
                    f"{request.reason}",
                    warning=True,
                )
            )
        return FailuresNoted()

    def _directories_failed(
        self, registration: BrokerRegistration, request: ReplicasFailed
    ) -> list[ReplicaKey]:
        """The replicas in log directories that failed just now; no new ones are placed there."""
        failed = [each for each in registration.live_log_dirs if each in request.log_dirs]
        if not failed:
            return []
        self._ledger.write(
            BrokerChangeRecord(
                registration.broker_id,
                registration.broker_epoch,
                registration.fenced,
                registration.in_controlled_shutdown,
                (*registration.offline_log_dirs, *failed),
                registration.fenced_since_ms,
            )
        )
        left = len(registration.live_log_dirs) - len(failed)
        self.out.append(
            Report(
                f"broker {registration.broker_id} has lost its log directory {', '.join(failed)} "
                f"until it starts again, {left} are left: {request.reason}",
                warning=True,
            )
        )
        return [
            (partition.topic_id, partition.partition)
            for partition in self._ledger.decided.partitions_of(registration.broker_id)
            if partition.directory_of(registration.broker_id) in failed
        ]

    # ---- fenced and unfenced -------------------------------------------------------------------

    def fence(self, broker: BrokerId, why: str | None) -> bool:
        """The broker is lost; whether it was not before. None: it has not come yet, of which the
        caller tells. When the whole cluster stops in order, nobody is: their ISRs stay.
        """
        registration = self._ledger.decided.brokers.get(broker)
        if registration is None or registration.fenced or self.stopping_cluster:
            return False
        self._change(registration, fenced=True, stopping=registration.in_controlled_shutdown)
        self._elections.on_fenced(broker)
        self._tell(registration, fenced=True)
        if why is not None:
            self.out.append(Report(f"broker {broker} is fenced: {why}", warning=True))
        return True

    def maybe_unfence(self, session: Session) -> None:
        """Unfences the broker if it wants to, is heard, and knows of its own registration."""
        registration = self._ledger.decided.brokers.get(session.broker_id)
        if (
            registration is None
            or registration.broker_epoch != session.broker_epoch
            or not registration.fenced
            or registration.in_controlled_shutdown
            or self.stopping_cluster
            or not session.want_unfence
            or not session.running
            or session.streams == 0
            or session.metadata_offset < registration.broker_epoch
        ):
            return
        self._change(registration, fenced=False, stopping=False)
        self._elections.on_unfenced(session.broker_id)
        self._tell(registration, fenced=False)
        self.out.append(Report(f"broker {session.broker_id} is unfenced"))

    def mark_stopping(self, registration: BrokerRegistration) -> None:
        """The broker asked to stop in order; until it registers anew it may join no ISR."""
        if not registration.in_controlled_shutdown:
            self._change(registration, fenced=registration.fenced, stopping=True)
            self.out.append(Report(f"broker {registration.broker_id} stops in order"))

    def stop_cluster(self) -> None:
        """All brokers are told to stop; from now on none is fenced for having done so."""
        self.stopping_cluster = True
        brokers = self._ledger.decided.brokers
        self.out += [
            self.greeting(session, fenced=brokers[session.broker_id].fenced)
            for session in self._sessions
            if session.streams > 0
        ]

    def cluster_stopped(self) -> None:
        """All brokers are fenced at once. One after the other, as they register again, the last
        would be alone in the ISRs, and without its disk the partitions would be offline.
        """
        for _, registration in sorted(self._ledger.decided.brokers.items()):
            if not registration.fenced:
                stopping = registration.in_controlled_shutdown
                self._change(registration, fenced=True, stopping=stopping)
        self._elections.on_cluster_stopped()

    def unregister(self, broker: BrokerId) -> BrokerUnregistered | Failure:
        """Forgets a broker that is gone for good."""
        if broker not in self._ledger.decided.brokers:
            return Failure(errors.BrokerIdNotRegistered.code, f"no broker {broker} is registered")
        session = self._sessions.get(broker)
        if session is not None and not session.lost:
            why = f"broker {broker} is running; stop it before it is unregistered"
            if not session.heard:
                why = (
                    f"broker {broker} may be running: the controller has just started and waits "
                    "broker.session.timeout.ms to hear of it; ask again after that"
                )
            return Failure(errors.InvalidRequest.code, why)
        registration = self._ledger.decided.brokers[broker]
        self._sessions.end(registration.incarnation_id)
        self._sessions.remove(broker)
        self._ledger.write(UnregisterBrokerRecord(broker))
        self._elections.on_unregistered(broker)
        self.out.append(Report(f"broker {broker} is unregistered", warning=True))
        return BrokerUnregistered(broker)

    def _change(self, registration: BrokerRegistration, *, fenced: bool, stopping: bool) -> None:
        self._ledger.write(
            BrokerChangeRecord(
                registration.broker_id,
                registration.broker_epoch,
                fenced,
                stopping,
                registration.offline_log_dirs,
                self._fenced_since(registration) if fenced else 0,
            )
        )

    def _fenced_since(self, registration: BrokerRegistration | None) -> int:
        """The wall-clock time, in ms, since which the broker, now fenced, has been fenced."""
        was_fenced = registration is not None and registration.fenced
        return registration.fenced_since_ms if registration and was_fenced else self.wall_ms

    def _tell(self, registration: BrokerRegistration, *, fenced: bool) -> None:
        session = self._sessions.get(registration.broker_id, registration.broker_epoch)
        if session is not None and session.streams > 0:
            self.out.append(self.greeting(session, fenced=fenced))

    def greeting(self, session: Session, *, fenced: bool) -> TellSession:
        """The broker's state, as it is to know it."""
        return TellSession(
            session.broker_id,
            session.broker_epoch,
            fenced,
            self.stopping_cluster,
            self._ledger.decided.controller_epoch,
        )


def _outdated(request: RegisterBroker, known: BrokerRegistration | None) -> Failure | None:
    """The refusal of a late copy: which incarnations have ended is not known for ever."""
    if (
        known is None
        or known.incarnation_id == request.incarnation_id
        or known.broker_epoch == request.previous_broker_epoch
    ):
        return None
    return Failure(
        errors.StaleBrokerEpoch.code,
        f"the incarnation {request.incarnation_id} of broker {request.broker_id} would replace "
        f"the epoch {request.previous_broker_epoch}, but the epoch {known.broker_epoch} has "
        "registered since; claim anew",
    )


def stale(known: BrokerRegistration | None, broker: BrokerId, epoch: BrokerEpoch) -> Failure:
    """The refusal of a request under another epoch than that of the broker's registration."""
    if known is None:
        return Failure(errors.BrokerIdNotRegistered.code, f"no broker {broker} is registered")
    return Failure(
        errors.StaleBrokerEpoch.code,
        f"broker {broker} has the epoch {known.broker_epoch}, the request {epoch}",
    )


def stale_session(broker: BrokerId, epoch: BrokerEpoch) -> RejectSession:
    """The end of a session that is not of the broker's registration."""
    return RejectSession(
        broker,
        epoch,
        Failure(
            errors.StaleBrokerEpoch.code,
            f"broker {broker} with the epoch {epoch} is not the registered incarnation; stop it",
        ),
    )


def _all_ids(request: RegisterBroker) -> tuple[str, ...]:
    """The ids of all the broker's log directories that are known by their ids."""
    live = (directory.directory_id for directory in request.live_log_dirs)
    return (*live, *filter(None, request.offline_log_dirs))


def _fault(request: RegisterBroker) -> str | None:
    if not 1 <= request.broker_id <= BROKER_ID_MAX:
        return f"the broker id {request.broker_id} is not from 1 to {BROKER_ID_MAX}"
    if not request.incarnation_id:
        return f"broker {request.broker_id} names no incarnation"
    if not request.directory_id:
        return f"broker {request.broker_id} names no directory; it needs exactly one"
    fault = _listeners_fault(request.listeners)
    return None if fault is None else f"broker {request.broker_id} {fault}"


def _listeners_fault(listeners: Sequence[Listener]) -> str | None:
    if len(listeners) > LISTENERS_MAX:
        return f"has {len(listeners)} listeners; it may have {LISTENERS_MAX}"
    names = [listener.name for listener in listeners]
    for name in names:
        if not name.strip() or len(name) > LISTENER_NAME_MAX:
            return f"has a listener {name[:80]!r}; a name has 1 to {LISTENER_NAME_MAX} characters"
        if names.count(name) > 1:
            return f"has two listeners of the name {name}"
    for listener in listeners:
        fault = _endpoint_fault(listener.endpoint)
        if fault is not None:
            return (
                f"advertises the address {listener.endpoint} of listener {listener.name}: {fault}"
            )
    for protocol, purpose in ((GRPC, CLIENTS), (KAFKA, BROKERS)):
        if endpoint_of(listeners, protocol, purpose) is None:
            return f"has no listener for {purpose} that speaks {protocol}"
    return None


def _endpoint_fault(endpoint: Endpoint) -> str | None:
    if not endpoint.host.strip():
        return "the host is empty"
    if not 1 <= endpoint.port <= 65_535:
        return "the port is not from 1 to 65535"
    try:
        if ipaddress.ip_address(endpoint.host).is_unspecified:
            return "nobody can connect to it; advertise an address of the host"
    except ValueError:
        pass  # a name
    return None
