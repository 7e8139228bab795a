"""Starts previews of revisions, which a job of the worker makes (`controlplane/policy/preview/job.py`)."""

from django.core.exceptions import ValidationError

from controlplane.core.documents import lifecycle
from controlplane.planning import jobs
from controlplane.planning.models import PlanJob
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps

KIND = "policy_preview"


def start(revision: PolicyRevision, who: str) -> PlanJob:
    """Queue its preview, or return the one that is open. Raises ValidationError."""
    if reason := lifecycle.why_not("preview", steps.facts_of(revision), who):
        raise ValidationError({"state": f"state={revision.state!r}: {reason}"})
    return jobs.start(KIND, request_of(revision), author=who)


def newest_job(revision: PolicyRevision) -> PlanJob | None:
    """The newest preview of it, whether it has ended or not; None where there was none."""
    return PlanJob.objects.filter(kind=KIND, request=request_of(revision)).order_by("-pk").first()


def request_of(revision: PolicyRevision) -> dict[str, int]:
    return {"revision": revision.pk}
