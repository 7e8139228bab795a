"""Lists the audit for the page and the API, and says who may see it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from controlplane.accounts import groups
from controlplane.audit.models import Entry

AUDITORS = "Auditors"
SEE = "audit.view_entry"
FILTERS = ("who", "via", "action", "kind", "subject_id")


class Listed(NamedTuple):
    rows: list[Entry]
    next_before: int | None  # where the next page begins; None on the last page


def require(user: AbstractBaseUser | AnonymousUser) -> None:
    """Raises PermissionDenied, which says what to ask for."""
    groups.require(user, SEE, "see the audit", AUDITORS)


def make_group(sender: AppConfig, using: str = "default", **_: Any) -> None:
    """Make the group after the first migration, without members. Administrators need none: they may do everything."""
    groups.make(sender, using, AUDITORS, ["view_entry"])


def listed(wanted: Mapping[str, Sequence[str]], before: int | None, limit: int) -> Listed:
    """The newest first. `wanted` has values by the names of FILTERS; several values of one name are alternatives."""
    entries = Entry.objects.order_by("-number")
    for name in FILTERS:
        if wanted.get(name):
            entries = entries.filter(**{f"{name}__in": wanted[name]})
    if before is not None:
        entries = entries.filter(number__lt=before)
    rows = list(entries[: limit + 1])
    return Listed(rows[:limit], rows[limit - 1].number if len(rows) > limit else None)
