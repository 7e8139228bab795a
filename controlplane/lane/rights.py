"""Who may cancel batches of any tenant, and run their failed lines again: Django's permissions, which the group `Batch operators` holds."""

from typing import Any

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from controlplane.accounts import groups

OPERATORS = "Batch operators"
ACT = "lane.change_batch"
_LIMITS = [
    f"{action}_{model}"
    for model in ("tenantlimits", "callbacksecret", "callback")
    for action in ("add", "change", "delete", "view")
]


def require(user: AbstractBaseUser | AnonymousUser) -> None:
    """Raises PermissionDenied, which says what to ask for."""
    groups.require(user, ACT, "cancel batches or run failed lines again", OPERATORS)


def make_group(sender: AppConfig, using: str = "default", **_: Any) -> None:
    """Make the group after the first migration, without members. Administrators need none: they may do everything."""
    groups.make(sender, using, OPERATORS, ["change_batch", "view_batch", *_LIMITS])
