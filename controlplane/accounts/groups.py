"""Groups of Django's permissions: checks a user's right, and makes a group with its rights after the first migration."""

from collections.abc import Iterable

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.core.exceptions import PermissionDenied

from controlplane.accounts.core.scopes import READ, scopes_for
from controlplane.accounts.models import TokenUser


def require(user: AbstractBaseUser | AnonymousUser, right: str, action: str, group: str = "") -> None:
    """Raises PermissionDenied, which says what the user may not do, and which group or scope to ask for."""
    require_scope(user, right, action)
    if not user.has_perm(right):  # type: ignore[union-attr]
        wanted = f" for the group {group!r}" if group else ""
        raise PermissionDenied(f"{user.get_username()!r} may not {action}: ask an administrator{wanted}")


def require_reading(user: AbstractBaseUser | AnonymousUser) -> None:
    """For what only reads, although it is no GET: everybody who is logged in may, and tokens with the scope for it."""
    require_scope(user, READ, "read")


def require_scope(user: AbstractBaseUser | AnonymousUser, right: str, action: str) -> None:
    """Raises PermissionDenied where the user acts by a token whose scopes do not cover the right."""
    if isinstance(user, TokenUser) and not user.covers(right):
        wanted = " or ".join(repr(name) for name in (*sorted(scopes_for(right)), "admin"))
        raise PermissionDenied(f"the token {user.token.name!r} may not {action}: its scopes lack {wanted}")


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
