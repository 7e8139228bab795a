"""A request with only Triton's spans has the fleet's name for its model."""

from pathlib import Path

import pytest

from controlplane.telemetry.core.spans import SERVER, Span
from controlplane.telemetry.ingest.pipeline.batch import rows_of
from controlplane.telemetry.ingest.pipeline.model_names import ModelNames, names_of
from inference.core.snapshot import Model, Pool, Route, Snapshot
from inference.policy import snapshot_file
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


def test_the_fleets_name_stands_for_tritons() -> None:
    assert names_of(FLEET) == {"chat_large": "chat-large", "chat_small": "chat-small"}


def test_a_name_that_serves_two_models_is_neithers() -> None:
    shared = fleet(("chat-large", ["large-eu"]), ("draft", ["large-eu"]), pools=POOLS)
    assert names_of(shared) == {}


def models(spans: list[Span]) -> list[str]:
    rows = rows_of(spans, names_of(FLEET))
    assert rows is not None
    return [row.model for row in rows]


def test_what_triton_alone_tells_of_is_counted_under_the_fleets_name() -> None:
    assert models(tritons("chat_large")) == ["chat-large"]
    assert models(tritons("somebody_elses")) == ["somebody_elses"]


def test_what_says_itself_which_model_it_asked_for_keeps_that_name() -> None:
    assert models(gateway_trace(root={"weir__model": "chat_large"})) == ["chat_large"]


def test_the_snapshot_is_read_again_once_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("controlplane.telemetry.ingest.pipeline.model_names.time.monotonic", lambda: now_s[0])
    path = tmp_path / "snapshot.json"
    names = ModelNames(path)
    assert names() == {}, "no fleet was published"
    snapshot_file.write(path, FLEET)
    now_s[0] += 1
    assert names() == names_of(FLEET)
    path.write_bytes(b"{")
    now_s[0] += 1
    assert names() == names_of(FLEET), "what cannot be read leaves the last names"
    snapshot_file.write(path, fleet(("chat", ["large-eu"]), pools=POOLS))
    now_s[0] += 1
    assert names() == {"chat_large": "chat"}
