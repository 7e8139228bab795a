"""Lists the parts of Weir on one machine: the command of each, what it needs, and its probes."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from controlplane.config.secrets import read_or_make_secret
from deploy.local import backend, fleet
from deploy.local.backend import Server
from deploy.local.cluster.replicas import LocalCluster
from deploy.local.home_lock import MARK, region_prefix
from deploy.local.options import Options
from deploy.local.ports import LOOPBACK, free_ports
from deploy.local.process import Command, http_ok, http_status
from deploy.local.redis import redis
from deploy.local.supervisor import Part
from inference.contract.credentials import credential_variable

POLICIES = Path(__file__).with_name("policies")


@dataclass(frozen=True, slots=True)
class Local:
    """Everything that `make run` starts. `cluster` has the replicas of the demo models; its API is served at `cluster_port`."""

    parts: list[Part]
    cluster: LocalCluster
    cluster_port: int
    cluster_token: str


def build(options: Options, servers: Sequence[Server]) -> Local:
    """Every part. Inner ports are chosen free. Writes `run/fleet.json` and Redis's configuration into the home. In front of
    `servers` there are neither demo models nor traffic.
    """
    home = options.home
    redis_port, store_port, controller_port, worker_port, cluster_port, lane_port = free_ports(6)
    mark = {MARK: str(home)}
    otlp = f"http://{LOOPBACK}:{options.otlp_http_port}"

    parts: list[Part] = []
    redis_url = options.redis_url
    worker_waits: Callable[[], bool] = _always
    if not redis_url:
        server = redis(redis_port, home / "redis", password=read_or_make_secret(home / "redis-password"))
        redis_url, worker_waits = server.url, server.has_consumer
        command = server.command
        parts.append(Part(replace(command, env={**command.env, **mark})))
    needs_redis = tuple(part.name for part in parts)

    plans = [] if servers else fleet.pools(options.triton_replicas, otlp, region_prefix(home), mark)
    cluster = LocalCluster(plans, options.replica_slots, home / "logs")
    cluster_token = read_or_make_secret(home / "cluster-token")
    replicas = cluster.parts()
    parts += replicas
    fleet_file = home / "run" / "fleet.json"
    served = backend.fleet(servers, bool(options.backend_api_key)) if servers else fleet.fleet(cluster.state())
    fleet_file.write_text(json.dumps(served, indent=2))

    metrics_token = os.environ.get("WEIR_METRICS_TOKEN") or read_or_make_secret(home / "metrics-token")
    base = {
        **mark,
        "WEIR_HOME": str(home),
        "WEIR_REDIS_URL": redis_url,
        "WEIR_METRICS_TOKEN": metrics_token,
        "PYTHONUNBUFFERED": "1",
    }
    gateway_url = os.environ.get("WEIR_GATEWAY_URL") or options.gateway_url
    store_password = read_or_make_secret(home / "store-password")
    store_dsn = options.store_dsn or f"clickhouse://weir:{store_password}@{LOOPBACK}:{store_port}/weir"
    control = {
        **base,
        "WEIR_STORE_DSN": store_dsn,
        "WEIR_GATEWAY_URL": gateway_url,
        "WEIR_WEB_URL": f"http://{LOOPBACK}:{options.web_port}",
        "WEIR_PUBLIC_URL": os.environ.get("WEIR_PUBLIC_URL") or f"http://{LOOPBACK}:{options.web_port}",
        "WEIR_WORKER_METRICS": f"{LOOPBACK}:{worker_port}",
        "WEIR_CONTROLLER_PORT": str(controller_port),
        "WEIR_LANE_URL": f"http://{LOOPBACK}:{lane_port}",
        "WEIR_LOCAL_CLUSTER_URL": "" if servers else f"http://{LOOPBACK}:{cluster_port}",
    }
    receiver = {
        **base,
        "WEIR_STORE_DSN": options.store_dsn,  # empty: telemetry embeds one, at this port
        "WEIR_STORE_PORT": str(store_port),
        "WEIR_OTLP_HTTP_PORT": str(options.otlp_http_port),
        "WEIR_OTLP_GRPC_PORT": str(options.otlp_grpc_port),
    }
    sender = {**base, "WEIR_OTLP_ENDPOINT": otlp}
    ending = {"WEIR_LAME_DUCK_MS": "0", "WEIR_DRAIN_TIMEOUT_MS": "3000"}  # there is no load balancer here
    token = {"WEIR_LANE_TOKEN": os.environ.get("WEIR_LANE_TOKEN") or read_or_make_secret(home / "lane-token")}
    lane = {**base, **token, "WEIR_GATEWAY_URL": gateway_url, "WEIR_LANE_PORT": str(lane_port)}
    lane_url = {"WEIR_LANE_URL": f"http://{LOOPBACK}:{lane_port}", **token}
    gateway = {**sender, **ending, **lane_url, "WEIR_GATEWAY_PORT": str(options.gateway_port)}
    credential = {credential_variable(backend.CREDENTIAL): options.backend_api_key} if options.backend_api_key else {}
    gateway |= credential
    watched = {**control, "WEIR_OTLP_ENDPOINT": otlp}  # web and worker send their own spans too
    traffic = {**sender, "WEIR_GATEWAY_URL": gateway_url, "WEIR_TRAFFIC_RPS": str(options.traffic_rps)}

    prepare = ("-m", "deploy.local.prepare", str(fleet_file), *([str(POLICIES)] if options.demo_policies else []))
    after_set_up = ("prepare", *needs_redis)
    parts += [
        Part(_python("prepare", control, *prepare), needs_redis, once=True),
        Part(_python("static", control, *COLLECT), once=True),  # a part of its own, because it takes longest
        Part(_server("telemetry", receiver, options.otlp_http_port, "-m", "controlplane.telemetry"), needs_redis),
        Part(_server("web", watched, options.web_port, *_granian(options.web_port)), ("static", *after_set_up)),
        Part(
            replace(
                _python("worker", {**watched, **credential}, *CELERY),
                ready=worker_waits,
                answers=partial(http_status, worker_port, "/healthz"),
            ),
            after_set_up,
        ),
        Part(
            _server("controller", watched, controller_port, "-m", "controlplane.controller"),
            ("telemetry", *after_set_up),
        ),
        Part(_server("lane", lane, lane_port, "-m", "controlplane.lane"), after_set_up),
        Part(
            _server("gateway", gateway, options.gateway_port, "-m", "inference", tls=bool(options.tls_certificate)),
            after_set_up,
        ),
    ]
    if options.traffic_rps and not servers:
        needs = ("gateway", "telemetry", *(replica.name for replica in replicas))
        parts.append(Part(_python("traffic", traffic, "-m", "deploy.local.traffic"), needs))
    return Local(parts, cluster, cluster_port, cluster_token)


COLLECT = ("manage.py", "collect", "--ignore", "redoc*")  # django-ninja's second page of API docs, which is not served
CELERY = ("-m", "celery", "-A", "controlplane.celery", "worker", "-B", "--loglevel", "INFO")


def _granian(port: int) -> tuple[str, ...]:
    options = f"--interface asginl --loop uvloop --host {LOOPBACK} --port {port}"
    return ("-m", "granian", *options.split(), "controlplane.asgi:application")


def _server(name: str, env: Mapping[str, str], port: int, *arguments: str, tls: bool = False) -> Command:
    """A part that answers /readyz when it can serve, and /healthz while it runs."""
    return replace(
        _python(name, env, *arguments),
        ready=partial(http_ok, port, "/readyz", tls=tls),
        answers=partial(http_status, port, "/healthz", tls=tls),
    )


def _python(name: str, env: Mapping[str, str], *arguments: str) -> Command:
    return Command(name, (sys.executable, *arguments), _always, env=env, start_s=300.0)


def _always() -> bool:
    """The readiness of a part without a port: it is ready when it runs."""
    return True
