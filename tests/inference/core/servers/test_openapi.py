"""Parameters are read out of a server's OpenAPI document, however it nests them."""

from typing import Any

import pytest

from inference.core.servers.openapi import read_parameters

REF = {"$ref": "#/components/schemas/A"}
DEEP = {"anyOf": [{"oneOf": [{"allOf": [{"properties": {"d": {}}}, {"anyOf": [{"properties": {"e": {}}}]}]}]}]}


def document(schema: Any, kind: str = "application/json", **schemas: Any) -> dict[str, Any]:
    body = {"requestBody": {"content": {kind: {"schema": schema}}}}
    return {"paths": {"/a": {"post": body}, "/b": {"get": body}}, "components": {"schemas": schemas}}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (document({"properties": {"a": {}, "b": {}}}), {"a", "b"}),
        (document({"properties": {"a": {}}}, "multipart/form-data"), {"a"}),
        (document({"properties": {"a": {}}}, "text/plain"), None),
        (document(REF, A={"properties": {"a": {}}}), {"a"}),
        (document(REF, A={"anyOf": [REF, {"properties": {"a": {}}}]}), {"a"}),  # a schema that names itself
        (document(REF), None),
        (document({"properties": {"a": {}}, "oneOf": [{"properties": {"b": {}}}, 7], "allOf": None}), {"a", "b"}),
        (document(DEEP), {"d"}),
        (document({"$ref": 7, "properties": {"a": {}}}), {"a"}),
        (document({"properties": ["a"]}), None),
        ({"paths": {"/a": 7}}, None),
        ({}, None),
    ],
)
def test_parameters_of_a_url(given: dict[str, Any], names: set[str] | None) -> None:
    assert read_parameters(given, ("/a", "/b")) == ({} if names is None else {"/a": names})
