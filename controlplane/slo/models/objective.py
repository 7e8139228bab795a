"""An objective in the database, with its owner, its revisions, and notes of other systems."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.accounts.core.rule import Owned
from controlplane.fleet.models import Team
from controlplane.fleet.validators import validate_name
from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.document import INDICATORS, METHODS, PERIODS, UNITS, kind_of
from controlplane.slo.core.objective import Calendar, Objective, Occurrences, Rolling, Timeslices
from controlplane.slo.core.period import check
from controlplane.slo.core.sli import MEASURES, Availability, Cost, Histogram, Indicator, Latency
from controlplane.slo.core.windows import WORKBOOK, BurnWindow
from inference.contract.stages import STAGES

MAX_RUNBOOK_CHARS = 20_000


def default_windows() -> list[dict[str, Any]]:
    return [asdict(window) for window in WORKBOOK]


def _choices(names: Any) -> list[tuple[str, str]]:
    return [(name, name.replace("_", " ")) for name in names]


class StoredObjective(models.Model):
    """Saved through `controlplane.slo.save.save_objective` or the admin: each change makes a revision."""

    slug = models.CharField(
        max_length=100,
        unique=True,
        validators=[validate_name],
        help_text="Its name in URLs, alerts and files; it cannot be changed.",
    )
    name = models.CharField(max_length=200, help_text="Its name on pages, such as “Premium chat, first token”.")
    description = models.TextField(blank=True, max_length=1050)
    enabled = models.BooleanField(default=True, help_text="A disabled objective is not evaluated, and pages nobody.")

    indicator_kind = models.CharField(max_length=20, choices=_choices(INDICATORS), default="latency")
    measure = models.CharField(
        max_length=20, blank=True, choices=_choices((*MEASURES, *STAGES)), help_text="For latency: what is measured."
    )
    threshold_ms = models.FloatField(
        "threshold, ms", null=True, blank=True, help_text="For latency: the longest time that is good."
    )
    ttft_definition = models.CharField(
        "TTFT definition",
        max_length=40,
        default="gateway",
        help_text="For TTFT: who measured it. Definitions are never mixed.",
    )
    count_client_errors = models.BooleanField(
        "clients' mistakes are bad",
        default=False,
        help_text="For availability: a request that is wrong itself (400, 401, 404, …) spends budget. By default it is not counted.",
    )
    usd_per_1k_tokens = models.FloatField(
        "USD per 1,000 tokens", null=True, blank=True, help_text="For cost: the highest cost that is good."
    )
    metric = models.CharField(
        max_length=200,
        blank=True,
        help_text="For a histogram: its name without _bucket. For servers that send no spans.",
    )
    metric_threshold = models.FloatField(
        null=True, blank=True, help_text="For a histogram: one of its bounds, in the metric's own unit."
    )
    metric_labels = models.JSONField(default=dict, blank=True, help_text="For a histogram: labels that must be equal.")

    scope = models.JSONField(default=dict, blank=True)
    split_by = models.JSONField(default=list, blank=True)
    target = models.FloatField(help_text="The share of requests that must be good: 0.999 for 99.9 %.")
    period_kind = models.CharField(max_length=20, choices=_choices(PERIODS), default="rolling")
    period_s = models.PositiveIntegerField(
        "period, s", default=30 * 86_400, help_text="For a rolling period: 2592000 is 30 days."
    )
    calendar_unit = models.CharField(max_length=20, choices=_choices(UNITS), default="month")
    calendar_count = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(52)]
    )
    calendar_start = models.CharField(
        max_length=19, default="2026-01-01T00:00:00", help_text="Wall time from which periods are counted."
    )
    calendar_zone = models.CharField(max_length=64, default="UTC", help_text="IANA name, such as Europe/Berlin.")
    method = models.CharField(max_length=20, choices=_choices(METHODS), default="occurrences")
    slice_s = models.PositiveIntegerField("slice, s", default=60, help_text="For timeslices.")
    slice_target = models.FloatField(
        default=0.95, help_text="For timeslices: the share of a slice's requests that must be good."
    )
    windows = models.JSONField("burn windows", default=default_windows, help_text="The SRE workbook's by default.")
    minimum_total = models.PositiveIntegerField(
        "least requests", default=10, help_text="With fewer requests in the long window nobody is paged."
    )
    minimum_bad = models.PositiveIntegerField("least bad requests", default=3)

    owner = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="objectives")
    runbook = models.URLField(max_length=500, blank=True, help_text="The URL of what to do when it fires.")
    runbook_text = models.TextField(
        blank=True,
        max_length=MAX_RUNBOOK_CHARS,
        help_text="What to do when it fires, in Markdown. Items of lists, or else headings, are steps that a responder ticks off.",
    )
    labels = models.JSONField(default=dict, blank=True)
    annotations = models.JSONField(default=dict, blank=True, help_text="Notes of other tools, kept as they are.")
    revision = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "objective"
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name

    def to_objective(self) -> Objective:
        """Raises ValueError where the row was written without validation."""
        return Objective(
            slug=self.slug,
            name=self.name,
            indicator=self._indicator(),
            target=self.target,
            scope=dict(self.scope),
            split_by=tuple(self.split_by),
            period=self._period(),
            method=Timeslices(self.slice_s, self.slice_target) if self.method == "timeslices" else Occurrences(),
            windows=tuple(BurnWindow(**window) for window in self.windows),
            minimum=MinimumEvents(self.minimum_total, self.minimum_bad),
            owner=self.owner.name if self.owner else "",
            runbook=self.runbook,
            runbook_text=self.runbook_text,
            labels=dict(self.labels),
            description=self.description,
            revision=self.revision,
        )

    def take(self, objective: Objective) -> None:
        """Set all fields but the owner and the revision from a value, without saving."""
        indicator, period, method = objective.indicator, objective.period, objective.method
        self.slug, self.name, self.description = objective.slug, objective.name, objective.description
        self.target, self.runbook, self.runbook_text = objective.target, objective.runbook, objective.runbook_text
        self.scope, self.split_by = dict(objective.scope), list(objective.split_by)
        self.labels, self.windows = dict(objective.labels), [asdict(window) for window in objective.windows]
        self.minimum_total, self.minimum_bad = objective.minimum.total, objective.minimum.bad
        self.indicator_kind = kind_of(indicator, INDICATORS)
        latency = indicator if isinstance(indicator, Latency) else None
        self.measure, self.threshold_ms = (latency.measure, latency.threshold_ms) if latency else ("", None)
        self.ttft_definition = latency.ttft_definition if latency else "gateway"
        self.count_client_errors = isinstance(indicator, Availability) and indicator.count_client_errors
        self.usd_per_1k_tokens = indicator.usd_per_1k_tokens if isinstance(indicator, Cost) else None
        histogram = indicator if isinstance(indicator, Histogram) else None
        self.metric, self.metric_threshold = (histogram.metric, histogram.threshold) if histogram else ("", None)
        self.metric_labels = dict(histogram.labels) if histogram else {}
        self.period_kind, self.method = kind_of(period, PERIODS), kind_of(method, METHODS)
        if isinstance(period, Rolling):
            self.period_s = period.period_s
        else:
            self.calendar_unit, self.calendar_count = period.unit, period.count
            self.calendar_start, self.calendar_zone = period.start.isoformat(timespec="seconds"), period.zone
        if isinstance(method, Timeslices):
            self.slice_s, self.slice_target = method.slice_s, method.slice_target

    def owned(self) -> Owned:
        return Owned.by(self.owner.name if self.owner else None)

    def clean(self) -> None:
        """Report a value that the objective refuses at the field that its message names."""
        for name in ("scope", "labels", "annotations", "metric_labels"):
            if not isinstance(getattr(self, name), dict):
                raise ValidationError({name: 'Write a JSON object, such as {"service": "chat"}, or {} for none.'})
        try:
            self._check(self.to_objective())
        except (ValueError, TypeError) as error:
            field = FIELDS.get(str(error).partition("=")[0], "")
            known = {field.name for field in self._meta.fields}
            raise ValidationError({field: str(error)} if field in known else str(error)) from None

    def _check(self, objective: Objective) -> None:
        check(objective)
        if isinstance(objective.indicator, Histogram):
            from controlplane.slo.bucket_edges import check_edges

            check_edges(objective.indicator)
        if self.indicator_kind == "histogram" and (self.scope or self.split_by):
            raise ValueError(f"scope={self.scope} selects requests, and a histogram has none: use metric_labels")
        if self.indicator_kind == "histogram" and self.method == "timeslices":
            raise ValueError("method=timeslices needs requests, and a histogram has none: use occurrences")

    def _indicator(self) -> Indicator:
        if self.indicator_kind == "availability":
            return Availability(self.count_client_errors)
        if self.indicator_kind == "cost":
            if self.usd_per_1k_tokens is None:
                raise ValueError("usd_per_1k_tokens=None is missing: give the highest cost that is good")
            return Cost(self.usd_per_1k_tokens)
        if self.indicator_kind == "histogram":
            if self.metric_threshold is None:
                raise ValueError("metric_threshold=None is missing: give one of the histogram's bounds")
            return Histogram(self.metric, self.metric_threshold, dict(self.metric_labels))
        if self.threshold_ms is None:
            raise ValueError("threshold_ms=None is missing: give the longest that is good, in ms")
        return Latency(self.measure, self.threshold_ms, self.ttft_definition)

    def _period(self) -> Rolling | Calendar:
        if self.period_kind == "rolling":
            return Rolling(self.period_s)
        try:
            start = datetime.fromisoformat(self.calendar_start)
        except ValueError:
            raise ValueError(
                f"calendar_start={self.calendar_start!r} is not a time: write 2026-01-01T00:00:00"
            ) from None
        if start.tzinfo is not None:
            raise ValueError(
                f"calendar_start={self.calendar_start!r} has an offset: give wall time, and the zone beside it"
            )
        return Calendar(self.calendar_unit, start, self.calendar_zone, self.calendar_count)  # type: ignore[arg-type]


FIELDS = {
    **{field.name: field.name for field in StoredObjective._meta.fields},
    "zone": "calendar_zone",
    "long_s": "windows",
    "short_s": "windows",
    "budget_share": "windows",
    "severity": "windows",
}
"""The model's field by the first word of a message."""


class ObjectiveRevision(models.Model):
    """An objective as it was saved, by whom and when. Never changed."""

    objective = models.ForeignKey(StoredObjective, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    at = models.DateTimeField(auto_now_add=True)
    who = models.CharField(max_length=150)
    document = models.JSONField()
    changed = models.JSONField(default=list, help_text="The fields that differ from the revision before.")

    class Meta:
        verbose_name = "revision"
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["objective", "number"], name="revision_of_objective")]

    def __str__(self) -> str:
        return f"revision {self.number}"
