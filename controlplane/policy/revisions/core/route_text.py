"""Writes other weights into the text of a routing policy, and leaves all else in it as its author wrote it."""

import re
from collections.abc import Mapping

from controlplane.core.documents.node import Node
from controlplane.core.documents.problem import Mark
from controlplane.core.documents.writing import write_yaml
from controlplane.policy.core.document import ReadPolicy, read

WEIGHT = re.compile(r"[^\s,}]+")


def with_routes(policy: ReadPolicy, routes: Mapping[int, Mapping[str, int]]) -> str:
    """The text in which the rules of these places, from 0, have these weights. Every pool that a rule had is in its new weights.

    Where YAML's own means stand in the way, such as an alias, the document is written anew, without comments.
    """
    lines = policy.text.splitlines(keepends=True)
    plain = policy.node.plain_mapping
    edits: list[tuple[Mark, int, str]] = []
    for number, weights in routes.items():
        node = policy.node.at("spec", "rules", number, "routes")
        assert node is not None
        plain["spec"]["rules"][number]["routes"] = dict(weights)  # type: ignore[index, call-overload]
        edits += _edits(node, weights, lines)
    for mark, length, text in sorted(edits, reverse=True):
        line, at = lines[mark.line - 1], mark.column - 1
        lines[mark.line - 1] = line[:at] + text + line[at + length :]
    edited = "".join(lines)
    after, problems = read(edited)
    if not problems and [each.node.plain_mapping for each in after] == [plain]:
        return edited
    return write_yaml(plain)


def _edits(node: Node, weights: Mapping[str, int], lines: list[str]) -> list[tuple[Mark, int, str]]:
    """Where, how many signs are taken out there, and what is put in."""
    edits = []
    for pool, weight in weights.items():
        if pool in node.mapping:
            mark = node.mapping[pool].mark
            scalar = WEIGHT.match(lines[mark.line - 1], mark.column - 1)
            edits.append((mark, len(scalar[0]) if scalar else 0, str(weight)))
        elif lines[node.mark.line - 1][node.mark.column - 1] == "{":
            edits.append((Mark(node.mark.line, node.mark.column + 1), 0, f"{pool}: {weight}, "))
        else:
            edits.append((node.mark, 0, f"{pool}: {weight}\n{' ' * (node.mark.column - 1)}"))
    return edits
