"""Lists the audit for the page and the API, and says who may see it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from controlplane.accounts import groups
from controlplane.audit.models import Entry
from controlplane.core.listing import Listed, newest_first

AUDITORS = "Auditors"
SEE = "audit.view_entry"
FILTERS = ("who", "via", "action", "kind", "subject_id")


def require(user: AbstractBaseUser | AnonymousUser) -> None:
    """Raises PermissionDenied, which says what to ask for."""
    groups.require(user, SEE, "see the audit", AUDITORS)


def make_group(sender: AppConfig, using: str = "default", **_: Any) -> None:
    """Make the group after the first migration, without members. Administrators need none: they may do everything."""
    groups.make(sender, using, AUDITORS, ["view_entry"])


def listed(wanted: Mapping[str, Sequence[str]], before: int | None, limit: int) -> Listed[Entry]:
    """The newest first. `wanted` has values by the names of FILTERS; several values of one name are alternatives."""
    return newest_first(Entry.objects.all(), dict(zip(FILTERS, FILTERS, strict=True)), wanted, before, limit)
