"""Merges observations and the ledger into the rows of the overview.

A component that was never observed is `unknown`. One that was observed too long ago is `stale`. Neither shows figures.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from controlplane.core.formatting import TEXT

State = Literal["up", "degraded", "starting", "down", "stale", "unknown"]
MAX_START_S = 300.0
"""For so long after it was first seen, a replica that has never been up is starting, and not down."""

SHOWN_AS = {
    "gateway": "Gateway",
    "redis": "Redis",
    "telemetry": "Telemetry",
    "lane": "Lane",
    "worker": "Worker",
    "controller": "Controller",
    "policies": "Policies",
}
PROCESSES = (
    ("gateway", "gateway"),
    ("redis", "cache"),
    ("telemetry", "telemetry"),
    ("worker", "worker"),
    ("controller", "controller"),
)
"""Component and kind of what every installation has, in the order in which a request meets them."""

LANE = ("lane", "lane")
"""The same of what an installation has where it serves batches."""

RATE_FIGURES = {"cache": "commands_per_s", "telemetry": "spans_per_s", "lane": "lines_per_s"}
"""The figure that says how much a kind of component does; `requests_per_s` for the others."""


class Traffic(Protocol):
    """What the ledger saw of one pool or replica in a window (`controlplane.telemetry.core.query_types.Health`)."""

    @property
    def requests(self) -> int: ...
    @property
    def errors(self) -> int: ...
    @property
    def p95_ms(self) -> float | None: ...
    @property
    def newest_ns(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Observed:
    component: str
    state: Literal["up", "degraded", "down"]
    observed_at: datetime
    figures: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    up_at: datetime | None = None  # last seen up or degraded
    down_since: datetime | None = None  # first seen down; None while it is not
    server: str = ""  # what a replica is, in words


@dataclass(frozen=True, slots=True)
class ReplicaEntry:
    name: str
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class PoolEntry:
    name: str
    model: str
    variant: str
    region: str
    enabled: bool = True
    replicas: tuple[ReplicaEntry, ...] = ()
    owner: str = ""  # the team of the model
    runs_in: str = ""  # what its servers speak, and their cluster, in words


@dataclass(frozen=True, slots=True)
class PoolServer:
    """What a pool's replicas call the model, and the addresses of their metrics by replica's name (empty: none)."""

    pool: str
    model_name: str
    replicas: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the ledger saw in the last `window_s` seconds, or since its first request where that is later."""

    window_s: float
    overall: Traffic | None
    pools: Mapping[str, Traffic]
    replicas: Mapping[tuple[str, str], Traffic]  # by pool and replica, as spans name them: the attempts made at it


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the overview. None means "not known", and is never drawn as zero."""

    component: str  # unique: "gateway", "pool:chat-large-local", "chat-large-local/triton-0"
    name: str  # on the page
    kind: str  # "gateway", "cache", "telemetry", "worker", "pool", "replica"
    state: State
    rate_per_s: float | None = None
    errors_per_s: float | None = None
    p95_ms: float | None = None
    age_s: float | None = None  # of the observation behind `state`
    traffic_age_s: float | None = None  # of the newest request that the ledger saw
    detail: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    pool: str = ""  # of a replica


def rows(
    pools: Iterable[PoolEntry], observed: Iterable[Observed], ledger: Ledger | None, now: datetime, stale_after_s: float
) -> list[Row]:
    """The processes in the order in which a request meets them, then each pool followed by its replicas."""
    seen = {observation.component: observation for observation in observed}
    processes = (*PROCESSES, LANE) if LANE[0] in seen else PROCESSES
    stack = [_process(name, kind, seen.get(name), ledger, now, stale_after_s) for name, kind in processes]
    for pool in sorted(pools, key=lambda pool: pool.name):
        replicas = [
            _replica(pool, replica, seen.get(f"{pool.name}/{replica.name}"), ledger, now, stale_after_s)
            for replica in sorted(pool.replicas, key=lambda replica: replica.name)
            if replica.enabled
        ]
        stack += [_pool(pool, replicas, ledger, now), *replicas]
    return stack


def judge(observed: Observed | None, now: datetime, stale_after_s: float) -> tuple[State, float | None]:
    """The state that an observation stands for at `now`, and its age in seconds."""
    if observed is None:
        return "unknown", None
    age_s = max(0.0, (now - observed.observed_at).total_seconds())
    return ("stale" if age_s > stale_after_s else observed.state), age_s


def is_starting(observed: Observed, now: datetime, max_start_s: float) -> bool:
    """Whether what is down has never been up, and has not had its time yet."""
    since = observed.down_since or observed.observed_at
    return observed.up_at is None and (now - since).total_seconds() < max_start_s


def overall(states: Sequence[State]) -> State:
    """A pool's state from its replicas' states. One whose state is not known makes it degraded at best; those that start are left out."""
    if not states:
        return "unknown"
    if "starting" in states and (started := [state for state in states if state != "starting"]):
        return overall(started)
    if all(state == states[0] for state in states):
        return states[0]
    if any(state in ("up", "degraded") for state in states):
        return "degraded"
    return "down" if "down" in states else "stale"


def _process(
    name: str, kind: str, observed: Observed | None, ledger: Ledger | None, now: datetime, stale_after_s: float
) -> Row:
    state, age_s = judge(observed, now, stale_after_s)
    figures = observed.figures if observed and state in ("up", "degraded") else {}
    traffic = ledger.overall if ledger and name == "gateway" else None
    return Row(
        component=name,
        name=SHOWN_AS[name],
        kind=kind,
        state=state,
        rate_per_s=figures.get(RATE_FIGURES.get(kind, "requests_per_s")),
        errors_per_s=figures.get("errors_per_s"),
        p95_ms=traffic.p95_ms if traffic else None,
        age_s=age_s,
        traffic_age_s=_age_s(traffic, now),
        detail=_detail(observed, state, name),
        figures=figures,
    )


def _replica(
    pool: PoolEntry,
    replica: ReplicaEntry,
    observed: Observed | None,
    ledger: Ledger | None,
    now: datetime,
    stale_after_s: float,
) -> Row:
    state, age_s = judge(observed, now, stale_after_s)
    if state == "down" and observed and is_starting(observed, now, MAX_START_S):
        state = "starting"
    figures = observed.figures if observed and state in ("up", "degraded") else {}
    traffic = ledger.replicas.get((pool.name, replica.name)) if ledger else None
    parts = (observed.server if observed else "", _detail(observed, state))
    return Row(
        component=f"{pool.name}/{replica.name}",
        name=replica.name,
        kind="replica",
        state=state,
        # The rate is the server's own where it counts, so it includes other clients. Errors are the gateway's: a server that is
        # down counts none.
        rate_per_s=figures.get("requests_per_s", _per_s(ledger, traffic, "requests") if state == "up" else None),
        errors_per_s=_per_s(ledger, traffic, "errors"),
        p95_ms=traffic.p95_ms if traffic else None,
        age_s=age_s,
        traffic_age_s=_age_s(traffic, now),
        detail=" · ".join(filter(None, parts)),
        figures=figures,
        pool=pool.name,
    )


def _pool(pool: PoolEntry, replicas: Sequence[Row], ledger: Ledger | None, now: datetime) -> Row:
    traffic = ledger.pools.get(pool.name) if ledger else None
    healthy = sum(row.state == "up" for row in replicas)
    ages = [row.age_s for row in replicas if row.age_s is not None]
    serves = f"{pool.variant} of {pool.model} in {pool.region}"
    if not pool.enabled:
        detail = f"disabled · {serves}"
    elif not replicas:
        detail = f"no replica: add one in the admin · {serves}"
    else:
        counted = [(sum(row.state == "starting" for row in replicas), "starting")]
        counted += [(sum(row.state in ("stale", "unknown") for row in replicas), "not known")]
        more = "".join(f", {count} {what}" for count, what in counted if count)
        detail = f"{healthy} of {TEXT.counted(len(replicas), 'replica')} up{more} · {serves}"
    return Row(
        component=f"pool:{pool.name}",
        name=pool.name,
        kind="pool",
        state=overall([row.state for row in replicas]),
        rate_per_s=_per_s(ledger, traffic, "requests"),
        errors_per_s=_per_s(ledger, traffic, "errors"),
        p95_ms=traffic.p95_ms if traffic else None,
        age_s=max(ages) if ages else None,
        traffic_age_s=_age_s(traffic, now),
        detail=detail,
    )


def _per_s(ledger: Ledger | None, traffic: Traffic | None, what: Literal["requests", "errors"]) -> float | None:
    """Zero for a pool that is not in the ledger, and None without a ledger."""
    if ledger is None or ledger.window_s <= 0:
        return None
    return float(getattr(traffic, what)) / ledger.window_s if traffic else 0.0


def _age_s(traffic: Traffic | None, now: datetime) -> float | None:
    if traffic is None or traffic.newest_ns is None:
        return None
    return max(0.0, now.timestamp() - traffic.newest_ns / 1e9)


def _detail(observed: Observed | None, state: State, component: str = "") -> str:
    """The controller writes its own observation, a task of the worker its, and the worker all others."""
    watcher = "controller" if component == "controller" else "worker"
    if observed is None:
        return f"not observed yet: does the {watcher} run?"
    if state == "stale":
        seen = "no task of it has run" if component == "worker" else f"the {watcher} has not looked"
        return f"last seen {observed.state}; {seen} since"
    return observed.error
