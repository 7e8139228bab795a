"""What a tick has seen, as plain values. Unknown is None, never 0. Times are integer ms since 1970, ages are at `now_ms`."""

from typing import Literal

import msgspec

BURN_STALE_AFTER_S = 60.0
"""Objectives are judged every few seconds, and written at least every 15 s."""
METRIC_STALE_AFTER_S = 120.0
"""Exporters of OpenTelemetry send each minute, unless somebody says otherwise."""
CLUSTER_STALE_AFTER_S = 60.0
"""Watches that are older than this are not trusted. They renew themselves every few seconds."""


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Values that a record keeps."""


class BurnFacts(Facts, frozen=True):
    """How fast an objective burns, where a pool's requests count for it."""

    burn_rate: float | None = None
    """Over the shortest pair of burn windows."""
    age_ms: int | None = None
    unjudged: bool = False
    """Part of it is not judged now: it may burn faster."""
    stage: str = ""
    """In which the pool's bad requests of the last minutes differ most from the others. Empty: not known, or not asked."""
    bad_share: float | None = None
    """Of the pool's requests of the last minutes. None: not asked, or none was seen."""
    bad_share_age_ms: int | None = None


class MetricFacts(Facts, frozen=True):
    """How high a metric of the store is, over its series: their total and their mean."""

    total: float
    mean: float
    age_ms: int
    """Of the oldest."""


class Silent(Facts, frozen=True):
    """What gateways said last that are silent now. It counts on, and their clients may have gone to others, where it counts too."""

    arrived_rps: float = 0.0
    waiting: float = 0.0
    in_flight: float = 0.0


class PoolFacts(Facts, frozen=True):
    """What is scaled, as it stands: a pool, or the API tier of a cluster (its name is `gateway:NAME` then)."""

    pool: str
    model: str = ""
    variant: str = ""
    region: str = ""
    cluster: str = ""
    gpu: str = ""
    gpus_per_replica: int | None = None
    usd_per_replica_hour: float | None = None

    arrived_rps: float | None = None
    lines_rps: float | None = None
    """Of these, lines of the lane that nobody waits for."""
    input_tokens: float | None = None
    """Mean per request, as is `output_tokens`."""
    output_tokens: float | None = None
    waiting: float | None = None
    queue_delay_s: float | None = None
    """Mean wait for a place of the requests that got one."""
    running: float | None = None
    in_flight: float | None = None
    """Sent to a replica and not answered yet, over all gateways."""
    lines_in_flight: float | None = None
    kv_use: float | None = None
    cpu_use: float | None = None
    burns: dict[str, BurnFacts] = {}
    """By objective that a policy of the pool names."""
    metrics: dict[str, MetricFacts] = {}
    """By signal that it names (`StoredMetric.key`, `GPU_USE`)."""

    wanted: int | None = None
    """The count in the cluster: Kubernetes' `spec.replicas`."""
    ready: int | None = None
    starting: int | None = None
    """Created and not ready, without those that are `pending` or `failing`."""
    draining: int | None = None
    pending: int | None = None
    """Those that have no node."""
    pending_since_ms: int | None = None
    """Since when the first of them has waited."""
    pending_reason: str = ""
    failing: int | None = None
    """Those that have a node, and whose containers crash or cannot be created, or that are not ready in time."""
    failing_reason: str = ""
    rollout: str = ""
    """What is under way while replicas of an older template are there, as a sentence."""
    rollout_stuck: bool = False
    """The cluster says that it makes no progress."""

    capacity_rps: float | None = None
    """Of a replica, at the objective, with the tokens per request of now."""
    capacity_source: str = ""
    capacity_is_lower_bound: bool = False
    """No higher load was measured yet."""
    capacity_replicas: int = 1
    """The replicas of the pool when that was measured: a smaller pool has less room for bursts."""
    batching_factor: float | None = None
    """The mean number of requests that a replica works on at that load."""
    slots: int | None = None
    """The most requests that a replica can work on at a time."""
    lines_replicas: int | None = None
    """With so many the open lines of the lane are done in time; None where those for clients are enough."""
    lines_reason: str = ""
    cold_start_s: float | None = None
    """P90."""
    objective: str = ""

    owner_of_count: str = "weir"
    """`weir`, `hpa:NAME` or `hand`."""
    hpa_min: int | None = None
    hpa_max: int | None = None
    hpa_floor: int | None = None
    """The least that the HPA's owner has set, before Weir raised it."""
    hpa_kept_by: str = ""
    """Who would set the HPA's floor back, as a sentence."""
    problem: str = ""
    """Why the cluster does not manage it, as a sentence."""

    heard_s: float | None = None
    """For how long the gateways' counts have been read, s; None for long."""
    traffic_age_ms: int | None = None
    """Of what gateways count. None: never seen."""
    traffic_problem: str = ""
    """Which gateways are silent, and why."""
    silent: Silent | None = None
    """Their part of the traffic."""
    servers_age_ms: int | None = None
    """Of what model servers say: running, waiting, KV use."""
    cluster_age_ms: int | None = None
    """Of the counts of replicas."""
    capacity_age_ms: int | None = None
    reachable: bool | None = None
    """Whether gateways get answers from any of its replicas."""
    cut_off: int = 0
    """Gateways that reach none of them."""
    disabled: bool = False
    """Its owner has switched it off: gateways do not know it."""
    cluster_disabled: bool = False
    """The owner of its cluster has: it is neither watched nor changed, and its replicas go on."""


class TierFacts(Facts, frozen=True):
    """How a model's objectives stand for the requests of a tier."""

    tier: str
    objective: str = ""
    burn_rate_fast: float | None = None
    """Over the shortest pair of burn windows."""
    burn_rate_slow: float | None = None
    budget_left: float | None = None
    """Share of the error budget, negative where more than all is used."""
    attainment: float | None = None
    arrived_rps: float | None = None
    shed_share: float | None = None
    age_ms: int | None = None
    unjudged: tuple[str, ...] = ()
    """Of its objectives, those that are not judged now: they may stand worse."""
    unmeasured_s: int = 0
    """How much of the period so far was not fully measured: the most of its objectives."""


class ModelFacts(Facts, frozen=True):
    model: str
    pools: tuple[str, ...] = ()
    """Those of its routes and fallbacks, without disabled ones."""
    tiers: dict[str, TierFacts] = {}
    disabled: bool = False
    """All its pools are."""


class GatewayFacts(Facts, frozen=True):
    """A gateway whose signals are read."""

    url: str
    age_ms: int | None = None
    problem: str = ""


class Gpus(Facts, frozen=True):
    """GPUs of a type in a cluster: of its nodes, and of these the requested."""

    allocatable: int
    requested: int
    waiting_too: bool = False
    """Whether those of pods that have no node yet are among the requested."""

    @property
    def free(self) -> int:
        return max(0, self.allocatable - self.requested)


class ClusterFacts(Facts, frozen=True):
    """`problem`: why it was never seen; `why_old`: why what was seen is not confirmed now."""

    cluster: str
    age_ms: int | None = None
    problem: str = ""
    gpus: dict[str, Gpus] = {}
    why_old: str = ""

    @property
    def up(self) -> bool:
        return not self.problem and fresh(self.age_ms, CLUSTER_STALE_AFTER_S)


class Spent(Facts, frozen=True):
    """What a pool has used since 00:00 UTC."""

    gpu_hours_today: float | None
    usd_today: float | None = None
    age_ms: int | None = None


class PoolPlan(Facts, frozen=True):
    """The part of a pool's warm plan that matters now, in steps of `step_ms` from `start_ms`."""

    pool: str
    made_at_ms: int
    """Until when demand was known to its forecasts."""
    start_ms: int
    step_ms: int
    horizon_ms: int
    """P90 of the cold start, with a margin."""
    warm: tuple[int, ...]
    """Replicas that must be ready."""
    started: tuple[int, ...]
    """Replicas that must have been created."""
    kept: tuple[int, ...] = ()
    """Replicas that are not worth removing: the demand may be a little higher than it is planned for."""
    forecaster: str = ""  # in words
    skill: float | None = None
    """1 − its pinball loss / that of the baseline, in the backtest."""
    level: float | None = None
    """The quantile of the demand that is planned for."""
    reason: str = ""


class Pause(Facts, frozen=True):
    """Until `until_ms` nothing is done for a policy, a model, a pool, or at all."""

    until_ms: int
    scope: Literal["all", "policy", "model", "pool"] = "all"
    target: str = ""
    """The name of it."""
    by: str = ""
    reason: str = ""


class Override(Facts, frozen=True):
    """A person's count for a pool, or level for a tier of a model, until `until_ms`."""

    until_ms: int
    target: str = ""
    """What is scaled."""
    replicas: int | None = None
    model: str = ""
    tier: str = ""
    """Empty: all tiers of the ladder."""
    level: int | None = None
    """The step of the ladder, from 1; 0 is none."""
    by: str = ""
    reason: str = ""


class Measured(Facts, frozen=True):
    """Of the answered requests of an arm that have a measure, those above the baseline's quantile, and above it by the tolerance. Of a
    score those below.
    """

    known: int = 0
    high: int = 0
    too_high: int = 0


class Arm(Facts, frozen=True):
    """Requests of one pool of a canary. Of the answered ones `slow` took longer than the baseline's quantile, `too_slow` longer than
    `1 + latency_tolerance` times it.
    """

    requests: int = 0
    failed: int = 0
    answered: int = 0
    slow: int = 0
    too_slow: int = 0
    measures: dict[str, Measured] = {}
    """What else is compared, by its name."""


class Stratum(Facts, frozen=True):
    """The requests of the time in which the candidate had one weight. What is slow is what the baseline's quantile of that time says."""

    candidate: Arm
    baseline: Arm


class CanaryCounts(Facts, frozen=True):
    """What the ledger has of a canary's two pools from `since_ms` to `until_ms`. Later requests may not have ended yet."""

    since_ms: int
    until_ms: int
    strata: tuple[Stratum, ...]
    candidate_design_effect: float = 1.0
    """By how much requests resemble others of their minute."""
    baseline_design_effect: float = 1.0
    candidate_ms: float | None = None
    """The quantile of the candidate's latency in the last stratum."""
    baseline_ms: float | None = None
    age_ms: int | None = None


class Observation(Facts, frozen=True):
    now_ms: int
    pools: dict[str, PoolFacts] = {}
    models: dict[str, ModelFacts] = {}
    gateways: tuple[GatewayFacts, ...] = ()
    clusters: dict[str, ClusterFacts] = {}
    spent: dict[str, Spent] = {}
    """By pool."""
    plans: dict[str, PoolPlan] = {}
    canaries: dict[str, CanaryCounts] = {}
    """By name of the policy."""
    pauses: tuple[Pause, ...] = ()
    overrides: tuple[Override, ...] = ()


def fresh(age_ms: int | None, within_s: float) -> bool:
    """Whether something of this age may be trusted."""
    return age_ms is not None and age_ms <= within_s * 1_000
