"""The rule: denied unless a role in each team of the object allows it."""

import pytest

from controlplane.accounts.core import actions
from controlplane.accounts.core.rule import EVERY_TEAM, ROLES, Action, Owned, Person, may, may_anywhere, why_not

ALL = {name: value for name, value in vars(actions).items() if isinstance(value, Action)}
MINE, THEIRS, BOTH, NOBODYS = Owned.by("a"), Owned.by("b"), Owned.by("a", "b"), Owned()


def person(*roles: str, **more: object) -> Person:
    return Person("ann", roles={"a": roles} if roles else {}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ALL)
def test_without_a_role_nothing_is_allowed_and_administrators_may_everything(name: str) -> None:
    for of in (MINE, BOTH, NOBODYS, Owned.by(EVERY_TEAM), Owned(frozenset())):
        assert not may(person(), ALL[name], of)
        assert may(person(is_administrator=True), ALL[name], of)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_counts_in_its_team_alone(name: str, role: str) -> None:
    action = ALL[name]
    has = role in action.roles
    assert may(person(role), action, MINE) == may_anywhere(person(role), action) == has
    assert may(person(role), action, NOBODYS) == (has and action.shared)
    for of in (THEIRS, BOTH, Owned.by("a", None), Owned.by(EVERY_TEAM), Owned(frozenset())):
        assert not may(person(role), action, of)


def test_what_has_two_teams_wants_both() -> None:
    both = Person("ann", roles={"a": {"owner"}, "b": {"responder"}})
    assert may(both, actions.RESPOND, BOTH)
    assert not may(Person("ann", roles={"a": {"owner"}, "b": {"viewer"}}), actions.RESPOND, BOTH)


def test_scopes_only_narrow() -> None:
    def by_token(*scopes: str, **more: object) -> Person:
        return person("responder", scopes=frozenset(scopes), token="robot", **more)

    assert may(by_token("respond"), actions.RESPOND, MINE) and may(by_token("admin"), actions.RESPOND, MINE)
    assert not may(by_token("read"), actions.RESPOND, MINE) and not may(by_token(), actions.RESPOND, MINE)
    assert not may(by_token("respond"), actions.RESPOND, THEIRS) and not may(by_token("admin"), actions.RESPOND, THEIRS)
    assert not may(by_token("read", is_administrator=True), actions.RESPOND, MINE)
    said = why_not(by_token("read"), actions.RESPOND, MINE)
    assert said == "the token 'robot' may not act on incidents: its scopes lack 'respond' or 'admin'"


@pytest.mark.parametrize("is_administrator", [False, True])
def test_nobody_approves_what_he_wrote(is_administrator: bool) -> None:
    approve = Action("approve revisions", frozenset({"approver"}), by_another=True)
    ann = person("approver", is_administrator=is_administrator)
    assert may(ann, approve, Owned(frozenset({"a"}), "abe"))
    assert not may(ann, approve, Owned(frozenset({"a"}), "ann"))
    assert "ask an approver of a, or an administrator" in why_not(ann, approve, Owned(frozenset({"a"}), "ann"))


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (MINE, " of a: ask an owner or responder of a, or an administrator"),
        (BOTH, " of a and b: ask an owner or responder of a and of b, or an administrator"),
        (NOBODYS, ": ask an owner or responder of any team, or an administrator"),
        (Owned.by(EVERY_TEAM), " of every team: ask an owner or responder of every team, or an administrator"),
        (Owned.by("a", None), " of a: ask an administrator"),
    ],
)
def test_a_refusal_says_who_may(of: Owned, said: str) -> None:
    assert why_not(person(), actions.RESPOND, of) == f"'ann' may not act on incidents{said}"
    assert why_not(person(is_administrator=True), actions.RESPOND, of) == ""


def test_the_people_of_a_tenant_see_its_figures_and_nothing_else() -> None:
    ann, acme = person(tenants=frozenset({"acme"})), Owned(tenant="acme")
    assert may(ann, actions.SEE_TENANT, acme) and may_anywhere(ann, actions.SEE_TENANT)
    for of in (Owned(tenant="globex"), NOBODYS, MINE, acme | Owned(tenant="globex")):
        assert not may(ann, actions.SEE_TENANT, of)
    for name, action in ALL.items():
        assert name == "SEE_TENANT" or not (may(ann, action, acme) or may_anywhere(ann, action))
    assert not may(person(tenants=frozenset({"acme"}), scopes=frozenset({"fleet"})), actions.SEE_TENANT, acme)
