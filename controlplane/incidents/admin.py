"""Incidents, silences and changes in the admin. Incidents can only be read here: people act on them on their own page."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from controlplane.fleet.admin import ReadOnlyAdmin
from controlplane.incidents.act import silencing
from controlplane.incidents.models import ChangeRecord, Entry, Incident, SilenceRecord


class EntryInline(TabularInline):
    model = Entry
    extra = 0
    fields = readonly_fields = ["at", "kind", "by", "via", "text"]
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Incident | None = None) -> bool:
        return False


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    list_display = ["id", "severity", "status", "objective", "scope", "owner", "opened_at", "resolved_at", "withheld"]
    list_filter = ["status", "severity", "owner", "withheld"]
    search_fields = ["objective", "objective_name", "summary", "alert_key", "notice_key"]
    date_hierarchy = "opened_at"
    inlines = [EntryInline]


@admin.register(SilenceRecord)
class SilenceAdmin(ModelAdmin):
    list_display = ["id", "matchers", "starts_at", "ends_at", "author", "reason"]
    list_filter = ["author"]
    search_fields = ["author", "reason"]

    def save_model(self, request: HttpRequest, obj: SilenceRecord, form: Any, change: bool) -> None:
        is_news = not change or bool({"matchers", "starts_at"} & set(form.changed_data))
        silencing.save(obj, request.user.get_username(), is_news)

    def delete_model(self, request: HttpRequest, obj: SilenceRecord) -> None:
        silencing.remove(SilenceRecord.objects.filter(pk=obj.pk), request.user.get_username())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[SilenceRecord]) -> None:
        silencing.remove(queryset, request.user.get_username())


@admin.register(ChangeRecord)
class ChangeAdmin(ReadOnlyAdmin):
    list_display = ["at", "source", "summary", "team"]
    list_filter = ["source", "team"]
    search_fields = ["identity", "summary"]
