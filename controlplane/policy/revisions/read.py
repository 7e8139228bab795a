"""Reads texts of policies: checks them against the fleet too, and gives each problem its line."""

from functools import lru_cache
from typing import Any

from controlplane.core.documents import reading
from controlplane.core.documents.problem import Problem
from controlplane.fleet.validators import NAME
from controlplane.policy.core import checks, document
from controlplane.policy.core.document import ReadPolicy
from controlplane.policy.core.spec import Policy
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import names

SOURCE = "text"


class PolicyTextError(ValueError):
    """Permanent: a text is no policy that the fleet can follow. `problems` has a line and a remedy for each reason."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems[:3]))
        self.problems = problems


def read_policies(text: str, source: str = SOURCE) -> tuple[list[ReadPolicy], list[Problem]]:
    """The policies of a text, and what to correct. Names that the fleet does not have are problems too."""
    policies, problems = document.read(text, source)
    for policy in policies:
        if not NAME.fullmatch(policy.name):
            message = f"metadata.name is {policy.name!r}: use lower-case letters, digits, “.”, “-” and “_”"
            problems.append(policy.problem(("metadata", "name"), message, "name"))
        for path, message in checks.unknown_names(policy.policy, names.fleet(policy.policy)):
            problems.append(policy.problem(path, message, "unknown-name"))
    return policies, sorted(problems)


def read_text(text: str) -> ReadPolicy:
    """The policy of a text that has a single one. Raises PolicyTextError."""
    _, problems = document.read_single(text, SOURCE)
    policies, unknown = read_policies(text) if not problems else ([], [])
    if problems or unknown:
        raise PolicyTextError([*problems, *unknown])
    return policies[0]


def policy_of(revision: PolicyRevision) -> Policy:
    """What a stored revision says. Raises PolicyTextError where this release cannot read it."""
    policy, problems = document.read_single(revision.text, str(revision))
    if policy is None:
        raise PolicyTextError(problems)
    return policy


def read_stored(revision: PolicyRevision) -> ReadPolicy | None:
    """With the places of its parts. None where this release cannot read it."""
    policies, problems = document.read(revision.text, str(revision))
    return policies[0] if len(policies) == 1 and not problems else None


def try_policy_of(revision: PolicyRevision) -> Policy | None:
    """None where this release cannot read it: an older one has taken it."""
    return _try_read(revision.text)


@lru_cache(maxsize=500)
def _try_read(text: str) -> Policy | None:
    return document.read_single(text, SOURCE)[0]


def plain_of(revision: PolicyRevision) -> dict[str, Any]:
    """The document of a stored revision as JSON has it."""
    documents, _ = reading.read(revision.text)
    return documents[0].node.plain_mapping if documents else {}
