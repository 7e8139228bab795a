"""A request with only Triton's spans has the fleet's name for its model."""

from pathlib import Path

import pytest

from controlplane.telemetry.core.spans import CLIENT, SERVER, AttrValue, Span
from controlplane.telemetry.ingest.pipeline.batch import rows_of
from controlplane.telemetry.ingest.pipeline.fleet_names import FleetNames, NamesInForce, Place, names_of
from inference.contract import snapshot_file
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot
from tests.support.telemetry.ledger_traces import gateway_trace, span


def pool(name: str, triton_name: str) -> Pool:
    return Pool(name, variant=name, region="eu", model_name=triton_name, model_version="1", endpoints=())


def fleet(*models: tuple[str, list[str]], pools: list[Pool]) -> Snapshot:
    routed = tuple(Model(name, tuple(Route(pool) for pool in through)) for name, through in models)
    return Snapshot(version=1, models=routed, pools=tuple(pools), tiers=(), tenants=())


POOLS = [pool("large-eu", "chat_large"), pool("large-us", "chat_large"), pool("small-eu", "chat_small")]
FLEET = fleet(("chat-large", ["large-eu", "large-us"]), ("chat-small", ["small-eu"]), pools=POOLS)


def tritons(model: str) -> list[Span]:
    request = span("InferRequest", 0, 100, kind=SERVER, scope="triton-server", service="triton")
    also = {"triton.model_name": model}
    return [request, span(model, 5, 95, request, kind=SERVER, scope="triton-server", service="triton", also=also)]


def test_the_fleets_name_stands_for_tritons_unless_it_serves_two_models() -> None:
    assert names_of(FLEET).models == {"chat_large": "chat-large", "chat_small": "chat-small"}
    shared = fleet(("chat-large", ["large-eu"]), ("draft", ["large-eu"]), pools=POOLS)
    assert names_of(shared).models == {}


def models(spans: list[Span]) -> list[str]:
    rows = rows_of(spans, names_of(FLEET))
    assert rows is not None
    return [row.model for row in rows]


def test_what_triton_alone_tells_of_is_counted_under_the_fleets_name_and_what_says_its_model_under_that() -> None:
    assert models(tritons("chat_large")) == ["chat-large"]
    assert models(tritons("somebody_elses")) == ["somebody_elses"]
    assert models(gateway_trace(root={"weir__model": "chat_large"})) == ["chat_large"]


def test_the_snapshot_is_read_again_once_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("controlplane.telemetry.ingest.pipeline.fleet_names.time.monotonic", lambda: now_s[0])
    path = tmp_path / "snapshot.json"
    names = NamesInForce(path)
    assert names() == FleetNames(), "no fleet was published"
    snapshot_file.write(path, FLEET)
    now_s[0] += 1
    assert names() == names_of(FLEET)
    path.write_bytes(b"{")
    now_s[0] += 1
    assert names() == names_of(FLEET), "what cannot be read leaves the last names"
    snapshot_file.write(path, fleet(("chat", ["large-eu"]), pools=POOLS))
    now_s[0] += 1
    assert names().models == {"chat_large": "chat"}


VLLM = Pool(
    "vllm-eu", "8b", "eu", "llama", "", (
        Endpoint("vllm-0", url="http://10.0.0.7:8000/v1", metrics="http://10.0.0.7:8000/metrics"),
        Endpoint("vllm-1", url="http://10.0.0.8:8000/v1"),
    ), protocol="openai",
)  # fmt: skip
SERVED = fleet(("llama-3", ["vllm-eu"]), pools=[VLLM])


@pytest.mark.parametrize(
    ("resource", "replica"),
    [
        ({"k8s.pod.name": "vllm-1"}, "vllm-1"),
        ({"k8s.pod.ip": "10.0.0.7"}, "vllm-0"),
        ({"server.address": "10.0.0.8", "server.port": 8000}, "vllm-1"),
        ({"weir.pool": "vllm-eu", "weir.replica": "vllm-7", "weir.model": "llama-3"}, "vllm-7"),
        ({}, ""),
    ],
)
def test_a_server_that_is_called_directly_is_known_by_its_resource(
    resource: dict[str, AttrValue], replica: str
) -> None:
    engine = span("llm_request", 0, 100, kind=SERVER, service="vllm-eu")._replace(resource=resource)
    [row] = rows_of([engine], names_of(SERVED)) or []
    assert (row.model, row.pool, row.replica) == ("llama-3", "vllm-eu", replica)


def test_a_server_is_known_by_the_address_that_its_caller_used() -> None:
    call = span("POST", 0, 100, kind=CLIENT, server__address="10.0.0.7", server__port=8000)
    engine = span("llm_request", 10, 90, call, kind=SERVER, service="vllm")
    [row] = rows_of([call, engine], names_of(SERVED)) or []
    assert (row.model, row.pool, row.replica, row.region) == ("llama-3", "vllm-eu", "vllm-0", "eu")


def test_a_model_is_taken_from_the_nearest_span_around_the_request() -> None:
    agent = span("invoke_agent", 0, 200, gen_ai__request__model="far")
    chat = span("chat", 0, 150, agent, gen_ai__request__model="llama-3")
    call = span("POST", 0, 100, chat, kind=CLIENT)
    engine = span("llm_request", 10, 90, call, kind=SERVER)
    [row] = rows_of([agent, chat, call, engine], FleetNames()) or []
    assert (row.model, row.pool) == ("llama-3", "")


def test_what_stands_for_several_replicas_or_models_names_none() -> None:
    other = Pool(
        "vllm-us", "8b", "us", "llama", "", (Endpoint("vllm-0", url="http://10.1.0.7:8000/v1"),), protocol="openai"
    )
    both = names_of(fleet(("llama-3", ["vllm-eu", "vllm-us"]), ("draft", ["vllm-us"]), pools=[VLLM, other]))
    assert "vllm-0" not in both.places
    assert both.places["10.1.0.7:8000"] == Place("vllm-us", "8b", "us", "", "vllm-0"), "the pool serves two models"
