"""The fleet as documents: as it is, or as it was at a revision."""

from collections.abc import Collection, Mapping
from typing import Any

from controlplane.fleet.files.kinds import Key, stored, text_of

NAMES_ITS_OWNER = {"team": "Team", "owner": "Team", "model": "Model", "variant": "Variant"}
"""A field that says whose a document is, itself or by the document that it names."""


def owner_of(key: Key, fleet: Mapping[Key, Mapping[str, Any]]) -> str:
    """The team whose a document is; empty where it is nobody's."""
    values = fleet.get(key, {})
    if key[0] == "Team":
        return key[1]
    if "objectives" in values:
        named = {owner_of(("Objective", name), fleet) for name in values["objectives"]}
        teams = named or {owner_of(("Model", values["scope"].get("model", "")), fleet)}
        return teams.pop() if len(teams) == 1 else ""
    field = next((name for name in NAMES_ITS_OWNER if name in values), None)
    if field is None or values[field] is None:
        return ""
    return owner_of((NAMES_ITS_OWNER[field], values[field]), fleet)


def export(kinds: Collection[str] = (), team: str = "") -> dict[str, str]:
    """The documents of these kinds, or of all, and of this team, if one is named; by file name."""
    fleet = stored()
    return {
        file_name(key): text_of(key, values)
        for key, values in fleet.items()
        if (not kinds or key[0] in kinds) and (not team or owner_of(key, fleet) == team)
    }


def file_name(key: Key) -> str:
    """A model's name may have slashes; no other name has a “+”."""
    return f"{key[0].lower()}-{key[1].replace('/', '+')}"
