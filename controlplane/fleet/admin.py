"""The fleet in the admin. What is saved here is in force once gateways have read the new snapshot, within a second."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from controlplane.fleet.models import (
    GatewayKey,
    LLMModel,
    Observation,
    Pool,
    Region,
    Replica,
    SnapshotRevision,
    StageTimeouts,
    Team,
    Tenant,
    Tier,
    Variant,
)


class VariantInline(TabularInline):
    model = Variant
    extra = 0
    show_change_link = True


class ReplicaInline(TabularInline):
    model = Replica
    extra = 0
    readonly_fields = ["managed_by"]


class GatewayKeyInline(TabularInline):
    """Keys are listed and switched off here, and made on their own page, which shows the key once."""

    model = GatewayKey
    extra = 0
    fields = readonly_fields = ["name", "prefix", "created_at", "enabled"]
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Tenant | None = None) -> bool:
        return False


@admin.register(Team)
class TeamAdmin(ModelAdmin):
    list_display = ["name", "contact"]
    search_fields = ["name", "contact"]


@admin.register(Region)
class RegionAdmin(ModelAdmin):
    search_fields = ["name"]


@admin.register(LLMModel)
class LLMModelAdmin(ModelAdmin):
    list_display = ["name", "team", "enabled", "cache_mode", "cache_ttl_s", "max_prompt_tokens", "max_output_tokens"]
    list_filter = ["enabled", "team"]
    search_fields = ["name", "variants__pools__name"]
    autocomplete_fields = ["team"]
    inlines = [VariantInline]
    fieldsets = [
        (None, {"fields": ["name", "team", "enabled"]}),
        ("Limits", {"fields": ["tokenizer", "max_prompt_tokens", "max_output_tokens"]}),
        ("Cache", {"fields": ["cache_mode", "cache_scope", "cache_ttl_s", "cache_coalesce", "prompt_version"]}),
        ("Price", {"fields": ["usd_per_1k_prompt_tokens", "usd_per_1k_output_tokens"]}),
    ]


@admin.register(Variant)
class VariantAdmin(ModelAdmin):
    list_display = ["name", "model", "description"]
    search_fields = ["name", "model__name"]
    autocomplete_fields = ["model"]


@admin.register(Pool)
class PoolAdmin(ModelAdmin):
    list_display = ["name", "variant", "region", "enabled", "weight", "max_concurrency", "max_queue"]
    list_filter = ["enabled", "region", "variant__model"]
    search_fields = ["name", "variant__name", "variant__model__name"]
    autocomplete_fields = ["variant", "region"]
    inlines = [ReplicaInline]


@admin.register(Replica)
class ReplicaAdmin(ModelAdmin):
    list_display = ["name", "pool", "grpc", "http", "metrics", "enabled", "managed_by"]
    list_filter = ["enabled", "pool"]
    search_fields = ["name", "pool__name", "grpc"]
    autocomplete_fields = ["pool"]
    readonly_fields = ["managed_by"]


@admin.register(Tier)
class TierAdmin(ModelAdmin):
    list_display = ["name", "priority", "requests_per_minute", "tokens_per_minute"]
    search_fields = ["name"]


@admin.register(Tenant)
class TenantAdmin(ModelAdmin):
    list_display = ["name", "tier", "enabled"]
    list_filter = ["tier", "enabled"]
    search_fields = ["name"]
    autocomplete_fields = ["tier"]
    inlines = [GatewayKeyInline]


@admin.register(GatewayKey)
class GatewayKeyAdmin(ModelAdmin):
    list_display = ["name", "tenant", "prefix", "created_at", "enabled"]
    list_filter = ["enabled", "tenant"]
    search_fields = ["name", "prefix", "tenant__name"]
    autocomplete_fields = ["tenant"]
    readonly_fields = ["prefix", "created_at"]

    def save_model(self, request: HttpRequest, obj: GatewayKey, form: Any, change: bool) -> None:
        text = None if change else obj.renew()
        super().save_model(request, obj, form, change)
        if text:
            self.message_user(request, f"Copy the key now, it is not shown again: {text}", messages.WARNING)


@admin.register(StageTimeouts)
class StageTimeoutsAdmin(ModelAdmin):
    list_display = ["__str__", *(field.name for field in StageTimeouts._meta.fields if field.name != "id")]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return not StageTimeouts.objects.exists()

    def has_delete_permission(self, request: HttpRequest, obj: StageTimeouts | None = None) -> bool:
        return False


class ReadOnlyAdmin(ModelAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(SnapshotRevision)
class SnapshotRevisionAdmin(ReadOnlyAdmin):
    list_display = ["version", "created_at", "content_sha256"]


@admin.register(Observation)
class ObservationAdmin(ReadOnlyAdmin):
    list_display = ["component", "kind", "state", "observed_at", "error"]
    list_filter = ["kind", "state"]
