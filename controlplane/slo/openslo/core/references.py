"""Finds references between documents, and those to unknown documents."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from controlplane.core.documents.node import Node, walk
from controlplane.core.documents.problem import Problem, Severity
from controlplane.core.documents.reading import Document

FIELDS: dict[str, tuple[str, Severity]] = {
    "indicatorRef": ("SLI", "error"),
    "alertPolicyRef": ("AlertPolicy", "error"),
    "conditionRef": ("AlertCondition", "error"),
    "targetRef": ("AlertNotificationTarget", "warning"),
    "metricSourceRef": ("DataSource", "warning"),
}
"""The kind that each field names, and the severity of an unknown name. Notification targets and data sources may be defined elsewhere."""
INLINE = ("AlertPolicy", "AlertCondition", "AlertNotificationTarget", "SLI")


class Reference(NamedTuple):
    kind: str
    name: str
    node: Node
    path: str
    field: str


def index(documents: Iterable[Document]) -> dict[tuple[str, str], Document]:
    """Documents by kind and name; the first of two."""
    by_name: dict[tuple[str, str], Document] = {}
    for document in documents:
        by_name.setdefault((document.kind, document.name), document)
    return by_name


def references(document: Document) -> Iterator[Reference]:
    """References of a document, except inside the `spec` of a metric source, which OpenSLO does not define."""
    for path, node in walk(document.node):
        if ".metricSource.spec" in path or "connectionDetails" in path:
            continue
        for field, (kind, _) in FIELDS.items():
            if (named := node.at(field)) is not None and named.text:
                yield Reference(kind, named.text, named, f"{path}.{field}" if path else field, field)


def unknown(documents: Sequence[Document], known: Iterable[Document]) -> list[Problem]:
    """References of `documents` to objects that are neither among them nor among `known`."""
    names = {*index(documents), *index(known)}
    names |= {(kind, name) for document in documents for kind, name in _inline(document)}
    services = {name for kind, name in names if kind == "Service"}
    problems = []
    for document in documents:
        for reference in references(document):
            if (reference.kind, reference.name) not in names:
                message = (
                    f"{reference.path}={reference.name!r} is not a known {reference.kind}: add it, or correct the name"
                )
                severity = FIELDS[reference.field][1]
                problems.append(
                    Problem(
                        document.source, reference.node.mark, severity, "unknown-reference", reference.path, message
                    )
                )
        service = document.node.at("spec", "service") if document.kind == "SLO" else None
        if service is not None and services and service.text not in services:
            message = (
                f"spec.service={service.plain!r} is not a known Service: use one of {', '.join(sorted(services)[:10])}"
            )
            problems.append(
                Problem(document.source, service.mark, "warning", "unknown-reference", "spec.service", message)
            )
    return problems


def _inline(document: Document) -> Iterator[tuple[str, str]]:
    """Objects defined inside others, which may be referred to as well."""
    for path, node in walk(document.node):
        kind, name = node.at("kind"), node.at("metadata", "name")
        if path and kind is not None and name is not None and kind.text in INLINE:
            yield kind.text, name.text


def duplicates(documents: Sequence[Document]) -> list[Problem]:
    """Objects with the same kind and name."""
    first: dict[tuple[str, str], Document] = {}
    problems = []
    for document in documents:
        key = document.kind, document.name
        if not all(key):
            continue
        other = first.setdefault(key, document)
        if other is not document:
            node = document.node.mapping["metadata"].mapping["name"]
            place = f"{other.source}:{other.node.mapping['metadata'].mapping['name'].mark.line}"
            message = f"metadata.name={document.name!r} is a second {document.kind} of that name, first at {place}: rename one"
            problems.append(Problem(document.source, node.mark, "error", "duplicate", "metadata.name", message))
    return problems
