"""Which steps a change may take, of a policy or of the fleet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.documents.lifecycle import OPEN, STEPS, Facts, State, Step, buttons, possible, why_not

STATES: tuple[State, ...] = (*OPEN, "active", "retired")


def facts(
    state: State = "draft", *, strict: bool = False, wrong: str = "", leaves: str = "", steps: tuple[Step, ...] = STEPS
) -> Facts:
    return Facts(state, "ada", ("serving",) if strict else (), wrong, retirement_by=leaves, steps=steps)


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        ("draft", ("preview", "shadow", "activate", "retire")),
        ("previewed", ("preview", "shadow", "approve", "activate", "retire")),
        ("shadow", ("preview", "approve", "activate", "retire")),
        ("approved", ("preview", "activate", "retire")),
        ("active", ("preview", "retire")),
    ],
)
def test_each_state_has_its_steps(state: State, steps: tuple[Step, ...]) -> None:
    assert possible(facts(state), "bob") == steps


@pytest.mark.parametrize(("who", "steps"), [("ada", ("preview", "approve", "keep")), (" Bob ", ("preview", "keep"))])
def test_whose_retirement_waits_is_approved_by_another_person_than_who_proposed_it(
    who: str, steps: tuple[Step, ...]
) -> None:
    assert possible(facts("active", strict=True, leaves="bob"), who) == steps


def test_where_a_team_wants_approval_only_an_approved_revision_is_activated() -> None:
    for state in OPEN:
        reason = why_not("activate", facts(state, strict=True), "bob")
        assert (reason == "") == (state == "approved")
    assert "have it approved by somebody other than its author" in why_not(
        "activate", facts("shadow", strict=True), "bob"
    )


@pytest.mark.parametrize("who", ["ada", "Ada", " ada "])
def test_nobody_approves_what_they_wrote(who: str) -> None:
    assert "by another person" in why_not("approve", facts("previewed"), who)


def test_an_approval_needs_the_figures_of_a_preview() -> None:
    assert why_not("approve", facts("draft"), "bob").endswith(
        "preview it first; where nothing can be measured, put it in shadow"
    )
    assert why_not("approve", facts("draft", steps=("preview", "approve")), "bob").endswith("preview it first")


@pytest.mark.parametrize("step", ["preview", "approve", "activate"])
def test_what_cannot_come_into_force_is_withdrawn_alone(step: Step) -> None:
    assert why_not(step, facts("previewed", wrong="revision 3 is newer"), "bob") == "revision 3 is newer"
    assert possible(facts("previewed", wrong="revision 3 is newer"), "bob") == ("shadow", "retire")


def test_an_approval_of_something_else_is_none() -> None:
    lapsed = Facts("previewed", "ada", ("serving",), lapsed=True)
    assert "have it approved again" in why_not("activate", lapsed, "bob") and not why_not("approve", lapsed, "bob")


def test_buttons_are_what_can_be_done_and_what_is_on_the_way_with_why_not() -> None:
    def shown(of: Facts, who: str, refusal: str = "") -> list[tuple[str, bool]]:
        return [(each.words, each.refused) for each in buttons(of, who, lambda step: refusal)]

    on_the_way = [
        ("Preview", False),
        ("Put in shadow", False),
        ("Approve", True),
        ("Activate", True),
        ("Withdraw", False),
    ]
    assert shown(facts("previewed", strict=True), "ada") == on_the_way
    assert ("Approve", True) not in shown(facts("draft"), "ada"), "nobody wants it"
    assert shown(facts("active", strict=True), "ada") == [("Preview", False), ("Propose to retire it", False)]
    leaving = [("Preview", False), ("Approve its retirement", False), ("Keep in force", False)]
    assert shown(facts("active", strict=True, leaves="bob"), "ada") == leaving
    assert all(refused for _, refused in shown(facts("draft"), "ada", "ask an owner"))


def test_a_refusal_names_the_state_and_the_remedy() -> None:
    assert why_not("shadow", facts("approved"), "bob") == (
        "a shadow is for what is draft or previewed, and this is approved: choose another step"
    )
    assert why_not("shadow", facts("retired", steps=()), "bob") == "it is retired: propose it again"


@given(st.sampled_from(STEPS), st.sampled_from(STATES), st.booleans(), st.sampled_from(["ada", "bob"]))
def test_four_eyes_hold_whatever_the_standing(step: Step, state: State, strict: bool, who: str) -> None:
    reason = why_not(step, facts(state, strict=strict), who)
    if not reason and step == "approve":
        assert who == "bob"
    if not reason and step == "activate" and strict:
        assert state == "approved"
    if state == "retired":
        assert reason
