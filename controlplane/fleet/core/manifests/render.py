"""Renders a workload as Kubernetes objects."""

from dataclasses import dataclass, field

from controlplane.fleet.core.manifests import cache, gateways, quantity, triton, vllm
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.values import WorkloadValue


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the workloads of an installation share."""

    otlp_url: str = ""
    """Where model servers send their spans; empty sends none."""
    gateway_settings: dict[str, str] = field(default_factory=dict)
    """Environment variables of gateways, such as WEIR_REDIS_URL."""


def render(workload: WorkloadValue, around: Surroundings) -> list[Manifest]:
    """The objects of one workload, in the order in which they are to be applied. Raises ValueError with the remedy."""
    match workload.kind:
        case "triton":
            return triton.manifests(workload, around.otlp_url)
        case "vllm":
            return vllm.manifests(workload, around.otlp_url)
        case "redis":
            return cache.manifests(workload, int(quantity.parse(workload.memory)))
        case "gateway":
            return gateways.manifests(workload, around.gateway_settings)
