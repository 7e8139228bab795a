"""The admin of objectives and maintenance windows. The controller judges by what is saved from its next tick on."""

import time
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone

from controlplane.accounts.admin_parts import ShownInline, Suggesting
from controlplane.accounts.core.actions import EDIT_OBJECTIVES
from controlplane.accounts.core.rule import Owned
from controlplane.core.formatting import capitalised
from controlplane.fleet.files.drafts import DraftsChanges
from controlplane.fleet.models import NAMED_BY
from controlplane.slo import queries
from controlplane.slo.core import words
from controlplane.slo.core.burn import coarse_windows, silent_windows
from controlplane.slo.core.objective import DIMENSIONS, Objective, Timeslices
from controlplane.slo.core.period import period_at
from controlplane.slo.models import Maintenance, ObjectiveRevision, StoredObjective
from controlplane.slo.save import revise


def _dimension(name: str, help_text: str = "") -> forms.CharField:
    def values() -> list[str]:
        return list(NAMED_BY[name]._default_manager.values_list("name", flat=True).order_by("name"))

    widget = Suggesting(values) if name in NAMED_BY else forms.TextInput
    return forms.CharField(required=False, max_length=200, help_text=help_text, widget=widget)


class ScopeForm(forms.ModelForm):
    """Edits the row's `scope` as one field for each dimension."""

    scope_model = _dimension("model", "Such as chat-large. Empty: all.")
    scope_variant = _dimension("variant")
    scope_pool = _dimension("pool")
    scope_region = _dimension("region")
    scope_tier = _dimension("tier")
    scope_tenant = _dimension("tenant")
    scope_prompt_bucket = _dimension("prompt_bucket", "By the prompt's tokens, such as 4096-8191.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in DIMENSIONS:
            if f"scope_{name}" in self.fields:
                self.fields[f"scope_{name}"].label = name.replace("_", " ")
                self.fields[f"scope_{name}"].initial = (self.instance.scope or {}).get(name, "")

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        given = {name: str(cleaned.get(f"scope_{name}") or "").strip() for name in DIMENSIONS}
        self.instance.scope = {name: value for name, value in given.items() if value}
        return cleaned


class ObjectiveForm(ScopeForm):
    split_by = forms.MultipleChoiceField(
        choices=[(name, name.replace("_", " ")) for name in DIMENSIONS],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Each value is judged, and pages, by itself.",
    )

    class Meta:
        model = StoredObjective
        exclude = ["scope"]  # noqa: DJ006  (made of its dimensions)


class MaintenanceForm(ScopeForm):
    class Meta:
        model = Maintenance
        exclude = ["scope"]  # noqa: DJ006


SCOPE = [f"scope_{name}" for name in DIMENSIONS]


class ScopedAdmin(DraftsChanges):
    edits = EDIT_OBJECTIVES

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Who may not change it has no form, and so no fields of dimensions: the scope is shown as it is stored."""
        given = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return given
        return [
            (title, {**part, "fields": ["scope", *(each for each in part["fields"] if each not in SCOPE)]})
            if SCOPE[0] in part["fields"]
            else (title, part)
            for title, part in given
        ]


class RevisionInline(ShownInline):
    """Who changed what, and when."""

    model = ObjectiveRevision
    fields = readonly_fields = ["number", "at", "who", "changed"]


@admin.register(StoredObjective)
class ObjectiveAdmin(ScopedAdmin):
    form = ObjectiveForm
    list_display = ["name", "standing", "slug", "indicator_kind", "measure", "target", "owner", "enabled", "revision"]
    list_filter = ["enabled", "owner", "indicator_kind"]
    search_fields = ["slug", "name", "owner__name"]
    autocomplete_fields = ["owner"]
    inlines = [RevisionInline]
    fieldsets = [
        (None, {"fields": ["slug", "name", "description", "owner", "runbook", "runbook_text", "enabled"]}),
        (
            "What is good",
            {
                "fields": [
                    "indicator_kind",
                    "measure",
                    "threshold_ms",
                    "ttft_definition",
                    "count_client_errors",
                    "usd_per_1k_tokens",
                ]
            },
        ),
        ("Requests", {"fields": [*SCOPE, "split_by"]}),
        ("Target and period", {"fields": ["target", "period_kind", "period_s"]}),
        (
            "Calendar period",
            {"fields": ["calendar_unit", "calendar_count", "calendar_start", "calendar_zone"], "classes": ["collapse"]},
        ),
        ("Counting", {"fields": ["method", "slice_s", "slice_target"], "classes": ["collapse"]}),
        ("Alerting", {"fields": ["windows", "minimum_total", "minimum_bad"], "classes": ["collapse"]}),
        ("Stored histogram", {"fields": ["metric", "metric_threshold", "metric_labels"], "classes": ["collapse"]}),
        ("Notes", {"fields": ["labels", "annotations"], "classes": ["collapse"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[StoredObjective]:
        judged_at = Subquery(queries.ticks().values("observed_at")[:1])
        rows: QuerySet[StoredObjective] = super().get_queryset(request).annotate(judged_at=judged_at)
        return rows.select_related("owner").prefetch_related("states")

    @admin.display(description="now")
    def standing(self, row: StoredObjective) -> str:
        """Of its scopes the most urgent: what it does now, and what is left of its budget."""
        at = queries.Present(timezone.now(), row.judged_at)  # type: ignore[attr-defined]  # read with the rows, once
        worst = min(queries.statuses(row, row.states.all(), at), key=queries.urgency)
        state = (
            "no requests" if worst.is_empty else "broken" if worst.is_broken and worst.state == "quiet" else worst.state
        )
        return state if worst.budget_left is None else f"{state}, {worst.budget_left:.0%} of its budget left"

    def get_readonly_fields(self, request: HttpRequest, obj: StoredObjective | None = None) -> list[str]:
        return ["slug"] if obj else []

    def save_model(self, request: HttpRequest, obj: StoredObjective, form: Any, change: bool) -> None:
        revise(obj, request.user.get_username())
        for sentence in _warnings(obj.to_objective()):
            self.message_user(request, sentence, messages.WARNING)


def _warnings(objective: Objective) -> list[str]:
    """Warnings about settings that are probably not meant."""
    period_s = period_at(objective.period, time.time_ns()).length_s
    sentences = [
        words.silent_window(window, objective.target, period_s)
        for window in silent_windows(objective.windows, objective.target, period_s)
    ]
    if isinstance(objective.method, Timeslices):
        slice_s = objective.method.slice_s
        sentences += [words.coarse_window(window, slice_s) for window in coarse_windows(objective.windows, slice_s)]
    return [f"{capitalised(sentence)}." for sentence in sentences]


@admin.register(Maintenance)
class MaintenanceAdmin(ScopedAdmin):
    form = MaintenanceForm
    list_display = ["name", "start", "zone", "duration_s", "rule", "author", "enabled"]
    list_filter = ["enabled"]
    search_fields = ["name", "reason"]
    autocomplete_fields = ["objectives"]
    fieldsets = [
        (None, {"fields": ["name", "reason", "enabled"]}),
        ("When", {"fields": ["start", "zone", "duration_s", "rule"]}),
        ("Requests", {"fields": [*SCOPE, "objectives"]}),
    ]

    def owned_after(self, row: Maintenance, form: Any) -> Owned:
        return row.owned_by(form.cleaned_data["objectives"])

    def save_model(self, request: HttpRequest, obj: Maintenance, form: Any, change: bool) -> None:
        obj.author = obj.author or request.user.get_username()
        super().save_model(request, obj, form, change)
