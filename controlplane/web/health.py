"""Health checks: the only pages, beside the login, that answer whoever asks. What they cost is bounded, however often they are asked."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.incidents.notify.delivery.health.health import nobody_sends

ANSWER_HOLDS_S = 1.0
"""An answer is given again for so long, so that strangers who ask often cost the database one look a second."""


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process runs."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """The process can serve: 200, or 503 with what is missing. Says nothing that a stranger must not know."""
    found = _answers.latest()
    return JsonResponse(found.body, status=found.status)


class Answer(NamedTuple):
    status: int
    body: dict[str, bool | str]


class Answers:
    """The last answer, and how old it is. One thread at a time looks; the others wait for what it finds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._last: tuple[float, Answer] | None = None

    def latest(self) -> Answer:
        with self._lock:
            if self._last is None or self.clock() - self._last[0] >= ANSWER_HOLDS_S:
                self._last = (self.clock(), look())
            return self._last[1]

    def forget(self) -> None:
        self._last = None


_answers = Answers()


def look() -> Answer:
    """Asks the database: whether it answers, is migrated, and whether pages wait that nobody sends."""
    try:
        executor = MigrationExecutor(connection)
        pending = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        if pending:
            reason = f"{pending} migrations are not applied: run manage.py migrate"
            return Answer(503, {"ready": False, "reason": reason})
        # Pages that nobody sends are no reason to take this process out of service, and every reason to be seen.
        return Answer(200, {"ready": True} | ({"paging": "down"} if nobody_sends(timezone.now()) else {}))
    except DatabaseError:
        return Answer(503, {"ready": False, "reason": "the database does not answer"})
