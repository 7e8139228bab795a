"""Custom resource definitions of all kinds of documents: derived from the forms that files are read by."""

from typing import Any

import msgspec

from controlplane.fleet.files.kinds import KINDS as FLEET
from controlplane.policy.core.spec import KINDS as POLICIES
from controlplane.sources.core import openapi
from controlplane.sources.core.resources import GROUP, VERSION, plural

KINDS = (*FLEET, *POLICIES)
"""In the order in which they are made: policies name the fleet's."""
_CONDITION = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "status", "reason", "message")},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer"},
    },
}
_STATUS = {
    "type": "object",
    "properties": {
        "observedGeneration": {"type": "integer"},
        "conditions": {
            "type": "array",
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}
_READY = ".status.conditions[?(@.type=='Ready')]"
_COLUMNS = [
    {"name": "Ready", "type": "string", "jsonPath": f"{_READY}.status"},
    {"name": "Reason", "type": "string", "jsonPath": f"{_READY}.reason"},
    {"name": "Message", "type": "string", "jsonPath": f"{_READY}.message", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def spec_of(kind: str) -> openapi.Schema:
    if kind in FLEET:
        return openapi.of_part(FLEET[kind].part)
    spec = next(each for each in msgspec.structs.fields(POLICIES[kind]) if each.name == "spec")
    return openapi.structural(msgspec.json.schema(spec.type))


def definition(kind: str) -> dict[str, Any]:
    spec = spec_of(kind)
    schema = {"type": "object", "properties": {"spec": spec, "status": _STATUS}}
    if "required" in spec:
        schema["required"] = ["spec"]
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": _COLUMNS,
    }
    names = {"kind": kind, "plural": plural(kind), "singular": kind.lower(), "categories": ["weir"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural(kind)}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def definitions() -> list[dict[str, Any]]:
    return [definition(kind) for kind in KINDS]
