"""What the launcher finds out of the servers of WEIR_BACKEND_URL, and what it says when it cannot."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from controlplane.fleet import seed
from controlplane.fleet.models import LLMModel, Pool, Replica
from controlplane.fleet.snapshot_values import fleet_values
from deploy.local import backend, options
from deploy.local.backend import Served, Server, client_name
from deploy.local.errors import CannotRunError
from deploy.local.options import Options
from deploy.local.ports import free_port
from tests.support import fleet as demo
from tests.support.http_server import ThreadedServer

VLLM = {"object": "list", "data": [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 2048}]}


@contextmanager
def listing(status: int, body: str, key: str = "") -> Iterator[str]:
    """A server that answers so to GET /v1/models, and 401 without its key."""

    async def answer(request: web.Request) -> web.Response:
        known = not key or request.headers.get("Authorization") == f"Bearer {key}"
        said = status if request.path == "/v1/models" and known else 404 if known else 401
        return web.Response(status=said, text=body, headers={"Location": "http://127.0.0.1:1/v1/models"})

    with ThreadedServer(web.get("/{path:.*}", answer)) as server:
        yield f"{server.url}/v1"


def test_the_models_of_a_server_are_listed_with_its_key() -> None:
    with listing(200, json.dumps(VLLM), key="let-me-in") as url:
        assert backend.servers([url], "let-me-in") == [Server(url, (Served("Qwen/Qwen3-8B", 2048),))]


def test_adapters_are_models_with_the_context_of_theirs() -> None:
    tuned = {"id": "tuned", "owned_by": "vllm", "parent": "Qwen/Qwen3-8B", "max_model_len": None}
    with listing(200, json.dumps({"data": [*VLLM["data"], tuned]}), key="k") as url:
        assert backend.servers([url], "k") == [Server(url, (Served("Qwen/Qwen3-8B", 2048), Served("tuned", 2048)))]


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (404, "", "answers 404: set WEIR_BACKEND_URL to the base of the API"),
        (307, "", "answers 307: set WEIR_BACKEND_URL to the base of the API"),
        (503, "", "is not ready yet; start again once it has loaded its model"),
        (200, "<html>", "is not OpenAI's list of models"),
        (200, '{"models": []}', "is not OpenAI's list of models"),
        (200, '{"data": [{"name": "x"}]}', "is not OpenAI's list of models"),
        (200, '{"data": []}', "lists no model: load one on the server"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_with_the_remedy(status: int, body: str, says: str) -> None:
    with listing(status, body) as url, pytest.raises(CannotRunError) as caught:
        backend.servers([url], "")
    assert str(caught.value).startswith(f"{url}/models ") and says in str(caught.value)


def test_a_key_that_is_missing_or_wrong_is_said() -> None:
    with listing(200, json.dumps(VLLM), key="let-me-in") as url:
        with pytest.raises(CannotRunError, match="wants a key: set WEIR_BACKEND_API_KEY"):
            backend.servers([url], "")
        with pytest.raises(CannotRunError, match="does not take the key in WEIR_BACKEND_API_KEY"):
            backend.servers([url], "let-me-try")


def test_a_server_that_does_not_answer_is_named_with_the_remedy() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(CannotRunError) as caught:
        backend.servers([url], "")
    assert str(caught.value) == (
        f"{url} cannot be reached (Connection refused): start the model server first, or correct WEIR_BACKEND_URL"
    )


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("127.0.0.1:8000/v1", "does not begin with http://"),
        ("http://127.0.0.1:8000", "has no path: write the base of the API, such as http://127.0.0.1:8000/v1"),
        ("http://me:secret@127.0.0.1:8000/v1", "leave it out, and name a credential"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, says: str) -> None:
    with pytest.raises(CannotRunError, match=r"^WEIR_BACKEND_URL: ") as caught:
        backend.servers([url], "")
    assert says in str(caught.value) and "secret" not in str(caught.value)


def test_several_urls_are_read() -> None:
    assert Options(backend_url="http://a:1/v1/, http://b:1/v1,").backend_urls == ["http://a:1/v1", "http://b:1/v1"]
    assert Options().backend_urls == []


@pytest.mark.parametrize(
    ("env", "port"),
    [
        ({}, 8000),
        ({"WEIR_BACKEND_URL": "http://127.0.0.1:8000/v1,http://localhost:8001/v1"}, 8002),
        ({"WEIR_BACKEND_URL": "http://10.0.0.7:8000/v1"}, 8000),
        ({"WEIR_BACKEND_URL": "http://127.0.0.1:8000/v1", "WEIR_WEB_PORT": "8000"}, 8000),
    ],
)
def test_the_dashboard_leaves_its_port_to_a_model_server(
    env: dict[str, str], port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WEIR_BACKEND_URL", "WEIR_WEB_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert options.read().web_port == port


@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("/models/tiny llama.gguf", "models/tiny-llama.gguf"),
        ("./tiny", "tiny"),
        ("…", "model"),
    ],
)
def test_clients_call_a_model_as_its_server_does_where_they_can(name: str, client: str) -> None:
    assert client_name(name) == client


def apply(tmp_path: Path, document: object) -> list[str]:
    (tmp_path / "fleet.json").write_text(json.dumps(document))
    return seed.apply_seed(seed.read(tmp_path / "fleet.json"))


@pytest.mark.django_db
def test_a_model_of_several_servers_is_one_pool_of_them(tmp_path: Path) -> None:
    servers = [
        Server("http://a:8000/v1", (Served("Qwen/Qwen3-8B", 4096), Served("qwen qwen3-8b"))),
        Server("http://b:8000/v1", (Served("Qwen/Qwen3-8B", 2048),)),
    ]
    apply(tmp_path, backend.fleet(servers, with_key=True))
    values = fleet_values()
    models = [(one.name, one.tokenizer, one.max_context_tokens, one.max_output_tokens) for one in values.models]
    assert models == [("Qwen/Qwen3-8B", "server", 2048, 2048), ("qwen-qwen3-8b", "server", 0, seed.UNLIMITED_TOKENS)]
    pools = {each.pool.name: each.pool for each in values.pools}
    assert {name: pool.model_name for name, pool in pools.items()} == {
        "qwen-qwen3-8b-server": "Qwen/Qwen3-8B",
        "qwen-qwen3-8b-2-server": "qwen qwen3-8b",
    }
    of_both = pools["qwen-qwen3-8b-server"]
    assert (of_both.protocol, of_both.credential) == ("openai", "backend")
    assert [one.url for one in of_both.endpoints] == ["http://a:8000/v1", "http://b:8000/v1"]


@pytest.mark.django_db
def test_the_demo_leaves_and_comes_back_with_what_an_owner_changed(tmp_path: Path) -> None:
    apply(tmp_path, demo.fleet(("triton-0", 7000)))
    Pool.objects.update(max_queue=3)
    done = apply(tmp_path, backend.fleet([Server("http://a:8000/v1", (Served("tiny"),))], with_key=False))
    assert "disabled pool chat-large-local, because its servers are not started" in done
    assert list(Replica.objects.values_list("name", "url")) == [("server-0", "http://a:8000/v1")]
    assert "enabled pool chat-large-local" in apply(tmp_path, demo.fleet(("triton-0", 7000)))
    assert dict(Pool.objects.values_list("name", "enabled")) == {"chat-large-local": True, "tiny-server": False}
    assert Pool.objects.get(name="chat-large-local").max_queue == 3


@pytest.mark.django_db
def test_a_pool_that_an_owner_disabled_or_extended_stays_so(tmp_path: Path) -> None:
    apply(tmp_path, demo.fleet(("triton-0", 7000)))
    Pool.objects.update(enabled=False)
    apply(tmp_path, demo.fleet(("triton-0", 7001)))
    assert not Pool.objects.get().enabled
    Pool.objects.update(enabled=True)
    Replica.objects.create(pool=Pool.objects.get(), name="far", grpc="far.example:8001")
    apply(tmp_path, {"models": []})
    assert Pool.objects.get().enabled
    assert [one.name for one in Replica.objects.all()] == ["far"]
    assert LLMModel.objects.get().enabled
