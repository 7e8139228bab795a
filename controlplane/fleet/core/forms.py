"""What a document of the fleet may have, and rows as such documents: `kind: Pool`, `metadata.name`, and `spec` with its columns and lists.

A form is derived from the columns of a table (`files/kinds.py`). What is left out of a document is its default.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from controlplane.core.documents.node import Node
from controlplane.core.documents.problem import shown
from controlplane.core.documents.writing import write_yaml

API_VERSION = "weir/v1"
REQUIRED = object()
"""The default of a column that has none."""
Values = dict[str, Any]
Path = tuple[str | int, ...]
Fault = tuple[Path, str]
"""Where in the document, and what to correct."""
Type = Literal["text", "whole number", "number", "true or false", "moment", "name", "list of names", "value"]
_PYTHON: Mapping[Type, tuple[type, ...]] = {
    "text": (str,),
    "whole number": (int,),
    "number": (int, float),
    "true or false": (bool,),
    "moment": (str,),
    "name": (str,),
    "list of names": (list,),
}


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is the name of another row; `value` is anything that JSON has."""

    type: Type
    default: Any = REQUIRED
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A mapping: of a whole document, or of one entry of a list."""

    columns: Mapping[str, Column]
    lists: "Mapping[str, Entries]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entries:
    """A list in a part. `key`: the columns that no two entries share; without any, the order says which is which.

    `single`: at most one, which stands there by itself. `names`: entries are the values of their only column. `kept`: measured, and not
    entered: it stays as it is where a document leaves it out, and only a whole document has it.
    """

    part: Part
    key: tuple[str, ...] = ()
    single: bool = False
    names: str = ""
    kept: bool = False


def written(kind: str, name: str, part: Part, values: Values, *, whole: bool = False) -> str:
    """The document as YAML. Without `whole`, what is as it would be by default is left out."""
    spec = _spec(part, values, whole=whole)
    document = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, **({"spec": spec} if spec else {})}
    return write_yaml(document)


def _spec(part: Part, values: Values, *, whole: bool) -> Values:
    spec = {
        name: values[name] for name, column in part.columns.items() if whole or not _same(values[name], column.default)
    }
    for name, entries in part.lists.items():
        listed = [_spec(entries.part, each, whole=whole) for each in values[name]]
        if not whole if entries.kept else not listed:
            continue
        if entries.names:
            spec[name] = [each[entries.names] for each in listed]
        else:
            spec[name] = listed[0] if entries.single else listed
    return spec


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def read(node: Node | None, part: Part) -> tuple[Values, list[Fault]]:
    """The values of a spec, with defaults for what it leaves out, and what to correct in it."""
    faults: list[Fault] = []
    return _values(None if node is None or node.value is None else node, part, ("spec",), faults), faults


def _values(node: Node | None, part: Part, path: Path, faults: list[Fault]) -> Values:
    given = node.mapping if node else {}
    if node is not None and not isinstance(node.value, Mapping):
        faults.append((path, f"{shown(node.plain)} is no mapping: write fields with values"))
    known = (*part.columns, *part.lists)
    faults += [((*path, name), f"{name!r} is no field: use {', '.join(known)}") for name in given if name not in known]
    values: Values = {}
    for name, column in part.columns.items():
        if name in given:
            values[name] = _value(given[name].plain, column, (*path, name), faults)
        elif column.default is REQUIRED:
            faults.append(((*path, name), f"{name} is missing: write a {column.type}"))
        else:
            values[name] = copy(column.default)
    for name, entries in part.lists.items():
        if name in given or not entries.kept:
            values[name] = _entries(given.get(name), entries, (*path, name), faults)
    return values


def _value(value: Any, column: Column, path: Path, faults: list[Fault]) -> Any:
    if column.type == "value" or (value is None and column.optional):
        return value
    fits = isinstance(value, _PYTHON[column.type]) and (column.type == "true or false" or not isinstance(value, bool))
    if fits and column.type == "moment":
        value = _moment(value)
        fits = value is not None
    if not fits:
        quoted = " in quotes" if column.type in ("text", "name") and not isinstance(value, (list, dict)) else ""
        faults.append((path, f"{path[-1]} is {shown(value)}: write a {column.type}{quoted}{_EXAMPLES[column.type]}"))
    elif column.type == "number":
        value = float(value)
    elif column.type == "list of names":
        value = sorted({str(each) for each in value})
    return value


_EXAMPLES: Mapping[Type, str] = {
    "text": "", "whole number": "", "number": "", "true or false": "", "name": "", "list of names": "", "value": "",
    "moment": " with its offset, such as 2026-11-27T09:00:00+00:00",
}  # fmt: skip


def _moment(text: str) -> str | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.astimezone(UTC).isoformat() if at.tzinfo else None


def _entries(node: Node | None, entries: Entries, path: Path, faults: list[Fault]) -> list[Values]:
    if node is None or node.value is None:
        return []
    if entries.single:
        return [_values(node, entries.part, path, faults)]
    if isinstance(node.value, str) or not isinstance(node.value, Sequence):
        faults.append((path, f"{path[-1]} is {shown(node.plain)}: write a list"))
        return []
    listed, seen = [], set()
    for number, each in enumerate(node.items):
        if entries.names:
            each = Node({entries.names: each}, each.mark)
        values = _values(each, entries.part, (*path, number), faults)
        key = tuple(str(values.get(name)) for name in entries.key) if entries.key else number
        if key in seen:
            faults.append(((*path, number), f"{path[-1]} has this {' and '.join(entries.key)} already: keep one"))
        seen.add(key)
        listed.append(values)
    return in_order(listed, entries)


def in_order(listed: list[Values], entries: Entries) -> list[Values]:
    """By key, so that the same rows are the same text; without a key, their order says something."""
    return sorted(listed, key=lambda each: tuple(str(each.get(name) or "") for name in entries.key))


def by_key(part: Part, values: Values) -> Values:
    """Values of which each entry of a list has a name of its own, to say what differs: `replicas.chat-eu-0.url`."""
    named = {name: values[name] for name in part.columns}
    for name, entries in part.lists.items():
        listed = values.get(name, [])
        if entries.names:
            named[name] = [each[entries.names] for each in listed]
        elif entries.single:
            named[name] = listed[0] if listed else {}
        else:
            named[name] = {_entry(each, entries, number): each for number, each in enumerate(listed, start=1)}
    return named


def _entry(values: Values, entries: Entries, number: int) -> str:
    return " ".join(str(values[name] or "all") for name in entries.key) or str(number)


def usual(part: Part) -> Values:
    """All defaults; None where there is none."""
    columns = {name: None if column.default is REQUIRED else column.default for name, column in part.columns.items()}
    return {**columns, **{name: [] for name in part.lists}}
