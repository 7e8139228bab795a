"""Lists the components to probe: our own processes from the settings, replicas from the fleet."""

from controlplane.config import Config
from controlplane.fleet.metrics_pages import metrics_pages
from controlplane.fleet.models import Observation, Replica
from controlplane.fleet.observe import probes
from controlplane.fleet.observe.core.ready import CACHE_FAULTS, SIMILAR_WRONG, SPANS_REFUSED, Count, Fault, Names
from controlplane.fleet.observe.round import TIMEOUT_S, Target

GATEWAY = Names(
    counts=(
        Count("requests", "weir_gateway_requests_total"),
        Count("errors", "weir_gateway_requests_total", frozenset({"error"})),
        Count("rejected", "weir_gateway_requests_total", frozenset({"rejected"})),
        Count("dropped_traces", "weir_gateway_traces_dropped_total"),
    ),
    gauges=(
        ("in_flight", "weir_gateway_requests_in_flight"),
        ("waiting", "weir_gateway_pool_waiting"),
        ("policy_version", "weir_gateway_policy_version"),
    ),
    faults=(
        SPANS_REFUSED,  # it pages: a long list does not cut it off
        Fault("weir_gateway_pool_replicas_up", 0, "no replica is up in pool {pool}"),
        *CACHE_FAULTS,
        SIMILAR_WRONG,
        Fault("weir_gateway_policy_stale", 1, "it obeys an older policy snapshot, because it refused the newest"),
        Fault("weir_gateway_policy_fault", 1, "it refused {kind} {name} of the policy snapshot: /readyz says why"),
    ),
    notes=(
        Fault("weir_gateway_connection_in_the_clear", 1, "in the clear: {to} at {where}"),
        Fault("weir_gateway_certificate_fault", 1, "its certificate {reason}"),
    ),
)
TELEMETRY = Names(
    counts=(
        Count("requests", "weir_ingest_stored_requests_total"),
        Count("spans", "weir_ingest_stored_spans_total"),
        Count("errors", "weir_ingest_rejected_spans_total"),
    ),
    gauges=(
        ("lag_s", "weir_ingest_lag_seconds"),
        ("behind_s", "weir_ingest_behind_seconds"),
        ("spool_bytes", "weir_spool_bytes"),
    ),
    faults=(
        Fault("weir_store_reachable", 0, "the store does not answer it: spans wait in the spool"),
        Fault("weir_spool_accepting", 0, "it refuses spans: its spool is full, or its disk takes nothing"),
    ),
    notes=(
        Fault("weir_ingest_catching_up", 1, "it works off a backlog: the newest requests are not in the ledger yet"),
        Fault(
            "weir_rollup_catching_up",
            1,
            "it fills rollups of the past, {0:.0%} done: pages of it are slow until then",
            ("weir_rollup_done_ratio",),
        ),
    ),
)
LANE = Names(
    counts=(Count("lines", "weir_lane_lines_total"), Count("errors", "weir_lane_lines_total", frozenset({"refused"}))),
    gauges=(("in_flight", "weir_lane_lines_in_flight"),),
)


def targets(config: Config) -> list[Target]:
    kinds = Observation.Kind
    replicas = list(Replica.objects.select_related("pool"))
    pages = metrics_pages(replicas)
    reports = probes.GatewayReports(config.gateway_url, config.metrics_token, TIMEOUT_S / 2)
    return [
        Target("gateway", kinds.GATEWAY, probes.process(config.gateway_url, config.metrics_token, GATEWAY)),
        Target("redis", kinds.CACHE, probes.redis(config.redis_url)),
        Target("telemetry", kinds.TELEMETRY, probes.process(config.receiver_url, config.otlp_token, TELEMETRY)),
        *(
            [Target("lane", kinds.LANE, probes.process(config.lane_url, config.metrics_token, LANE))]
            if config.lane_url
            else []
        ),
        *(
            Target(replica.component, kinds.REPLICA, _probe(replica, pages[replica.pk], reports))
            for replica in replicas
        ),
    ]


def _probe(replica: Replica, page: str, reports: probes.GatewayReports) -> probes.Probe:
    pool = replica.pool
    if pool.protocol == "openai":
        return probes.openai_replica(page, reports, pool.name, replica.name)
    own = probes.triton_server(replica.http, page, pool.model_name) if replica.http else None
    return probes.triton_replica(own, reports, pool.name, replica.name)
