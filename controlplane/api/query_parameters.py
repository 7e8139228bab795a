"""From a request's parameters to a question."""

import time

from django.http import HttpRequest

from controlplane.telemetry.query.core.question import Question, parse


def asked(request: HttpRequest) -> Question:
    """Raises BadQuestionError."""
    return parse(dict(request.GET.lists()), time.time_ns())
