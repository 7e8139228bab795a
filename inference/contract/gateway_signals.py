"""What `GET /signals` of a gateway says, once a second, to whoever decides. Totals run from the gateway's start, over all its
workers; they begin again at 0 when it restarts, and `started_ms` then differs.
"""

import msgspec

SPANS_REFUSED_AFTER_S = 30.0
"""For so long telemetry must have taken none of a gateway's spans before the gateway says so. Longer than its restart."""


class ReplicaSignals(msgspec.Struct, frozen=True):
    """What the gateway knows of one replica. `waiting`, `running` and `kv_use` (0 to 1) are what its server said `age_s`
    seconds ago, over all gateways; None is not known. `in_flight` is the gateway's own count. While it is `warming`, it gets no
    request of a user that another replica can have.
    """

    in_flight: int = 0
    up: bool = False
    draining: bool = False
    warming: bool = False
    waiting: float | None = None
    running: float | None = None
    kv_use: float | None = None
    age_s: float | None = None


class PoolSignals(msgspec.Struct, frozen=True):
    """Of the requests that need an inference: those answered from the cache are in `ModelSignals` alone. `arrived` counts
    those that were refused too, `lines` those of them that are lines of the lane which nobody waits for, and `shed` those that were
    refused so that others are served.

    `queue_wait_s_sum` is how long requests waited for a place, and `queue_wait_count` how many had one or gave up.
    """

    arrived: int = 0
    lines: int = 0
    answered: int = 0
    shed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    queue_wait_s_sum: float = 0.0
    queue_wait_count: int = 0
    waiting: int = 0
    in_flight: int = 0
    lines_in_flight: int = 0
    replicas: dict[str, ReplicaSignals] = {}


class ModelSignals(msgspec.Struct, frozen=True):
    """Of a model and a tier. `answered` counts the `cached` too. `degraded` are those that a step of a ladder has changed
    or refused, `shed` those refused so that others are served, for whatever reason.
    """

    arrived: int = 0
    answered: int = 0
    failed: int = 0
    shed: int = 0
    cached: int = 0
    degraded: int = 0


class Obeyed(msgspec.Struct, frozen=True):
    """The versions that the gateway obeys: of several workers the oldest. An overlay that has expired counts as 0."""

    version: int = 0
    endpoints_version: int = 0
    overlay_version: int = 0


class GatewaySignals(msgspec.Struct, frozen=True):
    """`gateway` is the gateway's name: `WEIR_GATEWAY_NAME`, or its host and port. `region` is the gateway's own."""

    at_ms: int  # Unix time, as the other two
    started_ms: int
    gateway: str
    region: str
    requests: int  # of any kind that have ended, for the rate of the API tier
    cpu_s: float  # of all its processes since the start
    snapshot: Obeyed
    pools: dict[str, PoolSignals] = {}
    models: dict[str, dict[str, ModelSignals]] = {}  # by model and tier
    workers: int = 1  # processes that serve, of which each can keep a core busy
