"""A conflict from positions over proposals to an agreement, whoever speaks first and however little they agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.levels import ALL_LEVELS, Level
from logos.domain.reports import Change, Proposal, Report, TurnKind, Verdict
from logos.domain.specs import Question
from logos.flows.levels.reconcile import Agreed, Cause, Dispute, Undecided, after_report, participants
from tests.builders import examples

L1, L2, L3, L4, L5, L6, L7, L8, L9 = sorted(Level)


def a_dispute(*levels: Level, **changes: Any) -> Dispute:
    return Dispute("s1.q1", Cause.FAILURE, levels[0], levels, "who greets?", **changes)


def a_proposal(by: Level, round_: int = 1) -> Proposal:
    return Proposal(f"as {by.name} says in round {round_}", (Change(by, "other"),), ("one",))


def says(kind: TurnKind, level: Level, **fields: Any) -> Report:
    return Report(kind, level, "done", **fields)


def heard(
    dispute: Dispute, *reports: Report, guarded: bool = True, max_rounds: int = 3
) -> Dispute | Agreed | Undecided:
    after: Dispute | Agreed | Undecided = dispute
    for report in reports:
        assert isinstance(after, Dispute)
        after = after_report(after, report.level, report, guarded=guarded, max_rounds=max_rounds)
    return after


def agreed(after: Dispute | Agreed | Undecided) -> Proposal:
    assert isinstance(after, Agreed)
    return after.dispute.proposal


def positions(*levels: Level) -> list[Report]:
    return [says(TurnKind.POSITION, level, position=f"{level.name} wants it") for level in levels]


def a_vote(level: Level, objection: str = "") -> Report:
    return says(TurnKind.AGREE, level, verdict=Verdict.OBJECT if objection else Verdict.AGREE, objection=objection)


def aligned(*, yes: bool) -> Report:
    verdict = (
        {"verdict": Verdict.ALIGNED}
        if yes
        else {"verdict": Verdict.MISALIGNED, "violation": "no", "alternatives": ("x",)}
    )
    return says(TurnKind.ALIGN, L9, **verdict)


@pytest.mark.scenario("LOG-07")
@pytest.mark.parametrize(
    ("level", "taking_part", "expected"),
    [
        (L5, ALL_LEVELS, (L5, L4, L6)),
        (L9, ALL_LEVELS, (L9, L8)),
        (L1, ALL_LEVELS, (L1, L2)),
        (L5, (L9, L5, L2), (L5, L2, L9)),
        (L2, (L2,), (L2,)),
    ],
)
def test_a_failure_is_settled_by_its_level_and_the_nearest_that_take_part(
    level: Level, taking_part: tuple[Level, ...], expected: tuple[Level, ...]
) -> None:
    assert participants(Cause.FAILURE, level, (), taking_part) == expected


@pytest.mark.scenario("LOG-08")
@pytest.mark.scenario("LOG-12")
@pytest.mark.parametrize("cause", [Cause.CONSTRAINT, Cause.LOOP])
def test_a_constraint_and_a_loop_bring_those_whom_they_concern_and_no_neighbours(cause: Cause) -> None:
    assert participants(cause, L4, (L3, L4, L3), ALL_LEVELS) == (L4, L3)
    assert participants(cause, L4, (L3, L8), (L9, L4, L3, L2)) == (L4, L3)


def test_positions_come_first_then_the_level_in_conflict_proposes_and_the_others_agree() -> None:
    dispute = a_dispute(L5, L4, L6)
    assert dispute.asked == (L5, L4, L6)

    two_said = heard(dispute, *positions(L6, L4))
    assert isinstance(two_said, Dispute)
    assert two_said.kind is TurnKind.POSITION
    all_said = heard(two_said, *positions(L5))
    assert isinstance(all_said, Dispute)
    assert (all_said.kind, all_said.asked) == (TurnKind.PROPOSE, (L5,))
    assert list(all_said.positions) == [L6, L5, L4]

    proposed = heard(all_said, says(TurnKind.PROPOSE, L5, proposal=a_proposal(L5)))
    assert isinstance(proposed, Dispute)
    assert (proposed.kind, proposed.asked) == (TurnKind.AGREE, (L4, L6))
    voted = heard(proposed, a_vote(L6), a_vote(L4))
    assert isinstance(voted, Dispute)
    assert (voted.kind, voted.asked) == (TurnKind.ALIGN, (L9,))
    assert agreed(heard(voted, aligned(yes=True))) == a_proposal(L5)


def test_without_l9_the_levels_agreement_is_enough() -> None:
    dispute = a_dispute(L3, L2)
    reports = [*positions(L3, L2), says(TurnKind.PROPOSE, L3, proposal=a_proposal(L3)), a_vote(L2)]

    assert agreed(heard(dispute, *reports, guarded=False)) == a_proposal(L3)


def test_a_level_alone_agrees_with_itself() -> None:
    reports = [*positions(L2), says(TurnKind.PROPOSE, L2, proposal=a_proposal(L2))]

    assert agreed(heard(a_dispute(L2), *reports, guarded=False)) == a_proposal(L2)
    guarded = heard(a_dispute(L2), *reports)
    assert isinstance(guarded, Dispute)
    assert guarded.asked == (L9,)


def test_an_objection_passes_the_pen_on_and_old_votes_do_not_count() -> None:
    proposed = a_dispute(L5, L4, L6, kind=TurnKind.AGREE, proposals=(a_proposal(L5),))
    after = heard(proposed, a_vote(L4, "not so"), a_vote(L6))

    assert isinstance(after, Dispute)
    assert (after.kind, after.round, after.proposer, after.asked) == (TurnKind.PROPOSE, 2, L4, (L4,))
    assert (after.objections, dict(after.votes)) == (("L4: not so",), {})


def test_nobody_convinced_in_the_last_round_is_a_question_with_each_proposal_once() -> None:
    same = a_proposal(L5)
    proposed = a_dispute(L5, L4, kind=TurnKind.AGREE, round=3, proposals=(same, a_proposal(L4), same))

    after = heard(proposed, a_vote(L4, "never"))
    assert isinstance(after, Undecided)
    assert after.question == Question("s1.q1", "who greets?", (same, a_proposal(L4)), ("L4: never",))
    vetoed = a_dispute(L5, L4, kind=TurnKind.ALIGN, round=3, proposals=(same,))
    after = heard(vetoed, aligned(yes=False))
    assert isinstance(after, Undecided)
    assert after.question.options == (same,)
    assert after.question.objections[0].startswith("L9: ")


@given(
    st.lists(st.sampled_from(list(Level)), min_size=1, max_size=4, unique=True),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.booleans(),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
@examples(40)
def test_every_dispute_ends_in_its_rounds_and_the_same_way_in_any_order(
    levels: list[Level], minds: list[bool], guarded: bool, max_rounds: int, dice: Any
) -> None:
    def report(dispute: Dispute, level: Level) -> Report:
        mind = minds[(dispute.round * 5 + level) % 20]
        match dispute.kind:
            case TurnKind.POSITION:
                return says(TurnKind.POSITION, level, position=f"{level.name} wants it")
            case TurnKind.PROPOSE:
                return says(TurnKind.PROPOSE, level, proposal=a_proposal(level, dispute.round))
            case TurnKind.AGREE:
                return a_vote(level, "" if mind else f"{level.name} objects")
            case _:
                return aligned(yes=mind)

    def settled(shuffle: bool) -> tuple[Agreed | Undecided, int]:
        after: Dispute | Agreed | Undecided = a_dispute(*levels)
        steps = 0
        while isinstance(after, Dispute):
            asked, now = list(after.asked), after
            assert asked
            if shuffle:
                dice.shuffle(asked)
            for level in asked:
                steps += 1
                assert isinstance(after, Dispute)
                after = after_report(after, level, report(now, level), guarded=guarded, max_rounds=max_rounds)
            assert steps <= len(levels) + max_rounds * (len(levels) + 1)
        return after, steps

    assert settled(shuffle=True) == settled(shuffle=False)
