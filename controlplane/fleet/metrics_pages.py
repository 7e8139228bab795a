"""Where the replicas' Prometheus pages are, by what was entered and what the gateway has found the servers to be."""

from collections.abc import Iterable

from controlplane.fleet.core.metrics_page import metrics_url
from controlplane.fleet.models import Observation, Replica


def metrics_pages(replicas: Iterable[Replica]) -> dict[int, str]:
    """The URLs by the replica's primary key, empty for those without; in one query beside those for the replicas' pools."""
    seen = Observation.objects.filter(kind=Observation.Kind.REPLICA).values_list("component", "about")
    kinds = {component: about.get("kind", "") for component, about in seen}
    return {replica.pk: _page(replica, kinds.get(replica.component, "")) for replica in replicas}


def _page(replica: Replica, detected: str) -> str:
    pool = replica.pool
    if pool.protocol != "openai":
        return metrics_url(replica.metrics, "", "")
    return metrics_url(replica.metrics, detected if pool.server == "auto" else pool.server, replica.url)
