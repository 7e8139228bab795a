"""Metrics of the worker's tasks, from Celery's signals."""

import time
from typing import Any

from celery.signals import task_postrun, task_prerun
from prometheus_client import Counter, Histogram

TASKS = Counter("weir_worker_tasks", "Tasks that have ended.", ["task", "state"])
DURATION = Histogram(
    "weir_worker_task_duration_seconds",
    "From its start to its end.",
    ["task"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0),
)
_BEGAN = "weir_began_s"


def listen() -> None:
    task_prerun.connect(_began)
    task_postrun.connect(_ended)


def _began(task: Any = None, **_: Any) -> None:
    setattr(task.request, _BEGAN, time.monotonic())


def _ended(task: Any = None, state: str | None = None, **_: Any) -> None:
    TASKS.labels(task.name, (state or "unknown").lower()).inc()
    began_s = getattr(task.request, _BEGAN, None)
    if began_s is not None:
        DURATION.labels(task.name).observe(time.monotonic() - began_s)
