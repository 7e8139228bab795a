"""The serving stack as Kubernetes objects."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from controlplane.fleet.core.manifests import triton, vllm
from controlplane.fleet.core.manifests.values import Batching, TritonModel, WorkloadValue
from inference.contract.tensor_mapping import InputTensor, OutputTensor, TensorMapping

MODEL = TritonModel("chat_large", "3", "python", "weir", batching=Batching(4, (2, 4), 500, 3, 2, 128, 30_000_000))
TRITON = WorkloadValue(
    name="chat-large-eu",
    kind="triton",
    namespace="serving",
    image="tritonserver:25.08",
    pool="chat-large.eu",
    gpus=4,
    node_selector=(("cloud/gpu", "h100"),),
    store_claim="models",
    store_path="chat_large/3",
    shared_memory="8Gi",
    start_s=601,
    drain_s=120,
    model=MODEL,
)
VLLM = replace(
    TRITON,
    name="chat-small-eu",
    kind="vllm",
    image="vllm:0.12",
    model=None,
    served_name="small",
    arguments=("--max-num-seqs=64",),
)
ALL = [TRITON, VLLM]


def of(workload: WorkloadValue) -> dict[str, dict[str, Any]]:
    made = {"triton": triton, "vllm": vllm}[workload.kind].manifests(workload, "http://weir-telemetry:4318")
    return {manifest["kind"]: manifest for manifest in made}


def container(workload: WorkloadValue) -> dict[str, Any]:
    [only] = of(workload)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(only)


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.kind)
def test_each_has_a_service_a_budget_and_selectors_that_meet_its_pods(workload: WorkloadValue) -> None:
    made = of(workload)
    assert {"Deployment", "Service", "PodDisruptionBudget"} <= made.keys()
    pods = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selector = made["Deployment"]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= pods.items()
    assert made["Service"]["spec"]["selector"] == selector
    assert made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == selector
    assert {manifest["metadata"]["namespace"] for manifest in made.values()} == {"serving"}
    assert {port["targetPort"] for port in made["Service"]["spec"]["ports"]} == {
        port["name"] for port in container(workload)["ports"]
    }


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.kind)
def test_nobody_takes_the_count_from_who_scales_it(workload: WorkloadValue) -> None:
    assert "replicas" not in of(workload)["Deployment"]["spec"]


def test_a_triton_runs_on_gpu_nodes_and_is_ready_once_its_model_is() -> None:
    pod = of(TRITON)["Deployment"]["spec"]["template"]["spec"]
    triton = container(TRITON)
    assert triton["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert pod["nodeSelector"] == {"cloud/gpu": "h100"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert triton["readinessProbe"]["httpGet"] == {"path": "/v2/models/chat_large/ready", "port": "http"}
    assert triton["startupProbe"]["periodSeconds"] * triton["startupProbe"]["failureThreshold"] >= 601
    assert "--exit-timeout-secs=115" in triton["args"]
    assert pod["terminationGracePeriodSeconds"] == 120
    assert of(TRITON)["Deployment"]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == "8002"


def test_the_configuration_and_the_warm_up_lie_beside_the_version_of_the_store() -> None:
    paths = {mount["mountPath"]: mount for mount in container(TRITON)["volumeMounts"]}
    assert paths["/models/chat_large/3"] == {
        "name": "store",
        "mountPath": "/models/chat_large/3",
        "readOnly": True,
        "subPath": "chat_large/3",
    }
    files = of(TRITON)["ConfigMap"]
    keys = {*files["data"], *files["binaryData"]}
    assert {mount["subPath"] for path, mount in paths.items() if mount["name"] == "model"} == keys
    assert "/models/chat_large/config.pbtxt" in paths and "/models/chat_large/warmup/prompt" in paths
    prompt = base64.b64decode(files["binaryData"]["warmup.prompt"])
    assert (int.from_bytes(prompt[:4], "little"), prompt[4:]) == (
        len(MODEL.warm_up_prompt),
        MODEL.warm_up_prompt.encode(),
    )


def test_a_changed_configuration_starts_new_pods() -> None:
    other = replace(TRITON, model=replace(MODEL, instances=2))
    notes = [
        of(each)["Deployment"]["spec"]["template"]["metadata"]["annotations"]["weir.dev/config"]
        for each in (TRITON, other)
    ]
    assert notes[0] != notes[1]


def test_batching_and_priorities_reach_the_configuration() -> None:
    text = of(TRITON)["ConfigMap"]["data"]["config.pbtxt"]
    for line in (
        "max_batch_size: 4",
        "  preferred_batch_size: 2\n  preferred_batch_size: 4\n  max_queue_delay_microseconds: 500",
        "  priority_levels: 3\n  default_priority_level: 2",
        "    max_queue_size: 128",
        "instance_group {\n  count: 1",
    ):
        assert line in text


def test_vllm_batches_itself() -> None:
    text = of(replace(TRITON, model=replace(MODEL, signature="vllm", backend="vllm")))["ConfigMap"]["data"][
        "config.pbtxt"
    ]
    assert "KIND_MODEL" in text and "dynamic_batching" not in text and "model_warmup" not in text


def test_entered_tensors_are_written_as_entered() -> None:
    mapping = TensorMapping(
        (InputTensor("ask", "BYTES", "prompt", 2), InputTensor("limit", "UINT32", "constant", 1, "40")),
        (OutputTensor("said", "BYTES", "text"),),
    )
    files = of(replace(TRITON, model=replace(MODEL, signature="mapping", mapping=mapping)))["ConfigMap"]
    assert 'name: "ask"\n  data_type: TYPE_STRING\n  dims: 1\n  dims: 1' in files["data"]["config.pbtxt"]
    assert base64.b64decode(files["binaryData"]["warmup.limit"]) == (40).to_bytes(4, "little")


def test_a_model_whose_configuration_depends_on_its_engine_brings_its_own() -> None:
    with pytest.raises(ValueError, match="Put the whole model repository into the store"):
        of(replace(TRITON, model=replace(MODEL, signature="trtllm_bls")))
    whole = replace(TRITON, store_path="", model=replace(MODEL, signature="trtllm_bls", backend=""))
    assert "ConfigMap" not in of(whole)
    assert "--load-model=*" in container(whole)["args"]
    assert {mount["mountPath"] for mount in container(whole)["volumeMounts"]} == {"/models", "/dev/shm"}


def test_a_vllm_finishes_its_requests_and_obeys_priorities() -> None:
    arguments = container(VLLM)["args"]
    assert arguments[:2] == ["/model", "--served-model-name=small"]
    assert {"--shutdown-timeout=110", "--scheduling-policy=priority", "--tensor-parallel-size=4"} <= set(arguments)
    assert arguments[-1] == "--max-num-seqs=64"
    hub = replace(VLLM, store_claim="", store_path="", model_source="org/model")
    assert container(hub)["args"][0] == "org/model"
