"""What planners enter, and what the worker made of it."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from controlplane.accounts.admin_parts import ReadOnlyAdmin, RuledInline
from controlplane.accounts.core.actions import EDIT_PLAN
from controlplane.fleet.files.drafts import DraftsChanges
from controlplane.planning.models import (
    CandidateChange,
    DemoHistory,
    GpuQuota,
    GpuType,
    MeasuredPool,
    PlanJob,
    PlannedEvent,
    PlanSettings,
    PoolCapacity,
    RegionCalendar,
    ReplicaCapacityEntry,
    StoredForecast,
)


@admin.register(PlannedEvent)
class PlannedEventAdmin(DraftsChanges):
    edits = EDIT_PLAN
    list_display = ["name", "kind", "start", "duration_s", "expected_factor", "model", "tier", "region", "enabled"]
    list_filter = ["enabled", "kind"]
    search_fields = ["name", "model"]
    fieldsets = [
        (None, {"fields": ["name", "kind", "enabled"]}),
        ("When", {"fields": ["start", "duration_s"]}),
        ("Demand", {"fields": ["expected_factor", "model", "tier", "region"]}),
    ]

    def save_model(self, request: HttpRequest, obj: PlannedEvent, form: Any, change: bool) -> None:
        obj.author = obj.author or request.user.get_username()
        super().save_model(request, obj, form, change)


@admin.register(RegionCalendar)
class RegionCalendarAdmin(DraftsChanges):
    list_display = ["region", "country", "subdivision", "zone"]
    autocomplete_fields = ["region"]


class GpuQuotaInline(RuledInline):
    model = GpuQuota
    extra = 0


@admin.register(GpuType)
class GpuTypeAdmin(DraftsChanges):
    list_display = ["name", "usd_per_hour"]
    search_fields = ["name"]
    inlines = [GpuQuotaInline]


@admin.register(PlanSettings)
class PlanSettingsAdmin(DraftsChanges):
    list_display = ["__str__", "level", "margin_s", "budget_usd_per_month"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and not PlanSettings.objects.exists()

    def has_delete_permission(self, request: HttpRequest, obj: PlanSettings | None = None) -> bool:
        return False


class ReplicaCapacityInline(RuledInline):
    template = "admin/edit_inline/stacked.html"
    model = ReplicaCapacityEntry
    extra = 0


@admin.register(PoolCapacity)
class PoolCapacityAdmin(DraftsChanges):
    edits = EDIT_PLAN
    list_display = ["pool", "gpu_type", "gpus_per_replica", "warm_floor", "spare_replicas", "entered_cold_start_s"]
    list_filter = ["gpu_type"]
    search_fields = ["pool__name"]
    autocomplete_fields = ["pool", "gpu_type"]
    inlines = [ReplicaCapacityInline]


@admin.register(StoredForecast)
class StoredForecastAdmin(ReadOnlyAdmin):
    list_display = ["model", "tier", "region", "measure", "horizon_s", "candidate", "skill", "made_at"]
    list_filter = ["measure", "horizon_s", "candidate"]
    search_fields = ["model", "tier", "region"]


@admin.register(CandidateChange)
class CandidateChangeAdmin(ReadOnlyAdmin):
    list_display = ["at", "model", "tier", "region", "measure", "horizon_s", "before", "after", "skill"]
    list_filter = ["measure", "after"]


@admin.register(PlanJob)
class PlanJobAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "kind", "state", "done", "total", "note", "author", "error"]
    list_filter = ["state", "kind"]


@admin.register(DemoHistory)
class DemoHistoryAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "requests", "from_s", "to_s", "complete"]


@admin.register(MeasuredPool)
class MeasuredPoolAdmin(ReadOnlyAdmin):
    list_display = ["pool", "measured_at", "objective", "reason"]
