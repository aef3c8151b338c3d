"""What a replica may claim when its broker is back: each case of the table, and no other."""

from __future__ import annotations

from itertools import product

import pytest

from pylog_broker.controller.returning import (
    CLAIMS,
    Claim,
    Evidence,
    Loss,
    Whereabouts,
    claim_of,
    evidence_of,
)

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
