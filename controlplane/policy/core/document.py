"""Reads what owners write: policies as YAML or JSON documents. Every problem names its field, its value and a remedy, and has a place.

Values are read as OpenSLO documents are: YAML 1.2's core schema, several documents in a file, positions of every part.
"""

import hashlib
from dataclasses import dataclass

import msgspec

from controlplane.core.documents import reading
from controlplane.core.documents.node import Node
from controlplane.core.documents.problem import Mark, Problem, dotted, shown
from controlplane.policy.core.checks import faults_of
from controlplane.policy.core.spec import KINDS, Policy
from controlplane.policy.core.structure import Fault, Path, near, structure

API_VERSION = "weir/v1"


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """A policy, with the YAML of its document and the places of its parts."""

    policy: Policy
    text: str
    source: str
    node: Node

    @property
    def name(self) -> str:
        return self.policy.metadata.name

    @property
    def kind(self) -> str:
        return type(self.policy).__name__

    def problem(self, path: Path, message: str, rule: str) -> Problem:
        return Problem(self.source, self.node.nearest(path), "error", rule, dotted(path), message)


def read(text: str, source: str = "<text>") -> tuple[list[ReadPolicy], list[Problem]]:
    """The policies of a text that can be followed, and the problems of the others."""
    documents, problems = reading.read(text, source)
    policies: list[ReadPolicy] = []
    marks: dict[str, Mark] = {}
    for document in documents:
        policy, faults = _policy(document.node)
        if policy is not None and not faults:
            name = policy.metadata.name
            if name in marks:
                faults = [(("metadata", "name"), f"{name!r} is also on line {marks[name].line}: rename either")]
            else:
                marks[name] = document.node.mark
                policies.append(ReadPolicy(policy, document.text, source, document.node))
        problems += [
            Problem(source, document.node.nearest(path), "error", "policy", dotted(path), message)
            for path, message in faults
        ]
    if not documents and not problems:
        message = f"there is no policy: begin with `apiVersion: {API_VERSION}` and a kind: {', '.join(KINDS)}"
        problems.append(Problem(source, Mark(1, 1), "error", "empty", "", message))
    return policies, sorted(problems)


def read_single(text: str, source: str = "<text>") -> tuple[Policy | None, list[Problem]]:
    """The only policy of a text, as a revision has it."""
    policies, problems = read(text, source)
    if len(policies) > 1:
        mark = policies[1].node.mark
        problems.append(
            Problem(source, mark, "error", "several", "", "a revision has a single policy: remove the others")
        )
    return (policies[0].policy, []) if len(policies) == 1 and not problems else (None, problems)


def digest_of(policy: Policy) -> str:
    """Hex SHA-256 of what a policy says: comments, order and spelling of its text do not count."""
    return hashlib.sha256(msgspec.json.encode(policy, order="deterministic")).hexdigest()


def _policy(node: Node) -> tuple[Policy | None, list[Fault]]:
    plain = node.plain
    if not isinstance(plain, dict):
        return None, [((), f"a policy is a mapping, and this is {shown(plain)}: write `apiVersion: {API_VERSION}`")]
    for name, choices in (("apiVersion", [API_VERSION]), ("kind", list(KINDS))):
        if plain.get(name) not in choices:
            what = f"is {shown(plain[name])}" if name in plain else "is missing"
            return None, [((name,), f"{name} {what}: {near(plain.get(name), choices)}")]
    faults = list(structure(KINDS[str(plain["kind"])], plain, ()))
    if faults:
        return None, faults
    policy = msgspec.convert(plain, Policy)
    return policy, list(faults_of(policy))
