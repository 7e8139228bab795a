"""Who may start jobs of the plan and edit what it assumes: Django's permissions, which the group `Capacity planners` holds.

Everybody who is logged in may read. The admin pages also need the user's staff status.
"""

from typing import Any

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from controlplane.accounts import groups

PLANNERS = "Capacity planners"
START_JOB, CANCEL_JOB, ENTER = "planning.add_planjob", "planning.change_planjob", "planning.change_replicacapacityentry"
WHAT = {START_JOB: "start jobs of the plan", CANCEL_JOB: "cancel jobs of the plan", ENTER: "enter what replicas carry"}
EDITED = (
    "gpuquota",
    "gputype",
    "plannedevent",
    "plansettings",
    "poolcapacity",
    "regioncalendar",
    "replicacapacityentry",
)
"""The models that planners enter."""


def require(user: AbstractBaseUser | AnonymousUser, right: str) -> None:
    """Raises PermissionDenied, which says what to ask for."""
    groups.require(user, right, WHAT[right], PLANNERS)


def make_group(sender: AppConfig, using: str = "default", **_: Any) -> None:
    """Make the group after the first migration, without members. Administrators need none: they may do everything."""
    edited = [f"{action}_{model}" for action in ("add", "change", "delete", "view") for model in EDITED]
    groups.make(sender, using, PLANNERS, [*edited, *(right.partition(".")[2] for right in WHAT)])
