"""Reads what a gateway says of its replicas, in the body of its /readyz."""

from typing import Any

import msgspec


class ReplicaReport(msgspec.Struct, frozen=True):
    """One replica as a gateway sees it. `reason` says why it gets no requests, `misfit` why it never will as it is, and `warming`
    how its warm-up stands.
    """

    state: str  # "up", "down" or "unknown": not probed yet
    reason: str = ""
    kind: str = ""
    version: str = ""
    models: tuple[str, ...] = ()
    signature: str = ""
    context_length: int = 0  # tokens
    misfit: str = ""
    warming: str = ""

    @property
    def about(self) -> dict[str, Any]:
        """What the replica is, as it is stored; empty where the gateway has not found out."""
        return msgspec.to_builtins(self) if self.kind or self.misfit else {}


class _Pool(msgspec.Struct, frozen=True):
    servers: dict[str, ReplicaReport] = {}


class _Ready(msgspec.Struct, frozen=True):
    pools: dict[str, _Pool] = {}


def reports(ready_text: str) -> dict[tuple[str, str], ReplicaReport]:
    """By pool and replica. Raises ValueError where the text is not a gateway's."""
    try:
        ready = msgspec.json.decode(ready_text, type=_Ready)
    except msgspec.DecodeError as error:
        raise ValueError(f"/readyz of the gateway is not understood: {error}") from error
    return {(name, replica): report for name, pool in ready.pools.items() for replica, report in pool.servers.items()}
