"""Parts of OpenSLO documents with their paths, and the refusal of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controlplane.core.documents.node import Node
from controlplane.core.documents.problem import Mark, dotted
from controlplane.core.documents.reading import Document
from controlplane.slo.openslo.core import weir
from controlplane.slo.openslo.core.schema import Fault, faults_of


@dataclass(frozen=True, slots=True)
class Context:
    """The documents that others may refer to, by kind and name."""

    documents: Mapping[tuple[str, str], Document] = field(default_factory=dict)

    def find(self, kind: str, name: str) -> Document | None:
        return self.documents.get((kind, name))


class ImportRefusedError(Exception):
    """Permanent: the document gives no objective. `kept`: it is valid, but not for Weir to evaluate."""

    def __init__(self, source: str, fault: Fault, kept: bool = False) -> None:
        super().__init__(fault.message)
        self.source, self.fault, self.kept = source, fault, kept


class Located(NamedTuple):
    """A part of a document, with its path and file."""

    node: Node
    path: str
    source: str

    def under(self, *names: str) -> "Located | None":
        node = self.node.at(*names)
        return Located(node, dotted(names, self.path), self.source) if node else None

    def refuse(self, message: str, rule: str, *, kept: bool = False, mark: Mark | None = None) -> ImportRefusedError:
        return ImportRefusedError(self.source, Fault(mark or self.node.mark, rule, self.path, message), kept)


def labels_of(node: Node | None) -> dict[str, str]:
    """Labels as text; several values of a label are joined by commas."""
    labels = node.mapping if node else {}
    return {
        name: ",".join(item.text for item in value.items) if value.items else value.text
        for name, value in labels.items()
    }


def part_of(whole: Located, *names: str) -> Located:
    part = whole.under(*names)
    if part is None:
        raise whole.refuse(f"{dotted(names, whole.path)} is missing", "required")
    return part


def check_part(part: Located, definition: str) -> None:
    for fault in faults_of(definition, part.node, part.path):
        raise ImportRefusedError(part.source, fault)


def annotations_in(document: Document) -> dict[str, Located]:
    annotations = document.node.at("metadata", "annotations")
    values = annotations.mapping if annotations else {}
    return {
        name: Located(node, f"metadata.annotations.{name}", document.source)
        for name, node in values.items()
        if name in weir.MEANT
    }
