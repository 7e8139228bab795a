"""Health checks. They need no login, so their cost is bounded: the answer is kept for a second."""

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


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process runs."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """The process can serve: 200, or 503 with what is missing. Anybody may read it, so it has no details."""
    answer = _answers.latest()
    return JsonResponse(answer.body, status=answer.status)


class Answer(NamedTuple):
    status: int
    body: dict[str, bool | str]


class Answers:
    """Keeps the last answer. One thread at a time queries the database; the others wait for its answer."""

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
    """Whether the database answers and is migrated, and whether pages wait that no sender sends."""
    try:
        executor = MigrationExecutor(connection)
        pending = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        if pending and not executor.loader.applied_migrations:
            reason = "the database is empty: run manage.py migrate if Weir is new here, else restore the database"
            return Answer(503, {"ready": False, "reason": reason})
        if pending:
            reason = f"{pending} migrations are not applied: run manage.py migrate"
            return Answer(503, {"ready": False, "reason": reason})
        # Pages that are not sent are shown, but do not take this process out of service.
        return Answer(200, {"ready": True} | ({"paging": "down"} if nobody_sends(timezone.now()) else {}))
    except DatabaseError:
        return Answer(503, {"ready": False, "reason": "the database does not answer"})
