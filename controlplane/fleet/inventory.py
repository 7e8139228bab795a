"""What the overview needs from the database, as `stack.py`'s plain values."""

from controlplane.fleet.core.stack import Observed, PoolEntry, PoolServer, ReplicaEntry
from controlplane.fleet.models import Observation, Pool


def pool_entries() -> list[PoolEntry]:
    """Every pool with its replicas, in two queries."""
    return [
        PoolEntry(
            name=pool.name,
            model=pool.variant.model.name,
            variant=pool.variant.name,
            region=pool.region.name,
            enabled=pool.enabled,
            replicas=tuple(ReplicaEntry(one.name, one.enabled, bool(one.http)) for one in pool.replicas.all()),
            owner=pool.variant.model.team.name if pool.variant.model.team else "",
        )
        for pool in Pool.objects.select_related("variant__model__team", "region").prefetch_related("replicas")
    ]


def pool_servers() -> list[PoolServer]:
    """Every pool with where its replicas' metrics are, in two queries."""
    return [
        PoolServer(pool.name, pool.model_name, {one.name: one.metrics for one in pool.replicas.all()})
        for pool in Pool.objects.prefetch_related("replicas")
    ]


def observations() -> list[Observed]:
    """The latest of every component, in one query."""
    return [
        Observed(
            one.component,
            one.state,  # type: ignore[arg-type]
            one.observed_at,
            one.figures,
            one.error,
            one.up_at,
            one.down_since,
        )
        for one in Observation.objects.all()
    ]
