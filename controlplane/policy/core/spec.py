"""What owners write: the fields of the four kinds of policies. Durations and sizes have their unit in the name.

Kinds and limits that concern a single field are here; what concerns several is in `document.py`.
"""

import hashlib
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
ModelName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._:/-]*[A-Za-z0-9])?$")]
"""What clients ask for, such as `meta-llama/Llama-3.1-8B`."""
Text = Annotated[str, Meta(max_length=1_000)]
MetricName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z_:][A-Za-z0-9_:.]*$")]
LabelName = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]
Condition = Annotated[str, Meta(max_length=2_000)]
"""An expression in CEL, checked by `conditions.py`. Empty never holds."""

Count = Annotated[int, Meta(ge=0, le=10_000)]
AtLeastOne = Annotated[int, Meta(ge=1, le=10_000)]
Seconds = Annotated[float, Meta(ge=0, le=604_800)]
Milliseconds = Annotated[int, Meta(ge=1, le=86_400_000)]
Share = Annotated[float, Meta(gt=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=1e12)]
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
Weight = Annotated[int, Meta(ge=0, le=10_000)]
TimeOfDay = Annotated[str, Meta(max_length=20)]
Date = Annotated[str, Meta(max_length=20)]
"""Both are checked by `checks.py`."""
Probability = Annotated[float, Meta(gt=0, lt=0.5)]


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a policy."""


class StoredMetric(Spec, frozen=True):
    """A gauge of the store. Without `labels` its series of the pool's replicas count, else all that have them."""

    name: MetricName
    most: Positive
    """What is accepted: of a replica's part of the total, or of the mean."""
    of: Literal["total", "mean"] = "total"
    """`total` is shared by the replicas, as a queue is. `mean` is the level of each, as a use is."""
    labels: Annotated[dict[LabelName, Text], Meta(max_length=20)] = {}

    @property
    def key(self) -> str:
        """As PromQL writes it."""
        pairs = ",".join(f'{name}="{value}"' for name, value in sorted(self.labels.items()))
        return f"{self.name}{{{pairs}}}" if pairs else self.name


GPU_USE = "gpu_use"
"""The key of the signal that is no metric of a single name."""


class Reactive(Spec, frozen=True):
    """What a replica may carry. A signal that is left out counts for nothing, except `utilisation`."""

    utilisation: Share = 0.8
    """The share of a replica's measured capacity that is planned with."""
    replica_rps: Positive | None = None
    """Requests/s that a replica carries, where its capacity is not measured, as for the API tier."""
    queue_delay_s: Positive | None = None
    """The longest mean wait for a place that is accepted."""
    waiting_per_replica: Positive | None = None
    in_flight_per_replica: Positive | None = None
    kv_use: Share | None = None
    gpu_use: Share | None = None
    cpu_use: Share | None = None
    metrics: Annotated[tuple[StoredMetric, ...], Meta(max_length=10)] = ()
    burn_rate: Positive | None = None
    """The fastest burn of `objective` that is accepted, over its shortest windows."""
    bad_share: Share | None = None
    """The most of the pool's requests of five minutes that may miss `objective`."""

    @property
    def of_objective(self) -> bool:
        return self.burn_rate is not None or self.bad_share is not None

    @property
    def stored(self) -> tuple[str, ...]:
        """The keys of the signals that are read from the store."""
        return (*((GPU_USE,) if self.gpu_use is not None else ()), *(each.key for each in self.metrics))


class ScaleUp(Spec, frozen=True):
    max_step: AtLeastOne | None = None
    """The most replicas added by a decision."""


class ScaleDown(Spec, frozen=True):
    stabilisation_s: Seconds = 300.0
    """Only the highest count of so many seconds is gone down to."""
    cooldown_s: Seconds = 60.0
    """No step down so soon after any other step."""
    max_step: AtLeastOne = 1
    """The most replicas removed by a decision."""


class Rate(Spec, frozen=True):
    """The most replicas added and removed in any `period_s`. None sets no limit."""

    period_s: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    max_up: AtLeastOne | None = None
    max_down: AtLeastOne | None = None


class Budget(Spec, frozen=True):
    """Days are those of UTC. None sets no limit."""

    gpus: Count | None = None
    gpu_hours_per_day: Positive | None = None
    usd_per_day: Positive | None = None


class Schedule(Spec, frozen=True):
    """Replicas that are warm at certain times: each day from `start` to `end`, which is on the next day where it is not later."""

    name: Name
    floor: AtLeastOne
    start: TimeOfDay = "00:00"
    end: TimeOfDay = "24:00"
    weekdays: tuple[Annotated[int, Meta(ge=1, le=7)], ...] = ()
    """1 is Monday. Empty, and without `dates`: every day."""
    dates: tuple[Date, ...] = ()
    """Days beside the weekdays."""
    zone: Annotated[str, Meta(min_length=1, max_length=64)] = "UTC"
    """The time zone of the clock, such as Europe/Berlin."""


class ScalingSpec(Spec, frozen=True):
    """How many replicas a pool has, or the API tier (`gateway` names its workload)."""

    max: AtLeastOne
    min: Count = 1
    pool: Name | None = None
    gateway: Name | None = None
    warm_floor: Count = 0
    """Replicas that are always warm. Unlike `min` it gives way to a budget."""
    schedules: Annotated[tuple[Schedule, ...], Meta(max_length=100)] = ()
    objective: Name | None = None
    """The slug of the objective that `reactive.burn_rate` and `reactive.bad_share` are about."""
    reactive: Reactive = Reactive()
    forecast: Literal["auto", "off"] = "auto"
    scale_up: ScaleUp = ScaleUp()
    scale_down: ScaleDown = ScaleDown()
    rate: Rate = Rate()
    budget: Budget = Budget()
    cluster_adds_nodes: bool = False
    """An autoscaler adds nodes for pods that wait: free GPUs of the nodes that stand set no limit then."""
    pending_deadline_s: Annotated[float, Meta(ge=10, le=86_400)] = 900.0
    """How long replicas may wait for a node before no more are asked for, and somebody is paged."""
    drain_deadline_s: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """How long a replica that is to be removed may take to end its requests."""
    stale_after_s: Annotated[float, Meta(ge=1, le=3_600)] = 30.0
    """Metrics older than this are unknown."""
    other_owner: Literal["stop", "adopt", "cooperate"] = "stop"
    """What is done where an HPA or a hand sets the same count."""
    hold_when: Condition = ""

    @property
    def target(self) -> str:
        """The key of what is scaled: a pool's name, or `gateway:NAME`."""
        return self.pool if self.pool is not None else f"gateway:{self.gateway}"


class When(Spec, frozen=True):
    """The requests that a rule is for. What is left out matches all."""

    tiers: tuple[Name, ...] = ()
    regions: tuple[Name, ...] = ()
    tenants: tuple[Name, ...] = ()
    min_prompt_tokens: Tokens | None = None
    max_prompt_tokens: Tokens | None = None


class RoutingRule(Spec, frozen=True):
    """The first rule that matches a request decides. Without `routes` the model's own are kept."""

    name: Name
    when: When = When()
    routes: dict[Name, Weight] = {}
    fallbacks: tuple[Name, ...] = ()
    cache: Literal["as_model", "deterministic", "always", "never"] = "as_model"
    cache_ttl_s: Annotated[int, Meta(ge=1, le=31_536_000)] | None = None
    deadline_ms: Milliseconds | None = None
    priority: Annotated[int, Meta(ge=1, le=100)] | None = None
    """1 is served first; None is the tier's."""
    max_output_tokens: Tokens | None = None


class Failover(Spec, frozen=True):
    """Sends what `pools` would get to `to`, while the condition holds. Without `when`: while none of `pools` can serve."""

    name: Name
    pools: tuple[Name, ...]
    to: dict[Name, Weight]
    when: Condition = ""
    min_stay_s: Seconds = 60.0
    """How long the pools must be well before they get traffic again, and the least that a failover lasts."""


class RoutingSpec(Spec, frozen=True):
    model: ModelName
    rules: tuple[RoutingRule, ...] = ()
    failover: tuple[Failover, ...] = ()


class Shed(Spec, frozen=True):
    retry_after_s: Annotated[int, Meta(ge=1, le=3_600)] = 10


class Cost(Spec, frozen=True):
    """What a step costs, as measured."""

    requests_share: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The share of the tier's requests whose answers change."""
    note: Text = ""


class LadderStep(Spec, frozen=True):
    """A step of a ladder: what it does to a tier's requests, and when it is entered and left. A step does what those
    below it do as well, unless it says otherwise.
    """

    name: Name
    enter: Condition
    exit: Condition
    pool: Name | None = None
    """Requests go to this pool while it has a replica."""
    variant: Name | None = None
    """The same, to whichever pool of a variant, such as a smaller one."""
    max_output_tokens: Tokens | None = None
    partial: bool = False
    """An answer that is cut at the cap ends with `length`, and the client can have it continued."""
    cached_only: bool = False
    shed: Shed | None = None
    min_stay_s: Seconds = 60.0
    cost: Cost = Cost()


class DegradationSpec(Spec, frozen=True):
    """The ladder of a model. `tiers` are in the order in which they are degraded: the least important first."""

    model: ModelName
    tiers: tuple[Name, ...]
    steps: tuple[LadderStep, ...]
    stale_after_s: Annotated[float, Meta(ge=1, le=3_600)] = 120.0
    max_blind_stay_s: Annotated[float, Meta(ge=60, le=604_800)] = 1_800.0
    """How long a tier may be on a step whose `exit` is unknown before somebody is paged."""


class Compared(Spec, frozen=True):
    """What a canary compares beside E2E latency and failures."""

    measure: Annotated[str, Meta(pattern=r"^(ttft|itl|cost|score:[a-z0-9][a-z0-9._-]{0,62})$")]
    quantile: Annotated[float, Meta(ge=0.5, lt=1)] = 0.95
    """Of a score, of which less is worse, it counts from above."""
    tolerance: Annotated[float, Meta(gt=0, le=10)] = 0.2
    """By how much the candidate's quantile may be worse, as a share of the baseline's."""


class CanarySpec(Spec, frozen=True):
    """Part of a model's requests goes to the candidate while it is compared with the baseline."""

    model: ModelName
    baseline: Name
    candidate: Name
    steps: tuple[Annotated[int, Meta(ge=1, le=99)], ...] = (5, 25, 50)
    """Percent of the requests that the candidate gets, step by step."""
    latency_quantile: Annotated[float, Meta(ge=0.5, lt=1)] = 0.95
    latency_tolerance: Annotated[float, Meta(gt=0, le=10)] = 0.2
    """How much slower the candidate may be, as a share of the baseline's latency."""
    error_tolerance: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    """How much higher the candidate's share of failed requests may be."""
    measures: tuple[Compared, ...] = ()
    """What else may not be worse."""
    alpha: Probability = 0.05
    """The highest probability to roll back a candidate that is equal."""
    beta: Probability = 0.1
    """The highest probability to promote a candidate that is worse by the tolerance."""
    max_requests: Annotated[int, Meta(ge=100, le=100_000_000)] = 20_000
    """Requests to the candidate after which the analysis ends."""
    time_limit_s: Annotated[float, Meta(ge=60, le=7_776_000)] = 604_800.0
    """How long the candidate may take to show that it is as good."""
    on_fail: Literal["roll_back", "hold"] = "roll_back"
    on_equal: Literal["promote", "hold"] = "promote"
    conclude: Literal["promote", "roll_back"] | None = None
    """A person's conclusion: at once, whatever was counted. Without it an outcome stays as it is."""


class Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    name: Name
    team: str = ""
    """The team that owns the policy."""
    description: Text = ""


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", kw_only=True):
    api_version: Literal["weir/v1"] = msgspec.field(name="apiVersion")
    metadata: Metadata


class Scaling(_Envelope, tag="Scaling", frozen=True, kw_only=True):
    spec: ScalingSpec


class Routing(_Envelope, tag="Routing", frozen=True, kw_only=True):
    spec: RoutingSpec


class Degradation(_Envelope, tag="Degradation", frozen=True, kw_only=True):
    spec: DegradationSpec


class Canary(_Envelope, tag="Canary", frozen=True, kw_only=True):
    spec: CanarySpec


Policy = Scaling | Routing | Degradation | Canary
KINDS: dict[str, type[Scaling] | type[Routing] | type[Degradation] | type[Canary]] = {
    "Scaling": Scaling,
    "Routing": Routing,
    "Degradation": Degradation,
    "Canary": Canary,
}


class InForce(msgspec.Struct, frozen=True):
    """A policy that `decide` is to follow: the revision of it, and the digest of its text."""

    id: int
    revision: int
    digest: str
    policy: Policy

    @property
    def name(self) -> str:
        return self.policy.metadata.name

    @property
    def spec_digest(self) -> str:
        """Of what the policy does, without its description and team, and without what a person concludes from a canary."""
        spec = self.policy.spec
        if isinstance(spec, CanarySpec):
            spec = msgspec.structs.replace(spec, conclude=None)
        return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()

    @property
    def reference(self) -> str:
        """How records and pages name it, such as `chat-large@3`."""
        return f"{self.name}@{self.revision}"
