"""Shapes of the state of components."""

from ninja import Field, Schema


class ComponentOut(Schema):
    """Null is "not known", and never zero. `unknown`: never observed; `stale`: observed too long ago, without figures."""

    component: str
    name: str
    kind: str = Field(description="gateway, cache, telemetry, worker, pool or replica")
    state: str = Field(description="up, degraded, down, stale or unknown")
    rate_per_s: float | None
    errors_per_s: float | None
    p95_ms: float | None
    age_s: float | None = Field(description="Of the observation behind `state`")
    traffic_age_s: float | None = Field(description="Of the newest request that the ledger saw")
    detail: str
    figures: dict[str, float]
    pool: str = Field(description="Of a replica")


class StackOut(Schema):
    """Each pool is followed by its replicas."""

    window_s: int = Field(description="Rates and p95 of requests are of the last so many seconds")
    rows: list[ComponentOut]
