"""Who may propose, approve, activate and pause policies, and send scores of answers: a permission of Django's for each, held by four
groups without members.

Everybody who is logged in may read. The admin pages also need the user's staff status.
"""

from typing import Any

from django.apps import AppConfig
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from controlplane.accounts import groups

AUTHORS, APPROVERS, OPERATORS, SCORERS = "Policy authors", "Policy approvers", "Policy operators", "Score senders"
PROPOSE, APPROVE, ACTIVATE, PAUSE, SCORE = (
    "policy.propose_policyrevision",
    "policy.approve_policyrevision",
    "policy.activate_policyrevision",
    "policy.pause_policy",
    "policy.score_answers",
)
WHAT = {
    PROPOSE: ("propose, preview or shadow revisions of policies", AUTHORS),
    APPROVE: ("approve revisions of policies", APPROVERS),
    ACTIVATE: ("activate, retire or roll back policies", OPERATORS),
    PAUSE: ("pause or override policies", OPERATORS),
    SCORE: ("send scores of answers", SCORERS),
}
SEEN = (
    "view_policyrevision", "view_revisionevent", "view_pause", "view_override", "view_decisionrecord", "view_decisionchange", "view_action",
)  # fmt: skip


def may(user: AbstractBaseUser | AnonymousUser, right: str) -> bool:
    return bool(user.has_perm(right))  # type: ignore[union-attr]


def require(user: AbstractBaseUser | AnonymousUser, right: str) -> None:
    """Raises PermissionDenied, which says what to ask for."""
    action, group = WHAT[right]
    groups.require(user, right, action, group)


def make_groups(sender: AppConfig, using: str = "default", **_: Any) -> None:
    """Make the groups after the first migration, without members. Administrators need none: they may do everything."""
    for group in (AUTHORS, APPROVERS, OPERATORS, SCORERS):
        rights = [right.partition(".")[2] for right, (_action, name) in WHAT.items() if name == group]
        groups.make(sender, using, group, [*rights, *SEEN])
