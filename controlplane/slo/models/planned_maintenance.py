"""Maintenance windows as owners enter them."""

import time
from collections.abc import Iterable
from datetime import datetime
from functools import partial, reduce
from operator import or_

import structlog
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from controlplane.accounts.core.rule import EVERY_TEAM, Owned
from controlplane.fleet.models import LLMModel
from controlplane.fleet.models.named import NamedByStart
from controlplane.slo.core.maintenance_windows import DAY_NS, MaintenanceWindow
from controlplane.slo.core.period import Span, wall_ns
from controlplane.slo.isolation import isolated, reason
from controlplane.slo.models.objective import StoredObjective

log = structlog.get_logger(__name__)
_REFUSED: set[tuple[int, str]] = set()
"""What this process has logged already."""


class Maintenance(NamedByStart):
    """A planned time that counts for nothing."""

    name = models.CharField(max_length=200, help_text="Such as “Driver update, GPU nodes”.")
    start = models.CharField(
        max_length=19, help_text="Wall time, such as 2026-11-22T02:00:00; for a recurring window, the first."
    )
    zone = models.CharField(max_length=64, default="UTC", help_text="IANA name, such as Europe/Berlin.")
    duration_s = models.PositiveIntegerField("duration, s", default=3_600)
    rule = models.CharField(
        max_length=300, blank=True, help_text="RFC 5545, such as FREQ=WEEKLY;BYDAY=SU. Empty: once."
    )
    scope = models.JSONField(
        default=dict, blank=True, help_text='Of requests, such as {"model": "chat-large"}; empty is all traffic.'
    )
    objectives = models.ManyToManyField(
        StoredObjective, blank=True, related_name="maintenance", help_text="If none is chosen: all."
    )
    reason = models.CharField(max_length=500)
    author = models.CharField(max_length=150, editable=False)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "maintenance window"
        ordering = ["-start", "name"]

    def starts(self) -> str:
        digits = "".join(each for each in self.start if each in "0123456789")
        return "-".join(filter(None, (digits[:8], digits[8:12])))

    def owned(self) -> Owned:
        return self.owned_by(self.objectives.select_related("owner") if self.pk else ())

    def owned_by(self, objectives: Iterable[StoredObjective]) -> Owned:
        """Of its objectives' owners; without any, of the model's team of whose requests it is; else every team's."""
        of_objectives = [objective.owned() for objective in objectives]
        if of_objectives:
            return reduce(or_, of_objectives)
        scope = self.scope if isinstance(self.scope, dict) else {}
        model = LLMModel.objects.filter(name=str(scope.get("model", ""))).first()
        return model.owned() if model else Owned.by(EVERY_TEAM)

    def to_window(self, slugs: frozenset[str] = frozenset()) -> MaintenanceWindow:
        """The value. `slugs`: of `objectives`, which the caller has read. Raises ValueError."""
        try:
            start = datetime.fromisoformat(self.start)
        except ValueError:
            raise ValueError(f"start={self.start!r} is not a time: write 2026-11-22T02:00:00") from None
        if start.tzinfo is not None:
            raise ValueError(f"start={self.start!r} has an offset: give wall time, and the zone beside it")
        if not isinstance(self.scope, dict):
            raise ValueError(f"scope={self.scope!r} is no mapping: write a dimension with its value")  # noqa: TRY004
        return MaintenanceWindow(self.name, start, self.zone, self.duration_s, self.rule, dict(self.scope), slugs)

    def why_kept(self) -> str:
        """Why it stays where its file is gone; empty where it may go."""
        try:
            window = self.to_window()
        except (ValueError, TypeError):
            return ""
        now_ns = time.time_ns()
        begun = wall_ns(window.start, window.zone) < now_ns
        if not (self.enabled and begun) or window.occurrences(Span(now_ns, now_ns + 366 * DAY_NS)):
            return ""
        return "is over and stays: without it, the requests in it would count"

    def clean(self) -> None:
        try:
            self.to_window()
        except (ValueError, TypeError) as error:
            field = str(error).partition("=")[0]
            known = {field.name for field in self._meta.fields}
            raise ValidationError({field: str(error)} if field in known else str(error)) from None


@receiver(pre_delete, sender=StoredObjective)
def _remove_what_is_of_it_alone(instance: StoredObjective, **_: object) -> None:
    """A window that lost its last objective would be of all."""
    for window in instance.maintenance.all():
        if window.objectives.count() == 1:
            window.delete()


def enabled_maintenance() -> list[MaintenanceWindow]:
    """All enabled windows. Invalid rows, and those whose times cannot be computed, are logged and left out."""
    now_ns = time.time_ns()
    today = Span(now_ns, now_ns + 1)
    windows = []
    for row in Maintenance.objects.filter(enabled=True).prefetch_related("objectives"):
        slugs = frozenset(objective.slug for objective in row.objectives.all())
        value = isolated(partial(row.to_window, slugs))
        why = reason(value) if isinstance(value, Exception) else value.refusal(today)
        if why and (row.pk, why) not in _REFUSED:
            log.warning("maintenance.refused", maintenance=row.pk, error=why)
            _REFUSED.add((row.pk, why))
        if why:
            continue
        if isinstance(value, MaintenanceWindow):
            windows.append(value)
    return windows
