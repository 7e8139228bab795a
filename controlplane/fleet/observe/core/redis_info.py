"""Reads Redis' INFO."""

from collections.abc import Mapping
from typing import Any

from controlplane.fleet.observe.core.prometheus_text import known
from controlplane.fleet.observe.core.reading import Reading


def reading(info: Mapping[str, Any]) -> Reading:
    """`info` is what the client made of INFO. A Redis that loads its data is degraded: it refuses most commands. So is one that is full
    and may evict nothing: it refuses writes.
    """
    used, most = _number(info, "used_memory"), _number(info, "maxmemory")
    error = "it is loading its data" if info.get("loading") else ""
    if used and most and used >= most and info.get("maxmemory_policy") == "noeviction":
        error = error or "it takes no writes: its memory is full (maxmemory), and its maxmemory-policy is noeviction"
    return Reading(
        state="degraded" if error else "up",
        figures=known(
            commands_per_s=_number(info, "instantaneous_ops_per_sec"),
            memory_bytes=used,
            max_memory_bytes=most,
            clients=_number(info, "connected_clients"),
            uptime_s=_number(info, "uptime_in_seconds"),
        ),
        counters=known(
            hits=_number(info, "keyspace_hits"),
            misses=_number(info, "keyspace_misses"),
            errors=_number(info, "total_error_replies"),
            evicted_keys=_number(info, "evicted_keys"),
            rejected_connections=_number(info, "rejected_connections"),
        ),
        error=error,
    )


def _number(info: Mapping[str, Any], name: str) -> float | None:
    value = info.get(name)
    return float(value) if isinstance(value, int | float) else None
