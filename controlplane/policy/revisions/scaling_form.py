"""A scaling policy as fields. They write the document, which stays the only source: whatever is at its default is left out of it."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from django import forms
from msgspec import inspect

from controlplane.core.documents.writing import write_yaml
from controlplane.fleet.models import Pool, Team
from controlplane.policy.core.spec import ScalingSpec
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions.read import PolicyTextError, read_text
from controlplane.slo.models import StoredObjective


class Shown(NamedTuple):
    """A field of `spec`, by its path. `unit` stands behind the label."""

    path: str
    label: str
    unit: str = ""
    help: str = ""


GROUPS: Mapping[str, tuple[Shown, ...]] = {
    "What is scaled": (
        Shown("pool", "Pool", help="Or, for the API tier, leave it empty and name the workload below."),
        Shown("gateway", "Workload of the API tier", help="Such as gateway: the Deployment's name."),
    ),
    "How many": (
        Shown("min", "At least", "replicas", "0 lets a pool end all its replicas."),
        Shown("max", "At most", "replicas"),
        Shown(
            "warm_floor", "Always warm", "replicas", "A budget goes before it, and “at least” before a budget of a day."
        ),
        Shown(
            "schedules",
            "Warm at certain times",
            help='A list in JSON, such as [{"name": "day", "floor": 4, "start": "08:00", "end": "20:00", "zone": "Europe/Berlin"}].',
        ),
        Shown("forecast", "Forecast", help="auto uses the warm plan where its forecast is better than the baseline."),
        Shown(
            "objective",
            "Objective",
            help="Whose burn rate or missed requests add replicas, where they are given below.",
        ),
    ),
    "How full a replica may be": (
        Shown("reactive.utilisation", "Share of its measured capacity", "0..1"),
        Shown("reactive.replica_rps", "What a replica carries", "requests/s", "Where its capacity is not measured."),
        Shown("reactive.queue_delay_s", "Mean wait for a place", "s"),
        Shown("reactive.waiting_per_replica", "Waiting requests per replica"),
        Shown("reactive.in_flight_per_replica", "Requests in flight per replica"),
        Shown("reactive.kv_use", "Use of KV cache", "0..1"),
        Shown("reactive.gpu_use", "Use of GPUs", "0..1", "As Triton or DCGM reports it."),
        Shown("reactive.cpu_use", "Use of CPUs", "0..1", "For the API tier."),
        Shown(
            "reactive.metrics",
            "Gauges of the store",
            help='A list in JSON, such as [{"name": "queue_length", "most": 10, "of": "total"}].',
        ),
        Shown("reactive.burn_rate", "Burn rate of the objective", help="Over its shortest windows, such as 14.4."),
        Shown("reactive.bad_share", "Requests that miss the objective", "0..1", "Of the pool's in five minutes."),
    ),
    "How fast the count changes": (
        Shown("scale_up.max_step", "Added by a decision at most", "replicas", "Empty: no limit."),
        Shown("scale_down.max_step", "Removed by a decision at most", "replicas"),
        Shown("scale_down.stabilisation_s", "Down to the highest that was wanted within", "s"),
        Shown("scale_down.cooldown_s", "No step down after any step for", "s"),
        Shown("rate.period_s", "Period of the two limits below", "s"),
        Shown("rate.max_up", "Added in a period at most", "replicas", "Empty: no limit."),
        Shown("rate.max_down", "Removed in a period at most", "replicas", "Empty: no limit."),
    ),
    "Budget": (
        Shown("budget.gpus", "GPUs at most", help="Empty: no limit."),
        Shown("budget.gpu_hours_per_day", "GPU-hours a day (UTC)", help="Past it the pool goes down to “at least”."),
        Shown("budget.usd_per_day", "USD a day (UTC)", help="Past it the pool goes down to “at least”."),
        Shown("cluster_adds_nodes", "The cluster adds nodes", help="Then free GPUs set no limit."),
    ),
    "When things go wrong": (
        Shown("stale_after_s", "Metrics are unknown once older than", "s", "Then the count stays."),
        Shown(
            "pending_deadline_s", "Replicas may wait for a node for", "s", "Then no more are asked for, and it pages."
        ),
        Shown("drain_deadline_s", "A replica may end its requests for", "s"),
        Shown("other_owner", "An HPA or a hand sets the count too", help="stop and page; adopt; or cooperate."),
        Shown("hold_when", "Keep the count while", help="A condition in CEL, such as kv_use > 0.95. Empty: never."),
    ),
}
NEW = {"min": 1, "max": 4, "warm_floor": 1}
"""What a new policy begins with."""


class Leaf(NamedTuple):
    type: inspect.Type
    default: Any


def leaves(kind: type[msgspec.Struct] = ScalingSpec, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """The fields of a spec that have a value, by path."""
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from leaves(field.type, f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", Leaf(inspect.type_info(field.type), field.default)


def named(path: str) -> str:
    """The name of a field in the form."""
    return path.replace(".", "__")


class ScalingForm(forms.ModelForm):  # type: ignore[type-arg]
    """Its `instance.text` is the document once it is valid. Each problem of the document stands at its field."""

    name = forms.CharField(max_length=100, help_text="Of the policy. A name that there is gets a new revision.")
    team = forms.ChoiceField(required=False, help_text="Empty: the team of the pool's model.")
    description = forms.CharField(required=False, max_length=1_000)

    class Meta:
        model = PolicyRevision
        fields = ["note"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["team"].choices = _choices(Team.objects.order_by("name").values_list("name", flat=True))  # type: ignore[attr-defined]
        known = dict(leaves())
        for shown in (each for group in GROUPS.values() for each in group):
            self.fields[named(shown.path)] = _field(shown, known[shown.path])

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if self.errors:
            return values
        text = write_yaml(document_of(values))
        try:
            read_text(text)
        except PolicyTextError as error:
            for problem in error.problems:
                name = named(problem.path.removeprefix("spec.").removeprefix("metadata."))
                self.add_error(name if name in self.fields else None, problem.message)
            return values
        self.instance.text = text
        return values


def document_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The document that these values of the form's fields say."""
    known = dict(leaves())
    spec: dict[str, Any] = {}
    for path, leaf in known.items():
        value = values.get(named(path))
        if value in (None, "", []) or (value == leaf.default and path not in NEW):
            continue
        *parts, last = path.split(".")
        part = spec
        for each in parts:
            part = part.setdefault(each, {})
        part[last] = value
    metadata = {name: values[name] for name in ("name", "team", "description") if values.get(name)}
    return {"apiVersion": "weir/v1", "kind": "Scaling", "metadata": metadata, "spec": spec}


def values_of(spec: ScalingSpec | None, metadata: Mapping[str, str]) -> dict[str, Any]:
    """What the form's fields begin with: a policy's values, or those of a new one."""
    values: dict[str, Any] = dict(metadata)
    for path, leaf in leaves():
        value: Any = spec
        for step in path.split("."):
            value = getattr(value, step, None)
        if spec is None:
            value = NEW.get(path, None if leaf.default is msgspec.NODEFAULT else leaf.default)
        if isinstance(value, tuple):
            value = msgspec.to_builtins(value)
        values[named(path)] = int(value) if isinstance(value, float) and value.is_integer() else value
    return values


def fieldsets() -> list[tuple[str | None, dict[str, Any]]]:
    groups = [(title, {"fields": [named(shown.path) for shown in group]}) for title, group in GROUPS.items()]
    return [("Policy", {"fields": ["name", "team", "description"]}), *groups, ("Why", {"fields": ["note"]})]


def _field(shown: Shown, leaf: Leaf) -> forms.Field:
    info = leaf.type
    if isinstance(info, inspect.UnionType):
        info = next(each for each in info.types if not isinstance(each, inspect.NoneType))
    label = f"{shown.label} ({shown.unit})" if shown.unit else shown.label
    common: dict[str, Any] = {"label": label, "help_text": shown.help, "required": leaf.default is msgspec.NODEFAULT}
    match info:
        case inspect.BoolType():
            return forms.BooleanField(**common | {"required": False})
        case inspect.IntType():
            return forms.IntegerField(**common, min_value=info.ge, max_value=info.le)
        case inspect.FloatType():
            return forms.FloatField(**common, widget=forms.NumberInput(attrs={"step": "any"}))
        case inspect.VarTupleType():
            return forms.JSONField(**common | {"required": False})
        case inspect.LiteralType(values=choices):
            pairs = [(str(each), str(each)) for each in choices]
            return forms.ChoiceField(**common | {"required": True}, choices=pairs)
    if shown.path in NAMED:
        return forms.ChoiceField(**common, choices=lambda: _choices(NAMED[shown.path]()))
    return forms.CharField(**common)


NAMED: Mapping[str, Any] = {
    "pool": lambda: Pool.objects.order_by("name").values_list("name", flat=True),
    "objective": lambda: StoredObjective.objects.order_by("slug").values_list("slug", flat=True),
}
"""Fields whose values are names of the fleet."""


def _choices(names: Any) -> list[tuple[str, str]]:
    return [("", "—"), *((name, name) for name in names)]
