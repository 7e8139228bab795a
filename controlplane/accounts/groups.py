"""Groups of Django's permissions: checks a user's right, and makes a group with its rights after the first migration."""

from collections.abc import Iterable

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.core.exceptions import PermissionDenied


def require(user: AbstractBaseUser | AnonymousUser, right: str, action: str, group: str) -> None:
    """Raises PermissionDenied, which says what the user may not do, and which group to ask for."""
    if not user.has_perm(right):  # type: ignore[union-attr]
        raise PermissionDenied(
            f"{user.get_username()!r} may not {action}: ask an administrator for the group {group!r}"
        )


def make(sender: AppConfig, using: str, name: str, codenames: Iterable[str]) -> Group | None:
    """Make the group with these permissions of the app `sender`, without members. None where it is there already."""
    group, made = Group.objects.using(using).get_or_create(name=name)
    if not made:
        return None
    create_permissions(sender, verbosity=0, using=using)  # Django makes them after the same signal, perhaps later
    group.permissions.set(
        Permission.objects.using(using).filter(content_type__app_label=sender.label, codename__in=list(codenames))
    )
    return group
