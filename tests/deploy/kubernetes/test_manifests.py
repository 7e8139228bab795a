"""The manifests of deploy/kubernetes, as kustomize builds them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.lane.config import LaneConfig
from controlplane.telemetry.config import IngestConfig
from inference.config import Config as GatewayConfig
from tests.deploy.kubernetes.built import built

OVERLAYS = ["base", "overlays/starter", "overlays/production"]
WORKLOADS = {"Deployment", "StatefulSet", "Job"}

Manifest = dict[str, Any]


@pytest.fixture(scope="module", params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return built(request.param)


def workloads(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for manifest in manifests:
        if manifest["kind"] in WORKLOADS:
            yield manifest["metadata"]["name"], manifest["spec"]["template"]["spec"]


def by_name(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    [found] = [each for each in manifests if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def test_every_container_is_restricted_and_bounded(manifests: list[Manifest]) -> None:
    pods = dict(workloads(manifests))
    assert pods.keys() == {
        "weir-migrate",
        "weir-web",
        "weir-worker",
        "weir-controller",
        "weir-telemetry",
        "weir-gateway",
        "weir-lane",
    }
    for name, pod in pods.items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["enableServiceLinks"] is False, f"{name}: the Service weir-gateway would set WEIR_GATEWAY_PORT"
        for container in pod["containers"] + pod.get("initContainers", []):
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"] is True and own["allowPrivilegeEscalation"] is False, name
            assert own["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
            assert "memory" in container["resources"]["limits"], name
            assert {"/tmp", "/var/lib/weir"} <= {mount["mountPath"] for mount in container["volumeMounts"]}, name


def test_every_process_is_probed(manifests: list[Manifest]) -> None:
    for name, pod in workloads(manifests):
        if name == "weir-migrate":
            continue
        [container] = pod["containers"]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["path"] == "/healthz", name
            assert container[probe]["httpGet"]["port"] in ports, name
        if name != "weir-worker":  # which serves nobody
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz", name


def test_only_the_controller_has_a_token_of_the_cluster(manifests: list[Manifest]) -> None:
    for name, pod in workloads(manifests):
        if name == "weir-controller":
            assert pod["serviceAccountName"] == "weir-controller"
        else:
            assert pod["automountServiceAccountToken"] is False, name


def test_the_gateway_reads_no_secret_of_the_control_plane(manifests: list[Manifest]) -> None:
    pods = dict(workloads(manifests))
    secrets = [source["secretRef"]["name"] for source in pods["weir-gateway"]["containers"][0]["envFrom"][1:]]
    assert secrets == ["weir-gateway"]


def test_every_setting_exists_and_is_accepted(
    manifests: list[Manifest], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared = by_name(manifests, "ConfigMap", "weir-settings")["data"]
    configs = (IngestConfig, LaneConfig, GatewayConfig)
    known = {f"WEIR_{name.upper()}" for config in configs for name in config.model_fields}
    for name, pod in workloads(manifests):
        own = {each["name"]: each["value"] for each in pod["containers"][0].get("env", [])}
        given = {**shared, **own}
        assert given.keys() <= known, f"{name}: {sorted(given.keys() - known)}"
        with monkeypatch.context() as context:
            for variable, value in {**given, "WEIR_LANE_TOKEN": "x" * 32}.items():  # of a Secret
                context.setenv(variable, value)
            (GatewayConfig if name == "weir-gateway" else LaneConfig if name == "weir-lane" else IngestConfig)()


def test_the_gateway_ends_within_its_grace(manifests: list[Manifest]) -> None:
    pod = dict(workloads(manifests))["weir-gateway"]
    own = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert int(own["WEIR_TERMINATION_GRACE_MS"]) == pod["terminationGracePeriodSeconds"] * 1000
    assert "replicas" not in by_name(manifests, "Deployment", "weir-gateway")["spec"], "its autoscaler owns the count"


def test_services_autoscalers_and_budgets_point_at_what_is_there(manifests: list[Manifest]) -> None:
    labels = {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["metadata"]["labels"]
        for manifest in manifests
        if manifest["kind"] in WORKLOADS
    }
    for manifest in manifests:
        kind, spec = manifest["kind"], manifest.get("spec", {})
        if kind == "Service":
            selector = spec["selector"]
        elif kind == "PodDisruptionBudget":
            selector = spec["selector"]["matchLabels"]
        else:
            if kind == "HorizontalPodAutoscaler":
                assert spec["scaleTargetRef"]["name"] in labels
            continue
        assert any(selector.items() <= each.items() for each in labels.values()), manifest["metadata"]["name"]


def test_no_image_is_unpinned_and_no_secret_is_written_down(manifests: list[Manifest]) -> None:
    assert not [manifest for manifest in manifests if manifest["kind"] == "Secret"]
    for name, pod in workloads(manifests):
        for container in pod["containers"]:
            assert re.fullmatch(r"[\w./-]+:\d[\w.-]*", container["image"]), f"{name}: {container['image']}"
