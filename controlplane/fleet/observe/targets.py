"""Whom to ask: our own processes by the settings, replicas by the fleet's rows."""

from controlplane.config import Config
from controlplane.fleet.models import Observation, Replica
from controlplane.fleet.observe import probes
from controlplane.fleet.observe.ready import Names
from controlplane.fleet.observe.round import Target
from controlplane.secrets import read_secret

GATEWAY_NAMES = Names("weir_gateway_requests_total", "weir_gateway_requests_total", frozenset({"error"}))
TELEMETRY_NAMES = Names("weir_telemetry_spans_total", "weir_telemetry_refused_spans_total")


def targets(config: Config) -> list[Target]:
    gateway_token = config.metrics_token or read_secret(config.home / "gateway-key") or ""
    kinds = Observation.Kind
    return [
        Target("gateway", kinds.GATEWAY, probes.process(config.gateway_url, gateway_token, GATEWAY_NAMES)),
        Target("redis", kinds.CACHE, probes.redis(config.redis_url)),
        Target(
            "telemetry", kinds.TELEMETRY, probes.process(config.telemetry_url, config.metrics_token, TELEMETRY_NAMES)
        ),
        *(
            Target(
                component(replica),
                kinds.REPLICA,
                probes.replica(replica.http, replica.metrics, replica.pool.model_name),
            )
            for replica in Replica.objects.select_related("pool").exclude(http="")
        ),
    ]


def component(replica: Replica) -> str:
    """The observation's name for a replica."""
    return f"{replica.pool.name}/{replica.name}"
