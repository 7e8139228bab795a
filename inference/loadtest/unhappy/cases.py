"""What badly behaved clients do. Each case says what a server should make of it, and returns what it made of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from inference.loadtest.client import Client
from inference.loadtest.core.samples import CUT_SHORT, Sample
from inference.loadtest.core.unhappy import BUSY, is_error
from inference.loadtest.pacer import now_s
from inference.loadtest.unhappy.wire import Got, Wire

LEAVERS, IDLE = 24, 200
SHORT_TOKENS, LONG_TOKENS = 16, 512
OVERSIZED_BYTES = 32 << 20
STREAMS = 20
_LOOK_S = 0.1
_REFUSED = frozenset((400, 413, 422, 431))
_MISSING = frozenset((400, 404, 422))
_FORBIDDEN = frozenset((401, 403))
WRONG_KEY = "sk-weir-bench-not-a-key-4f1c"


class Bench(NamedTuple):
    """What cases work with. `burst` sends so many requests over so many seconds as good ones, and returns them."""

    client: Client
    patience_s: float
    burst: Callable[[], Awaitable[list[Sample]]]

    def wire(self) -> Wire:
        return Wire(self.client, self.patience_s)

    def body(self, tokens: int = SHORT_TOKENS, text: str = "Count the stones of the bridge.") -> bytes:
        return self.client.target.body([{"role": "user", "content": text}], tokens)


Outcome = tuple[str, list[str]]
"""What came, and what is wrong with it."""


class CaseKind(NamedTuple):
    did: str
    expected: str
    run: Callable[[Bench], Awaitable[Outcome]]
    may_delay: bool = False  # good requests beside it


async def leave_before_first_token(bench: Bench) -> Outcome:
    return await _leavers(bench, tokens=0)


async def leave_mid_stream(bench: Bench) -> Outcome:
    return await _leavers(bench, tokens=1)


async def _leavers(bench: Bench, tokens: int) -> Outcome:
    wires = [await bench.wire().open() for _ in range(LEAVERS)]
    for wire in wires:
        await wire.send(wire.request(bench.body(LONG_TOKENS)))
    if tokens:
        began = await asyncio.gather(*(_until_a_token(wire) for wire in wires))
    else:
        await asyncio.sleep(0.01)
        began = [True]
    for wire in wires:
        wire.leave()
    return f"{LEAVERS} left", [] if any(began) else ["no answer began"]


async def _until_a_token(wire: Wire) -> bool:
    data = b""
    while b"content" not in data.partition(b"\r\n\r\n")[2]:
        if not (more := await wire.first_bytes()):
            return False
        data += more
    return True


async def half_close(bench: Bench) -> Outcome:
    wire = await bench.wire().open()
    await wire.send(wire.request(bench.body()))
    if bench.client.origin.context is None:  # TLS has no half-closed connections
        wire.half_close()
    got = await wire.got()
    wire.leave()
    right = got.closed or (got.whole and got.status == 200)
    return str(got), [] if right else ["neither an answer nor an end"]


async def slow_reader(bench: Bench) -> Outcome:
    wire = await bench.wire().open(slow=True)
    await wire.send(wire.request(bench.body(LONG_TOKENS)))
    await asyncio.sleep(bench.patience_s)
    got = await wire.got()
    wire.leave()
    return str(got), [] if got.closed or (got.whole and got.status == 200) else ["neither an answer nor an end"]


async def slow_body(bench: Bench) -> Outcome:
    wire = await bench.wire().open()
    body, parts = bench.body(), 10
    request = wire.request(body)
    await wire.send(request[: -len(body)])
    size = -(-len(body) // parts)
    for number in range(parts):
        await asyncio.sleep(bench.patience_s / parts)
        await wire.send(body[number * size : (number + 1) * size])
    got = await wire.got()
    wire.leave()
    right = got.closed or (got.whole and (got.status in (200, 408) or got.status in BUSY))
    return str(got), [] if right else ["neither an answer nor a refusal"]


async def oversized(bench: Bench) -> Outcome:
    return await _refused(bench, bench.body(text="weir " * (OVERSIZED_BYTES // 5)), _REFUSED, may_close=True)


async def bad_json(bench: Bench) -> Outcome:
    return await _refused(bench, bench.body()[:-2], _REFUSED)


async def bad_utf8(bench: Bench) -> Outcome:
    return await _refused(bench, bench.body().replace(b"stones", b"st\xff\xfe\xed"), _REFUSED)


async def wrong_types(bench: Bench) -> Outcome:
    body = b'{"model": "%s", "messages": 7, "prompt": {"a": 1}, "max_tokens": "many"}'
    return await _refused(bench, body % bench.client.target.model.encode(), _REFUSED | _MISSING)


async def unknown_model(bench: Bench) -> Outcome:
    name = bench.client.target.model
    return await _refused(
        bench, bench.body().replace(name.encode(), b"weir-bench-no-such-model"), _MISSING | _FORBIDDEN
    )


async def bad_key(bench: Bench) -> Outcome:
    if not bench.client.target.headers:
        return "not tried: no key was given", []
    return await _refused(bench, bench.body(), _FORBIDDEN, key=WRONG_KEY)


async def not_http(bench: Bench) -> Outcome:
    wire = await bench.wire().open()
    await wire.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 weir\r\n\r\n")
    got = await wire.got()
    wire.leave()
    return str(got), [] if got.closed or got.status == 400 else ["neither a refusal nor an end"]


async def _refused(
    bench: Bench, body: bytes, statuses: frozenset[int], key: str | None = None, *, may_close: bool = False
) -> Outcome:
    wire = await bench.wire().open()
    sending = asyncio.create_task(wire.send(wire.request(body, key)))  # an answer may come before all was sent
    got = await wire.got()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    wire.leave()
    return str(got), _faults_of_refusal(got, statuses, key, may_close=may_close)


def _faults_of_refusal(got: Got, statuses: frozenset[int], key: str | None, *, may_close: bool) -> list[str]:
    if not got.status:
        return [] if got.closed and may_close else [f"no answer: {got}"]
    faults = []
    if got.status not in statuses:
        faults.append(f"status {got.status}, and {', '.join(map(str, sorted(statuses)))} were expected")
    elif got.whole and not is_error(got.body):
        faults.append("the answer is no error that a client of OpenAI's API can read")
    if key is not None and key.encode() in got.body:
        faults.append("the answer repeats the key")
    return faults


async def burst(bench: Bench) -> Outcome:
    samples = await bench.burst()
    good = sum(sample.good for sample in samples)
    refused = sum(sample.status in BUSY for sample in samples)
    lost = [sample for sample in samples if not sample.good and sample.status not in BUSY]
    kinds = ", ".join(sorted({sample.failure for sample in lost}))
    got = f"{good} of {len(samples)} answered, {refused} refused as too many"
    return got, [f"{len(lost)} were neither answered nor refused: {kinds}"] if lost else []


async def recover(bench: Bench) -> Outcome:
    """After a burst: its requests have ended, so the server should be as before."""
    samples = await asyncio.gather(*(_alone(bench) for _ in range(3)))
    bad = [sample for sample in samples if not sample.good]
    return f"{len(samples) - len(bad)} of {len(samples)} answered", [
        f"{sample.failure}: {sample.said}" for sample in bad
    ]


async def _alone(bench: Bench) -> Sample:
    sample = Sample(-1, 0.0)
    await bench.client.send(sample, bench.body(), now_s())
    return sample


async def idle_connections(bench: Bench) -> Outcome:
    wires = list[Wire]()
    try:
        for _ in range(IDLE):
            wires.append(await bench.wire().open())
        await wires[-1].send(wires[-1].request(bench.body()))
        got = str(await wires[-1].got())
    except (OSError, TimeoutError):
        got = "no further connection"
    for wire in wires:
        wire.leave()
    faults = [] if got == "status 200" else [f"a request on a new connection beside {len(wires) - 1} idle ones: {got}"]
    return f"{len(wires)} connections, on the last one {got}", faults


async def stalls(bench: Bench) -> Outcome:
    samples = [Sample(number, 0.0) for number in range(STREAMS)]
    began_s = now_s()
    tasks = {asyncio.create_task(bench.client.send(sample, bench.body(), began_s)): sample for sample in samples}
    open_ = set(tasks)
    while open_ and not all(_silent_s(tasks[task], began_s) > bench.patience_s for task in open_):
        _, open_ = await asyncio.wait(open_, timeout=_LOOK_S)
    for task in open_:
        task.cancel()
    await asyncio.gather(*open_, return_exceptions=True)
    faults = []
    stalled = sum(
        sample.longest_gap_s > bench.patience_s or sample.failure in ("timeout", CUT_SHORT) for sample in samples
    )
    if stalled:
        faults.append(f"{stalled} of {STREAMS} streams stalled for {bench.patience_s:g} s or longer, and said no error")
    cut = sum(sample.failure in ("cut_answer", "connection_lost", "bad_answer") for sample in samples)
    if cut:
        faults.append(f"{cut} of {STREAMS} streams broke off, and said no error")
    return f"{sum(sample.good for sample in samples)} of {STREAMS} streams came whole", faults


def _silent_s(sample: Sample, began_s: float) -> float:
    """Since its last token; 0 before the first, because a server may take long for it."""
    return 0.0 if sample.last_s is None else now_s() - began_s - sample.last_s


CASES = {
    "leave_before_first_token": CaseKind(f"{LEAVERS} clients left before the first token", "they are taken back", leave_before_first_token),
    "leave_mid_stream": CaseKind(f"{LEAVERS} clients left after the first token", "they are taken back", leave_mid_stream),
    "half_close": CaseKind("a client said that it sends no more", "a whole answer, or the end of the connection", half_close),
    "slow_reader": CaseKind("a client did not read its answer for a while", "a whole answer, or the end of the connection", slow_reader),
    "slow_body": CaseKind("a client sent its request bit by bit", "an answer, or a refusal", slow_body),
    "oversized": CaseKind("a prompt of 32 MiB", "400, 413, 422 or 431, or the end of the connection", oversized),
    "bad_json": CaseKind("JSON without its end", "400 or 422 with an error", bad_json),
    "bad_utf8": CaseKind("a text that is not UTF-8", "400 or 422 with an error", bad_utf8),
    "wrong_types": CaseKind("members of wrong types", "400 or 422 with an error", wrong_types),
    "unknown_model": CaseKind("a model that does not exist", "400, 403 or 404 with an error", unknown_model),
    "bad_key": CaseKind("a wrong key", "401 or 403 without the key in it", bad_key),
    "not_http": CaseKind("bytes that are not HTTP", "400, or the end of the connection", not_http),
    "idle_connections": CaseKind(f"{IDLE} connections without a request", "nobody notices", idle_connections),
    "burst": CaseKind("ten times the rate", "each is answered, or refused with 429 or 503", burst, may_delay=True),
    "recover": CaseKind("good requests after that", "as before", recover),
    "stalls": CaseKind(f"{STREAMS} streams at once", "each comes whole, or says an error", stalls),
}  # fmt: skip
