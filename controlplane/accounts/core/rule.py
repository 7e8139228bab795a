"""Who may do what: one rule, of the roles that people have in teams. What it does not allow is denied."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from controlplane.accounts.core.scopes import ADMIN, Scope

Role = Literal["viewer", "responder", "owner", "approver"]
ROLES: Mapping[Role, str] = {
    "viewer": "sees everything",
    "responder": "acknowledges, silences, notes and resolves",
    "owner": "responds, and edits what is the team's: objectives, policies, destinations, keys, models and their pools",
    "approver": "approves what another person wrote",
}
NOBODY = ""
"""Stands for a team where there is none: what nobody owns is administrators'."""
EVERY_TEAM = "\0"
"""Whose is what touches all teams. No team can be called so."""


@dataclass(frozen=True, slots=True)
class Action:
    """`words` follow "may". `roles`: one of them is needed in each team of the object; without any, administrators alone may.

    `shared`: of an object that no team owns, whoever has such a role in any team may. `by_another`: not its author. `by_tenant`: the
    people of the object's tenant may as well.
    `scopes` of a token, each of which suffices, as `admin` does.
    """

    words: str
    roles: frozenset[Role] = frozenset()
    scopes: frozenset[Scope] = frozenset()
    shared: bool = False
    by_another: bool = False
    by_tenant: bool = False


@dataclass(frozen=True, slots=True)
class Owned:
    """An object, by what the rule asks of it: the teams whose it is, all of which must agree, its author, and the tenant of which it is."""

    teams: frozenset[str] = frozenset({NOBODY})
    author: str = ""
    tenant: str = ""

    @classmethod
    def by(cls, *teams: str | None) -> "Owned":
        """Of these teams, each by its name; empty or None is nobody's."""
        return cls(frozenset(team or NOBODY for team in teams) or frozenset({NOBODY}))

    def __or__(self, other: "Owned") -> "Owned":
        """What touches both."""
        return Owned(self.teams | other.teams, self.author, self.tenant if self.tenant == other.tenant else "")


@dataclass(frozen=True, slots=True)
class Person:
    """`roles` by the names of teams, and `tenants` that he belongs to. `needs_second_factor`: one of his
    teams wants it. `scopes` of the token that the person acts by; None without one."""

    name: str
    is_administrator: bool = False
    roles: Mapping[str, Collection[str]] = field(default_factory=dict)
    scopes: frozenset[str] | None = None
    token: str = ""
    tenants: frozenset[str] = frozenset()
    needs_second_factor: bool = False


def may(person: Person, action: Action, of: Owned) -> bool:
    if not covers(person, action) or (action.by_another and person.name == of.author):
        return False
    if person.is_administrator or (action.by_tenant and of.tenant in person.tenants):
        return True
    if action.shared and of.teams == {NOBODY}:
        return _has_role(person, action)
    return bool(of.teams) and all(not action.roles.isdisjoint(person.roles.get(team, ())) for team in of.teams)


def may_anywhere(person: Person, action: Action) -> bool:
    """Whether there may be an object with which the person may do this."""
    holds = person.is_administrator or _has_role(person, action) or (action.by_tenant and bool(person.tenants))
    return covers(person, action) and holds


def _has_role(person: Person, action: Action) -> bool:
    """In any team."""
    return any(not action.roles.isdisjoint(roles) for roles in person.roles.values())


def covers(person: Person, action: Action) -> bool:
    """Whether the scopes of the person's token, if there is one, let him use this right of his."""
    return person.scopes is None or ADMIN in person.scopes or not action.scopes.isdisjoint(person.scopes)


def why_not(person: Person, action: Action, of: Owned) -> str:
    """Why the person may not, and who may, as a sentence; empty where he may."""
    if may(person, action, of):
        return ""
    if not covers(person, action):
        wanted = " or ".join(repr(name) for name in (*sorted(action.scopes), ADMIN))
        return f"the token {person.token!r} may not {action.words}: its scopes lack {wanted}"
    if action.by_another and person.name == of.author:
        return f"{person.name!r} may not {action.words} that {person.name!r} proposed: ask {who_may(action, of)}"
    return f"{person.name!r} may not {action.words}{_of_teams(of)}: ask {who_may(action, of)}"


def why_nowhere(person: Person, action: Action) -> str:
    """As `why_not`, where there is no object with which the person may."""
    if not covers(person, action):
        return why_not(person, action, Owned())
    return f"{person.name!r} may not {action.words}: ask {who_may(action)}"


def who_may(action: Action, of: Owned | None = None) -> str:
    """`an owner or responder of serving, or an administrator`. Without an object, of its team, whichever that is."""
    roles = " or ".join(role for role in ("owner", "responder", "approver") if role in action.roles)
    if not roles or (of and NOBODY in of.teams and not (action.shared and of.teams == {NOBODY})):
        return "an administrator"
    article = "an" if roles[0] in "aeiou" else "a"
    whose = "its team" if of is None else "any team" if of.teams == {NOBODY} else " and of ".join(_names(of))
    return f"{article} {roles} of {whose}, or an administrator"


def _of_teams(of: Owned) -> str:
    named = _names(of)
    return f" of {' and '.join(named)}" if named else ""


def _names(of: Owned) -> list[str]:
    return ["every team" if team == EVERY_TEAM else team for team in sorted(of.teams - {NOBODY})]
