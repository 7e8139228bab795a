"""Reads which parameters a server takes in its OpenAPI document: those that run on FastAPI have one (vLLM, SGLang, trtllm-serve)."""

from collections.abc import Iterable
from typing import Any

from inference.core.capabilities import Listed

PATH = "/openapi.json"
_MAX_DEPTH = 4  # of schemas that name others
_OF_SEVERAL = ("anyOf", "oneOf", "allOf")


def read_parameters(document: dict[str, Any], paths: Iterable[str]) -> Listed:
    """The parameters of each of these URLs that it lists."""
    listed = {
        path: frozenset[str]().union(
            *(_names(_at(document, "paths", path, *body), document, _MAX_DEPTH) for body in _BODIES)
        )
        for path in paths
    }
    return {path: names for path, names in listed.items() if names}


_BODIES = [("post", "requestBody", "content", kind, "schema") for kind in ("application/json", "multipart/form-data")]


def _names(schema: object, document: dict[str, Any], depth: int) -> frozenset[str]:
    if not isinstance(schema, dict) or not depth:
        return frozenset()
    if isinstance(target := schema.get("$ref"), str):
        return _names(_at(document, *target.removeprefix("#/").split("/")), document, depth - 1)
    properties = schema.get("properties")
    names = frozenset(properties if isinstance(properties, dict) else ())
    parts = [part for kind in _OF_SEVERAL for part in schema.get(kind) or ()]
    return names.union(*(_names(part, document, depth - 1) for part in parts))


def _at(value: object, *path: str) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
