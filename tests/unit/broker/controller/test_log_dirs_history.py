"""Random lives of a broker with disks that come, go and are swapped: a replica that the controller
counts on has its records where it looks for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.model import BrokerId
from pylog_broker.metadata.messages import BrokerUnregistered, LogDirectory
from tests.fakes.controller_shell import ControllerShell, Incarnation

ONE, TWO = BrokerId(1), BrokerId(2)
DISKS = ("a", "b", "c")


@dataclass
class Host:
    """Broker 1 as it is: its disks, and which of them holds what of the only partition."""

    configured: set[str] = field(default_factory=lambda: {"a", "b"})
    mounted: set[str] = field(default_factory=lambda: set(DISKS))
    whole: set[str] = field(default_factory=set)  # all records that were ever acknowledged
    empty: set[str] = field(default_factory=set)  # a log that lacks some


LIVES = st.lists(
    st.tuples(
        st.sets(st.sampled_from(DISKS), min_size=1),  # configured
        st.sets(st.sampled_from(DISKS), min_size=1),  # mounted
        st.none() | st.sampled_from(DISKS),  # moved there by hand
        st.booleans(),  # unregistered meanwhile
        st.booleans(),  # a clean stop
        st.booleans(),  # catches up
    ),
    min_size=1,
    max_size=8,
)


@given(LIVES)
@settings(max_examples=300)
def test_who_is_counted_on_has_the_records(lives: list[tuple[object, ...]]) -> None:
    shell = ControllerShell()
    host, known = Host(), {"a", "b"}
    one = register(shell, host, known, 1, clean=True)
    shell.join(2)
    shell.create(replication=2, config={"min.insync.replicas": "2"})
    host.whole.add(shell.partition().directory_of(ONE))
    for life, (configured, mounted, moved, gone, clean, catches_up) in enumerate(lives, 2):
        assert isinstance(configured, set)
        assert isinstance(mounted, set)
        if not configured & mounted:
            continue
        shell.lose(one)
        if gone:
            assert shell.call("unregister_broker", ONE) == BrokerUnregistered(ONE)
        if isinstance(moved, str) and host.whole:
            host.whole.remove(min(host.whole))
            host.empty.discard(moved)
            host.whole.add(moved)
        host.configured, host.mounted = set(configured), set(mounted)
        known = (known & host.configured) | host.configured & host.mounted
        one = register(shell, host, known, life, clean=bool(clean))
        found = shell.partition()
        place = found.directory_of(ONE)
        if 1 in found.failed_replicas:
            assert place not in host.configured & host.mounted
            continue
        # The broker now uses the log that is there, or makes one.
        assert place in host.configured & host.mounted
        held = (host.whole | host.empty) & host.configured & host.mounted
        assert place in held or not held, "the metadata have it where it is"
        if place not in host.whole:
            host.empty.add(place)
        if 1 in (*found.isr, *found.eligible_leader_replicas):
            assert place in host.whole, f"life {life}: {found}"
        if catches_up:
            host.empty.discard(place)
            host.whole = {place}  # what other disks have is old from now on
            shell.alter([*found.isr, 1] if 1 not in found.isr else list(found.isr), leader=2)


def register(
    shell: ControllerShell, host: Host, known: set[str], life: int, *, clean: bool
) -> Incarnation:
    """A life of broker 1, as its directories let it register."""
    here = sorted(host.configured & host.mounted)
    key = None
    if "t" in shell.controller.image.topics_by_name:
        key = (shell.partition().topic_id, 0)
    log_dirs = tuple(
        LogDirectory(disk, clean, (key,) if key and disk in host.whole | host.empty else ())
        for disk in here
    )
    offline = tuple(sorted((host.configured - host.mounted) & known))
    return shell.join(
        1, life=life, directory_id=here[0], log_dirs=log_dirs, offline_log_dirs=offline,
        log_intact=clean,
    )  # fmt: skip
