"""Reads files of the fleet: their documents with values, and what to correct in them, by line."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.core.documents.node import Node
from controlplane.core.documents.problem import Problem, dotted, shown
from controlplane.core.documents.reading import Document, read
from controlplane.fleet.core import forms
from controlplane.fleet.core.forms import API_VERSION, Values
from controlplane.fleet.files.kinds import ALL, KINDS, Key, Kind


@dataclass(frozen=True)
class Wanted:
    """A document that can be followed, with its values."""

    key: Key
    values: Values
    document: Document

    def problem(self, path: forms.Path, message: str, rule: str) -> Problem:
        node = self.document.node
        return Problem(self.document.source, node.nearest(path), "error", rule, dotted(path), message)


def check(texts: Mapping[str, str]) -> tuple[list[Wanted], list[Problem]]:
    """The documents of files by name, and what to correct, by line. What they refer to is looked up when they are applied."""
    wanted: dict[Key, Wanted] = {}
    problems: list[Problem] = []
    for source, text in texts.items():
        documents, unreadable = read(text, source)
        problems += unreadable
        for document in documents:
            each, faults = _read(document)
            if each.key in wanted:
                twin = wanted[each.key].document
                message = f"{' '.join(each.key)} is described at {twin.source}:{twin.node.mark.line} too: keep one"
                faults.append((("metadata", "name"), message))
            wanted.setdefault(each.key, each)
            problems += [each.problem(path, message, "fleet") for path, message in faults]
    return list(wanted.values()), sorted(problems)


def _read(document: Document) -> tuple[Wanted, list[forms.Fault]]:
    key = (document.kind, document.name)
    kind, node = KINDS.get(key[0]), document.node
    faults = _frame(node, kind, key)
    if kind is None:
        return Wanted(key, {}, document), faults
    values, more = forms.read(node.at("spec"), kind.part)
    return Wanted(key, values, document), faults + more


def _frame(node: Node, kind: Kind | None, key: Key) -> list[forms.Fault]:
    faults: list[forms.Fault] = []
    version = node.at("apiVersion")
    if version is None or version.plain != API_VERSION:
        faults.append((("apiVersion",), f"apiVersion is {shown(version and version.plain)}: write {API_VERSION}"))
    if kind is None:
        faults.append((("kind",), f"kind is {shown(key[0])}: use {', '.join(KINDS)}"))
    elif kind.is_single and key[1] != ALL:
        faults.append((("metadata", "name"), f"metadata.name is {shown(key[1])}: there is one, named {ALL!r}"))
    elif not key[1]:
        faults.append((("metadata", "name"), "metadata.name is missing: name it"))
    for path, known in (((), ("apiVersion", "kind", "metadata", "spec")), (("metadata",), ("name",))):
        part = node.at(*path)
        for name in part.mapping if part else ():
            if name not in known:
                faults.append(((*path, name), f"{name!r} is no field: use {', '.join(known)}"))
    return faults
