"""Every name `WEIR_…` that a process of Weir reads, or its tests and measurements: what is set beside them is said, as it has no effect.

Each setting is declared, with its default and its reason, by the process that reads it (docs/settings.md). Processes share an
environment, so each knows the names of all.
"""

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches

import structlog

from inference.contract.credentials import credential_variable

_log = structlog.get_logger()

PREFIX = "WEIR_"
_WITHOUT_PREFIX = {
    "control plane": """
        ALLOWED_HOSTS API_REQUESTS_PER_MINUTE BACKEND_LINK_LOCAL COMPONENT_PAGE_AFTER_S COMPONENT_TICKET_AFTER_S
        COMPONENT_UP_FOR_S CONTROLLER_HOST CONTROLLER_PORT DATABASE_URL DECISIONS_DAYS ENCRYPTION_KEYS
        FORECAST_PROCESSES GATEWAY_URL HEARTBEAT_URL HOME HTTPS KUBECONFIGS_DIR LANE_URL LOCAL_CLUSTER_URL
        LOCAL_LOGIN LOG_FORMAT LOG_LEVEL MAIL_FROM MAIL_URL METRICS_CERTIFICATE METRICS_KEY METRICS_TOKEN
        OBSERVE_EVERY_S OIDC OIDC_OUTAGE_S OIDC_REREAD_S OPERATED_BY OTLP_ENDPOINT OTLP_GRPC_PORT OTLP_HOST
        OTLP_HTTP_PORT OTLP_TOKEN OUTBOUND_ALLOW PUBLIC_URL REDIS_URL REQUIRE_SECOND_FACTOR RESOURCES_NAMESPACE
        RETENTION_DAYS ROLLUP_RETENTION_DAYS SAML SECRET_KEY SNAPSHOT_PATH SNAPSHOT_TOKEN STORE_DSN TELEMETRY_URL
        TRUSTED_PROXIES WEB_URL WORKER_METRICS
    """,
    "gateway": """
        BACKEND_CREDENTIALS_DIR CORS_ORIGINS DRAIN_TIMEOUT_MS GATEWAY_HOST GATEWAY_NAME GATEWAY_PORT
        GATEWAY_WORKERS IDLE_TIMEOUT_MS KEEPALIVE_MS LAME_DUCK_MS LANE_TOKEN LEASE_MS MAX_BODY_BYTES
        MAX_BUFFERED_BYTES MAX_CONNECTIONS OTLP_INTERVAL_MS PROBE_INTERVAL_MS PROBE_TIMEOUT_MS READ_TIMEOUT_MS
        REGION SIGNALS_INTERVAL_MS SNAPSHOT_CACHE SNAPSHOT_POLL_MS SNAPSHOT_URL TERMINATION_GRACE_MS
        TLS_CERTIFICATE TLS_CLIENT_CA TLS_KEY TOKENIZERS_DIR USER_HASH_KEY WORKER_HUNG_MS WRITE_TIMEOUT_MS
    """,
    "telemetry": """
        METRICS_MAX_SERIES OTLP_CERTIFICATE OTLP_CLIENT_CA OTLP_INFLIGHT_BYTES OTLP_KEY OTLP_MAX_BODY_BYTES
        PIPELINES ROLLUP_EVERY_S SCRAPE_TARGETS SPOOL_MAX_BYTES SPOOL_RESERVE_BYTES SPOOL_SEGMENT_BYTES STALLED_S
        STORE_PORT TRACE_OPEN_S TRACE_QUIET_S TRACE_ROOT_S
    """,
    "lane": """
        LANE_CALLBACK_ALLOW LANE_CERTIFICATE LANE_CONCURRENCY LANE_HOST LANE_KAFKA LANE_KAFKA_JOBS LANE_KAFKA_KEY
        LANE_KAFKA_PASSWORD LANE_KAFKA_PROTOCOL LANE_KAFKA_RESULTS LANE_KAFKA_USER LANE_KEY LANE_LEASE_S
        LANE_OBJECTS LANE_PORT
    """,
    "launcher": """
        BACKEND_API_KEY BACKEND_URL DEMO_POLICIES REPLICA_SLOTS TRAFFIC_RPS TRITON_REPLICAS WEB_PORT
    """,
    "without a class of settings": """
        API_TOKEN LAUNCHED_FOR MODEL_TIME_SCALE TRITON_VENV URL WORKER
    """,
    "tests": "KILL_SEED REQUIRE_ALL SERVERS_DIR SHARED_DIR SOAK TRACES",
}
NAMES = frozenset(PREFIX + name for names in _WITHOUT_PREFIX.values() for name in names.split())
BEGINNINGS = (credential_variable(""), "WEIR_BENCH_")
"""Of names that an owner or a measurement chooses."""

_OF_A_SERVICE = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_ADDRESS_OF_A_SERVICE = re.compile(r"(tcp|udp|sctp)://")
"""Kubernetes tells pods of Services by such variables, and Services may be called weir-…"""


def not_known(environment: Mapping[str, str]) -> dict[str, str]:
    """The names that nothing reads, each with the known one that is nearest, or with none."""
    names = {
        name
        for name, value in environment.items()
        if name.upper().startswith(PREFIX) and not _is_known(name.upper()) and not _is_of_a_service(name, value)
    }
    return {name: _nearest(name.upper()) for name in sorted(names)}


def as_text(environment: Mapping[str, str]) -> str:
    """The same as a text, without values: one may be a secret. Empty where all are known."""
    ignored = not_known(environment).items()
    return ", ".join(f"{name} (meant is {near}?)" if near else name for name, near in ignored)


def warn(environment: Mapping[str, str] = os.environ) -> None:
    """Log them in one line, when a process starts."""
    if names := as_text(environment):
        _log.warning(
            "settings.not_known", names=names, effect="they are ignored", remedy="docs/settings.md has all names"
        )


def _is_known(name: str) -> bool:
    return name in NAMES or name.startswith(BEGINNINGS)


def _is_of_a_service(name: str, value: str) -> bool:
    return bool(_OF_A_SERVICE.fullmatch(name) or (name.endswith("_PORT") and _ADDRESS_OF_A_SERVICE.match(value)))


def _nearest(name: str) -> str:
    near = get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in NAMES], n=1)
    return PREFIX + near[0] if near else ""
