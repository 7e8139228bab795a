"""The serving stack in Kubernetes: rendered from the fleet, compared with what runs, applied."""

from collections.abc import Iterable

from controlplane.config import Config
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.stack import Surroundings, render
from controlplane.fleet.core.manifests.values import Batching, TritonModel, WorkloadValue
from controlplane.fleet.models import Workload
from controlplane.fleet.rows import mapping_of


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
    pool, place = row.pool, row.place
    return WorkloadValue(
        name=row.deployment,
        kind=row.kind,  # type: ignore[arg-type]
        namespace=place.namespace if place else "",
        image=row.image,
        pool=pool.name if pool else "",
        min_replicas=row.min_replicas,
        max_replicas=row.max_replicas,
        cpu=row.cpu,
        memory=row.memory,
        gpus=row.gpus,
        gpu_resource=row.gpu_resource,
        tolerate_gpu_taint=row.tolerate_gpu_taint,
        shared_memory=row.shared_memory,
        node_selector=tuple(sorted(row.node_selector.items())),
        store_claim=row.store_claim,
        store_path=row.store_path,
        arguments=tuple(row.arguments),
        environment=tuple(sorted(row.environment.items())),
        secret=row.secret,
        start_s=row.start_s,
        drain_s=row.drain_s,
        model=_model(row) if row.kind == Workload.Kind.TRITON else None,
        served_name=pool.model_name if pool else "",
        model_source=row.model_source,
    )


def _model(row: Workload) -> TritonModel | None:
    pool = row.pool
    if pool is None:
        return None
    return TritonModel(
        name=pool.model_name,
        version=pool.model_version,
        backend=row.backend,
        signature=pool.signature,
        mapping=mapping_of(pool),
        instances=row.instances,
        batching=Batching(
            row.max_batch_size,
            tuple(row.preferred_batch_sizes),
            row.max_queue_delay_us,
            row.priority_levels,
            row.default_priority,
            row.max_queue_size,
            row.queue_timeout_us,
        ),
        warm_up_prompt=pool.warm_up_prompt,
        warm_up_tokens=pool.warm_up_tokens,
        parameters=tuple(sorted(row.model_parameters.items())),
    )
