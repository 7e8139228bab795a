"""The API's documentation as a page of Weir: its OpenAPI document as headings and tables, without a script."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

Schema = Mapping[str, Any]
BOUNDS = {
    "minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most", "exclusiveMaximum": "less than",
    "minLength": "length at least", "maxLength": "length at most", "pattern": "of the form",
}  # fmt: skip


class Value(NamedTuple):
    """A parameter, or a field of a schema. `refs`: the schemas that its type names."""

    name: str
    type: str
    refs: list[str]
    required: bool
    about: str
    where: str = ""


class DocsPage(DocsBase):
    _made: SafeString | None = None
    """The document as HTML. It takes half a second, and never changes while the process lives."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        if self._made is None:
            document = api.get_openapi_schema()
            context = {
                "about": document["info"].get("description", ""),
                "groups": groups(document),
                "schemas": [schema(name, each) for name, each in sorted(document["components"]["schemas"].items())],
                "openapi_url": self.get_openapi_url(api, kwargs),
            }
            self._made = render_to_string("api/_document.html", context)
        return render(request, "api/docs.html", {"document": self._made})


def groups(document: Schema) -> list[dict[str, Any]]:
    """Operations by the first part of their path after the version."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        name = path.removeprefix("/api/v1/").partition("/")[0].partition("?")[0]
        for method, each in operations.items():
            grouped.setdefault(name, []).append(_operation(method, path, each))
    return [{"name": name, "operations": operations} for name, operations in sorted(grouped.items())]


def schema(name: str, body: Schema) -> dict[str, Any]:
    text, refs = words(body)
    return {
        "name": name,
        "about": body.get("description", ""),
        "fields": list(fields(body)),
        "type": text,
        "refs": refs,
    }


def fields(body: Schema) -> Iterator[Value]:
    required = body.get("required", ())
    for name, each in body.get("properties", {}).items():
        text, refs = words(each)
        yield Value(name, text, refs, name in required, each.get("description", ""))


def words(body: Schema) -> tuple[str, list[str]]:
    """A schema's type in words, and the schemas that it names."""
    if "$ref" in body:
        name = body["$ref"].rpartition("/")[2]
        return name, [name]
    for key, between in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if key in body:
            parts = [words(each) for each in body[key]]
            return between.join(dict.fromkeys(text for text, _ in parts)), [ref for _, refs in parts for ref in refs]
    if "const" in body:
        return str(body["const"]), []
    if "enum" in body:
        return ", ".join(map(str, body["enum"])), []
    kind = body.get("type", "anything")
    if kind == "array":
        text, refs = words(body.get("items", {}))
        return f"list of {text}", refs
    values = body.get("additionalProperties")
    if kind == "object" and isinstance(values, dict):
        text, refs = words(values)
        return f"object of {text}", refs
    bounds = [f"{said} {body[bound]}" for bound, said in BOUNDS.items() if bound in body]
    return ", ".join([f"{kind} ({body['format']})" if "format" in body else str(kind), *bounds]), []


def _operation(method: str, path: str, given: Schema) -> dict[str, Any]:
    parameters = []
    for each in given.get("parameters", ()):
        text, refs = words(each["schema"])
        about = each.get("description") or each["schema"].get("description", "")
        parameters.append(Value(each["name"], text, refs, bool(each.get("required")), about, each["in"]))
    bodies = {
        kind: words(each.get("schema", {})) for kind, each in given.get("requestBody", {}).get("content", {}).items()
    }
    responses = []
    for status, response in sorted(given.get("responses", {}).items(), key=lambda item: str(item[0])):
        contents = [words(each["schema"]) for each in response.get("content", {}).values() if "schema" in each]
        text, refs = contents[0] if contents else ("", [])
        responses.append({"status": status, "about": response.get("description", ""), "type": text, "refs": refs})
    return {
        "id": given.get("operationId", f"{method}-{path}"),
        "method": method.upper(),
        "path": path,
        "summary": given.get("summary", ""),
        "about": given.get("description", ""),
        "parameters": parameters,
        "bodies": [{"kind": kind, "type": text, "refs": refs} for kind, (text, refs) in bodies.items()],
        "responses": responses,
    }
