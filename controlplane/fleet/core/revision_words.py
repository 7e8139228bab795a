"""Says in words in what two policy snapshots differ: `pool chat-large-local: max_concurrency 64 → 1, max_queue 256 → 0`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controlplane.core.formatting import TEXT

PARTS = {
    "models": "model",
    "pools": "pool",
    "tiers": "tier",
    "tenants": "tenant",
    "rules": "rule",
    "timeout_rules": "timeouts",
}
"""The document's lists whose entries have names, and what such an entry is called."""
OPEN_TEXTS = ("model_name", "model_version", "variant", "region", "tier", "protocol", "mode", "scope", "cache")
"""Fields whose texts are said. Others may be secret or long, so that the field alone is named."""
MAX_PARTS, MAX_FIELDS = 3, 4
"""Others are counted."""


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The parts that differ, as the documents of `inference.contract.snapshot.encode` have them. Empty where none does."""
    said = [
        text
        for field, noun in PARTS.items()
        for text in _parts(noun, *(_named(each, field) for each in (before, after)))
    ]
    if fields := _fields(before.get("timeouts") or {}, after.get("timeouts") or {}):
        said.append(f"timeouts: {_listed(fields, MAX_FIELDS, ', ')}")
    return _listed(said, MAX_PARTS, "; ")


def _named(document: Mapping[str, Any], field: str) -> dict[str, Mapping[str, Any]]:
    return {str(part["name"]): part for part in document.get(field) or ()}


def _parts(noun: str, before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield f"{noun} {name} added"
        elif name not in after:
            yield f"{noun} {name} removed"
        elif fields := _fields(before[name], after[name]):
            yield f"{noun} {name}: {_listed(fields, MAX_FIELDS, ', ')}"


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], within: str = "") -> list[str]:
    said: list[str] = []
    for name in (*after, *(name for name in before if name not in after)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name == "routes":
            old, new = ({route["pool"]: route["weight"] for route in routes or ()} for routes in (old, new))
        if isinstance(old, dict) and isinstance(new, dict):
            said += _fields(old, new, f"{within}{name}.")
        elif name in OPEN_TEXTS or all(each is None or isinstance(each, int | float) for each in (old, new)):
            said.append(f"{within}{name} {_value(old)} → {_value(new)}")
        else:
            said.append(f"{within}{name}")
    return said


def _value(value: Any) -> str:
    return "none" if value in (None, "") else value if isinstance(value, str) else json.dumps(value)


def _listed(said: Sequence[str], most: int, separator: str) -> str:
    more = [f"{TEXT.count(len(said) - most)} more"] if len(said) > most else []
    return separator.join((*said[:most], *more))
