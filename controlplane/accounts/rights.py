"""Asks the rule: who the person is, by the database as it is now, and whose the object is, by its own `owned()`."""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404

from controlplane.accounts.core import rule
from controlplane.accounts.core.rule import ROLES, Action, Owned, Person
from controlplane.accounts.login import provider
from controlplane.accounts.models import ADMINISTRATOR, Membership, TenantMembership, TokenUser

Row = TypeVar("Row", bound=Model)
Guard = Callable[[object], None]
"""Raises PermissionDenied where somebody may not do it with this object."""
_PERSON = "_weir_person"


@runtime_checkable
class HasOwners(Protocol):
    def owned(self) -> Owned: ...


def person_of(user: AbstractBaseUser | AnonymousUser) -> Person:
    """Looked up once for each user object, of which every request has its own: a role that is taken is gone at the next request."""
    known: Person | None = getattr(user, _PERSON, None)
    if known is None:
        known = _read(user)
        setattr(user, _PERSON, known)
    return known


def _read(user: AbstractBaseUser | AnonymousUser) -> Person:
    if not user.is_active:
        return Person(user.get_username(), scopes=frozenset())
    roles: dict[str, set[str]] = {}
    in_need = False
    members = Membership.objects.filter(user_id=user.pk)
    for team, role, wants in members.values_list("team__name", "role", "team__requires_second_factor"):
        roles.setdefault(team, set()).add(role)
        in_need = in_need or wants
    tenants = set(TenantMembership.objects.filter(user_id=user.pk).values_list("tenant__name", flat=True))
    groups = provider.mapped(user)
    for mapping in groups:
        if mapping.team:
            roles.setdefault(mapping.team.name, set()).add(mapping.role)
        elif mapping.tenant:
            tenants.add(mapping.tenant.name)
    token = user.token if isinstance(user, TokenUser) else None
    administers = bool(getattr(user, "is_superuser", False)) or any(each.role == ADMINISTRATOR for each in groups)
    if token and token.team:
        roles, tenants = {token.team.name: set(ROLES) if administers else roles.get(token.team.name, set())}, set()
        administers = False
    return Person(
        user.get_username(),
        administers,
        roles,
        frozenset(token.scopes) if token else None,
        token.name if token else "",
        frozenset(tenants),
        in_need,
    )


def owned(thing: object) -> Owned:
    """Whose it is. What does not say so is nobody's."""
    if isinstance(thing, Owned):
        return thing
    return thing.owned() if isinstance(thing, HasOwners) else Owned()


def may(user: AbstractBaseUser | AnonymousUser, action: Action, thing: object = None) -> bool:
    return rule.may(person_of(user), action, owned(thing))


def is_administrator(user: AbstractBaseUser | AnonymousUser) -> bool:
    return person_of(user).is_administrator


def may_anywhere(user: AbstractBaseUser | AnonymousUser, action: Action) -> bool:
    """Whether there may be an object with which the user may do this."""
    return rule.may_anywhere(person_of(user), action)


def who_may(action: Action, thing: object = None) -> str:
    """`an owner or responder of serving, or an administrator`."""
    return rule.who_may(action, None if thing is None else owned(thing))


def why_not(user: AbstractBaseUser | AnonymousUser, action: Action, thing: object = None) -> str:
    """Why not, and who may, as a sentence; empty where the user may."""
    return rule.why_not(person_of(user), action, owned(thing))


def require(user: AbstractBaseUser | AnonymousUser, action: Action, thing: object = None) -> None:
    """Raises PermissionDenied, which says who may."""
    if sentence := why_not(user, action, thing):
        raise PermissionDenied(sentence)


def guard(user: AbstractBaseUser | AnonymousUser, action: Action) -> Guard:
    """For what learns its objects as it goes, as an apply of files does."""
    return lambda thing: require(user, action, thing)


def unguarded(thing: object) -> None:
    """For who works at the database itself: `manage.py`, and Weir's own processes."""


def require_anywhere(user: AbstractBaseUser | AnonymousUser, action: Action) -> None:
    """Raises PermissionDenied where there is no object with which the user may do this."""
    if not may_anywhere(user, action):
        raise PermissionDenied(rule.why_nowhere(person_of(user), action))


def row_for(
    user: AbstractBaseUser | AnonymousUser, action: Action, rows: type[Row] | QuerySet[Row], **wanted: object
) -> Row:
    """The row with which the user wants to do this. Raises PermissionDenied; Http404 to who might do it with another row."""
    return row_by(user, action, lambda: get_object_or_404(rows, **wanted))


def row_by(
    user: AbstractBaseUser | AnonymousUser,
    action: Action,
    find: Callable[[], Row],
    action_for: Callable[[Row], Action] | None = None,
) -> Row:
    """As `row_for`, of what `find` returns; it raises Http404. `action_for`: what is asked of the row, where that depends on it."""
    try:
        row = find()
    except Http404:
        require_anywhere(user, action)
        raise
    require(user, action_for(row) if action_for else action, row)
    return row
