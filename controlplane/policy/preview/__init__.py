"""Previews revisions of policies on what was recorded in the last 14 days, beside what is in force.

A folder's `core/` counts; the modules beside it read. Each kind of policy says what it cannot know.
"""

from typing import Any

from controlplane.policy.core.spec import Canary, Degradation, Routing
from controlplane.policy.models import PolicyRevision
from controlplane.policy.preview.common import CannotPreviewError, Report
from controlplane.policy.revisions.read import policy_of


def preview(revision: PolicyRevision, report: Report) -> dict[str, Any]:
    """What the revision would have done, beside what is in force; where that cannot be known, the reason as `error`.

    `report` is called with the share done, and may raise to end it. Raises the errors of the store.
    """
    try:
        return _previewed(revision, report)
    except CannotPreviewError as error:
        return {"error": str(error)}


def _previewed(revision: PolicyRevision, report: Report) -> dict[str, Any]:
    # The simulator takes seconds to import, and one kind of policy needs it.
    policy = policy_of(revision)
    match policy:
        case Routing():
            from controlplane.policy.preview.routing import preview_routing

            return preview_routing(revision, policy, report)
        case Degradation():
            from controlplane.policy.preview.degradation import preview_degradation

            return preview_degradation(revision, policy, report)
        case Canary():
            from controlplane.policy.preview.canary import preview_canary

            return preview_canary(policy, report)
        case _ if policy.spec.pool is None:
            raise CannotPreviewError(
                "a policy of the API tier has no preview: put it in shadow, and see what it would have done"
            )
        case _:
            from controlplane.policy.preview.scaling import preview_scaling

            return preview_scaling(revision, policy, report)
