"""From a request's parameters to a question.

A parameter that an endpoint does not have is an error: a misspelt filter must not widen an answer.
"""

import difflib
import time

from django.http import HttpRequest
from ninja import Schema

from controlplane.telemetry.ask.errors import BadQuestion
from controlplane.telemetry.ask.question import Question, parse


def asked(request: HttpRequest, schema: type[Schema]) -> Question:
    """Raises BadQuestion."""
    strict(request, schema)
    return parse(dict(request.GET.lists()), time.time_ns())


def strict(request: HttpRequest, schema: type[Schema]) -> None:
    """Refuse parameters that the endpoint does not have. Raises BadQuestion."""
    known = [field.alias or name for name, field in schema.model_fields.items()]
    for name in request.GET:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = f"Did you mean {near[0]}" if near else f"Use {', '.join(known)}"
            raise BadQuestion(name[:80], request.GET[name], "is not a parameter of this endpoint", remedy)
