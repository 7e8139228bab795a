"""Lists the parts of Weir on one machine: the command of each, what it needs, and its probes."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from controlplane.config.secrets import read_or_make_secret
from deploy.local import fleet
from deploy.local.home import MARK, region_prefix
from deploy.local.options import Options
from deploy.local.ports import LOOPBACK, free_ports
from deploy.local.process import Command, http_ok, http_status
from deploy.local.redis import redis
from deploy.local.supervisor import Part
from deploy.local.triton import triton


def build(options: Options) -> list[Part]:
    """Every part. Inner ports are chosen free. Writes `run/fleet.json` and Redis's configuration into the home."""
    home = options.home
    redis_port, store_port, controller_port, worker_port, *triton_ports = free_ports(4 + 3 * options.triton_replicas)
    mark = {MARK: str(home)}
    otlp = f"http://{LOOPBACK}:{options.otlp_http_port}"

    parts: list[Part] = []
    redis_url = options.redis_url
    worker_waits: Callable[[], bool] = _always
    if not redis_url:
        server = redis(redis_port, home / "redis", password=read_or_make_secret(home / "redis-password"))
        redis_url, worker_waits = server.url, server.has_consumer
        parts.append(Part(_marked(server.command, mark)))
    needs_redis = tuple(part.name for part in parts)

    replicas = [
        triton(
            (grpc, http, metrics),
            name=f"triton-{number}",
            otlp_endpoint=otlp,
            region_prefix=f"{region_prefix(home)}{number}_",
        )
        for number, (grpc, http, metrics) in enumerate(zip(*[iter(triton_ports)] * 3, strict=True))
    ]
    parts += [Part(_marked(replica.command, mark)) for replica in replicas]
    fleet_file = home / "run" / "fleet.json"
    fleet.write(fleet_file, replicas)

    metrics_token = os.environ.get("WEIR_METRICS_TOKEN") or read_or_make_secret(home / "metrics-token")
    base = {
        **mark,
        "WEIR_HOME": str(home),
        "WEIR_REDIS_URL": redis_url,
        "WEIR_METRICS_TOKEN": metrics_token,
        "PYTHONUNBUFFERED": "1",
    }
    gateway_url = f"http://{LOOPBACK}:{options.gateway_port}"
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
    gateway = {**sender, **ending, "WEIR_GATEWAY_PORT": str(options.gateway_port)}
    watched = {**control, "WEIR_OTLP_ENDPOINT": otlp}  # web and worker send their own spans too
    traffic = {**sender, "WEIR_GATEWAY_URL": gateway_url, "WEIR_TRAFFIC_RPS": str(options.traffic_rps)}

    after_set_up = ("prepare", *needs_redis)
    parts += [
        Part(_python("prepare", control, "-m", "deploy.local.prepare", str(fleet_file)), needs_redis, once=True),
        Part(_python("static", control, *COLLECT), once=True),  # a part of its own, because it takes longest
        Part(_server("telemetry", receiver, options.otlp_http_port, "-m", "controlplane.telemetry"), needs_redis),
        Part(_server("web", watched, options.web_port, *_granian(options.web_port)), ("static", *after_set_up)),
        Part(
            replace(
                _python("worker", watched, *CELERY),
                ready=worker_waits,
                answers=partial(http_status, worker_port, "/healthz"),
            ),
            after_set_up,
        ),
        Part(
            _server("controller", watched, controller_port, "-m", "controlplane.controller"),
            ("telemetry", *after_set_up),
        ),
        Part(_server("gateway", gateway, options.gateway_port, "-m", "inference"), after_set_up),
    ]
    if options.traffic_rps:
        needs = ("gateway", "telemetry", *(replica.name for replica in replicas))
        parts.append(Part(_python("traffic", traffic, "-m", "deploy.local.traffic"), needs))
    return parts


COLLECT = ("manage.py", "collect", "--ignore", "redoc*")  # django-ninja's second page of API docs, which is not served
CELERY = ("-m", "celery", "-A", "controlplane.celery", "worker", "-B", "--loglevel", "INFO")


def _granian(port: int) -> tuple[str, ...]:
    application = "controlplane.asgi:application"
    return (
        "-m",
        "granian",
        "--interface",
        "asginl",
        "--loop",
        "uvloop",
        "--host",
        LOOPBACK,
        "--port",
        str(port),
        application,
    )


def _server(name: str, env: Mapping[str, str], port: int, *arguments: str) -> Command:
    """A part that answers /readyz when it can serve, and /healthz while it runs."""
    return replace(
        _python(name, env, *arguments),
        ready=partial(http_ok, port, "/readyz"),
        answers=partial(http_status, port, "/healthz"),
    )


def _python(name: str, env: Mapping[str, str], *arguments: str) -> Command:
    return Command(name, (sys.executable, *arguments), _always, env=env, start_s=300.0)


def _marked(command: Command, mark: Mapping[str, str]) -> Command:
    return replace(command, env={**command.env, **mark})


def _always() -> bool:
    """The readiness of a part without a port: it is ready when it runs."""
    return True
