"""A pool of vLLM servers."""

import re

from controlplane.fleet.core.manifests import objects
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.values import WorkloadValue

PORTS = {"http": 8000}
STORE = "/model"
WAITS_SINCE = (0, 18)
"""The first version that knows `--shutdown-timeout`. An older one ends at once with an argument that it does not know.

https://docs.vllm.ai/en/v0.18.0/cli/serve/ has it, and https://docs.vllm.ai/en/v0.12.0/cli/serve/ has not.
"""
_TAG = re.compile(r":v?(\d+)\.(\d+)[^:/]*$")


def manifests(workload: WorkloadValue, otlp_url: str) -> list[Manifest]:
    """Deployment, Service, PodDisruptionBudget. vLLM answers /health once it has loaded and warmed its model."""
    made = objects.container(workload, "vllm", PORTS, objects.mounts(workload, STORE))
    made["command"] = ["vllm", "serve"]
    made["args"] = _arguments(workload, otlp_url)
    if otlp_url:
        protocol = {"name": "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "value": "http/protobuf"}
        made["env"] = [*made.get("env", []), protocol, objects.sends_spans()]
    # /health stays 200 while vLLM ends, so the endpoint goes first: Kubernetes removes it on deletion, and SIGTERM waits for that.
    made["lifecycle"] = {"preStop": {"sleep": {"seconds": 5}}}
    made |= objects.http_probes(workload, "http", "/health", "/health")
    volumes = [*objects.volumes(workload), objects.at_home(made)]
    return [
        objects.deployment(workload, objects.pod(workload, made, volumes), objects.scraped(PORTS["http"])),
        objects.service(workload, PORTS, headless=True),
        objects.disruption_budget(workload),
    ]


def _arguments(workload: WorkloadValue, otlp_url: str) -> list[str]:
    arguments = [
        STORE if workload.store_claim else workload.model_source,
        f"--served-model-name={workload.served_name}",
        "--port=8000",
        # The gateway's tiers are priorities.
        "--scheduling-policy=priority",
    ]
    version = _version(workload.image)
    if version is not None and version >= WAITS_SINCE:
        # Else requests in flight end with the finish reason "abort" on SIGTERM.
        arguments.append(f"--shutdown-timeout={max(1, workload.drain_s - 10)}")
    if workload.gpus > 1:
        arguments.append(f"--tensor-parallel-size={workload.gpus}")
    if otlp_url:
        arguments += [f"--otlp-traces-endpoint={otlp_url}/v1/traces", "--collect-detailed-traces=all"]
    return arguments + list(workload.arguments)


def _version(image: str) -> tuple[int, int] | None:
    """Major and minor version, of an image whose tag says it."""
    tag = _TAG.search(image.partition("@")[0])
    return (int(tag[1]), int(tag[2])) if tag else None
