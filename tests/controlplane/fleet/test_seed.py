import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.fleet import seed
from controlplane.fleet.models import Cluster, LLMModel, Pool, Replica, Tier
from controlplane.planning.demo import fleet_streams
from controlplane.slo.models import StoredObjective
from controlplane.slo.seed import make_first_objectives
from tests.support.fleet import fleet

pytestmark = pytest.mark.django_db


def apply(tmp_path: Path, document: Any) -> list[str]:
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(document))
    return seed.apply_seed(seed.read(path))


def addresses() -> dict[str, str]:
    return {one.name: one.grpc for one in Replica.objects.all()}


def test_the_first_run_makes_everything_and_says_so(tmp_path: Path) -> None:
    document = fleet(("triton-0", 7000), ("triton-1", 7010))
    done = apply(tmp_path, document)
    assert addresses() == {"triton-0": "127.0.0.1:7000", "triton-1": "127.0.0.1:7010"}
    assert done == [
        "made model chat-large",
        "made variant chat-large",
        "made region local",
        "made pool chat-large-local",
        "made replica chat-large-local · triton-0",
        "made replica chat-large-local · triton-1",
    ]
    assert apply(tmp_path, document) == [], "the same run again does nothing"


def test_a_later_run_moves_replicas_even_when_they_swap_addresses(tmp_path: Path) -> None:
    apply(tmp_path, fleet(("triton-0", 7000), ("triton-1", 7010)))
    done = apply(tmp_path, fleet(("triton-0", 7010), ("triton-1", 7000)))
    assert addresses() == {"triton-0": "127.0.0.1:7010", "triton-1": "127.0.0.1:7000"}
    assert len(done) == 2


def test_an_owners_edits_stay(tmp_path: Path) -> None:
    apply(tmp_path, fleet(("triton-0", 7000)))
    Pool.objects.update(max_queue=3, model_name="chat_large_v2")
    LLMModel.objects.update(cache_mode="never")
    apply(tmp_path, fleet(("triton-0", 7100)))
    pool = Pool.objects.get()
    assert (pool.max_queue, pool.model_name, LLMModel.objects.get().cache_mode) == (3, "chat_large_v2", "never")
    assert addresses() == {"triton-0": "127.0.0.1:7100"}


def test_replicas_that_the_launcher_no_longer_starts_go_and_an_owners_stay(tmp_path: Path) -> None:
    apply(tmp_path, fleet(("triton-0", 7000), ("triton-1", 7010)))
    Replica.objects.create(pool=Pool.objects.get(), name="far", grpc="far.example:8001")
    apply(tmp_path, fleet(("triton-0", 7000)))
    assert addresses() == {"triton-0": "127.0.0.1:7000", "far": "far.example:8001"}


def test_replicas_of_the_local_cluster_are_discovered_from_then_on(tmp_path: Path) -> None:
    done = apply(tmp_path, fleet(("chat-large-local-0", 7000), cluster="local"))
    assert done[0] == "made cluster local"
    assert Pool.objects.get().cluster == Cluster.objects.get(name="local", kind="local", enabled=True)
    assert Replica.objects.get().managed_by == "cluster"


def test_replicas_of_an_earlier_run_of_the_cluster_go_and_names_that_come_again_take_traffic(tmp_path: Path) -> None:
    apply(tmp_path, fleet(("chat-0", 7000), ("chat-1", 7010), cluster="local"))
    Replica.objects.create(pool=Pool.objects.get(), name="chat-5", grpc="127.0.0.1:7050", managed_by="cluster")
    Replica.objects.update(draining=True)
    apply(tmp_path, fleet(("chat-0", 7000), ("chat-1", 7100), cluster="local"))
    assert addresses() == {"chat-0": "127.0.0.1:7000", "chat-1": "127.0.0.1:7100"}
    assert not Replica.objects.filter(draining=True).exists()


def test_the_local_cluster_is_disabled_while_no_launcher_runs_it(tmp_path: Path) -> None:
    apply(tmp_path, fleet(("chat-0", 7000), cluster="local"))
    assert "disabled cluster local" in apply(tmp_path, {"models": []})
    assert not Replica.objects.exists()
    assert "enabled cluster local" in apply(tmp_path, fleet(("chat-0", 7000), cluster="local"))


def test_a_model_is_compared_by_an_embedder_before_it_and_serves_nothing_for_similar_requests(tmp_path: Path) -> None:
    [chat], [letters] = fleet()["models"], fleet(name="letters-local", variant="letters")["models"]
    letters["name"] = "letters"
    with pytest.raises(seed.SeedError, match="Choose the model that makes vectors"):
        apply(tmp_path, {"models": [chat | {"compared_by": "letters"}]})
    apply(tmp_path, {"models": [letters, chat | {"compared_by": "letters"}]})
    model = LLMModel.objects.get(name="chat-large")
    assert model.semantic_embedder == LLMModel.objects.get(name="letters")
    assert (model.semantic_mode, model.semantic_other_words) == ("shadow", True)
    make_first_objectives()
    assert not StoredObjective.objects.filter(slug__startswith="letters").exists(), "clients need none of it"
    Tier.objects.create(name="standard", priority=1)
    assert {it.model for it in fleet_streams(1.0)} == {"chat-large"}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "missing required field `models`"),
        ({"models": [{"name": "chat"}]}, "missing required field `pools`"),
        ({"models": [], "model": []}, "unknown field `model`"),
        (fleet(("triton-0", 99_999)), "“127.0.0.1:99999” is not an address"),
        (fleet(region="New York"), "“New York” is not a name"),
        (fleet(("triton-0", 7000), signature="vlm"), "'vlm' is not a valid choice"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(tmp_path: Path, document: Any, says: str) -> None:
    with pytest.raises(seed.SeedError, match=says):
        apply(tmp_path, document)
    assert not LLMModel.objects.exists()
    with pytest.raises(seed.SeedError, match=r"nowhere\.json does not exist"):
        seed.read(tmp_path / "nowhere.json")


def test_a_file_says_what_the_servers_of_a_pool_are(tmp_path: Path) -> None:
    mapping = {
        "inputs": [{"name": "question", "datatype": "BYTES", "value": "prompt"}],
        "outputs": [{"name": "answer", "datatype": "BYTES", "value": "text"}],
    }
    apply(tmp_path, fleet(("triton-0", 7000), signature="mapping", mapping=mapping))
    pool = Pool.objects.get()
    assert (pool.signature, pool.mapping) == ("mapping", mapping)
