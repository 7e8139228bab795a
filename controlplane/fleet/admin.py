"""The fleet in the admin. What is saved here is in force once gateways have read the new snapshot, within a second, unless a team of it
wants approvals.
"""

from typing import Any

import yaml
from django.conf import settings
from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Concat
from django.http import HttpRequest
from django.utils.html import format_html

from controlplane.accounts import rights
from controlplane.accounts.admin import MembershipInline
from controlplane.accounts.admin_parts import GuidedAdmin, ReadOnlyAdmin, RuledAdmin, RuledInline, ShownInline
from controlplane.accounts.core.actions import ADMINISTER, EDIT_FLEET
from controlplane.core.formatting import TEXT
from controlplane.fleet import callers_admin, workload_manifests  # noqa: F401  (whose pages are registered there)
from controlplane.fleet.core.detected import describe
from controlplane.fleet.files.drafts import DraftsChanges
from controlplane.fleet.files.kinds import ADMINISTRATORS
from controlplane.fleet.models import (
    AllowedRegion,
    Cluster,
    Fallback,
    GatewayKey,
    LLMModel,
    Observation,
    Pool,
    Price,
    Region,
    Replica,
    SnapshotRevision,
    StageTimeouts,
    Team,
    Tenant,
    Tier,
    TimeoutRule,
    Variant,
    Workload,
)
from controlplane.fleet.models.calls import ServerCalls
from controlplane.fleet.models.failures import FailureRules
from controlplane.fleet.models.semantic_cache import SimilarRequests
from controlplane.fleet.purge import PurgesAnswers
from controlplane.fleet.replica_forms import ReplicaForm, ReplicaFormSet, replica_fields


class VariantInline(RuledInline):
    model = Variant
    extra = 0
    show_change_link = True


class ReplicaInline(RuledInline):
    """Shows the addresses that a replica of the pool's protocol has; all of them while the pool is new."""

    model = Replica
    form = ReplicaForm
    formset = ReplicaFormSet
    extra = 0
    readonly_fields = ["managed_by"]

    def get_fields(self, request: HttpRequest, obj: Pool | None = None) -> list[str]:
        return replica_fields(request.POST.get("protocol") or (obj.protocol if obj else None))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Replica]:
        queryset: QuerySet[Replica] = super().get_queryset(request)
        return queryset.exclude(managed_by=Replica.ManagedBy.CLUSTER)


class DiscoveredReplicaInline(ShownInline):
    """What the pool's cluster runs. It is kept up to date from there, so nobody edits it here."""

    model = Replica
    verbose_name_plural = "discovered replicas"
    fields = readonly_fields = ["name", "url", "grpc", "metrics", "enabled", "draining"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Replica]:
        queryset: QuerySet[Replica] = super().get_queryset(request)
        return queryset.filter(managed_by=Replica.ManagedBy.CLUSTER)


class FallbackInline(RuledInline):
    """Pools of any model, which serve this one while none of its own can."""

    model = Fallback
    extra = 0
    autocomplete_fields = ["pool"]


class AllowedRegionInline(RuledInline):
    """The only regions where the model, or the tenant's requests, may be served. Without any: everywhere."""

    model = AllowedRegion
    extra = 0
    fields = autocomplete_fields = ["region"]


class PriceInline(RuledInline):
    """What requests cost. The pool's counts before the variant's, and that before the model's; without any it is unknown."""

    model = Price
    extra = 0
    fields = [field.name for field in Price._meta.fields if field.name.startswith(("usd_", "valid_"))]


class GatewayKeyInline(ShownInline):
    """Keys are made on their own page, which shows the key once, and switched off there."""

    model = GatewayKey
    fields = readonly_fields = ["name", "prefix", "created_at", "enabled"]
    show_change_link = True


@admin.register(Team)
class TeamAdmin(RuledAdmin):
    inlines = [MembershipInline]
    list_display = ["name", "contact", "requires_approval", "overrides_need_approval", "requires_second_factor"]
    search_fields = ["name", "contact"]


@admin.register(Region)
class RegionAdmin(DraftsChanges):
    search_fields = ["name"]


@admin.register(Cluster)
class ClusterAdmin(DraftsChanges, GuidedAdmin):
    list_display = ["name", "kind", "namespace", "kubeconfig", "enabled"]
    list_filter = ["kind", "enabled"]
    search_fields = ["name", "namespace"]
    shown_when = {"kubeconfig": "kind=kubernetes", "namespace": "kind=kubernetes"}


@admin.register(LLMModel)
class LLMModelAdmin(PurgesAnswers, DraftsChanges):
    edits = EDIT_FLEET
    list_display = ["name", "team", "enabled", "cache_mode", "cache_ttl_s", "max_prompt_tokens", "max_output_tokens"]
    list_filter = ["enabled", "team"]
    search_fields = ["name", "variants__pools__name"]
    autocomplete_fields = ["team", "semantic_embedder", "semantic_judge"]
    inlines = [VariantInline, FallbackInline, AllowedRegionInline, PriceInline]
    fieldsets = [
        (None, {"fields": ["name", "team", "enabled"]}),
        ("Limits", {"fields": ["tokenizer", "max_prompt_tokens", "max_output_tokens", "max_context_tokens"]}),
        (
            "Text",
            {
                "fields": ["template", "tool_parser", "reasoning_parser", "reasoning_field"],
                "description": "Templates and parsers are for servers that take and answer plain text, as Tritons do.",
            },
        ),
        (
            "Failures",
            {
                "fields": [field.name for field in FailureRules._meta.get_fields()],
                "description": "Retries, hedges, and when replicas get no requests, of all pools of the model (docs/routing.md).",
            },
        ),
        (
            "Cache",
            {
                "fields": [
                    "cache_mode",
                    "cache_scope",
                    "cache_ttl_s",
                    "cache_ttls_s",
                    "cache_stales_s",
                    "cache_coalesce",
                    "prompt_version",
                ]
            },
        ),
        ("Similar requests", {"fields": [field.name for field in SimilarRequests._meta.get_fields()]}),
        ("Requests", {"fields": ["unknown_parameters", "image_hosts"]}),
    ]


@admin.register(Variant)
class VariantAdmin(DraftsChanges):
    edits = EDIT_FLEET
    list_display = ["name", "model", "description"]
    search_fields = ["name", "model__name"]
    autocomplete_fields = ["model"]
    inlines = [PriceInline]


@admin.register(Pool)
class PoolAdmin(DraftsChanges, GuidedAdmin):
    edits = EDIT_FLEET
    list_display = [
        "name", "state", "variant", "region", "protocol", "enabled", "weight", "max_concurrency", "max_queue",
    ]  # fmt: skip
    list_filter = ["enabled", "protocol", "region", "cluster", "variant__model"]
    search_fields = ["name", "variant__name", "variant__model__name"]
    autocomplete_fields = ["variant", "region", "cluster"]
    fieldsets = [
        (None, {"fields": ["name", "variant", "region", "enabled", "weight"]}),
        (
            "Servers",
            {
                "fields": [
                    "protocol", "server", "signature", "mapping", "model_name", "model_version",
                    *(field.name for field in ServerCalls._meta.get_fields()),
                ]
            },
        ),
        (
            "Cluster",
            {
                "fields": ["cluster", "workload"],
                "description": "In a cluster, replicas are discovered, and a scaling policy may set their count.",
            },
        ),
        ("Limits", {"fields": ["max_concurrency", "replica_concurrency", "max_queue", "max_output_default"]}),
        (
            "Warm-up of new replicas",
            {"fields": ["warm_up_requests", "warm_up_prompt", "warm_up_tokens", "warm_up_within_s"]},
        ),
    ]  # fmt: skip
    shown_when = {
        **dict.fromkeys(("server", "headers", "proxy", "salt_prefix_cache"), "protocol=openai"),
        "workload": "cluster",
        "signature": "protocol=triton",
        "mapping": "protocol=triton signature=mapping",
        "model_version": "protocol=triton",
        "tls_enabled": "protocol=triton",
    }

    def get_queryset(self, request: HttpRequest) -> QuerySet[Pool]:
        seen = Observation.objects.filter(kind="replica", component__startswith=Concat(OuterRef("name"), Value("/")))
        queryset: QuerySet[Pool] = super().get_queryset(request)
        return queryset.annotate(
            seen=Subquery(seen.order_by().values("kind").annotate(n=Count("*")).values("n")),
            up=Subquery(seen.filter(state="up").order_by().values("kind").annotate(n=Count("*")).values("n")),
        )

    @admin.display(description="last seen")
    def state(self, pool: Any) -> str:
        """How many of its replicas were up; the overview says how old that is."""
        return f"{pool.up or 0} of {TEXT.counted(pool.seen, 'replica')} up" if pool.seen else "no replica seen yet"

    def get_readonly_fields(self, request: HttpRequest, obj: Pool | None = None) -> list[str]:
        """Secrets, and what runs in clusters, are administrators': an owner could name those of another team."""
        return [] if rights.may(request.user, ADMINISTER) else [*ADMINISTRATORS]

    def get_inlines(self, request: HttpRequest, obj: Pool | None) -> list[type[RuledInline]]:
        """Discovered replicas are those of a pool that runs in a cluster."""
        return [ReplicaInline, *([DiscoveredReplicaInline] if obj is not None and obj.cluster_id else []), PriceInline]


@admin.register(Replica)
class ReplicaAdmin(DraftsChanges):
    edits = EDIT_FLEET
    form = ReplicaForm
    list_display = ["name", "pool", "address", "state", "server", "enabled", "managed_by"]
    list_filter = ["enabled", "pool__protocol", "pool"]
    search_fields = ["name", "pool__name", "url", "grpc"]
    autocomplete_fields = ["pool"]
    readonly_fields = ["managed_by", "state", "server"]

    def get_fields(self, request: HttpRequest, obj: Replica | None = None) -> list[str]:
        chosen = request.POST.get("pool", "")
        pool = Pool.objects.filter(pk=chosen).first() if chosen.isdecimal() else obj.pool if obj else None
        return ["pool", *replica_fields(pool.protocol if pool else None), *(["state", "server"] if obj else [])]

    def has_change_permission(self, request: HttpRequest, obj: Replica | None = None) -> bool:
        discovered = obj is not None and obj.managed_by == Replica.ManagedBy.CLUSTER
        return not discovered and bool(super().has_change_permission(request, obj))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Replica]:
        seen = Observation.objects.filter(component=Concat(OuterRef("pool__name"), Value("/"), OuterRef("name")))
        queryset: QuerySet[Replica] = super().get_queryset(request)
        return queryset.select_related("pool").annotate(
            seen_state=Subquery(seen.values("state")[:1]),
            seen_error=Subquery(seen.values("error")[:1]),
            seen_about=Subquery(seen.values("about")[:1]),
        )

    @admin.display(description="address")
    def address(self, replica: Any) -> str:
        return str(replica.url or replica.grpc)

    @admin.display(description="last seen")
    def state(self, replica: Any) -> str:
        """The state and what is wrong; the overview says how old that is."""
        return ": ".join(filter(None, (replica.seen_state, replica.seen_error))) or "not seen yet"

    @admin.display(description="server")
    def server(self, replica: Any) -> str:
        """What the gateway has found it to be."""
        return describe(replica.seen_about or {}) or "–"


@admin.register(Tier)
class TierAdmin(DraftsChanges):
    list_display = ["name", "priority", "weight", "requests_per_minute", "tokens_per_minute", "max_in_flight"]
    search_fields = ["name"]


@admin.register(Tenant)
class TenantAdmin(PurgesAnswers, DraftsChanges):
    list_display = ["name", "tier", "enabled"]
    list_filter = ["tier", "enabled"]
    search_fields = ["name"]
    autocomplete_fields = ["tier", "token_tiers"]
    inlines = [AllowedRegionInline, GatewayKeyInline]


@admin.register(StageTimeouts)
class StageTimeoutsAdmin(DraftsChanges):
    list_display = ["__str__", *(field.name for field in StageTimeouts._meta.fields if field.name != "id")]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and not StageTimeouts.objects.exists()

    def has_delete_permission(self, request: HttpRequest, obj: StageTimeouts | None = None) -> bool:
        return False


@admin.register(TimeoutRule)
class TimeoutRuleAdmin(DraftsChanges):
    edits = EDIT_FLEET
    list_display = ["__str__", *(field.name for field in TimeoutRule._meta.fields if field.name.endswith("_ms"))]
    autocomplete_fields = ["model", "tier"]


@admin.register(SnapshotRevision)
class SnapshotRevisionAdmin(ReadOnlyAdmin):
    list_display = ["version", "created_at", "author", "content_sha256"]


@admin.register(Observation)
class ObservationAdmin(ReadOnlyAdmin):
    list_display = ["component", "kind", "state", "observed_at", "error"]
    list_filter = ["kind", "state"]


@admin.register(Workload)
class WorkloadAdmin(DraftsChanges):
    """Nothing is applied from here: `manage.py stack` compares and applies, with the rights of who runs it."""

    list_display = ["__str__", "kind", "pool", "place", "image"]
    list_filter = ["kind"]
    list_select_related = ["cluster", "pool__cluster"]
    readonly_fields = ["manifests"]
    fieldsets = [
        (None, {"fields": ["kind", "pool", "cluster", "name", "image"]}),
        ("Size of a replica", {"fields": ["cpu", "memory", "gpus", "gpu_resource", "shared_memory"]}),
        ("Where it runs", {"fields": ["node_selector", "tolerate_gpu_taint"]}),
        ("The model's files", {"fields": ["store_claim", "store_path", "model_source"]}),
        (
            "Triton",
            {
                "fields": [
                    "backend", "instances", "max_batch_size", "preferred_batch_sizes", "max_queue_delay_us",
                    "priority_levels", "default_priority", "max_queue_size", "queue_timeout_us", "model_parameters",
                ]
            },
        ),
        ("API tier", {"fields": ["min_replicas", "max_replicas"]}),
        ("Process", {"fields": ["arguments", "environment", "secret", "start_s", "drain_s"]}),
        ("As Kubernetes objects", {"fields": ["manifests"]}),
    ]  # fmt: skip

    @admin.display(description="as saved")
    def manifests(self, row: Workload) -> str:
        """What `manage.py stack render` prints of it."""
        if row.pk is None:
            return "It is rendered once it is saved."
        try:
            rendered = workload_manifests.manifests(row, settings.CONFIG)
        except ValueError as error:
            return str(error)
        return format_html("<pre>{}</pre>", yaml.safe_dump_all(rendered, sort_keys=False))
