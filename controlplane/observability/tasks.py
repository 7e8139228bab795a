"""A span around each task of the worker."""

from contextlib import AbstractContextManager
from typing import Any

from celery.signals import task_postrun, task_prerun

from controlplane.observability import tracing

_SPAN = "weir_span"


def listen() -> None:
    """From now on, in this process."""
    task_prerun.connect(_begin)
    task_postrun.connect(_end)


def _begin(task: Any = None, **_: Any) -> None:
    running = tracing.span(f"task {task.name}")
    running.__enter__()
    setattr(task.request, _SPAN, running)


def _end(task: Any = None, retval: Any = None, **_: Any) -> None:
    running: AbstractContextManager[Any] | None = getattr(task.request, _SPAN, None)
    if running is not None:
        error = retval if isinstance(retval, Exception) else None
        try:
            running.__exit__(type(error) if error else None, error, None)
        except Exception as raised:
            if raised is not error:
                raise
