"""The API with a complete OpenAPI document: the parameters of each operation, and the problems that it answers with.

Query parameters that the document does not name are refused, and so are repeated ones that are no list: a misspelt filter must not
widen an answer.
"""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django.http import HttpRequest
from ninja import NinjaAPI, Schema
from ninja.errors import ValidationErrorContext
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from controlplane.core.problems import PROBLEM
from controlplane.telemetry.query.core.parameters import refuse_undocumented

TEXTS: Mapping[int, str] = {
    400: "The request is malformed, or its body is not JSON",
    401: "No login and no valid token",
    403: "The caller has no right to do this",
    404: "It does not exist",
    409: "Values contradict each other or what is stored",
    412: "It has changed since `If-Match`: read it again",
    413: "The body is too large",
    422: "A value does not have the form that this document states",
    429: "The token sends too many requests; try again after `Retry-After` seconds",
    503: "The store does not answer; try again after `Retry-After` seconds",
}
_CONVERTER = re.compile(r"<(?:\w+:)?(\w+)>")

Parameters = dict[str, dict[str, Any]]


class ProblemOut(Schema):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    value: str | None = None
    remedy: str | None = None


class InvalidInputError(ValueError):
    """Permanent: the errors that validation found in the request's values."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__("the request does not have the form that the document states")
        self.errors = errors


class DocumentedAPI(NinjaAPI):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._parameters: dict[tuple[str, str], Parameters] = {}
        self.add_decorator(self._only_what_is_documented)

    def get_openapi_schema(self, **given: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(**given)
        schema["components"]["schemas"]["ProblemOut"] = ProblemOut.json_schema()
        _close(schema)
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                for parameter in operation.get("parameters", ()):
                    parameter["schema"] = _without_null(parameter["schema"])
                for status in _statuses(path, method, operation):
                    operation["responses"].setdefault(status, _problem(status))
        return schema

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Generated clients name their methods after it, so it stays when an endpoint moves."""
        name = super().get_openapi_operation_id(operation)
        return re.sub("_endpoints_(silences_|changes_)?", lambda moved: "_incidents_" if moved[1] else "_", name)

    def validation_error_from_error_contexts(self, error_contexts: list[ValidationErrorContext[Any]]) -> Exception:  # type: ignore[override]
        """The error with the values, which the framework's own error leaves out."""
        errors: list[dict[str, Any]] = []
        for context in error_contexts:
            flat = context.model.__ninja_flatten_map_reverse__
            for each in context.pydantic_validation_error.errors(include_url=False):
                location = flat.get(each["loc"]) or flat.get(each["loc"][:-1]) or each["loc"]
                errors.append({**each, "source": context.model.__ninja_param_source__, "loc": location})
        return InvalidInputError(errors)

    def _only_what_is_documented(self, view: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            known = self._known(request)
            lists = {name for name, schema in known.items() if schema.get("type") == "array"}
            refuse_undocumented(dict(request.GET.lists()), known, lists)
            return view(request, *args, **kwargs)

        return checked

    def _known(self, request: HttpRequest) -> Parameters:
        """The query parameters of the requested operation, with their schemas."""
        if not self._parameters:
            for path, operations in self.get_openapi_schema()["paths"].items():
                for method, operation in operations.items():
                    queried = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
                    self._parameters[path, method] = {parameter["name"]: parameter["schema"] for parameter in queried}
        match = request.resolver_match
        path = _CONVERTER.sub(r"{\1}", f"/{match.route}" if match else "")
        return self._parameters[path, str(request.method).lower()]


def _close(part: Any) -> None:
    """Disallows names that do not match the pattern, which the framework leaves out."""
    if isinstance(part, dict):
        if "patternProperties" in part:
            part.setdefault("additionalProperties", False)
        for each in part.values():
            _close(each)
    elif isinstance(part, list):
        for each in part:
            _close(each)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An optional parameter may be left out. It is never null, because a URL cannot express null."""
    if "anyOf" not in schema:
        return schema
    [kept] = [option for option in schema["anyOf"] if option != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf" and value is not None}
    return {**rest, **kept}


def _statuses(path: str, method: str, operation: Mapping[str, Any]) -> list[int]:
    statuses = {400, 401, 403, 409, 422, 429, 503}
    if "{" in path:
        statuses.add(404)
    if "requestBody" in operation:
        statuses.add(413)
    if any(parameter["name"] == "If-Match" for parameter in operation.get("parameters", ())):
        statuses.add(412)
    return sorted(statuses)


def _problem(status: int) -> dict[str, Any]:
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
    return {"description": TEXTS[status], "content": content}
