"""A Triton pool: one model on GPU nodes."""

import base64
import hashlib

from controlplane.fleet.core.manifests import objects
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.triton_config import config_pbtxt, warm_up_files
from controlplane.fleet.core.manifests.values import TritonModel, WorkloadValue

PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
REPOSITORY = "/models"
CONFIG = "config.pbtxt"
SPAN_QUEUE = ("bsp_max_queue_size=65536", "bsp_schedule_delay=200", "bsp_max_export_batch_size=512")
"""Triton's own queue of 2,048 spans overflows under load."""


def manifests(workload: WorkloadValue, otlp_url: str) -> list[Manifest]:
    """Deployment, Service, PodDisruptionBudget, and the model's configuration where Weir writes it.

    Without a backend the store holds a whole repository, with its configurations. Raises NotRenderedError.
    """
    model = workload.model
    if model is None:
        raise ValueError(f"workload {workload.name!r} has no model")
    files = {CONFIG: config_pbtxt(model).encode()} if model.backend else {}
    if files:
        files |= {f"warmup/{name}": data for name, data in warm_up_files(model).items()}
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16] if files else ""
    made = [
        objects.deployment(
            workload, _pod(workload, model, list(files), otlp_url), objects.scraped(PORTS["metrics"]), digest
        ),
        objects.service(workload, PORTS, headless=True),
        objects.disruption_budget(workload),
    ]
    if files:
        made.insert(0, _config_map(workload, files))
    return made


def _config_map(workload: WorkloadValue, files: dict[str, bytes]) -> Manifest:
    """Keys have no slash; the pod gives each file its path again. The configuration is text, so that people can read it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": objects.metadata(workload, f"{workload.name}-model"),
        "data": {path: data.decode() for path, data in files.items() if path == CONFIG},
        "binaryData": {_key(path): base64.b64encode(data).decode() for path, data in files.items() if path != CONFIG},
    }


def _key(path: str) -> str:
    return path.replace("/", ".")


def _pod(workload: WorkloadValue, model: TritonModel, files: list[str], otlp_url: str) -> Manifest:
    folder = f"{REPOSITORY}/{model.name}"
    volumes, mounts = objects.volumes(workload), objects.mounts(workload, REPOSITORY)
    if files:
        # The store has the version's folder alone; the configuration and the warm-up lie beside it.
        mounts = objects.mounts(workload, f"{folder}/{model.version or '1'}")
        name = f"{workload.name}-model"
        volumes = [{"name": "model", "configMap": {"name": name}}, *volumes]
        own = [
            {"name": "model", "mountPath": f"{folder}/{path}", "subPath": _key(path), "readOnly": True}
            for path in files
        ]
        mounts = [*own, *mounts]
    made = objects.container(workload, "triton", PORTS, mounts)
    made["command"] = ["tritonserver"]
    made["args"] = [*_arguments(workload, model, otlp_url), *workload.arguments]
    if otlp_url:
        made.setdefault("env", []).append(objects.sends_spans())
    made |= objects.http_probes(workload, "http", f"/v2/models/{model.name}/ready", "/v2/health/live")
    return objects.pod(workload, made, [*volumes, objects.at_home(made)])


def _arguments(workload: WorkloadValue, model: TritonModel, otlp_url: str) -> list[str]:
    arguments = [
        f"--model-repository={REPOSITORY}",
        "--model-control-mode=explicit",
        # All of the repository where Weir does not know its parts: an ensemble needs the models that it is made of.
        f"--load-model={model.name if model.backend else '*'}",
        "--metrics-config=summary_latencies=true",
        # On SIGTERM requests in flight are finished first.
        f"--exit-timeout-secs={max(1, workload.drain_s - 5)}",
    ]
    if otlp_url:
        arguments += [
            "--trace-config=mode=opentelemetry",
            "--trace-config=level=TIMESTAMPS",
            "--trace-config=rate=1",
            f"--trace-config=opentelemetry,url={otlp_url}/v1/traces",
            "--trace-config=opentelemetry,resource=service.name=triton",
            f"--trace-config=opentelemetry,resource=weir.pool={workload.pool}",
            *(f"--trace-config=opentelemetry,{setting}" for setting in SPAN_QUEUE),
        ]
    return arguments
