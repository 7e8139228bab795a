"""Bounds of single settings that a number cannot express. Each function returns the value, or raises ValueError with the remedy."""

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

MIN_SECRET_CHARS = 32
"""Characters; 32 of them hold 160 bits or more in any spelling that people use."""

MAX_PORT = 65_535

MAX_RETENTION_DAYS = 3660
"""Ten years with their leap days: the most that the settings and the store accept."""

MAX_TEAM_CHARS = 100
"""Characters, as the fleet's teams."""

MIN_ROLLUP_DAYS = 35
"""Five weeks: less is too short for forecasts by the day of the week."""


def optional(check: Callable[[str], str]) -> Callable[[str], str]:
    """The same check, which lets an empty text pass."""
    return lambda text: check(text) if text else text


def is_url(text: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and (parts.scheme == "unix" or bool(parts.hostname and parts.port != 0))
    except ValueError:
        return False


def http_url(text: str) -> str:
    if not is_url(text, "http", "https"):
        raise ValueError("use an HTTP URL, such as http://host:4318")
    return text


def server_url(text: str) -> str:
    if not (is_url(text, "http", "https") and urlsplit(text).path in ("", "/")):
        raise ValueError("use an HTTP URL without a path, such as http://host:8080")
    return text


def is_loopback(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


def mail_url(text: str) -> str:
    if not is_url(text, "smtp", "smtps"):
        raise ValueError("use smtp://user:password@host:587, or smtps://")
    return text


def mail_address(text: str) -> str:
    if not all(text.partition("@")[::2]):
        raise ValueError("use an address, such as weir@example.com")
    return text


def provider_url(text: str) -> str:
    host = urlsplit(http_url(text)).hostname or ""
    if not text.startswith("https://") and not is_loopback(host):
        raise ValueError("a provider of log-ins is spoken to by https")
    return text.rstrip("/")


def public_url(text: str) -> str:
    if urlsplit(http_url(text)).query:
        raise ValueError("use what people type, such as https://weir.example.com")
    return text


def redis_url(text: str) -> str:
    if not is_url(text, "redis", "rediss", "unix"):
        raise ValueError("use redis://:password@host:6379/0, rediss:// for TLS, or unix://")
    return text


def store_dsn(text: str) -> str:
    if not is_url(text, "clickhouse", "clickhouses"):
        raise ValueError("use clickhouse://user:password@host:8123/weir")
    return text


def host_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
        raise ValueError("use host:port, such as 127.0.0.1:9464")
    return text


def team_name(text: str) -> str:
    if not 0 < len(text.strip()) <= MAX_TEAM_CHARS:
        raise ValueError(f"name a team in 1 to {MAX_TEAM_CHARS} characters, such as serving")
    return text.strip()


def host_names(names: list[str]) -> list[str]:
    if not names or "*" in names:
        raise ValueError("list the names in the dashboard's URL, such as weir.example.com,localhost")
    return names


def networks(texts: list[str]) -> list[str]:
    try:
        for text in texts:
            ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("write addresses and networks, such as 10.0.0.0/24,::1") from None
    return texts


def long_secret(text: str) -> str:
    if len(text) < MIN_SECRET_CHARS:
        raise ValueError(f"use {MIN_SECRET_CHARS} characters or more, such as `openssl rand -base64 32` prints")
    return text
