"""Pools in Kubernetes: rendered from the fleet, for `manage.py stack` to compare with what runs, and to apply."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from controlplane.config import Config
from controlplane.fleet.core.manifests import triton, vllm
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.values import Batching, TritonModel, WorkloadValue
from controlplane.fleet.models import Pool, Workload
from controlplane.fleet.snapshot_values import mapping_of


def workloads(cluster: str = "") -> Iterable[Workload]:
    """Those of enabled clusters, or of one."""
    rows = Workload.objects.select_related("pool__cluster").filter(pool__cluster__enabled=True).order_by("pk")
    return rows.filter(pool__cluster__name=cluster) if cluster else rows


def manifests(row: Workload, config: Config) -> list[Manifest]:
    """The objects in the order in which they are to be applied. Raises ValueError with the remedy."""
    render = triton.manifests if row.kind == Workload.Kind.TRITON else vllm.manifests
    return render(value(row), config.otlp_endpoint)


def value(row: Workload) -> WorkloadValue:
    pool = row.pool
    return WorkloadValue(
        **_columns(
            WorkloadValue, row, "name", "namespace", "pool", "node_selector", "environment", "model", "served_name"
        ),
        name=pool.deployment,
        namespace=pool.cluster.namespace if pool.cluster else "",
        pool=pool.name,
        node_selector=tuple(sorted(row.node_selector.items())),
        environment=tuple(sorted(row.environment.items())),
        model=_model(row, pool) if row.kind == Workload.Kind.TRITON else None,
        served_name=pool.model_name,
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
