"""Reads the fleet and its observations from the database, as the plain values of `core/stack.py`."""

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
            replicas=tuple(
                ReplicaEntry(replica.name, replica.enabled, bool(replica.http)) for replica in pool.replicas.all()
            ),
            owner=pool.variant.model.team.name if pool.variant.model.team else "",
        )
        for pool in Pool.objects.select_related("variant__model__team", "region").prefetch_related("replicas")
    ]


def pool_servers() -> list[PoolServer]:
    """Every pool with where its replicas' metrics are, in two queries."""
    return [
        PoolServer(pool.name, pool.model_name, {replica.name: replica.metrics for replica in pool.replicas.all()})
        for pool in Pool.objects.prefetch_related("replicas")
    ]


def observations() -> list[Observed]:
    """The latest observation of every component, in one query."""
    return [
        Observed(
            observation.component,
            observation.state,  # type: ignore[arg-type]
            observation.observed_at,
            observation.figures,
            observation.error,
            observation.up_at,
            observation.down_since,
        )
        for observation in Observation.objects.all()
    ]
