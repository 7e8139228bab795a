"""Reads the fleet and its observations from the database, as the plain values of `core/stack_rows.py`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.db.models import QuerySet

from controlplane.core.reported import reported_at
from controlplane.fleet.core.detected import describe
from controlplane.fleet.core.stack_rows import Observed, PoolEntry, PoolServer, ReplicaEntry
from controlplane.fleet.metrics_pages import metrics_pages
from controlplane.fleet.models import LLMModel, Observation, Pool, Price, Replica


def pool_entries() -> list[PoolEntry]:
    """Every pool with its replicas, in two queries."""
    return [
        PoolEntry(
            name=pool.name,
            model=pool.variant.model.name,
            variant=pool.variant.name,
            region=pool.region.name,
            enabled=pool.enabled,
            replicas=tuple(ReplicaEntry(replica.name, replica.enabled) for replica in pool.replicas.all()),
            owner=pool.variant.model.team.name if pool.variant.model.team else "",
            runs_in=f"{pool.get_protocol_display()} in {pool.cluster.name}"
            if pool.cluster
            else pool.get_protocol_display(),
        )
        for pool in Pool.objects.select_related("variant__model__team", "region", "cluster").prefetch_related(
            "replicas"
        )
    ]


def embedders() -> QuerySet[LLMModel, Any]:
    """The models that make vectors for similar requests of others, by their keys. Clients need none of them."""
    return LLMModel.objects.exclude(semantic_embedder=None).values("semantic_embedder")


def pool_servers() -> list[PoolServer]:
    """Every pool with where its replicas' metrics are, in three queries."""
    pools = list(Pool.objects.prefetch_related("replicas"))
    pages = metrics_pages(replica for pool in pools for replica in pool.replicas.all())
    return [
        PoolServer(
            pool.name,
            pool.model_name,
            {replica.name: urlsplit(pages[replica.pk]).netloc for replica in pool.replicas.all()},
        )
        for pool in pools
    ]


def prices_now(at: datetime) -> dict[str, Price]:
    """Of each pool, the price of what it serves that counts at a moment: the closest, and of several the one that began last."""
    pools = Pool.objects.select_related("variant__model").prefetch_related(
        "prices", "variant__prices", "variant__model__prices"
    )
    prices = {}
    for pool in pools:
        for of in (pool, pool.variant, pool.variant.model):
            valid = [
                it
                for it in of.prices.all()
                if (it.valid_from is None or it.valid_from <= at) and (it.valid_until is None or at < it.valid_until)
            ]
            if valid:
                prices[pool.name] = max(valid, key=lambda it: (it.valid_from is not None, it.valid_from))
                break
    return prices


@dataclass(frozen=True, slots=True)
class Launched:
    """What the launcher of one machine has put into the fleet."""

    demo: bool  # the demo models
    urls: tuple[str, ...]  # of the model servers that it was started in front of


def launched() -> Launched:
    """In one query."""
    own = Replica.objects.filter(managed_by=Replica.ManagedBy.LAUNCHER).values_list("url", flat=True)
    urls = set(own)
    return Launched("" in urls, tuple(sorted(urls - {""})))


def observations(now: datetime) -> list[Observed]:
    """The latest observation of every component, in one query."""
    return [
        Observed(
            observation.component,
            observation.state,  # type: ignore[arg-type]
            reported_at(observation.component, observation.observed_at, now),
            observation.figures,
            observation.error,
            observation.up_at and reported_at(f"{observation.component} up", observation.up_at, now),
            observation.down_since,
            describe(observation.about),
        )
        for observation in Observation.objects.all()
    ]
