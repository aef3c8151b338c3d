"""Claims of a replica when its broker is back: each case of the table, and no other."""

from __future__ import annotations

from itertools import product

import pytest

from pylog.model import TopicId
from pylog_broker.controller.returning import (
    CLAIMS,
    PLACES,
    Claim,
    Evidence,
    Loss,
    Place,
    Returning,
    Sight,
    Whereabouts,
    claim_of,
    evidence_of,
    place_of,
)
from pylog_broker.metadata.messages import LogDirectory
from tests.fakes.controller_shell import ControllerShell

EVERY = [Evidence(number) for number in range(2 ** len(Evidence))]


@pytest.mark.parametrize(("case", "needed", "claim"), CLAIMS, ids=[case for case, _, _ in CLAIMS])
def test_each_case_is_met_by_its_evidence(case: str, needed: Evidence, claim: Claim) -> None:
    assert claim_of(needed) == claim, case


def test_each_case_decides_something_and_every_evidence_has_one() -> None:
    deciding = {
        next(case for case, needed, _ in CLAIMS if needed in evidence) for evidence in EVERY
    }
    assert deciding == {case for case, _, _ in CLAIMS}


def test_more_evidence_of_loss_never_gives_a_better_claim() -> None:
    for less, more in product(EVERY, EVERY):
        if less in more and (less & Evidence.ONLY_ONE) == (more & Evidence.ONLY_ONE):
            one, other = claim_of(less), claim_of(more)
            assert other.lost >= one.lost
            assert other.emptied >= one.emptied


@pytest.mark.parametrize("loss", Loss)
def test_the_table_says_what_the_rules_say(loss: Loss) -> None:
    """A dumb twin: the rules as sentences, one after the other."""
    for absent, lacks, was_made, only in product((False, True), repeat=4):
        removed = absent and was_made
        lost = loss is not Loss.NONE or lacks or removed
        alone = lost and loss is not Loss.ALL and only
        expected = Claim(lost and not alone, loss is Loss.ALL or removed, alone)
        found = Whereabouts("d", loss, absent=absent)
        evidence = evidence_of(found, lacks=lacks, was_made=was_made, only=only)
        assert claim_of(evidence) == expected, (found, evidence)


def test_one_that_is_offline_keeps_its_claim() -> None:
    found = Whereabouts("d", offline=True)
    evidence = evidence_of(found, lacks=False, was_made=True, only=False)
    assert claim_of(evidence) == Claim()


# ---- where it is ---------------------------------------------------------------------------------

KEY = (TopicId("t"), 0)
OWN, OTHER = "own", "other"
Found = tuple[str, ...]
Life = tuple[bool, str, bool, bool, bool, Found]


def lives() -> list[Life]:
    """Every registration of a broker with two directories, one of which is the replica's: whether
    the broker is known, what became of the replica's own directory (works, offline, an offline one
    whose id cannot be read, gone), whether it was stopped in order, whether the metadata name it,
    whether the contents are told, and where the log was found.
    """
    found: list[Found] = [(), (OTHER,), (OWN,), (OWN, OTHER)]
    each = product((False, True), ("works", "offline", "unknown", "gone"), (False, True),
                   (False, True), (False, True), found)  # fmt: skip
    return [
        (known, state, clean, named, told, places)
        for known, state, clean, named, told, places in each
        if (told or (not places and state in ("works", "gone")))
        and (state == "works" or OWN not in places)
    ]


def whereabouts(life: Life) -> tuple[str, Whereabouts]:
    """The case of the table that decided, and where the replica is taken to be."""
    known, state, clean, named, told, places = life
    shell = ControllerShell()
    before = None
    if known:
        shell.join(1, directory_id=OWN)
        before = shell.controller.image.brokers[shell.controller.running_brokers()[0]]
    directories = [OWN, OTHER] if state == "works" else [OTHER]
    live = tuple(
        LogDirectory(each, clean, (KEY,) if each in places else ()) for each in directories
    )
    request = shell.registration(
        1,
        life=2,
        directory_id=directories[0],
        log_intact=clean,
        log_dirs=live if told else (),
        offline_log_dirs={"offline": (OWN,), "unknown": ("",)}.get(state, ()),
    )
    returning = Returning(before, request)
    assigned = OWN if named else ""
    sight = returning._sight(assigned or (OWN if known else ""), list(places))
    case = next(case for case, needed, _ in PLACES if needed in sight)
    return case, returning.where(KEY, assigned)


def expected(life: Life) -> Whereabouts:
    """A dumb twin: the rules as sentences, one after the other."""
    known, state, clean, named, told, places = life
    if not known:
        if named and OWN in places:
            return Whereabouts(OWN, Loss.ALL)
        return Whereabouts(places[0] if places else "", Loss.ALL)
    damage = Loss.NONE if clean else Loss.TAIL
    if state == "works":
        if places and OWN not in places:
            return Whereabouts(OTHER, Loss.TAIL)
        return Whereabouts(OWN, damage, absent=told and not places)
    if state in ("offline", "unknown"):
        return Whereabouts(OWN, offline=True)
    return Whereabouts(OTHER, Loss.TAIL) if places else Whereabouts("", Loss.ALL)


@pytest.mark.parametrize(("case", "needed", "place"), PLACES, ids=[case for case, _, _ in PLACES])
def test_each_place_is_met_by_what_it_needs(case: str, needed: Sight, place: Place) -> None:
    assert place_of(needed) == place, case


def test_the_table_of_places_says_what_the_rules_say_and_has_no_idle_row() -> None:
    deciding = set()
    for life in lives():
        case, found = whereabouts(life)
        assert found == expected(life), (case, life)
        deciding.add(case)
    assert deciding == {case for case, _, _ in PLACES}


def test_a_known_broker_without_a_named_directory_has_its_first_one() -> None:
    case, found = whereabouts((True, "works", True, False, True, (OWN,)))
    assert (case, found) == ("it is where it was", Whereabouts(OWN))
