"""The admin as one place of Weir: its index and its sidebar are grouped by what people do, not by the rooms of the code."""

from typing import Any, NamedTuple

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.shortcuts import redirect

from controlplane.accounts import rights
from controlplane.accounts.core.actions import VIEW


class Group(NamedTuple):
    """`models` in the order in which one meets them, as `app_label.Model`."""

    name: str
    about: str
    models: tuple[str, ...]


GROUPS = (
    Group(
        "Serve",
        "what answers requests, and for whom",
        (
            "fleet.LLMModel", "fleet.Variant", "fleet.Pool", "fleet.Replica", "fleet.Cluster", "fleet.Workload", "fleet.Region",
            "fleet.Tenant", "fleet.Tier", "lane.TenantLimits", "lane.CallbackSecret", "lane.Callback", "fleet.GatewayKey",
            "fleet.TokenIssuer", "fleet.GuardRule", "fleet.StageTimeouts", "fleet.TimeoutRule", "fleet.CachePurge", "fleet.Observation",
            "fleet.SnapshotRevision",
        ),
    ),
    Group(
        "Keep objectives",
        "what users can expect, and when it is not counted",
        ("slo.StoredObjective", "slo.Maintenance", "openslo.AppliedDocument"),
    ),
    Group(
        "Alert",
        "whom a page reaches, and what became of it",
        ("delivery.Destination", "delivery.Delivery", "delivery.HookSecret", "delivery.HookEvent"),
    ),
    Group(
        "Act",
        "what Weir may do by itself",
        ("policy.PolicyRevision", "policy.Pause", "policy.Override", "policy.DecisionRecord", "policy.Action"),
    ),
    Group(
        "Plan",
        "what demand will need, and what it costs",
        (
            "planning.PlannedEvent", "planning.PoolCapacity", "planning.GpuType", "planning.RegionCalendar", "planning.PlanSettings",
            "planning.StoredForecast", "planning.CandidateChange", "planning.PlanJob", "planning.MeasuredPool", "planning.DemoHistory",
        ),
    ),
    Group(
        "People",
        "who may read and change what",
        (
            "fleet.Team", "auth.User", "accounts.Membership", "accounts.TenantMembership", "accounts.GroupMapping",
            "accounts.ApiToken", "accounts.SharedLink",
        ),
    ),
)  # fmt: skip


class WeirAdminSite(AdminSite):
    site_header = site_title = "Weir"
    index_title = "Admin"

    def has_permission(self, request: HttpRequest) -> bool:
        """Whoever may read may look; what may be changed, each admin asks (`controlplane.accounts.admin_parts`)."""
        return rights.may(request.user, VIEW)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """As Django's, with groups in the place of apps; what no group names comes last."""
        models = {
            f"{app['app_label']}.{model['object_name']}": model
            for app in super().get_app_list(request)
            for model in app["models"]
        }
        groups = [
            {
                "name": group.name,
                "about": group.about,
                "models": [models.pop(name) for name in group.models if name in models],
            }
            for group in GROUPS
        ]
        groups.append({"name": "More", "about": "", "models": list(models.values())})
        return [group for group in groups if group["models"]]

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> Any:
        return redirect("admin:index")
