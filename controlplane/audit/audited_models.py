"""Writes an entry for every change of what people decide about: which models these are, and which are left out and why."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.apps import apps
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction

from controlplane.audit.core.differences import changes
from controlplane.audit.models import Entry, Head
from controlplane.core.acting import actor
from controlplane.core.changes import watch

RECORDED = (
    "accounts.ApiToken", "accounts.BreakGlass", "accounts.GroupMapping", "accounts.Membership", "accounts.ProviderAccount",
    "accounts.SharedLink", "accounts.TenantMembership", "auth.Group", "auth.User",
    "fleet.AllowedRegion", "fleet.Cluster", "fleet.Fallback", "fleet.GatewayKey", "fleet.LLMModel", "fleet.Pool", "fleet.Price",
    "fleet.Region", "fleet.Replica", "fleet.RoutingRules", "fleet.StageTimeouts", "fleet.Team", "fleet.Tenant", "fleet.Tier",
    "fleet.CachePurge", "fleet.FleetProposal", "fleet.ProposalEvent", "fleet.GuardRule", "fleet.TimeoutRule", "fleet.TokenIssuer",
    "fleet.Variant", "fleet.Workload", "mfa.Authenticator", "slo.Maintenance", "slo.StoredObjective", "openslo.AppliedDocument",
    "incidents.ChangeRecord", "incidents.Entry", "incidents.SilenceRecord",
    "delivery.Destination", "delivery.Endpoint", "delivery.HookSecret",
    "planning.GpuQuota", "planning.GpuType", "planning.PlanSettings", "planning.PlannedEvent", "planning.PoolCapacity",
    "planning.RegionCalendar", "planning.ReplicaCapacityEntry",
    "policy.Override", "policy.Pause", "policy.PolicyRevision", "policy.RevisionEvent",
    "lane.CallbackSecret", "lane.TenantLimits",
)  # fmt: skip
LEFT_OUT = {
    "what Weir itself observes, concludes and counts": (
        "core.Lease", "fleet.Observation", "slo.MeasurementGap", "slo.ObjectiveState", "incidents.Incident", "planning.CandidateChange",
        "planning.ForecastRecord", "planning.MeasuredHitRate", "planning.MeasuredPool", "planning.StoredForecast", "policy.Memory",
        "policy.Spent",
    ),
    "it has a record of its own that nothing overwrites": (
        "fleet.FleetChange", "fleet.FleetRevision", "fleet.PublishedSnapshot", "fleet.SnapshotRevision", "slo.ObjectiveRevision",
        "policy.Action", "policy.DecisionChange",
        "policy.DecisionRecord", "planning.DemoHistory", "planning.PlanJob",
    ),
    "work that passes through": (
        "delivery.Delivery", "delivery.Heartbeat", "delivery.HookEvent", "lane.Batch", "lane.Callback", "lane.Change", "lane.Line",
        "lane.Once", "lane.StoredFile", "lane.Worker",
    ),
    "a person's own view, session or attempt to log in": (
        "account.EmailAddress", "account.EmailConfirmation", "usersessions.UserSession",
        "socialaccount.SocialAccount", "socialaccount.SocialApp", "socialaccount.SocialToken",
        "accounts.ProviderTokens", "accounts.SavedView", "accounts.TokenUser", "admin.LogEntry", "auth.Permission", "axes.AccessAttempt",
        "axes.AccessAttemptExpiration", "axes.AccessFailureLog", "axes.AccessLog", "contenttypes.ContentType", "sessions.Session",
    ),
    "the audit itself": ("audit.Entry", "audit.Head"),
}  # fmt: skip
BY_PEOPLE = {"incidents.Entry": ("by", "weir")}
"""Of these, only rows whose field does not say that Weir itself made them."""

_BEFORE, _NAME = "_audit_before", "_audit_name"


def connect() -> None:
    """Record every change of RECORDED from now on, in the transaction of the change."""
    for label in RECORDED:
        model = apps.get_model(label)
        _save_in_a_transaction(model)
        watch(model, "audit", before_save=_looks, saved=_saved, before_delete=_goes, deleted=_deleted, linked=_linked)


def _save_in_a_transaction(model: type[models.Model]) -> None:
    """Django sends `post_save` after the transaction of a save, where a kill would lose the entry. A delete sends it inside."""
    saves: Callable[..., None] = model.save_base

    @wraps(saves)
    def save_base(self: models.Model, *given: Any, **named: Any) -> None:
        with transaction.atomic():
            saves(self, *given, **named)

    if not hasattr(saves, "__wrapped__"):
        model.save_base = save_base  # type: ignore[method-assign]


def _looks(sender: type[models.Model], instance: models.Model, **_: Any) -> None:
    if _is_recorded(instance):
        Head.lock()  # before any row of the change: two that write take their locks in one order
        _reads(sender, instance)


def _reads(sender: type[models.Model], instance: models.Model, **_: Any) -> None:
    stored = None if instance.pk is None else sender._base_manager.filter(pk=instance.pk).first()
    setattr(instance, _BEFORE, values_of(stored) if stored else None)


def _goes(sender: type[models.Model], instance: models.Model, **_: Any) -> None:
    """Its name may be that of what goes with it, which is gone first. Rows that name it and stay, name nothing from now on: Django says
    nothing of these.
    """
    _reads(sender, instance)
    setattr(instance, _NAME, str(instance))
    for relation in sender._meta.related_objects:
        rows, field = relation.related_model, relation.field.name
        if relation.on_delete is models.SET_NULL and rows._meta.label in RECORDED:
            for row in rows._base_manager.filter(**{field: instance}):
                _write("changed", row, before={field: values_of(row)[field]}, after={field: None})


def _saved(
    sender: type[models.Model], instance: models.Model, created: bool, update_fields: frozenset[str] | None, **_: Any
) -> None:
    if not _is_recorded(instance):
        return
    stored, values = getattr(instance, _BEFORE, None), values_of(instance)
    if stored and update_fields is not None:
        values = stored | {name: value for name, value in values.items() if name in update_fields}
    before, after = changes(None if created else stored, values)
    if before or after:
        _write("created" if created else "changed", instance, before=before, after=after)


def _deleted(sender: type[models.Model], instance: models.Model, **_: Any) -> None:
    before, _after = changes(getattr(instance, _BEFORE, None) or values_of(instance), None)
    if _is_recorded(instance):
        _write("deleted", instance, before=before)


def _linked(sender: type[models.Model], instance: models.Model, action: str, model: Any, pk_set: Any, **_: Any) -> None:
    said = {"post_add": "added", "post_remove": "removed", "pre_clear": "removed"}.get(action)
    if said is None or not (pk_set or action == "pre_clear"):
        return
    name = sender._meta.model_name or ""
    if action == "pre_clear":
        field = next(each for each in instance._meta.many_to_many if each.remote_field.through is sender)
        linked = [str(each) for each in getattr(instance, field.name).all()]
    else:
        linked = [str(each) for each in model._base_manager.filter(pk__in=pk_set)]
    if linked:
        side = {name: sorted(linked)}
        _write(said, instance, **{"before" if said == "removed" else "after": side})


def _is_recorded(instance: models.Model) -> bool:
    by = BY_PEOPLE.get(instance._meta.label)
    return by is None or getattr(instance, by[0]) != by[1]


def _write(action: str, instance: models.Model, **sides: Any) -> None:
    label, key = instance._meta.label_lower, str(instance.pk or "")
    name = getattr(instance, _NAME, "") or str(instance)
    Entry.write(actor(), action, kind=label, subject=name, subject_id=key[:100], **sides)


def values_of(instance: models.Model) -> dict[str, Any]:
    """Of every column, as JSON has it."""
    values = {field.name: field.value_from_object(instance) for field in instance._meta.concrete_fields}
    if any(hasattr(value, "resolve_expression") for value in values.values()):  # the database computes it
        values = type(instance)._base_manager.filter(pk=instance.pk).values(*values).get()
    plain: dict[str, Any] = json.loads(json.dumps(values, cls=_Encoder))
    return plain


class _Encoder(DjangoJSONEncoder):
    def default(self, o: Any) -> Any:
        return o.hex() if isinstance(o, (bytes, memoryview)) else super().default(o)
