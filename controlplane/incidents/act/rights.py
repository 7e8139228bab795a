"""Who may act on incidents and silences: Django's permissions, which the group `On call` holds."""

from typing import Any

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User

from controlplane.accounts import groups

ON_CALL = "On call"
ACT, SILENCE, END_SILENCE, RECORD_CHANGE = (
    "incidents.change_incident",
    "incidents.add_silencerecord",
    "incidents.change_silencerecord",
    "incidents.add_changerecord",
)
WHAT = {
    ACT: "act on incidents",
    SILENCE: "make silences",
    END_SILENCE: "change or end silences",
    RECORD_CHANGE: "record changes",
}


def require(user: AbstractBaseUser | AnonymousUser, right: str) -> None:
    """Raises PermissionDenied, which says what to ask for."""
    groups.require(user, right, WHAT[right], ON_CALL)


def make_group(sender: AppConfig, using: str = "default", **_: Any) -> None:
    """Make the group after the first migration, with every active user as a member: until then all of them could act."""
    if group := groups.make(sender, using, ON_CALL, [right.partition(".")[2] for right in WHAT]):
        group.user_set.set(User.objects.using(using).filter(is_active=True))
