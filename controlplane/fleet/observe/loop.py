"""Observes all components every few seconds, for as long as the worker runs.

This is a thread and not a Celery task, because tasks travel through Redis, which is one of the components. Several
workers may observe at the same time: each writes the latest observation.
"""

import asyncio

from django.conf import settings
from django.utils import timezone

from controlplane.core.periodic import PeriodicThread
from controlplane.fleet.observe.round import TIMEOUT_S, look
from controlplane.fleet.observe.store_observation import record
from controlplane.fleet.observe.targets import targets
from controlplane.observability.tracing import span


def observe_once() -> None:
    """One round. Raises DatabaseError when it cannot be stored."""
    with span("observe the stack"):
        began = (
            timezone.now()
        )  # a component that does not answer was down from here on, and not from the end of its timeout
        seen = asyncio.run(look(targets(settings.CONFIG), TIMEOUT_S))
        record(seen, began)


def observer() -> PeriodicThread:
    return PeriodicThread("observer", observe_once, settings.CONFIG.observe_every_s)
