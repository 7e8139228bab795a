"""The serving stack in Kubernetes: rendered from the fleet, compared with what runs, applied."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from controlplane.config import Config
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.render import Surroundings, render
from controlplane.fleet.core.manifests.values import Batching, TritonModel, WorkloadValue
from controlplane.fleet.models import Pool, Workload
from controlplane.fleet.snapshot_values import mapping_of


def surroundings(config: Config) -> Surroundings:
    # Addresses alone: tokens and passwords are in the workload's secret.
    settings = {
        "WEIR_SNAPSHOT_URL": f"{config.web_url.rstrip('/')}/internal/snapshot" if config.web_url else "",
        "WEIR_OTLP_ENDPOINT": config.otlp_endpoint,
    }
    return Surroundings(config.otlp_endpoint, {name: value for name, value in settings.items() if value})


def workloads(cluster: str = "") -> Iterable[Workload]:
    """Those of enabled clusters, or of one."""
    rows = Workload.objects.select_related("cluster", "pool__cluster")
    for row in rows.order_by("pk"):
        place = row.place
        if place is not None and place.enabled and place.name == (cluster or place.name):
            yield row


def manifests(row: Workload, config: Config) -> list[Manifest]:
    """Raises ValueError with the remedy."""
    return render(value(row), surroundings(config))


def value(row: Workload) -> WorkloadValue:
    pool = row.pool
    return WorkloadValue(
        **_columns(
            WorkloadValue, row, "name", "namespace", "pool", "node_selector", "environment", "model", "served_name"
        ),
        name=row.deployment,
        namespace=row.place.namespace if row.place else "",
        pool=pool.name if pool else "",
        node_selector=tuple(sorted(row.node_selector.items())),
        environment=tuple(sorted(row.environment.items())),
        model=_model(row, pool) if pool and row.kind == Workload.Kind.TRITON else None,
        served_name=pool.model_name if pool else "",
    )


def _model(row: Workload, pool: Pool) -> TritonModel:
    return TritonModel(
        name=pool.model_name,
        version=pool.model_version,
        backend=row.backend,
        signature=pool.signature,
        mapping=mapping_of(pool),
        instances=row.instances,
        batching=Batching(
            preferred_sizes=tuple(row.preferred_batch_sizes), **_columns(Batching, row, "preferred_sizes")
        ),
        warm_up_prompt=pool.warm_up_prompt,
        warm_up_tokens=pool.warm_up_tokens,
        parameters=tuple(sorted(row.model_parameters.items())),
    )


def _columns(kind: type, row: Workload, *others: str) -> dict[str, Any]:
    """The columns of the row that are called as fields of `kind` are; `others` are no columns."""
    return {field.name: getattr(row, field.name) for field in fields(kind) if field.name not in others}
