"""System checks of the settings: what is wrong, and what to do. Ids are never reused; docs/settings.md lists them.

A value of the wrong type, such as a port that is no number, is refused when the environment is read (`config.load`).
"""

import ipaddress
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import ERROR, WARNING, CheckMessage, Tags, register

from controlplane.config import Config
from controlplane.telemetry.ingest.limits import MAX_RETENTION_DAYS

SHORTEST_SECRET = 32
"""Characters; 32 of them hold 160 bits or more in any spelling that people use."""

MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Rule:
    """`holds` is asked of the whole configuration, because some settings only make sense beside each other."""

    id: str
    settings: tuple[str, ...]
    holds: Callable[[Config], bool]
    message: str  # may use {name} of any of `settings`; never of a secret
    hint: str
    level: int = ERROR


def _writable(path: Path) -> bool:
    nearest = next(one for one in (path, *path.parents) if one.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _url(text: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and (parts.scheme == "unix" or bool(parts.hostname and parts.port != 0))
    except ValueError:
        return False


def _host_port(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    return (host, int(port)) if host and port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _serves_strangers(config: Config) -> bool:
    return not all(_is_loopback(host) for host in config.allowed_hosts)


def _is_port(port: int) -> bool:
    return 0 < port <= MAX_PORT


def _are_networks(texts: Sequence[str]) -> bool:
    try:
        return all(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError:
        return False


def _are_addresses(entries: Sequence[str]) -> bool:
    from controlplane.incidents.notify.delivery.core.outbound_address import allowed

    try:
        allowed(entries)
    except ValueError:
        return False
    return True


def _are_keys(config: Config) -> bool:
    from controlplane.incidents.notify.delivery.core.encryption import SealError
    from controlplane.incidents.notify.delivery.secrets import keyring

    try:
        keyring.configured(config)
    except SealError:
        return False
    return True


RULES: tuple[Rule, ...] = (
    Rule(
        "weir.E001",
        ("home",),
        lambda c: _writable(c.home),
        "WEIR_HOME={home} cannot be written to.",
        "Name a folder of the user that runs Weir.",
    ),
    Rule(
        "weir.W002",
        ("debug",),
        lambda c: not (c.debug and _serves_strangers(c)),
        "WEIR_DEBUG=true shows source code and settings to whoever causes an error, from other machines too.",
        "Set WEIR_DEBUG=false.",
        WARNING,
    ),
    Rule(
        "weir.E003",
        ("allowed_hosts",),
        lambda c: bool(c.allowed_hosts) and "*" not in c.allowed_hosts,
        "WEIR_ALLOWED_HOSTS={allowed_hosts} answers to no name, or to any.",
        "List the names in the dashboard's URL, such as weir.example.com,localhost.",
    ),
    Rule(
        "weir.W004",
        ("https", "allowed_hosts"),
        lambda c: c.https or not _serves_strangers(c),
        "WEIR_HTTPS=false, and WEIR_ALLOWED_HOSTS={allowed_hosts} names other machines: passwords travel in the clear.",
        "Put a TLS proxy in front that sets X-Forwarded-Proto, and set WEIR_HTTPS=true.",
        WARNING,
    ),
    Rule(
        "weir.E005",
        ("secret_key",),
        lambda c: not c.secret_key or len(c.secret_key) >= SHORTEST_SECRET,
        f"WEIR_SECRET_KEY has fewer than {SHORTEST_SECRET} characters: sessions could be forged.",
        "Leave it empty (WEIR_HOME/secret-key is made), or use `openssl rand -base64 32`.",
    ),
    Rule(
        "weir.E061",
        ("encryption_keys", "home"),
        _are_keys,
        "WEIR_ENCRYPTION_KEYS, or else {home}/encryption-keys, holds what is no encryption key, or cannot be read: no page can be sent.",
        "Restore it from its backup; a new key is `openssl rand -base64 32`, and the old ones stay behind it.",
    ),
    Rule(
        "weir.E006",
        ("session_hours",),
        lambda c: 1 <= c.session_hours <= 24 * 90,
        "WEIR_SESSION_HOURS={session_hours} is not between an hour and 90 days.",
        "Use hours, such as 12.",
    ),
    Rule(
        "weir.E007",
        ("database_timeout_s",),
        lambda c: 0 < c.database_timeout_s <= 300,
        "WEIR_DATABASE_TIMEOUT_S={database_timeout_s} is not between 0 and 300 s.",
        "Use seconds, such as 10.",
    ),
    Rule(
        "weir.E008",
        ("redis_url",),
        lambda c: _url(c.redis_url, "redis", "rediss", "unix"),
        "WEIR_REDIS_URL is not a Redis URL: live updates and the worker need one.",
        "Use redis://:password@host:6379/0, rediss:// for TLS, or unix://.",
    ),
    Rule(
        "weir.E009",
        ("store_dsn",),
        lambda c: (
            not c.store_dsn
            or _url(c.store_dsn, "clickhouse", "clickhouses", "clickhouse+https", "http", "https", "chdb")
        ),
        "WEIR_STORE_DSN is not a ClickHouse URL.",
        "Use clickhouse://user:password@host:8123/weir.",
    ),
    Rule(
        "weir.E010",
        ("otlp_http_port", "otlp_grpc_port"),
        lambda c: _is_port(c.otlp_http_port) and _is_port(c.otlp_grpc_port) and c.otlp_http_port != c.otlp_grpc_port,
        "WEIR_OTLP_HTTP_PORT={otlp_http_port} and WEIR_OTLP_GRPC_PORT={otlp_grpc_port} are not two ports.",
        "Use two different ports from 1 to 65535; OpenTelemetry's own are 4318 and 4317.",
    ),
    Rule(
        "weir.W011",
        ("otlp_host", "otlp_token"),
        lambda c: _is_loopback(c.otlp_host) or bool(c.otlp_token),
        "WEIR_OTLP_HOST={otlp_host} takes spans from other machines, and WEIR_OTLP_TOKEN is empty.",
        "Set WEIR_OTLP_TOKEN to a long random text, and give it to the senders.",
        WARNING,
    ),
    Rule(
        "weir.E012",
        ("otlp_endpoint",),
        lambda c: not c.otlp_endpoint or _url(c.otlp_endpoint, "http", "https"),
        "WEIR_OTLP_ENDPOINT={otlp_endpoint} is not an HTTP URL.",
        "Use http://host:4318, without /v1/traces; leave it empty to send no spans.",
    ),
    Rule(
        "weir.E013",
        ("snapshot_path",),
        lambda c: c.snapshot_path is None or _writable(c.snapshot_path.parent),
        "WEIR_SNAPSHOT_PATH={snapshot_path}: its folder cannot be written to.",
        "Name a file in a folder that Weir may write to and gateways may read.",
    ),
    Rule(
        "weir.E014",
        ("retention_days",),
        lambda c: 1 <= c.retention_days <= MAX_RETENTION_DAYS,
        f"WEIR_RETENTION_DAYS={{retention_days}} is not between 1 and {MAX_RETENTION_DAYS} days.",
        "Use days, such as 30.",
    ),
    Rule(
        "weir.E015",
        ("gateway_url",),
        lambda c: _url(c.gateway_url, "http", "https") and urlsplit(c.gateway_url).path in ("", "/"),
        "WEIR_GATEWAY_URL={gateway_url} is not an HTTP URL without a path.",
        "Use http://host:8080.",
    ),
    Rule(
        "weir.W016",
        ("metrics_token",),
        lambda c: not c.metrics_token or len(c.metrics_token) >= SHORTEST_SECRET,
        f"WEIR_METRICS_TOKEN has fewer than {SHORTEST_SECRET} characters: it could be guessed.",
        "Use `openssl rand -base64 32`.",
        WARNING,
    ),
    Rule(
        "weir.W022",
        ("gateway_url", "metrics_token"),
        lambda c: bool(c.metrics_token) or _is_loopback(urlsplit(c.gateway_url).hostname or "localhost"),
        "WEIR_GATEWAY_URL={gateway_url} is another machine, which shows no figures while WEIR_METRICS_TOKEN is empty.",
        "Set WEIR_METRICS_TOKEN to the same value here, at the gateway and at telemetry.",
        WARNING,
    ),
    Rule(
        "weir.E023",
        ("trusted_proxies",),
        lambda c: _are_networks(c.trusted_proxies),
        "WEIR_TRUSTED_PROXIES={trusted_proxies} holds what is neither an address nor a network.",
        "Write such as WEIR_TRUSTED_PROXIES=10.0.0.0/24,::1.",
    ),
    Rule(
        "weir.W024",
        ("https", "trusted_proxies"),
        lambda c: not c.https or bool(c.trusted_proxies),
        "WEIR_HTTPS is set and WEIR_TRUSTED_PROXIES is empty: all logins seem to come from the proxy, so that anyone can lock a user out.",
        "Set WEIR_TRUSTED_PROXIES to the addresses of the proxies in front of web.",
        WARNING,
    ),
    Rule(
        "weir.E051",
        ("web_url",),
        lambda c: not c.web_url or (_url(c.web_url, "http", "https") and urlsplit(c.web_url).path in ("", "/")),
        "WEIR_WEB_URL={web_url} is not an HTTP URL without a path.",
        "Use http://host:8000, or leave it empty.",
    ),
    Rule(
        "weir.E052",
        ("worker_metrics",),
        lambda c: not c.worker_metrics or bool(_host_port(c.worker_metrics)),
        "WEIR_WORKER_METRICS={worker_metrics} is not host:port.",
        "Use 127.0.0.1:9464, or leave it empty.",
    ),
    Rule(
        "weir.E017",
        ("observe_every_s", "observe_timeout_s"),
        lambda c: 0 < c.observe_timeout_s <= c.observe_every_s <= 3600,
        "WEIR_OBSERVE_TIMEOUT_S={observe_timeout_s} is not above 0 and at most WEIR_OBSERVE_EVERY_S={observe_every_s}.",
        "Use seconds, such as 2 and 5: a round must be over before the next begins.",
    ),
    Rule(
        "weir.E018",
        ("stale_after_s", "observe_every_s"),
        lambda c: c.stale_after_s >= 2 * c.observe_every_s,
        "WEIR_STALE_AFTER_S={stale_after_s} is under two rounds of WEIR_OBSERVE_EVERY_S={observe_every_s}.",
        "Use four rounds, such as 20 for rounds of 5 s: else one slow round looks like an outage.",
    ),
    Rule(
        "weir.E041",
        ("evaluate_every_s",),
        lambda c: 0 < c.evaluate_every_s <= 15,
        "WEIR_EVALUATE_EVERY_S={evaluate_every_s} is not above 0 and at most 15: a total outage would page too late.",
        "Use seconds, such as 5.",
    ),
    Rule(
        "weir.E042",
        ("controller_port",),
        lambda c: c.controller_port == 0 or _is_port(c.controller_port),
        "WEIR_CONTROLLER_PORT={controller_port} is no port.",
        "Use a port from 1 to 65535, such as 8090; 0 takes a free one.",
    ),
    Rule(
        "weir.W043",
        ("controller_host", "metrics_token"),
        lambda c: _is_loopback(c.controller_host) or bool(c.metrics_token),
        "WEIR_CONTROLLER_HOST={controller_host} shows figures to other machines, and WEIR_METRICS_TOKEN is empty.",
        "Set WEIR_METRICS_TOKEN, and give it to your Prometheus.",
        WARNING,
    ),
    Rule(
        "weir.E031",
        ("public_url",),
        lambda c: _url(c.public_url, "http", "https") and not urlsplit(c.public_url).query,
        "WEIR_PUBLIC_URL={public_url} is not an HTTP URL: links in pages would not open.",
        "Use what people type, such as https://weir.example.com.",
    ),
    Rule(
        "weir.E019",
        ("outbound_allow",),
        lambda c: _are_addresses(c.outbound_allow),
        "WEIR_OUTBOUND_ALLOW={outbound_allow} holds what is no network, address or host name.",
        "Separate them by commas, such as 10.0.0.0/8,hooks.internal; ports are not part of it.",
    ),
    Rule(
        "weir.E020",
        ("evaluation_stopped_after_s",),
        lambda c: 15 <= c.evaluation_stopped_after_s <= 3600,
        "WEIR_EVALUATION_STOPPED_AFTER_S={evaluation_stopped_after_s} is not between 15 and 3600 s.",
        "Use seconds, such as 60: several of the controller's ticks.",
    ),
    Rule(
        "weir.E071",
        ("component_page_after_s",),
        lambda c: 5 <= c.component_page_after_s <= 600,
        "WEIR_COMPONENT_PAGE_AFTER_S={component_page_after_s} is not between 5 and 600 s.",
        "Use seconds, such as 15: three rounds of observing, and longer than a restart takes.",
    ),
    Rule(
        "weir.E072",
        ("component_ticket_after_s",),
        lambda c: 5 <= c.component_ticket_after_s <= 3600,
        "WEIR_COMPONENT_TICKET_AFTER_S={component_ticket_after_s} is not between 5 and 3600 s.",
        "Use seconds, such as 60: longer than a replica's restart takes.",
    ),
    Rule(
        "weir.E073",
        ("component_start_s", "component_page_after_s"),
        lambda c: c.component_page_after_s <= c.component_start_s <= 3600,
        "WEIR_COMPONENT_START_S={component_start_s} is not between WEIR_COMPONENT_PAGE_AFTER_S={component_page_after_s} and 3600 s.",
        "Use seconds, such as 300: what a start of the whole system takes at most.",
    ),
    Rule(
        "weir.E074",
        ("component_up_for_s", "observe_every_s"),
        lambda c: 2 * c.observe_every_s <= c.component_up_for_s <= 3600,
        "WEIR_COMPONENT_UP_FOR_S={component_up_for_s} is not between two rounds of WEIR_OBSERVE_EVERY_S={observe_every_s} and 3600 s.",
        "Use seconds, such as 60.",
    ),
    Rule(
        "weir.E075",
        ("objectives_unknown_after_s",),
        lambda c: 60 <= c.objectives_unknown_after_s <= 86_400,
        "WEIR_OBJECTIVES_UNKNOWN_AFTER_S={objectives_unknown_after_s} is not between 60 and 86400 s.",
        "Use seconds, such as 300.",
    ),
    Rule(
        "weir.E021",
        ("heartbeat_url",),
        lambda c: not c.heartbeat_url or _url(c.heartbeat_url, "http", "https"),
        "WEIR_HEARTBEAT_URL is not an HTTP URL.",
        "Use the ping URL that the dead-man service shows; leave it empty to send none.",
    ),
)

REFUSED_WHEN_READ = frozenset({"log_format", "log_level", "database_url"})
"""Settings whose every wrong value is refused before checks run."""


def broken(config: Config, rules: Sequence[Rule] = RULES) -> list[CheckMessage]:
    """A message for each rule that does not hold."""
    return [
        CheckMessage(rule.level, rule.message.format_map(config.model_dump()), hint=rule.hint, id=rule.id)
        for rule in rules
        if not rule.holds(config)
    ]


@register(Tags.security)
def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    return broken(settings.CONFIG)
