"""The serving stack as Kubernetes objects."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from controlplane.fleet.clusters.kubernetes import paths
from controlplane.fleet.core.manifests.quantity import parse
from controlplane.fleet.core.manifests.render import render
from controlplane.fleet.core.manifests.values import WorkloadValue
from inference.config import Config
from inference.contract.tensor_mapping import InputTensor, OutputTensor, TensorMapping
from tests.support.deploy.workloads import ALL, AROUND, GATEWAY, MODEL, REDIS, TRITON, VLLM


def of(workload: WorkloadValue) -> dict[str, dict[str, Any]]:
    return {manifest["kind"]: manifest for manifest in render(workload, AROUND)}


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


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.kind)
def test_no_name_of_a_service_becomes_a_setting(workload: WorkloadValue) -> None:
    """Kubernetes would set WEIR_GATEWAY_PORT in the pods beside a Service weir-gateway."""
    assert of(workload)["Deployment"]["spec"]["template"]["spec"]["enableServiceLinks"] is False


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
        render(replace(TRITON, model=replace(MODEL, signature="trtllm_bls")), AROUND)
    whole = replace(TRITON, store_path="", model=replace(MODEL, signature="trtllm_bls", backend=""))
    assert "ConfigMap" not in of(whole)
    assert "--load-model=*" in container(whole)["args"]
    assert {mount["mountPath"] for mount in container(whole)["volumeMounts"]} == {"/models", "/dev/shm", "/home/weir"}


def test_a_vllm_finishes_its_requests_and_obeys_priorities() -> None:
    arguments = container(VLLM)["args"]
    assert arguments[:2] == ["/model", "--served-model-name=small"]
    assert {"--shutdown-timeout=110", "--scheduling-policy=priority", "--tensor-parallel-size=4"} <= set(arguments)
    assert arguments[-1] == "--max-num-seqs=64"
    hub = replace(VLLM, store_claim="", store_path="", model_source="org/model")
    assert container(hub)["args"][0] == "org/model"


def test_a_cache_leaves_room_below_its_limit_and_wants_its_password() -> None:
    command = container(REDIS)["command"][-1]
    assert f"--maxmemory {3 * 2**30} " in command
    assert '--requirepass "$REDISCLI_AUTH"' in command


def test_gateways_accept_their_settings_and_end_within_their_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    made = of(GATEWAY)
    for each in container(GATEWAY)["env"]:
        monkeypatch.setenv(each["name"], each["value"])
    config = Config()
    assert (
        config.termination_grace_ms
        == made["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] * 1000
    )
    assert config.redis_url == "redis://weir-cache:6379/0"
    scaler = made["HorizontalPodAutoscaler"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 30)


def test_gateways_are_discovered_and_let_in_by_their_label() -> None:
    deployment = of(GATEWAY)["Deployment"]
    (name, value) = paths.GATEWAY_LABEL
    assert deployment["metadata"]["labels"][name] == value
    assert deployment["spec"]["template"]["metadata"]["labels"][name] == value
    assert name not in deployment["spec"]["selector"]["matchLabels"], "a selector can never change"


@pytest.mark.parametrize(("text", "value"), [("500m", 0.5), ("4", 4), ("1.5Gi", 1.5 * 2**30), ("2G", 2e9)])
def test_quantities(text: str, value: float) -> None:
    assert float(parse(text)) == value


@pytest.mark.parametrize("text", ["", "0", "-1", "4 Gi", "1e3", "Gi"])
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write one such as 500m"):
        parse(text)


@pytest.mark.parametrize(
    ("image", "knows"),
    [
        ("vllm/vllm-openai:v0.12.0", False),
        ("vllm/vllm-openai:v0.17.1", False),
        ("registry:5000/vllm:0.18.0-cu130", True),
        ("vllm/vllm-openai:v1.0.0@sha256:00ff", True),
        ("vllm/vllm-openai:latest", False),
        ("registry:5000/vllm", False),
    ],
)
def test_a_vllm_gets_no_argument_that_its_version_may_not_know(image: str, knows: bool) -> None:
    arguments = container(replace(VLLM, image=image))["args"]
    assert any(each.startswith("--shutdown-timeout") for each in arguments) is knows


@pytest.mark.parametrize("workload", [TRITON, VLLM], ids=lambda workload: workload.kind)
def test_a_model_server_has_a_home_that_its_user_may_write(workload: WorkloadValue) -> None:
    made = container(workload)
    home = {each["name"]: each.get("value") for each in made["env"]}["HOME"]
    assert {"name": "home", "mountPath": home} in made["volumeMounts"]
