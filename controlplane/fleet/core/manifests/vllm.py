"""A pool of vLLM servers."""

from controlplane.fleet.core.manifests import objects
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.values import WorkloadValue

PORTS = {"http": 8000}
STORE = "/model"


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
    return [
        objects.deployment(
            workload, objects.pod(workload, made, objects.volumes(workload)), objects.scraped(PORTS["http"])
        ),
        objects.service(workload, PORTS, headless=True),
        objects.disruption_budget(workload),
    ]


def _arguments(workload: WorkloadValue, otlp_url: str) -> list[str]:
    arguments = [
        STORE if workload.store_claim else workload.model_source,
        f"--served-model-name={workload.served_name}",
        "--port=8000",
        # Else requests in flight end with the finish reason "abort" on SIGTERM.
        f"--shutdown-timeout={max(1, workload.drain_s - 10)}",
        # The gateway's tiers are priorities.
        "--scheduling-policy=priority",
    ]
    if workload.gpus > 1:
        arguments.append(f"--tensor-parallel-size={workload.gpus}")
    if otlp_url:
        arguments += [f"--otlp-traces-endpoint={otlp_url}/v1/traces", "--collect-detailed-traces=all"]
    return arguments + list(workload.arguments)
