"""Each cell of the table of faults in docs/routing.md: what the client gets is what the table promises."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import openai
import pytest

from deploy.local.process import ROOT
from inference.backends.openai import OpenAIConnector
from inference.contract.snapshot import Endpoint, Pool, StageTimeouts
from tests.support.gateway.black_hole import black_hole
from tests.support.gateway.scripted import a_snapshot, serve_pools
from tests.support.servers.faulty import MODEL, TOKENS, Connection, Fault, Faults, FaultyServer
from tests.support.wait import eventually_async

ANSWERED = "answered"
COLUMNS = ((1, False), (1, True), (3, False), (3, True))


class Case(NamedTuple):
    """What is done to the servers. A fault that is over leaves them well."""

    fault: Fault | None = None
    times: int = 1
    probe: int = 200
    holes: int = 0  # replicas where nobody answers
    kept_only: bool = False


def early(fault: Fault) -> Fault:
    """Before the body is read."""
    fault.early = True  # type: ignore[attr-defined]
    return fault


def status(number: int, more: str = "") -> Fault:
    return lambda connection: connection.send(number, b'{"error": {"message": "no", "code": "its_own"}}', more=more)


def then_reset(*tokens: str) -> Fault:
    async def fault(connection: Connection) -> None:
        connection.begin(*tokens)
        await connection.writer.drain()
        await asyncio.sleep(0.05)  # a reset takes along what the client has not read yet
        connection.reset()

    return fault


async def never(connection: Connection) -> None:
    connection.begin()
    await connection.reader.read()


async def falls_silent(connection: Connection) -> None:
    connection.begin(TOKENS[0])
    await connection.reader.read()


def empty(connection: Connection) -> None:
    connection.begin()
    connection.end()


async def half_close(connection: Connection) -> None:
    connection.writer.write_eof()
    await connection.reader.read()


CASES = {
    "reset before its body is read": Case(early(Connection.reset)),
    "reset before the answer": Case(Connection.reset),
    "reset after the answer's head": Case(then_reset()),
    "reset in the middle of the stream": Case(then_reset(TOKENS[0])),
    "a connection that was kept had ended": Case(Connection.reset, kept_only=True),
    "429 for a request": Case(status(429, "Retry-After: 1\r\n")),
    "500 for a request": Case(status(500)),
    "503 for a request": Case(status(503)),
    "429 for every probe": Case(probe=429),
    "500 for every probe": Case(probe=500),
    "503 for every probe": Case(probe=503),
    "an address where nobody answers": Case(holes=1),
    "no token within `first_token_ms`": Case(never),
    "silence for `next_token_ms` after a token": Case(falls_silent),
    "an empty stream": Case(empty),
    "the server closes its half of the connection": Case(half_close),
    "the prompt resets every server": Case(Connection.reset, times=100),
}


def table() -> dict[str, tuple[str, ...]]:
    """What docs/routing.md promises for each fault, by COLUMNS."""
    text = (ROOT / "docs/routing.md").read_text()
    rows = text.partition("### Faults and what clients get")[2].partition("\n#")[0]
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in rows.splitlines() if line[:1] == "|"]
    return {fault: tuple(promised) for fault, *promised in cells[2:]}


PROMISED = table()


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`async with begin(case, replicas) as (client, faults)`: a gateway in front of a pool of so many servers."""

    @asynccontextmanager
    async def run(case: Case, replicas: int) -> AsyncIterator[tuple[openai.AsyncOpenAI, Faults]]:
        faults = Faults()
        # Whether the news of a connection's end comes in time does not depend on how busy the machine is.
        stale = case.kept_only or case.times > 1
        monkeypatch.setattr("inference.wires.http.response.STALE_WITHIN_S", 60.0 if stale else 0.0)
        monkeypatch.setattr("inference.wires.http.client.KEPT_S", 60.0)
        async with AsyncExitStack() as stack:
            urls = [
                f"http://{host}:{port}/v1"
                for host, port in (stack.enter_context(black_hole()) for _ in range(case.holes))
            ]
            for _ in range(replicas - case.holes):
                server = await FaultyServer(faults).start()
                stack.push_async_callback(server.stop)
                urls.append(server.url)
            endpoints = tuple(Endpoint(f"r{number}", url=url) for number, url in enumerate(urls))
            pool = Pool("p", "v", "here", MODEL, "", endpoints, protocol="openai", server="other")
            timeouts = StageTimeouts()
            if case.fault in (never, falls_silent):
                timeouts = StageTimeouts(first_token_ms=400, next_token_ms=400, model_ms=1_500)
            snapshot = msgspec.structs.replace(a_snapshot(pool), timeouts=timeouts)
            client = await stack.enter_async_context(serve_pools(OpenAIConnector, snapshot, tmp_path, monkeypatch))
            if case.kept_only:
                await eventually_async(lambda: len(faults.probed) == replicas)
            faults.fault, faults.times, faults.probe, faults.kept_only = (
                case.fault,
                case.times,
                case.probe,
                case.kept_only,
            )
            yield client, faults

    return run


async def outcome(client: openai.AsyncOpenAI, *, stream: bool, text: str) -> str:
    """What the client gets, in the table's words."""
    had = ""
    try:
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": text}]}
        if not stream:
            had = str((await client.chat.completions.create(**asked)).choices[0].message.content)
        else:
            async for chunk in await client.chat.completions.create(**asked, stream=True):
                had += chunk.choices[0].delta.content or "" if chunk.choices else ""
    except openai.APIStatusError as error:
        body: Any = error.body
        assert error.status_code < 503 or "retry-after" in error.response.headers or error.status_code == 504
        return f"{error.status_code} `{body.get('reason') or error.code}`"
    except openai.APIError as error:
        return f"{'a token, then ' if had == TOKENS[0] else repr(had)}`{error.code}`"
    return ANSWERED if had == "".join(TOKENS) else repr(had)


def test_the_table_and_these_cases_are_of_the_same_faults() -> None:
    assert list(PROMISED) == list(CASES)
    assert all(len(promised) == len(COLUMNS) for promised in PROMISED.values())
    assert all(
        re.fullmatch(r"answered|[45]\d\d `\w+`|a token, then `\w+`", cell) for row in PROMISED.values() for cell in row
    )


@pytest.mark.parametrize(("replicas", "stream"), COLUMNS, ids=["one", "one, streaming", "three", "three, streaming"])
@pytest.mark.parametrize("fault", CASES)
async def test_a_client_gets_what_the_table_promises(
    begin: Callable[..., Any], fault: str, replicas: int, stream: bool
) -> None:
    case, promised = CASES[fault], PROMISED[fault][COLUMNS.index((replicas, stream))]
    async with begin(case, replicas) as (client, faults):
        for _ in range(1 if case.fault else 2 * replicas):  # each replica has its turn
            assert await outcome(client, stream=stream, text="Hello") == promised
        assert len(faults.struck) == (0 if case.fault is None else min(2, replicas) if case.times > 1 else 1)
        if case.times > 1:  # its client, and others, send it again
            for _ in range(4):
                assert (await outcome(client, stream=stream, text="Hello"))[:4] in ("502 ", "503 ")
            assert len(faults.struck) == min(2, replicas), "no prompt reaches more than two servers that died of it"
            faults.times = 0
        if case.holes < replicas:
            for number in range(4):
                assert await outcome(client, stream=stream, text=f"after it, {number}") == ANSWERED
