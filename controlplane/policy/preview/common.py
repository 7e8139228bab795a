"""What previews of all kinds share: their time, what is in force beside the revision, and why there is none."""

import time
from collections.abc import Callable
from typing import TypeVar

from controlplane.policy.core.spec import InForce, Policy
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import names
from controlplane.policy.revisions.read import try_policy_of
from controlplane.telemetry.core.query_types import Window

Report = Callable[[float, str], None]
P = TypeVar("P", bound=Policy)
DAY_S = 86_400
PREVIEWED_S = 14 * DAY_S
NS_PER_S = 1_000_000_000


class CannotPreviewError(ValueError):
    """Permanent: nothing can be replayed. The message has the remedy."""


def window(now_s: float | None = None) -> Window:
    """The last 14 days."""
    to_ns = int((time.time() if now_s is None else now_s) * NS_PER_S)
    return Window(to_ns - PREVIEWED_S * NS_PER_S, to_ns)


def in_force(revision: PolicyRevision, policy: P) -> tuple[PolicyRevision, P] | None:
    """What is in force for the same subject; None where nothing is."""
    active = PolicyRevision.objects.filter(kind=revision.kind, state=PolicyRevision.State.ACTIVE)
    for row in active.exclude(pk=revision.pk):
        theirs = try_policy_of(row)
        if isinstance(theirs, type(policy)) and names.target(theirs) == names.target(policy):
            return row, theirs
    return None


def followed(revision: PolicyRevision, policy: Policy) -> InForce:
    """The policy as `decide` takes it."""
    return InForce(revision.pk or 0, revision.number, revision.text_sha256, policy)
