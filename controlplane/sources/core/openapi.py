"""The forms of documents as structural schemas of custom resources.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from collections.abc import Mapping
from typing import Any

from controlplane.fleet.core.forms import REQUIRED, Column, Entries, Part, Type

Schema = dict[str, Any]
ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_TYPES: Mapping[Type, Schema] = {
    "text": {"type": "string"},
    "name": {"type": "string"},
    "moment": {"type": "string"},
    "whole number": {"type": "integer"},
    "number": {"type": "number"},
    "true or false": {"type": "boolean"},
    "list of names": {"type": "array", "items": {"type": "string"}},
    "value": ANYTHING,
}
_DROPPED = ("title", "default", "propertyNames", "description")


def of_part(part: Part) -> Schema:
    """What a spec may have. Defaults stay where they are: in the forms."""
    properties = {name: _column(column) for name, column in part.columns.items()}
    properties |= {name: _entries(entries) for name, entries in part.lists.items()}
    required = [name for name, column in part.columns.items() if column.default is REQUIRED]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _column(column: Column) -> Schema:
    return {**_TYPES[column.type], **({"nullable": True} if column.optional else {})}


def _entries(entries: Entries) -> Schema:
    entry = of_part(entries.part)
    if entries.single:
        return entry
    return {"type": "array", "items": entry["properties"][entries.names] if entries.names else entry}


def structural(schema: Mapping[str, Any]) -> Schema:
    """A JSON schema as msgspec writes it, without references and with the bounds of OpenAPI 3.0."""
    return _structural(schema, schema.get("$defs", {}))


def _structural(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Schema:
    if "$ref" in schema:
        return _structural(named[schema["$ref"].rpartition("/")[2]], named)
    if "anyOf" in schema:
        kept = [each for each in schema["anyOf"] if each != {"type": "null"}]
        return {**_structural(kept[0], named), "nullable": True}
    made = {name: value for name, value in schema.items() if name not in (*_DROPPED, "$defs", "additionalProperties")}
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        if exclusive in made:
            made[bound], made[exclusive] = made[exclusive], True
    if "enum" in made:
        made["type"] = "string"
    if "properties" in made:
        made["properties"] = {name: _structural(each, named) for name, each in made["properties"].items()}
        made["required"] = made.get("required") or None
    elif schema.get("additionalProperties"):
        made["additionalProperties"] = _structural(schema["additionalProperties"], named)
    if "items" in made:
        made["items"] = _structural(made["items"], named)
    return {name: value for name, value in made.items() if value is not None}
