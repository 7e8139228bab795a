"""System checks: rules between several settings, and of what the machine or other packages say about one. Each has a message and a remedy.

Bounds of single settings are on their fields (`controlplane/config/__init__.py`). Ids are never used again; docs/settings.md lists them.
"""

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
from controlplane.config.bounds import MIN_SECRET_CHARS
from controlplane.core import keyring
from controlplane.core.encryption import SealError
from controlplane.incidents.notify.delivery.core.outbound_address import allowed
from inference.contract.address import is_loopback
from inference.contract.tls.certificate import ServerCertificate, TlsError


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    settings: tuple[str, ...]
    holds: Callable[[Config], bool]
    message: str  # may use {name} of any of `settings`; never of a secret
    hint: str
    level: int = ERROR


def _writable(path: Path) -> bool:
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _serves_strangers(config: Config) -> bool:
    return not all(is_loopback(host) for host in config.allowed_hosts)


def _are_addresses(entries: Sequence[str]) -> bool:
    try:
        allowed(entries)
    except ValueError:
        return False
    return True


def _has_certificate(config: Config) -> bool:
    try:
        ServerCertificate.named(config.metrics_certificate, config.metrics_key, None, "WEIR_METRICS")
    except TlsError:
        return False
    return True


def _are_keys(config: Config) -> bool:
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
        "weir.W004",
        ("https", "allowed_hosts"),
        lambda c: c.https or not _serves_strangers(c),
        "WEIR_HTTPS=false, and WEIR_ALLOWED_HOSTS={allowed_hosts} names other machines: passwords travel in the clear.",
        "Put a TLS proxy in front that sets X-Forwarded-Proto, and set WEIR_HTTPS=true.",
        WARNING,
    ),
    Rule(
        "weir.E061",
        ("encryption_keys", "home"),
        _are_keys,
        "WEIR_ENCRYPTION_KEYS, or else {home}/encryption-keys, holds what is no encryption key, or cannot be read: no page can be sent.",
        "Restore it from its backup; a new key is `openssl rand -base64 32`, and the old ones stay behind it.",
    ),
    Rule(
        "weir.E010",
        ("otlp_http_port", "otlp_grpc_port"),
        lambda c: bool(c.otlp_http_port and c.otlp_grpc_port) and c.otlp_http_port != c.otlp_grpc_port,
        "WEIR_OTLP_HTTP_PORT={otlp_http_port} and WEIR_OTLP_GRPC_PORT={otlp_grpc_port} are not two ports.",
        "Use two different ports from 1 to 65535; OpenTelemetry's own are 4318 and 4317.",
    ),
    Rule(
        "weir.W011",
        ("otlp_host", "otlp_token"),
        lambda c: is_loopback(c.otlp_host) or bool(c.otlp_token),
        "WEIR_OTLP_HOST={otlp_host} takes spans from other machines, and WEIR_OTLP_TOKEN is empty.",
        "Set WEIR_OTLP_TOKEN to a long random text, and give it to the senders.",
        WARNING,
    ),
    Rule(
        "weir.E013",
        ("snapshot_path",),
        lambda c: c.snapshot_path is None or _writable(c.snapshot_path.parent),
        "WEIR_SNAPSHOT_PATH={snapshot_path}: its folder cannot be written to.",
        "Name a file in a folder that Weir may write to and gateways may read.",
    ),
    Rule(
        "weir.W044",
        ("snapshot_token",),
        lambda c: not c.snapshot_token or len(c.snapshot_token) >= MIN_SECRET_CHARS,
        f"WEIR_SNAPSHOT_TOKEN has fewer than {MIN_SECRET_CHARS} characters: it could be guessed.",
        "Use `openssl rand -base64 32`.",
        WARNING,
    ),
    Rule(
        "weir.W016",
        ("metrics_token",),
        lambda c: not c.metrics_token or len(c.metrics_token) >= MIN_SECRET_CHARS,
        f"WEIR_METRICS_TOKEN has fewer than {MIN_SECRET_CHARS} characters: it could be guessed.",
        "Use `openssl rand -base64 32`.",
        WARNING,
    ),
    Rule(
        "weir.E085",
        ("metrics_certificate", "metrics_key"),
        _has_certificate,
        "WEIR_METRICS_CERTIFICATE={metrics_certificate} with WEIR_METRICS_KEY={metrics_key} cannot be shown.",
        "Set both to a PEM chain and its PEM key, or none of them for plain text.",
    ),
    Rule(
        "weir.W022",
        ("gateway_url", "metrics_token"),
        lambda c: bool(c.metrics_token) or is_loopback(urlsplit(c.gateway_url).hostname or "localhost"),
        "WEIR_GATEWAY_URL={gateway_url} is another machine, which shows no figures while WEIR_METRICS_TOKEN is empty.",
        "Set WEIR_METRICS_TOKEN to the same value here, at the gateway and at telemetry.",
        WARNING,
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
        "weir.W043",
        ("controller_host", "metrics_token"),
        lambda c: is_loopback(c.controller_host) or bool(c.metrics_token),
        "WEIR_CONTROLLER_HOST={controller_host} shows figures to other machines, and WEIR_METRICS_TOKEN is empty.",
        "Set WEIR_METRICS_TOKEN, and give it to your Prometheus.",
        WARNING,
    ),
    Rule(
        "weir.E084",
        ("local_login", "oidc", "saml"),
        lambda c: c.local_login == "everybody" or bool(c.providers),
        "WEIR_LOCAL_LOGIN={local_login}, and WEIR_OIDC and WEIR_SAML are empty: nobody else can log in.",
        "Name a provider in WEIR_OIDC or WEIR_SAML, or set WEIR_LOCAL_LOGIN=everybody.",
    ),
    Rule(
        "weir.E019",
        ("outbound_allow",),
        lambda c: _are_addresses(c.outbound_allow),
        "WEIR_OUTBOUND_ALLOW={outbound_allow} holds what is no network, address or host name.",
        "Separate them by commas, such as 10.0.0.0/8,hooks.internal; ports are not part of it.",
    ),
    Rule(
        "weir.E074",
        ("component_up_for_s", "observe_every_s"),
        lambda c: 2 * c.observe_every_s <= c.component_up_for_s,
        "WEIR_COMPONENT_UP_FOR_S={component_up_for_s} is under two rounds of WEIR_OBSERVE_EVERY_S={observe_every_s}.",
        "Use seconds, such as 60.",
    ),
)


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
