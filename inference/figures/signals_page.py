"""Makes what `GET /signals` says of the samples that the metrics page has, so that several workers are added up in one way."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from inference.backends.fleet import PoolState
from inference.contract.gateway_signals import GatewaySignals, ModelSignals, Obeyed, PoolSignals, ReplicaSignals
from inference.observability.families import Family, Sample
from inference.observability.metrics import Labelled, Metrics

PREFIX = "weir_gateway_"
_POOL_COUNTS = ("arrived", "answered", "shed")
_FLAGS = ("draining", "warming")
_INTS = frozenset(
    ("arrived", "answered", "shed", "input_tokens", "output_tokens", "queue_wait_count", "waiting", "in_flight")
)


def counters(pools: Iterable[PoolState], metrics: Metrics) -> list[Labelled]:
    """What has been asked for, and what became of it, since the start."""
    pools = list(pools)
    tallies = [(state.pool.name, state.tally) for state in pools]
    return [
        (
            "weir_gateway_pool_requests",
            "Requests that need an inference, by what became of them.",
            ("pool", "event"),
            {(name, event): float(getattr(tally, event)) for name, tally in tallies for event in _POOL_COUNTS},
        ),
        (
            "weir_gateway_warm_up_requests",
            "Requests that warmed replicas up, by how they ended.",
            ("pool", "outcome"),
            {
                (state.pool.name, outcome): float(getattr(state.warm_ups, outcome))
                for state in pools
                for outcome in ("answered", "failed")
            },
        ),
        (
            "weir_gateway_warm_ups",
            "Replicas that were warmed up, or were given up and get requests all the same.",
            ("pool", "outcome"),
            {
                (state.pool.name, outcome): float(getattr(state.warm_ups, outcome))
                for state in pools
                for outcome in ("warmed", "given_up")
            },
        ),
        (
            "weir_gateway_pool_tokens",
            "Tokens of inferences that were answered.",
            ("pool", "direction"),
            {
                (name, direction): float(tokens)
                for name, tally in tallies
                for direction, tokens in (("input", tally.input_tokens), ("output", tally.output_tokens))
            },
        ),
        (
            "weir_gateway_pool_queue_wait_seconds",
            "How long requests have waited for a place.",
            ("pool",),
            {(name,): tally.waited_s for name, tally in tallies},
        ),
        (
            "weir_gateway_pool_queue_waits",
            "Requests that asked for a place.",
            ("pool",),
            {(name,): float(tally.waits) for name, tally in tallies},
        ),
        (
            "weir_gateway_model_requests",
            "Requests for a model, by what became of them.",
            ("model", "tier", "event"),
            metrics.tallies(),
        ),
    ]


def gauges(pools: Iterable[PoolState], now_s: float) -> list[Labelled]:
    """How things stand. What a server does not say is left out: it is unknown, and not 0."""
    pools = list(pools)
    by_replica: tuple[str, ...] = ("pool", "replica")
    replicas = [((state.pool.name, replica.name), replica) for state in pools for replica in state.replicas]
    said = [(key, replica.load.signals) for key, replica in replicas]
    out: list[Labelled] = [
        (
            "weir_gateway_pool_in_flight",
            "Requests that hold a place in a pool.",
            ("pool",),
            {(state.pool.name,): float(state.admission.in_flight) for state in pools},
        ),
        (
            "weir_gateway_pool_waiting",
            "Requests that wait for a place in a pool.",
            ("pool",),
            {(state.pool.name,): float(state.admission.waiting) for state in pools},
        ),
        (
            "weir_gateway_replica_in_flight",
            "Requests at a replica.",
            by_replica,
            {key: float(replica.in_flight) for key, replica in replicas},
        ),
        (
            "weir_gateway_replica_up",
            "Whether the replica's model is ready.",
            by_replica,
            {key: float(replica.health.state == "up") for key, replica in replicas},
        ),
        (
            "weir_gateway_replica_draining",
            "Whether the replica gets no new requests because it is to end.",
            by_replica,
            {key: float(replica.draining) for key, replica in replicas},
        ),
        (
            "weir_gateway_replica_warming",
            "Whether the replica gets no users' requests yet because it answers warm-up requests first.",
            by_replica,
            {key: float(replica.warming.kept_back) for key, replica in replicas},
        ),
        (
            "weir_gateway_replica_signals_age_seconds",
            "How old is what the replica's server said of its load.",
            by_replica,
            {key: now_s - signals.at_s for key, signals in said if signals is not None},
        ),
    ]
    for name, text in (
        ("waiting", "Requests that the replica's server has and has not begun, of all gateways."),
        ("running", "Requests that the replica's server works on, of all gateways."),
        ("kv_use", "Share of the replica's KV cache in use."),
    ):
        values: dict[tuple[str, ...], float] = {
            key: float(value)
            for key, signals in said
            if signals is not None and (value := getattr(signals, name)) is not None
        }
        out.append((f"weir_gateway_replica_{name}", text, by_replica, values))
    return out


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
    models: defaultdict[str, dict[str, ModelSignals]] = defaultdict(dict)
    for (model, tier), counts in _grouped(by_name.get("model_requests", ()), "model", "tier"):
        models[model][tier] = ModelSignals(**{sample.labels["event"]: int(sample.value) for sample in counts})
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
        models=dict(models),
        workers=workers,
    )


_POOL_FIELDS = {
    "pool_queue_wait_seconds": "queue_wait_s_sum",
    "pool_queue_waits": "queue_wait_count",
    "pool_waiting": "waiting",
    "pool_in_flight": "in_flight",
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


def _grouped(samples: Iterable[Sample], *labels: str) -> Iterator[tuple[tuple[str, ...], list[Sample]]]:
    groups: defaultdict[tuple[str, ...], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[tuple(sample.labels[label] for label in labels)].append(sample)
    yield from groups.items()
