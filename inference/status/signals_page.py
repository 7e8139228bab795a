"""Makes what `GET /signals` says of the samples that the metrics page has, so that several workers are added up in one way."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from inference.backends.fleet import PoolState
from inference.backends.replica import Replica
from inference.contract.gateway_signals import GatewaySignals, ModelSignals, Obeyed, PoolSignals, ReplicaSignals
from inference.observability.families import Family, Sample
from inference.observability.metrics import Labelled, Metrics
from inference.status.labelled import PREFIX, of_pool, of_pools, of_replica

_FLAGS = ("draining", "warming")
_INTS = frozenset(
    (
        "arrived",
        "lines",
        "answered",
        "shed",
        "input_tokens",
        "output_tokens",
        "queue_wait_count",
        "waiting",
        "in_flight",
        "lines_in_flight",
    )
)


def counters(pools: Iterable[PoolState], metrics: Metrics) -> list[Labelled]:
    """What has been asked for, and what became of it, since the start."""
    pools = list(pools)

    def named(of: Callable[[PoolState], object], *names: str) -> Callable[[PoolState], dict[str, float]]:
        return lambda state: {name: float(getattr(of(state), name)) for name in names}

    def tokens(state: PoolState) -> dict[str, float]:
        return {"input": float(state.tally.input_tokens), "output": float(state.tally.output_tokens)}

    about_events = "Requests that need an inference, by what became of them."
    about_warmed = "Replicas that were warmed up, or were given up and get requests all the same."
    about_requests = "Requests that warmed replicas up, by how they ended."
    about_waits = "How long requests have waited for a place."
    about_models, by_model = "Requests for a model, by what became of them.", ("model", "tier", "event")
    events = named(lambda state: state.tally, "arrived", "lines", "answered", "shed")
    outcomes = named(lambda state: state.warm_ups, "answered", "failed")
    warmed = named(lambda state: state.warm_ups, "warmed", "given_up")
    return [
        of_pools(pools, "pool_requests", about_events, "event", events),
        of_pools(pools, "warm_up_requests", about_requests, "outcome", outcomes),
        of_pools(pools, "warm_ups", about_warmed, "outcome", warmed),
        of_pools(pools, "pool_tokens", "Tokens of inferences that were answered.", "direction", tokens),
        of_pool(pools, "queue_wait_seconds", about_waits, lambda state: state.tally.waited_s),
        of_pool(pools, "queue_waits", "Requests that asked for a place.", lambda state: state.tally.waits),
        ("weir_gateway_model_requests", about_models, by_model, metrics.tallies()),
    ]


def gauges(pools: Iterable[PoolState], now_s: float) -> list[Labelled]:
    """How things stand. What a server does not say is left out: it is unknown, and not 0."""
    pools = list(pools)

    pool, replica = partial(of_pool, pools), partial(of_replica, pools)

    def said(name: str, text: str) -> Labelled:
        return replica(name, text, lambda it: getattr(it.load.signals, name, None))

    def age_s(it: Replica) -> float | None:
        return None if it.load.signals is None else now_s - it.load.signals.at_s

    about_draining = "Whether the replica gets no new requests because it is to end."
    about_warming = "Whether the replica gets no users' requests yet because it answers warm-up requests first."
    return [
        pool("in_flight", "Requests that hold a place in a pool.", lambda state: state.admission.in_flight),
        pool("lines_in_flight", "Lines of them that can wait.", lambda state: state.tally.lines_in_flight),
        pool("waiting", "Requests that wait for a place in a pool.", lambda state: state.admission.waiting),
        replica("in_flight", "Requests at a replica.", lambda it: it.in_flight),
        replica("up", "Whether the replica's model is ready.", lambda it: it.health.state == "up"),
        replica("draining", about_draining, lambda it: it.draining),
        replica("warming", about_warming, lambda it: it.warming.kept_back),
        replica("signals_age_seconds", "How old is what the replica's server said of its load.", age_s),
        said("waiting", "Requests that the replica's server has and has not begun, of all gateways."),
        said("running", "Requests that the replica's server works on, of all gateways."),
        said("kv_use", "Share of the replica's KV cache in use."),
    ]


def families(counted: Iterable[Labelled], standing: Iterable[Labelled]) -> list[Family]:
    """Counters and gauges as a page of one process has them."""
    return [
        Family(
            name,
            text,
            kind,
            [Sample(name + suffix, dict(zip(labels, key, strict=True)), value) for key, value in values.items()],
        )
        for kind, suffix, parts in (("counter", "_total", counted), ("gauge", "", standing))
        for name, text, labels, values in parts
    ]


def signals_of(
    families: Iterable[Family], *, at_ms: int, gateway: str, region: str, workers: int = 1
) -> GatewaySignals:
    """The signals of one process or of several."""
    by_name = {family.name.removeprefix(PREFIX): family.samples for family in families}

    def total(name: str) -> float:
        return sum(sample.value for sample in by_name.get(name, ()))

    replicas = _replicas(by_name)
    models: defaultdict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for sample in by_name.get("model_requests", ()):
        models[sample.labels["model"]][sample.labels["tier"]][sample.labels["event"]] = int(sample.value)
    return GatewaySignals(
        at_ms=at_ms,
        started_ms=round(total("process_start_time_seconds") * 1000),
        gateway=gateway,
        region=region,
        requests=int(total("requests")),
        cpu_s=total("process_cpu_seconds"),
        snapshot=Obeyed(*(int(total(name)) for name in ("policy_version", "endpoints_version", "overlay_version"))),
        pools={
            name: msgspec.convert({**fields, "replicas": replicas.get(name, {})}, PoolSignals)
            for name, fields in _pools(by_name).items()
        },
        models=msgspec.convert(models, dict[str, dict[str, ModelSignals]]),
        workers=workers,
    )


_POOL_FIELDS = {
    "pool_queue_wait_seconds": "queue_wait_s_sum",
    "pool_queue_waits": "queue_wait_count",
    "pool_waiting": "waiting",
    "pool_in_flight": "in_flight",
    "pool_lines_in_flight": "lines_in_flight",
}


def _pools(by_name: dict[str, list[Sample]]) -> dict[str, dict[str, float | int]]:
    pools: defaultdict[str, dict[str, float | int]] = defaultdict(dict)

    def put(sample: Sample, field: str) -> None:
        pools[sample.labels["pool"]][field] = int(sample.value) if field in _INTS else sample.value

    for sample in by_name.get("pool_requests", ()):
        put(sample, sample.labels["event"])
    for sample in by_name.get("pool_tokens", ()):
        put(sample, f"{sample.labels['direction']}_tokens")
    for name, field in _POOL_FIELDS.items():
        for sample in by_name.get(name, ()):
            put(sample, field)
    return pools


def _replicas(by_name: dict[str, list[Sample]]) -> dict[str, dict[str, ReplicaSignals]]:
    fields: defaultdict[tuple[str, str], dict[str, float | int | bool]] = defaultdict(dict)
    for name in ("in_flight", "up", *_FLAGS, "waiting", "running", "kv_use", "signals_age_seconds"):
        for sample in by_name.get(f"replica_{name}", ()):
            value: float | int | bool = sample.value
            if name in ("up", *_FLAGS):
                value = sample.value > 0
            elif name == "in_flight":
                value = int(sample.value)
            fields[sample.labels["pool"], sample.labels["replica"]][name.replace("signals_age_seconds", "age_s")] = (
                value
            )
    replicas: defaultdict[str, dict[str, ReplicaSignals]] = defaultdict(dict)
    for (pool, replica), values in fields.items():
        replicas[pool][replica] = msgspec.convert(values, ReplicaSignals)
    return replicas
