"""What clients without a key can do to those who have one: the same good traffic alone, beside hostile clients, and alone again.

WEIR_BENCH_HOSTILE_S is how long the hostile clients (`tests.bench.standins.hostiles`) are there, seconds.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from tests.bench.compared.gateways import Target, bed, weir
from tests.bench.figures import Figure, percentile, say
from tests.bench.loads.http_load import Http
from tests.bench.processes import BenchError, Child
from tests.bench.standins.hostiles import HOST

USERS, EVERY_S = 10, 0.1
REQUESTS_PER_CONNECTION = 50  # good clients come and go too
PATIENCE_S = 10.0
MIB = 1 << 20


class Users:
    """Well-behaved clients: each asks every EVERY_S, hits, misses and streams in turn, on a connection it keeps for a while."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._serials = count()
        self._wires = [wire for wire in (target.hit, target.miss, target.stream) if wire]
        self.latencies_ns: list[int] = []
        self.failures: list[str] = []

    async def ask(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        await asyncio.gather(*(self._user(number, until_s) for number in range(USERS)))

    async def _user(self, number: int, until_s: float) -> None:
        await asyncio.sleep(EVERY_S * number / USERS)
        while time.monotonic() < until_s:
            try:
                await self._visit(until_s)
            except (OSError, TimeoutError, BenchError, EOFError) as error:
                self.failures.append(repr(error))

    async def _visit(self, until_s: float) -> None:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(HOST, self._target.port)
        try:
            for number in range(REQUESTS_PER_CONNECTION):
                due_s = time.monotonic() + EVERY_S
                await self._ask(reader, writer, self._wires[number % len(self._wires)])
                if due_s > until_s:
                    return
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        finally:
            writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Http) -> None:
        start_ns = time.perf_counter_ns()
        writer.write(wire.request(next(self._serials)))
        received = b""
        async with asyncio.timeout(PATIENCE_S):
            while not wire.complete(received):
                data = await reader.read(262_144)
                if not data:
                    raise EOFError(f"closed after {received[:200]!r}")
                received += data
        self.latencies_ns.append(time.perf_counter_ns() - start_ns)


def run() -> Iterator[Figure]:
    seconds = float(os.environ.get("WEIR_BENCH_HOSTILE_S", "600"))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-hostile-")))
        where = bed(folder, stack)
        target = weir(where)
        users, calm, beside = Users(target), [], []
        alone_s = max(10.0, min(60.0, seconds / 4))
        asyncio.run(users.ask(5.0))  # warm
        users.latencies_ns = []
        say(f"hostile: {alone_s:.0f} s of good traffic alone")
        asyncio.run(users.ask(alone_s))
        calm, users.latencies_ns = users.latencies_ns, []
        before = Memory.of(target.child)
        say(f"hostile: {seconds:.0f} s beside hostile clients")
        command = [sys.executable, "-m", "tests.bench.standins.hostiles", str(target.port), str(seconds)]
        hostiles = where.start("hostiles", command)
        most = asyncio.run(_beside(users, seconds, target.child))
        beside, users.latencies_ns = users.latencies_ns, []
        if hostiles.process.wait(PATIENCE_S) != 0:
            raise BenchError(f"the hostile clients ended with {hostiles.process.returncode}")
        say(f"hostile: {alone_s:.0f} s of good traffic alone again")
        asyncio.run(users.ask(alone_s))
        calm += users.latencies_ns
        for failure in users.failures[:10]:
            say(f"a good request failed: {failure}")
        alone = "the same traffic alone"
        yield Figure("gateway.hostile_growth_mb", (most.gateway - before.gateway) / MIB, "MB", "aim 100 MB")
        yield Figure(
            "gateway.hostile_kernel_growth_mb", (most.kernel - before.kernel) / MIB, "MB", "TCP of this machine"
        )
        yield Figure("gateway.hostile_requests", float(len(beside)), "req")
        yield Figure("gateway.hostile_failed", float(len(users.failures)), "req")
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            there, before_ns = percentile(beside, share), percentile(calm, share)
            yield Figure(f"gateway.hostile_{name}_ms", there / 1e6, "ms")
            yield Figure(f"gateway.hostile_{name}_ratio", there / before_ns, "ratio", alone)


class Memory:
    """Bytes of the gateway, and of all TCP buffers in the kernel."""

    def __init__(self, gateway: int, kernel: int) -> None:
        self.gateway, self.kernel = gateway, kernel

    @classmethod
    def of(cls, child: Child) -> "Memory":
        text = Path("/proc/net/sockstat").read_text()
        fields = next(line.split() for line in text.splitlines() if line.startswith("TCP:"))
        pages = int(fields[fields.index("mem") + 1])
        return cls(child.rss_bytes(), pages * os.sysconf("SC_PAGE_SIZE"))


async def _beside(users: Users, seconds: float, child: Child) -> Memory:
    """The good traffic for that long, and the most memory seen meanwhile."""
    asking = asyncio.ensure_future(users.ask(seconds))
    most = Memory.of(child)
    while not asking.done():
        await asyncio.wait([asking], timeout=1.0)
        now = Memory.of(child)
        most = Memory(max(most.gateway, now.gateway), max(most.kernel, now.kernel))
    await asking
    return most
