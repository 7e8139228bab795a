"""Makes a question of a request's parameters."""

import time

from django.http import HttpRequest

from controlplane.telemetry.query.core.question import Question, parse


def question_of(request: HttpRequest) -> Question:
    """Raises BadQuestionError."""
    return parse(dict(request.GET.lists()), time.time_ns())
