"""Lists of inputs to embed: only those that the cache does not have reach the server, and the client sees no other byte of it."""

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deploy.local.ports import LOOPBACK
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot, Tenant, Tier, decode, key_digest
from inference.contract.snapshot_parts import StageTimeouts
from tests.support.gateway.process import KEY, OTHER_KEY, Gateway, gateway_command, serves
from tests.support.servers.embedder import MODEL, STYLES, Embedder
from tests.support.soak import sized
from tests.support.start import Start
from tests.support.tokenizers import write_folder
from tests.support.wait import eventually

OWN, UNCOUNTED, NEITHER = MODEL, "uncounted", "other"
"""Models: with the tokenizer of the server, without one, with another one."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    folder = tmp_path_factory.mktemp("tokenizers")
    write_folder(folder / "other", "chatml")
    with Embedder(write_folder(folder / "own", "llama3")) as it:
        yield it


@pytest.fixture(scope="module")
def embeds(server: Embedder, start_once: Start, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    version = secrets.token_hex(4)  # so that nothing of another run is met
    pool = Pool("pool", "variant", "local", MODEL, "", (Endpoint("r0", url=server.url),), protocol="openai")
    tokenizers = {OWN: "own", UNCOUNTED: "estimate", NEITHER: "other"}
    given = Snapshot(
        1,
        tuple(Model(name, (Route("pool"),), it, prompt_version=version) for name, it in tokenizers.items()),
        (pool,),
        (Tier("standard"),),
        tuple(Tenant(name, "standard", (key_digest(key),)) for name, key in (("alice", KEY), ("bob", OTHER_KEY))),
        timeouts=StageTimeouts(cache_ms=2_000, tokenizer_ms=10_000),
    )
    command, port, path = gateway_command(
        tmp_path_factory.mktemp("gateway"),
        given,
        redis_url=redis_url,
        tokenizers_dir=str(server.folder),
    )
    process = start_once(command)
    gateway = Gateway(port, path, process, Path(str(process.log)))
    eventually(lambda: serves(port))
    return gateway


@pytest.fixture(autouse=True)
def as_it_was(server: Embedder) -> Iterator[None]:
    yield
    server.style, server.mends, server.refuses, server.most_tokens = "vLLM", lambda _: None, None, 1 << 20
    server.status = 200


def ask(gateway: Gateway, inputs: list[Any], key: str = KEY, **options: Any) -> tuple[str, str]:
    """The cache's outcome and the answer."""
    body = json.dumps({"model": OWN, "input": inputs, **options}).encode()
    status, headers, text = gateway.ask("POST", "/v1/embeddings", body, key)
    assert status == 200, text
    return headers["x-weir-cache"], text


def direct(server: Embedder, inputs: list[Any], **options: Any) -> str:
    return server.answer({"input": inputs, **options})[1].decode()


def texts(number: int) -> list[str]:
    """That no test has sent before."""
    return [f"weir {secrets.token_hex(6)}" for _ in range(number)]


def keep(gateway: Gateway, inputs: list[Any], **options: Any) -> None:
    """Have these kept, each by itself."""
    ask(gateway, inputs, **options)

    def kept() -> bool:
        outcome, _ = ask(gateway, [*inputs, *texts(1)], **options)
        return outcome == f"partial; hits={len(inputs)}; of={len(inputs) + 1}"

    eventually(kept)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("options", [{}, {"encoding_format": "base64"}, {"dimensions": 3}], ids=str)
def test_only_what_is_not_kept_is_sent(server: Embedder, embeds: Gateway, style: str, options: dict[str, Any]) -> None:
    server.style = style
    known, new = texts(20), texts(2)
    keep(embeds, known, **options)
    asked = [known[3], new[0], *known[5:], new[1], known[0], known[3]]
    server.sent.clear()
    assert ask(embeds, asked, **options) == ("partial; hits=18; of=20", direct(server, asked, **options))
    assert server.sent == [new]
    again = known[::-1]
    server.sent.clear()
    assert ask(embeds, again, **options) == ("hit; hits=20; of=20", direct(server, again, **options))
    assert server.sent == []
    assert embeds.metric("weir_gateway_cache_written_bytes_total", model=MODEL) > sum(map(len, known))


_INPUTS = st.lists(
    st.one_of(st.text("ab", min_size=1, max_size=3), st.lists(st.integers(1, 3), min_size=1, max_size=2)),
    min_size=1,
    max_size=8,
)


@given(
    _INPUTS,
    st.sampled_from(
        ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}, {"dimensions": 2}, {"user": "u"})
    ),
    st.sampled_from((OWN, UNCOUNTED, NEITHER)),
)
def test_every_answer_is_the_servers_own(
    server: Embedder, embeds: Gateway, inputs: list[Any], options: dict[str, Any], model: str
) -> None:
    """Whatever was kept of requests before: all three models, of which one has a tokenizer that counts otherwise, are asked the same."""
    whole = direct(server, inputs, **options).replace(f'"model":"{MODEL}"', f'"model":"{model}"')
    assert ask(embeds, inputs, model=model, **options)[1] == whole


def test_an_input_that_occurs_again_is_sent_once(server: Embedder, embeds: Gateway) -> None:
    new = texts(3)
    asked = [*new, *new[::-1]]
    server.sent.clear()
    assert ask(embeds, asked) == ("partial; hits=3; of=6", direct(server, asked))
    assert server.sent == [new]


def test_where_tokens_cannot_be_counted_nothing_is_made_of_parts(server: Embedder, embeds: Gateway) -> None:
    """The server counts the tokens of all inputs together."""
    for model in (UNCOUNTED, NEITHER):
        known = texts(4)
        asked = [*known, known[0]]
        outcomes = [ask(embeds, it, model=model)[0] for it in (asked, [*known, *texts(1)], known[::-1])]
        assert outcomes == ["miss"] * 3
        assert server.sent[-1] == known[::-1]


@pytest.mark.parametrize(
    "options", [{"key": OTHER_KEY}, {"dimensions": 4}, {"encoding_format": "base64"}, {"late_chunking": True}], ids=str
)
def test_parts_are_kept_apart(server: Embedder, embeds: Gateway, options: dict[str, Any]) -> None:
    known = texts(3)
    keep(embeds, known)
    assert ask(embeds, known[::-1], **options)[0] == "miss"


def say_more(document: dict[str, Any]) -> None:
    document["usage"]["prompt_tokens_details"] = {"cached_tokens": 1}


def test_of_an_answer_of_another_form_nothing_is_taken(server: Embedder, embeds: Gateway) -> None:
    """The whole list is sent then, and the client gets what the server says of that."""
    known, new = texts(3), texts(2)
    keep(embeds, known)
    server.mends = say_more
    server.sent.clear()
    assert ask(embeds, [*known, *new]) == ("miss", direct(server, [*known, *new]))
    assert server.sent == [new, [*known, *new]]


def test_a_refusal_is_of_the_list_that_the_client_sent(server: Embedder, embeds: Gateway) -> None:
    known, bad = texts(3), texts(1)
    keep(embeds, known)
    server.refuses = bad[0]
    body = json.dumps({"model": OWN, "input": [*known, *bad]}).encode()
    status, _, text = embeds.ask("POST", "/v1/embeddings", body)
    assert (status, json.loads(text)["error"]["message"]) == (400, "input[3] is too long")


def test_what_comes_with_another_status_of_success_is_not_kept(server: Embedder, embeds: Gateway) -> None:
    server.status, asked = 206, texts(3)
    body = json.dumps({"model": OWN, "input": asked}).encode()
    for _ in range(2):
        status, headers, _ = embeds.ask("POST", "/v1/embeddings", body)
        assert (status, headers["x-weir-cache"]) == (206, "miss")
    server.status = 200
    keep(embeds, texts(1))  # by then the parts of those before would be kept too
    assert ask(embeds, asked[::-1])[0] == "miss"


def test_texts_that_the_server_cuts_are_not_kept(server: Embedder, embeds: Gateway) -> None:
    """Its tokens are fewer than the tokenizer's: which text they are of, nobody says."""
    server.most_tokens = 2
    asked = texts(3)
    ask(embeds, asked)
    assert ask(embeds, asked[::-1]) == ("miss", direct(server, asked[::-1]))


def test_after_a_purge_nothing_is_met(server: Embedder, embeds: Gateway) -> None:
    """Of single requests, and of what lists had kept of their inputs."""
    asked = texts(sized(200, 100_000))
    known = texts(50)
    keep(embeds, known)
    assert outcomes(embeds, asked) == Counter(miss=len(asked))
    eventually(lambda: outcomes(embeds, asked[-100:]) == Counter(hit=100))
    policy = decode(embeds.snapshot_path.read_bytes())
    models = tuple(replace(it, cache=replace(it.cache, purges=1)) for it in policy.models)
    embeds.obey(replace(policy, version=policy.version + 1, models=models))
    assert outcomes(embeds, asked) == Counter(miss=len(asked))
    assert ask(embeds, known[::-1])[0] == "miss"


def outcomes(gateway: Gateway, asked: list[str]) -> Counter[str]:
    """Of each of these by itself, over a few connections."""

    def ask_some(some: list[str]) -> Counter[str]:
        connection = HTTPConnection(LOOPBACK, gateway.port, timeout=120)
        counted = Counter[str]()
        for text in some:
            body = json.dumps({"model": UNCOUNTED, "input": text})
            connection.request("POST", "/v1/embeddings", body, {"Authorization": f"Bearer {KEY}"})
            response = connection.getresponse()
            assert response.read()
            assert response.status == 200
            counted[response.headers["x-weir-cache"]] += 1
        connection.close()
        return counted

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(ask_some, [asked[number::4] for number in range(4)]), Counter[str]())


def test_a_long_list(server: Embedder, embeds: Gateway) -> None:
    known = [
        f"{text} {'of a river ' * 30}" for text in texts(1843)
    ]  # together far more than the model's limit on prompts
    keep(embeds, known, encoding_format="base64", dimensions=64)
    asked = known + texts(205)
    server.sent.clear()
    answered = ask(embeds, asked, encoding_format="base64", dimensions=64)
    assert answered == ("partial; hits=1843; of=2048", direct(server, asked, encoding_format="base64", dimensions=64))
    assert server.sent == [asked[1843:]]
