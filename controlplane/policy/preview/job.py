"""The worker's job that previews a revision: runs it over recorded traffic, and stores what it measured."""

from collections.abc import Mapping
from typing import Any

from controlplane.planning import jobs
from controlplane.policy.models import PolicyRevision
from controlplane.policy.preview import preview
from controlplane.policy.revisions import steps
from controlplane.policy.revisions.previews import KIND


@jobs.kind(KIND)
def run(request: Mapping[str, Any], progress: jobs.Progress) -> dict[str, Any]:
    """Raises PolicyRevision.DoesNotExist, and the errors of the store."""
    revision = PolicyRevision.objects.get(pk=request["revision"])
    result = preview(revision, lambda share, note: progress.report(round(100 * share), 100, note))
    steps.previewed(revision.pk, result, progress.job.author)
    return {"note": result.get("error") or result.get("note", "")}
