"""Brings policies into force that a set-up comes with."""

from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.db import transaction

from controlplane.policy.core.document import ReadPolicy
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from controlplane.policy.revisions.read import read_policies

WHO = "set-up"


class PoliciesError(ValueError):
    """Permanent: a text has no policy that can be followed. The message has the place and the remedy."""


def create_missing(texts: Mapping[str, str]) -> list[str]:
    """Bring each policy of these files into force, and return a line for each. Left alone is what there was before, in whatever
    state, and what names anything that the fleet does not have. Raises PoliciesError.
    """
    done = []
    for source, text in texts.items():
        policies, problems = read_policies(text, source)
        if wrong := [problem for problem in problems if problem.rule != "unknown-name"]:
            mark, message = wrong[0].mark, wrong[0].message
            raise PoliciesError(f"{source}:{mark.line}:{mark.column}: {message}")
        if not problems:
            done += [
                _create(policy) for policy in policies if not PolicyRevision.objects.filter(name=policy.name).exists()
            ]
    return done


def _create(policy: ReadPolicy) -> str:
    revision = steps.propose(policy.text, who=WHO, source=steps.BOOTSTRAP, note="Comes with the set-up").revision
    try:
        with transaction.atomic():
            steps.activate(revision, WHO)
    except ValidationError as error:
        return f"proposed policy {policy.name}, which is not in force: {' '.join(error.messages)}"
    return f"made policy {policy.name}, which is in force"
