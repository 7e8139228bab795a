"""`WEIR_BACKEND_URL=… python -m deploy.local`: Weir in front of a model server, for real. The tests of this file share one run."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from tests.support.deploy.run import START_S, Run
from tests.support.servers.standins import MODEL, SGLang
from tests.support.wait import eventually


@pytest.fixture(scope="module")
def server() -> Iterator[SGLang]:
    """A stand-in for SGLang, on an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    standin = SGLang()
    asyncio.run_coroutine_threadsafe(standin.start(), loop).result(120)
    try:
        yield standin
    finally:
        asyncio.run_coroutine_threadsafe(standin.stop(), loop).result(120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def run(server: SGLang, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("weir") / "home", WEIR_BACKEND_URL=server.url)
    try:
        run.start()
        yield run
    finally:
        run.end()


def test_it_serves_the_models_of_the_server_and_nothing_else(run: Run, server: SGLang) -> None:
    said = run.said("weir is ready", START_S)
    key = (run.home / "gateway-key").read_text().strip()
    assert key in said and f"in front of {server.url}   {MODEL}" in said and "no demo models" in said
    assert not [process for process in run.processes() if "tritonserver" in " ".join(process.cmdline())]
    assert not [process for process in run.processes() if "deploy.local.traffic" in process.cmdline()]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "What is a weir?"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{run.gateway}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert json.load(answer)["choices"][0]["message"]["content"] == "".join(server.tokens)


def test_the_overview_shows_the_server_and_its_request(run: Run) -> None:
    def rows() -> dict[str, dict[str, str]]:
        return {row["component"]: row for row in run.get("stack")["rows"]}

    component = f"{MODEL}-server/server-0"
    eventually(lambda: component in rows() and rows()[component]["state"] == "up")
    assert rows()[component]["detail"].startswith(f"SGLang 0.5.23, with {MODEL}")
    eventually(lambda: bool(run.get("requests?from=now-15m&to=now")["rows"]))
    (row,) = run.get("requests?from=now-15m&to=now")["rows"]
    assert (row["model"], row["pool"], row["replica"]) == (MODEL, f"{MODEL}-server", "server-0")
