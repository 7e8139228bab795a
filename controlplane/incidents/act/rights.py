"""Who may act on incidents and silences: Django's permissions, which the group `On call` holds."""

from typing import Any

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied

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
    if not user.has_perm(right):  # type: ignore[union-attr]
        raise PermissionDenied(
            f"{user.get_username()!r} may not {WHAT[right]}: ask an administrator for the group {ON_CALL!r}"
        )


def make_group(sender: AppConfig, using: str = "default", **_: Any) -> None:
    """Make the group after the first migration, with every active user as a member: until then all of them could act."""
    from django.contrib.auth.models import Group, Permission, User

    group, made = Group.objects.using(using).get_or_create(name=ON_CALL)
    if not made:
        return
    create_permissions(sender, verbosity=0, using=using)  # Django makes them after the same signal, perhaps later
    codenames = [right.partition(".")[2] for right in WHAT]
    group.permissions.set(
        Permission.objects.using(using).filter(content_type__app_label="incidents", codename__in=codenames)
    )
    group.user_set.set(User.objects.using(using).filter(is_active=True))
