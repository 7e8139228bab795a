"""Runs the Triton Inference Server 2.51 of the `nvidia-pytriton` wheel, in an environment of its own (`.venv-triton`)."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from deploy.local.ports import LOOPBACK
from deploy.local.process import ROOT, Command, http_ok, http_status

MODEL_REPOSITORY = ROOT / "deploy" / "local" / "models" / "repository"
MODELS = ("chat_large", "chat_small")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (where Triton's python backend puts its regions)

# Triton 2.51's own span queue (2048) overflows at rate=1 under load, and then the server crashes.
SPAN_QUEUE = ("bsp_max_queue_size=65536", "bsp_schedule_delay=200", "bsp_max_export_batch_size=512")


@dataclass(frozen=True, slots=True)
class Triton:
    """One replica. Addresses are host:port."""

    name: str
    grpc: str
    http: str
    metrics: str
    command: Command


def triton(
    ports: tuple[int, int, int],
    *,
    name: str = "triton",
    models: Sequence[str] = MODELS,
    otlp_endpoint: str = "",
    repository: Path = MODEL_REPOSITORY,
    config: str = "",
    region_prefix: str = "",
    env: Mapping[str, str] | None = None,
) -> Triton:
    """A Triton on loopback, at the ports (gRPC, HTTP, metrics), with `models` loaded.

    `otlp_endpoint` such as http://127.0.0.1:4318 receives its traces, each request's; empty traces nothing. `env` reaches the models
    (`docs/models.md`). `config` takes configs/NAME.pbtxt of each model for its config.pbtxt. Names of its
    shared memory regions begin with `region_prefix`, else with one made of its port.
    Raises FileNotFoundError where its environment is missing.
    """
    grpc, http, metrics = ports
    home = installation()
    region_prefix = region_prefix or f"weir_triton_{grpc}_"
    argv = [
        str(home.server / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={home.server / 'backends'}",
        f"--backend-config=python,shm-region-prefix-name={region_prefix}",
        "--model-control-mode=explicit",
        *(f"--load-model={model}" for model in models),
        *(f"--{service}-address={LOOPBACK}" for service in ("http", "grpc", "metrics")),
        f"--grpc-port={grpc}",
        f"--http-port={http}",
        f"--metrics-port={metrics}",
        "--metrics-config=summary_latencies=true",
        "--metrics-interval-ms=500",
        "--disable-auto-complete-config",
        "--exit-timeout-secs=5",
    ]
    if config:
        argv.append(f"--model-config-name={config}")
    if otlp_endpoint:
        argv += [
            "--trace-config=mode=opentelemetry",
            "--trace-config=level=TIMESTAMPS",
            "--trace-config=rate=1",
            f"--trace-config=opentelemetry,url={otlp_endpoint}/v1/traces",
            "--trace-config=opentelemetry,resource=service.name=triton",
            f"--trace-config=opentelemetry,resource=service.instance.id={name}",
            *(f"--trace-config=opentelemetry,{setting}" for setting in SPAN_QUEUE),
        ]
    command = Command(
        name,
        tuple(argv),
        lambda: http_ok(http, "/v2/health/ready") and http_ok(metrics, "/metrics"),  # which is ready last
        answers=partial(http_status, http, "/v2/health/live"),
        env={**home.env, **(env or {})},
        clean_up=partial(remove_regions, region_prefix),
    )
    return Triton(name, f"{LOOPBACK}:{grpc}", f"{LOOPBACK}:{http}", f"{LOOPBACK}:{metrics}", command)


def remove_regions(prefix: str) -> None:
    """Remove shared memory that crashed servers with this region prefix left behind."""
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Installation:
    server: Path  # the folder with bin/tritonserver
    env: Mapping[str, str]


@cache
def installation() -> Installation:
    """Where Triton is, with its stub in the backend's folder. Raises FileNotFoundError."""
    venv = Path(os.environ.get("WEIR_TRITON_VENV", ROOT / ".venv-triton"))
    python = venv / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(f"Triton's environment {venv} is missing: make it with `make setup`")
    facts = json.loads(subprocess.check_output((str(python), "-c", FACTS)))
    site = Path(facts["site"])
    server = site / "pytriton" / "tritonserver"
    _place_stub(server, facts["version"])
    return Installation(
        server,
        {
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
            "LD_LIBRARY_PATH": facts["libdir"],  # else the stub links another libpython
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
    )


FACTS = """
import json, sys, sysconfig
print(json.dumps({"site": sysconfig.get_path("purelib"), "libdir": sysconfig.get_config_var("LIBDIR"),
                  "version": "%d.%d" % sys.version_info[:2]}))
"""


def _place_stub(server: Path, version: str) -> None:
    """Copy the stub of this Python beside the backend's library. In any other folder it does not find it, and loading hangs."""
    source = server / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not source.exists():
        raise FileNotFoundError(
            f"Triton has no python backend for Python {version}: make .venv-triton with Python 3.11"
        )
    target = server / "backends" / "python" / source.name
    if target.exists() and target.stat().st_size == source.stat().st_size:
        return
    temporary = target.with_suffix(f".{os.getpid()}")
    shutil.copy2(source, temporary)
    temporary.chmod(0o755)
    temporary.replace(target)
