"""A measured run of the local stack, the gateway and the replicas of `make run`, and what the simulator says of the same requests.

The times of a replica are measured with little load: single requests, then a few at a time. Then requests come at random at two
higher rates, and the simulator replays exactly these arrivals and lengths.
"""

import asyncio
import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

import aiohttp
import numpy as np

from deploy.local.fleet import CONFIG
from deploy.local.ports import free_ports
from deploy.local.process import Managed
from deploy.local.triton import Triton, triton
from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Fixed
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay
from tests.bench.figures import Figure, say
from tests.bench.local.fit_line import fit_line
from tests.bench.processes import BenchError
from tests.support.gateway.process import KEY, SMALL, Gateway, gateway_command, small_only, with_pool
from tests.support.gateway.triton_client import triton_metric
from tests.support.servers.triton import load

TIME_SCALE = 4.0
"""A step takes 35 ms and more, so that the machine's own share of it is small."""
REPLICAS, SEQUENCES = 2, 2
"""Those with which `make run` starts; what they have no place for waits in the gateway."""
LOADS = (0.6, 0.85)
RUN_S = 120.0
WORDS = (40, 400)
TOKENS = (10, 60)
AIM = "15 %"


@dataclass(slots=True)
class Timed:
    """An answered request. Times by `perf_counter`, one per token."""

    sent_s: float
    prompt_tokens: int = 0
    token_s: list[float] = field(default_factory=list)

    @property
    def ttft_s(self) -> float:
        return self.token_s[0] - self.sent_s

    @property
    def e2e_s(self) -> float:
        return self.token_s[-1] - self.sent_s

    @property
    def step_s(self) -> float:
        """The usual time between its tokens. The median leaves out the few that waited for a prefill of others."""
        return median(np.diff(self.token_s))


class Client:
    """Streams chat requests to the gateway."""

    def __init__(self, session: aiohttp.ClientSession, gateway: Gateway) -> None:
        self._session, self._url = session, f"{gateway.base_url}/chat/completions"

    async def send(self, words: int, max_tokens: int) -> Timed:
        text = f"{secrets.token_hex(4)} " + "river " * words
        body = {
            "model": SMALL,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": max_tokens,
            "temperature": 1.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        timed = Timed(time.perf_counter())
        async with self._session.post(self._url, json=body, headers={"Authorization": f"Bearer {KEY}"}) as response:
            if response.status != 200:
                raise BenchError(f"the gateway answered {response.status}: {await response.text()}")
            async for line in response.content:
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    if event.get("choices") and event["choices"][0]["delta"].get("content"):
                        timed.token_s.append(time.perf_counter())
                    if event.get("usage"):
                        timed.prompt_tokens = event["usage"]["prompt_tokens"]
        if not timed.token_s:
            raise BenchError("an answer had no token")
        return timed


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-replay-")))
        servers = [_server(stack, folder, number) for number in range(REPLICAS)]
        snapshot = with_pool(small_only(*servers), SMALL, replica_concurrency=SEQUENCES)
        command, port, path = gateway_command(folder, snapshot)
        log = folder / "gateway.log"
        gateway = Gateway(port, path, _start(stack, Managed(command, log)), log)
        yield from asyncio.run(
            _measure(
                gateway,
                lambda: sum(triton_metric(server, "weir_model_active_sequences", "chat_small") for server in servers),
            )
        )


def _server(stack: ExitStack, folder: Path, number: int) -> Triton:
    server = triton(tuple(free_ports(3)), models=("chat_small",), config=CONFIG)
    _start(stack, Managed(server.command, folder / f"triton-{number}.log"))
    load(server, "chat_small", time_scale=str(TIME_SCALE))
    return server


def _start(stack: ExitStack, part: Managed) -> Managed:
    stack.callback(part.stop)
    part.start()
    part.wait_ready()
    return part


async def _measure(gateway: Gateway, active: Callable[[], float]) -> list[Figure]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=1 << 16) as session:
        client = Client(session, gateway)
        profile = await _calibrate(client)
        say(f"replay: measured {profile}")
        rng = np.random.default_rng(7)
        worst: dict[str, float] = {}
        for at in LOADS:
            sent, used = await _under_load(client, active, profile, at, rng)
            for name, error in _compare(sent, used, profile, at).items():
                worst[name] = max(worst.get(name, 0.0), error)
    return [Figure(f"replay.local_{name}_error_pct", 100 * error, "%", AIM) for name, error in worst.items()]


async def _calibrate(client: Client) -> ReplicaProfile:
    """Prefill of single prompts, and steps of one sequence and of as many as a replica has."""
    await client.send(10, 5)
    alone = [
        min([await client.send(words, 12) for _ in range(2)], key=lambda timed: timed.ttft_s)  # the less disturbed
        for words in np.linspace(*WORDS, 12).astype(int)
    ]
    prefill_s = fit_line(
        np.array([float(timed.prompt_tokens) for timed in alone]), np.array([timed.ttft_s for timed in alone])
    )
    batches, steps_s = [1.0] * len(alone), [timed.step_s for timed in alone]
    for _ in range(6):
        together = await asyncio.gather(*(client.send(20, 40) for _ in range(REPLICAS * SEQUENCES)))
        whole = [timed.step_s for timed in together if len(timed.token_s) > 2]
        batches += [SEQUENCES] * len(whole)
        steps_s += whole
    step_s = fit_line(np.array(batches), np.array(steps_s))
    return ReplicaProfile(*prefill_s, *step_s, max_sequences=SEQUENCES)


async def _under_load(
    client: Client, active: Callable[[], float], profile: ReplicaProfile, at: float, rng: np.random.Generator
) -> tuple[list[Timed], float]:
    """Requests at random, at the share `at` of what the replicas carry. Returns them with the mean of sequences in use."""
    busy_s = float(profile.busy_s(np.array([fmean(WORDS)]), np.array([fmean(TOKENS)]))[0])
    rate_rps = at * REPLICAS / busy_s
    count = int(rate_rps * RUN_S)
    say(f"replay: {count} requests at {rate_rps:.1f}/s, {at:.0%} of what the replicas carry")
    due_s = np.cumsum(rng.exponential(1 / rate_rps, count))
    words = rng.integers(*WORDS, count)
    tokens = rng.integers(*TOKENS, count)
    samples: list[float] = []

    async def watch() -> None:
        while True:
            samples.append(await asyncio.to_thread(active))
            await asyncio.sleep(0.1)

    async def send(index: int) -> Timed:
        await asyncio.sleep(max(0.0, start_s + due_s[index] - time.perf_counter()))
        return await client.send(int(words[index]), int(tokens[index]))

    watching = asyncio.create_task(watch())
    start_s = time.perf_counter()
    sent = await asyncio.gather(*(send(index) for index in range(count)))
    watching.cancel()
    return sorted(sent, key=lambda timed: timed.sent_s), fmean(samples)


def _compare(sent: Sequence[Timed], used: float, profile: ReplicaProfile, at: float) -> dict[str, float]:
    """Relative errors of the simulator."""
    first_s = sent[0].sent_s
    arrivals = Arrivals(
        np.array([timed.sent_s - first_s for timed in sent]),
        np.array([timed.prompt_tokens for timed in sent], dtype=np.int32),
        np.array([len(timed.token_s) for timed in sent], dtype=np.int32),
    )
    end_s = max(timed.token_s[-1] for timed in sent) - first_s
    pool = Pool(
        profile,
        min_replicas=REPLICAS,
        max_replicas=REPLICAS,
        max_in_flight=SEQUENCES,
    )
    said = replay(arrivals, pool, Fixed(REPLICAS, tick_s=end_s), Objective(0.95, ttft_s=1.0), duration_s=end_s)
    prefill_s = float(np.mean(profile.prefill_s + profile.prefill_token_s * arrivals.input_tokens))
    ttft_s = np.array([timed.ttft_s for timed in sent])
    e2e_s = np.array([timed.e2e_s for timed in sent])
    pairs = {
        "utilisation": (said.utilisation, used / (REPLICAS * SEQUENCES)),
        "queueing": (said.ttft.mean_s - prefill_s, float(np.mean(ttft_s)) - prefill_s),
        "p95": (said.e2e.p95_s, float(np.quantile(e2e_s, 0.95))),
        "ttft_p95": (said.ttft.p95_s, float(np.quantile(ttft_s, 0.95))),
    }
    for name, (simulated, measured) in pairs.items():
        say(
            f"replay: at {at:.0%}, {name}: simulated {simulated:.4g}, measured {measured:.4g} ({simulated / measured - 1:+.1%})"
        )
    return {name: abs(simulated / measured - 1) for name, (simulated, measured) in pairs.items()}
