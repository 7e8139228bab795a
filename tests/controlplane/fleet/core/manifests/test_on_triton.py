"""A rendered model folder is what a real Triton starts from."""

import base64
import shutil
from pathlib import Path

from tritonclient.grpc import InferenceServerClient

from controlplane.fleet.core.manifests.render import Surroundings, render
from controlplane.fleet.core.manifests.values import Batching, TritonModel, WorkloadValue
from deploy.local.ports import free_ports
from deploy.local.triton import MODEL_REPOSITORY, triton
from tests.support.start import Start

MODEL = TritonModel(
    "chat_small",
    "1",
    "python",
    "weir",
    batching=Batching(4, (4,), 1_000, 3, 2, 128, 30_000_000),
    parameters=(("timing", "C/a100-80gb/tp4"), ("max_sequences", "16")),
)
WORKLOAD = WorkloadValue("small", "triton", "weir", "tritonserver:1", store_claim="models", model=MODEL)


def test_it_warms_up_and_has_what_was_entered(start: Start, tmp_path: Path) -> None:
    """Files are laid out by the pod's mounts, as the kubelet would. The stand-in for the GPU runs as instances on the CPU."""
    files, deployment, *_ = render(WORKLOAD, Surroundings())
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    contents = {name: text.encode() for name, text in files["data"].items()}
    contents |= {name: base64.b64decode(data) for name, data in files["binaryData"].items()}
    for mount in container["volumeMounts"]:
        path = tmp_path / mount["mountPath"].removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if mount["name"] == "store":
            shutil.copytree(MODEL_REPOSITORY / "chat_small" / "1", path, symlinks=False)
        elif mount["name"] == "model":
            path.write_bytes(contents[mount["subPath"]])
    ports = free_ports(3)
    server = triton((ports[0], ports[1], ports[2]), models=("chat_small",), repository=tmp_path / "models")
    start(server.command)
    with InferenceServerClient(server.grpc) as client:
        config = client.get_model_config("chat_small", as_json=True)["config"]
        counted = client.get_inference_statistics("chat_small", as_json=True)["model_stats"][0]
    assert config["dynamic_batching"]["priority_levels"] == "3"
    assert config["model_warmup"][0]["name"] == "warm-up"
    assert int(counted["execution_count"]) >= 1, "the sample of the warm-up has run"
