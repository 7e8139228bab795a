"""What a client with a key can do to the others: good traffic beside ten thousand costly requests, how late the gateway's loop is
meanwhile, and which requests of random headers the ledger has no row of.

WEIR_BENCH_AUTHORISED is how many costly requests are sent (one in ten is of 4 MiB), WEIR_BENCH_HEADER_SETS how many sets of headers
are tried. These pass the gateway's parser, its spans and their encoding, the receiver's decoding and the ledger, all in this process.
"""

import asyncio
import json
import os
import re
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from tests.bench.compared.gateways import MODEL, Target, bed, weir_openai
from tests.bench.figures import Figure, say
from tests.bench.hostile import Users
from tests.bench.processes import BenchError
from tests.bench.standins.hostiles import HOST
from tests.support.gateway.header_sets import header_sets
from tests.support.gateway.ledgered import unledgered

CLIENTS = 4
PATIENCE_S = 60.0
LARGE, SMALL = (4 << 20) - 2_000, 96 << 10
_BUCKET = re.compile(r'^weir_gateway_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)', re.MULTILINE)


def costly(size: int) -> list[bytes]:
    """A body of each kind, of about so many bytes."""

    def chat(content: object = "x", **more: object) -> bytes:
        return json.dumps(
            {"model": MODEL, "messages": [{"role": "user", "content": content}], "temperature": 0, **more}
        ).encode()

    short = {"role": "user", "content": "x"}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"a": [[1]] * (size // 5)}}}
    deep = b"[" * (size // 2) + b"]" * (size // 2)
    url = {"type": "image_url", "image_url": {"url": "https://" + "a." * 900 + "com/"}}
    return [
        chat("<s>" * (size // 3)),
        chat("[INST]<think></s>" * (size // 17)),
        chat('"' * (size // 2)),
        chat(" \r\n" * (size // 5)),
        chat("é" * (size // 6)),
        json.dumps({"model": MODEL, "messages": [{**short, "content": "<s>" * (size // 6_200)}] * 2_048}).encode(),
        json.dumps({"model": MODEL, "messages": [short] * min(100_000, size // 34)}).encode(),
        chat([{"type": "text", "text": "x"}] * (size // 32)),
        chat([url] * (size // 1_900)),
        chat(logit_bias={str(number): 1 for number in range(size // 13)}),
        chat(stop=["x"] * (size // 5)),
        chat(structured_outputs={"regex": "(a+)+$" * (size // 6)}),
        chat(tools=[tool]),
        chat()[:-1] + b', "tools": ' + deep + b"}",
        chat()[:-1] + b"," + b",".join(b'"k%d":1' % number for number in range(size // 11)) + b"}",
        json.dumps({"model": MODEL, "prompt": list(range(size // 8))}).encode(),
    ]


class Costly:
    """Clients that send these bodies one after the other, whatever they are answered."""

    def __init__(self, target: Target, requests: int) -> None:
        self._port, self._key = target.port, target.miss.key
        self._numbers = iter(range(requests))
        self._bodies = costly(SMALL), costly(LARGE)
        self.answered = 0

    async def send(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)))

    async def _client(self) -> None:
        for number in self._numbers:
            bodies = self._bodies[number % 10 == 0]
            await self._one(bodies[number % len(bodies)])

    async def _one(self, body: bytes) -> None:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        path = "/v1/completions" if b'"prompt"' in body[:64] else "/v1/chat/completions"
        head = f"POST {path} HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {self._key}\r\nconnection: close\r\n"
        try:
            async with asyncio.timeout(PATIENCE_S):
                writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
                if not (await reader.read()).startswith(b"HTTP/1.1 "):
                    raise BenchError("a costly request was not answered")
                self.answered += 1
        finally:
            writer.close()


def lag_counts(port: int) -> dict[float, float]:
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=10) as page:
        return {float(edge): float(count) for edge, count in _BUCKET.findall(page.read().decode())}


def p99_s(before: dict[float, float], after: dict[float, float]) -> float:
    """The upper edge of the bucket that has the 99th percentile."""
    grown = {edge: count - before.get(edge, 0.0) for edge, count in after.items()}
    return next(edge for edge in sorted(grown) if grown[edge] >= 0.99 * max(grown.values()))


async def _beside(users: Users, sender: Costly) -> None:
    sending = asyncio.ensure_future(sender.send())
    while not sending.done():
        await users.ask(2.0)
    await sending


def run() -> Iterator[Figure]:
    requests = int(os.environ.get("WEIR_BENCH_AUTHORISED", "10000"))
    sets = int(os.environ.get("WEIR_BENCH_HEADER_SETS", "100000"))
    with ExitStack() as stack:
        target = weir_openai(
            bed(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-authorised-"))), stack)
        )
        users, sender = Users(target), Costly(target, requests)
        asyncio.run(users.ask(5.0))  # warm
        users.latencies_ns = []
        say(f"authorised: {requests} costly requests beside good ones")
        before = lag_counts(target.port)
        asyncio.run(_beside(users, sender))
        after = lag_counts(target.port)
        for failure in users.failures[:10]:
            say(f"a good request failed: {failure}")
        yield Figure("gateway.loop_lag_p99_ms", 1e3 * p99_s(before, after), "ms", "the bucket's upper edge; aim 20 ms")
        yield Figure("gateway.authorised_costly", float(sender.answered), "req")
        yield Figure("gateway.authorised_requests", float(len(users.latencies_ns)), "req")
        yield Figure("gateway.authorised_failed", float(len(users.failures)), "req")
    missing = read = 0
    for low, high in pairwise([*range(0, sets, 10_000), sets]):
        some = unledgered(header_sets(low, high - low))
        missing, read = missing + some[0], read + some[1]
    if read != sets:
        raise BenchError(f"the gateway read {read} of {sets} requests")
    yield Figure("gateway.requests_unledgered", float(missing), "req", f"of {sets:,} sets of headers")
