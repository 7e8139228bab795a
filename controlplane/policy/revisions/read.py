"""Reads texts of policies: checks them against the fleet too, and gives each problem its line."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from controlplane.fleet.validators import NAME
from controlplane.policy.core import checks, document
from controlplane.policy.core.spec import Policy
from controlplane.policy.core.structure import Path, dotted
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import names
from controlplane.slo.openslo.core import reading
from controlplane.slo.openslo.core.node import Node
from controlplane.slo.openslo.core.problem import Problem

SOURCE = "text"


class PolicyTextError(ValueError):
    """Permanent: a text is no policy that the fleet can follow. `problems` has a line and a remedy for each reason."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems[:3]))
        self.problems = problems


@dataclass(frozen=True)
class ReadPolicy:
    """A policy with its text and the places of its parts."""

    written: document.Written
    kind: str

    @property
    def policy(self) -> Policy:
        return self.written.policy

    @property
    def name(self) -> str:
        return self.written.name

    @property
    def text(self) -> str:
        return self.written.text

    @cached_property
    def node(self) -> Node:
        """Its parts, with their places in the text by itself."""
        return reading.read(self.text)[0][0].node

    @property
    def plain(self) -> Mapping[str, Any]:
        return self.node.plain if isinstance(self.node.plain, dict) else {}

    def problem(self, path: Path, message: str, rule: str) -> Problem:
        """At the deepest part of the path that the text has."""
        part, mark = self.node, self.node.mark
        for step in path:
            below = part.at(step)
            if below is None:
                break
            mark = part.keys.get(step, below.mark) if isinstance(step, str) else below.mark
            part = below
        mark = mark._replace(line=mark.line - self.node.mark.line + self.written.mark.line)
        return Problem(self.written.source, mark, "error", rule, dotted(path), message)


def read_policies(text: str, source: str = SOURCE) -> tuple[list[ReadPolicy], list[Problem]]:
    """The policies of a text, and what to correct. Names that the fleet does not have are problems too."""
    written, problems = document.read(text, source)
    policies = [ReadPolicy(each, type(each.policy).__name__) for each in written]
    for policy in policies:
        if not NAME.fullmatch(policy.name):
            message = f"metadata.name is {policy.name!r}: use lower-case letters, digits, “.”, “-” and “_”"
            problems.append(policy.problem(("metadata", "name"), message, "name"))
        problems += unknown_names(policy)
    return policies, sorted(problems)


def read_text(text: str) -> ReadPolicy:
    """The policy of a text that has a single one. Raises PolicyTextError."""
    _, problems = document.read_single(text, SOURCE)
    policies, unknown = read_policies(text) if not problems else ([], [])
    if problems or unknown:
        raise PolicyTextError([*problems, *unknown])
    return policies[0]


def unknown_names(policy: ReadPolicy) -> list[Problem]:
    faults = checks.unknown_names(policy.policy, names.fleet(policy.policy))
    return [policy.problem(path, message, "unknown-name") for path, message in faults]


def policy_of(revision: PolicyRevision) -> Policy:
    """What a stored revision says. Raises PolicyTextError where this release cannot read it."""
    policy, problems = document.read_single(revision.text, str(revision))
    if policy is None:
        raise PolicyTextError(problems)
    return policy


def try_policy_of(revision: PolicyRevision) -> Policy | None:
    """None where this release cannot read it: an older one has taken it."""
    try:
        return policy_of(revision)
    except PolicyTextError:
        return None


def plain_of(revision: PolicyRevision) -> dict[str, Any]:
    """The document of a stored revision as JSON has it."""
    documents, _ = reading.read(revision.text)
    plain = documents[0].plain if documents else {}
    return plain if isinstance(plain, dict) else {}
