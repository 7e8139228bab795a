"""Which steps a revision may take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.policy.revisions.core.lifecycle import (
    OPEN,
    STEPS,
    RevisionFacts,
    RevisionStep,
    State,
    possible,
    why_not,
)

STATES: tuple[State, ...] = (*OPEN, "active", "retired")


def revision_facts(
    state: State = "draft", number: int = 2, needs_approval: bool = False, active: int | None = 1, leaves: str = ""
) -> RevisionFacts:
    return RevisionFacts(state, number, "ada", needs_approval, active, leaves)


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        ("draft", ("preview", "shadow", "activate", "retire")),
        ("previewed", ("preview", "shadow", "approve", "activate", "retire")),
        ("shadow", ("preview", "approve", "activate", "retire")),
        ("approved", ("preview", "activate", "retire")),
        ("active", ("preview", "retire")),
        ("retired", ()),
    ],
)
def test_each_state_has_its_steps(state: State, steps: tuple[RevisionStep, ...]) -> None:
    assert possible(revision_facts(state), "bob") == steps


@pytest.mark.parametrize(("who", "steps"), [("ada", ("preview", "approve", "keep")), (" Bob ", ("preview", "keep"))])
def test_whose_retirement_waits_is_approved_by_another_person_than_who_proposed_it(
    who: str, steps: tuple[RevisionStep, ...]
) -> None:
    assert possible(revision_facts("active", needs_approval=True, leaves="bob"), who) == steps


def test_where_a_team_wants_approval_only_an_approved_revision_is_activated() -> None:
    for state in OPEN:
        reason = why_not("activate", revision_facts(state, needs_approval=True), "bob")
        assert (reason == "") == (state == "approved")
    assert "have it approved by somebody other than its author" in why_not(
        "activate", revision_facts("shadow", needs_approval=True), "bob"
    )


@pytest.mark.parametrize("who", ["ada", "Ada", " ada "])
def test_nobody_approves_what_they_wrote(who: str) -> None:
    assert "by another person" in why_not("approve", revision_facts("previewed"), who)


def test_an_approval_needs_the_figures_of_a_preview() -> None:
    assert "run its preview first" in why_not("approve", revision_facts("draft"), "bob")


def test_an_older_revision_does_not_undo_a_newer_one() -> None:
    assert why_not("activate", revision_facts("approved", number=2, active=3), "bob").startswith(
        "revision 3 is in force"
    )
    assert why_not("activate", revision_facts("approved", number=4, active=3), "bob") == ""


def test_a_refusal_names_the_state_and_the_remedy() -> None:
    assert why_not("shadow", revision_facts("retired"), "bob") == (
        "a shadow is for a revision that is draft or previewed, and this one is retired: propose its text as a new revision"
    )


@given(
    st.sampled_from(STEPS),
    st.sampled_from(STATES),
    st.integers(1, 5),
    st.booleans(),
    st.none() | st.integers(1, 5),
    st.sampled_from(["ada", "bob"]),
)
def test_four_eyes_hold_whatever_the_standing(
    step: RevisionStep, state: State, number: int, needs_approval: bool, active: int | None, who: str
) -> None:
    reason = why_not(step, revision_facts(state, number, needs_approval, active), who)
    if not reason and step == "approve":
        assert who == "bob"
    if not reason and step == "activate" and needs_approval:
        assert state == "approved"
    if state == "retired":
        assert reason
