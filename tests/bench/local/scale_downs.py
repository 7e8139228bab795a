"""A thousand scale-downs under load: is any request lost?

The controller, the gateway, the launcher's supervisor with its API, and processes as replicas are real. The replicas are stand-ins with
OpenAI's API (`tests/support/servers/slow_replica.py`), because a thousand Tritons would take an hour; they end at once on SIGTERM with
whatever they are answering. Overrides give each of 24 pools a second replica and take it again.

At the end the controller is ended, and the second replica of each pool is taken away by hand, without a drain: that must lose requests,
else the measure could not fail.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

import aiohttp

from controlplane.fleet.clusters.local import LocalCluster
from deploy.local.ports import LOOPBACK, free_ports
from tests.bench.figures import Figure, say
from tests.bench.processes import ROOT, BenchError, start
from tests.support.deploy.launched_cluster import TOKEN, Launched, launched
from tests.support.wait import eventually

REMOVALS = int(os.environ.get("REMOVALS", "1000"))
POOLS = tuple(f"pool-{number:02}" for number in range(24))
MODEL = "stand-in"
CLIENTS = 72
TOKENS, STEP_MS = 12, 40.0
BETWEEN_S = 0.3
"""From one removal by hand to the next."""
POLICY = """\
apiVersion: weir/v1
kind: Scaling
metadata: {{name: {pool}}}
spec:
  pool: {pool}
  min: 1
  max: 2
  forecast: "off"
  scale_down: {{stabilisation_s: 0, cooldown_s: 0}}
"""


class Load:
    """Clients that stream one answer after another until told to stop."""

    def __init__(self, url: str, key: str) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._headers = {"Authorization": f"Bearer {key}"}
        self.answered = 0
        self.lost: list[str] = []
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(self._client(session, number) for number in range(CLIENTS)))

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        asked = 0
        while not self.stopping.is_set():
            asked += 1
            body = {
                "model": MODEL,
                "messages": [{"role": "user", "content": f"{number} asks {asked}"}],
                "max_tokens": TOKENS,
                "temperature": 1.0,
                "stream": True,
            }
            try:
                async with session.post(self._url, json=body, headers=self._headers) as response:
                    text = await response.text()
                    if (
                        response.status == 200
                        and text.count('"content":"w "') == TOKENS
                        and text.endswith("data: [DONE]\n\n")
                    ):
                        self.answered += 1
                    else:
                        self.lost.append(f"{response.status} {text[-300:]}")
            except (aiohttp.ClientError, TimeoutError) as error:
                self.lost.append(repr(error))


async def measure(folder: Path) -> list[Figure]:
    with ExitStack() as stack:
        for name in ("home", "home/run", "cluster"):
            (folder / name).mkdir()
        shape = {"slots": 2 * len(POOLS) + 8, "tokens": TOKENS, "step_ms": STEP_MS, "slots_per_replica": 64}
        cluster = stack.enter_context(launched(folder / "cluster", **shape, **dict.fromkeys(POOLS, 1)))  # type: ignore[arg-type]
        gateway_port, controller_port = free_ports(2)
        url = f"http://{LOOPBACK}:{gateway_port}"
        home = {
            "WEIR_HOME": str(folder / "home"),
            "WEIR_GATEWAY_URL": url,
            "WEIR_GATEWAY_PORT": str(gateway_port),
            "WEIR_CONTROLLER_PORT": str(controller_port),
            "WEIR_METRICS_TOKEN": "m" * 40,
            "WEIR_LOCAL_CLUSTER_URL": cluster.url,
            "WEIR_REDIS_URL": f"redis://{LOOPBACK}:1/0",  # none: nothing here is cached
            "WEIR_STORE_DSN": f"clickhouse://weir:none@{LOOPBACK}:1/weir",  # none: overrides need no objectives
        }
        (folder / "home" / "cluster-token").write_text(TOKEN)
        (folder / "home" / "run" / "fleet.json").write_text(json.dumps(_fleet(cluster.client(*POOLS))))
        (folder / "policies.yaml").write_text("---\n".join(POLICY.format(pool=pool) for pool in POOLS))
        await _done("prepare", home, "-m", "deploy.local.prepare", str(folder / "home" / "run" / "fleet.json"))
        await _done("policies", home, "manage.py", "policy", "apply", str(folder / "policies.yaml"))
        children = {}
        for name, port, module in (
            ("gateway", gateway_port, "inference"),
            ("controller", controller_port, "controlplane.controller"),
        ):
            children[name] = start(stack, name, (sys.executable, "-m", module), folder, home, port=port)
        load = Load(url, (folder / "home" / "gateway-key").read_text().strip())
        loading = asyncio.create_task(load.run())
        said = json.loads(await _done("wishes", home, "-m", "tests.bench.local.wishes", str(REMOVALS), *POOLS))
        lost, answered = list(load.lost), load.answered
        say(f"local: now {len(POOLS)} more removals, without a drain")
        await asyncio.to_thread(children["controller"].stop)
        await asyncio.to_thread(_by_hand, cluster)
        load.stopping.set()
        await loading
        return [
            *_figures(answered, lost, said),
            Figure(
                "local.undrained_lost_requests",
                len(load.lost) - len(lost),
                "requests",
                f"by {len(POOLS)} removals by hand without a drain, which shows that the measure can fail",
            ),
        ]


def _by_hand(cluster: Launched) -> None:
    """Take the second replica of each pool away. Each has one: what discovery has made known to the gateway."""
    with closing(cluster.client(*POOLS)) as client:
        eventually(lambda: client.seen().watching)
        for pool in POOLS:
            seen = client.seen().pools[pool]
            if seen.wanted != 2:
                raise BenchError(f"{pool} has {seen.wanted} replicas before the removals by hand, and should have 2")
            client.scale(pool, 1, token=seen.token, generation=1)
            time.sleep(BETWEEN_S)
        eventually(lambda: all(len(pool.replicas) == 1 for pool in client.seen().pools.values()))


def _fleet(client: LocalCluster) -> Mapping[str, object]:
    eventually(lambda: client.seen().watching)
    seen = client.seen()
    client.close()
    pools = [
        {
            "name": pool,
            "variant": pool,
            "region": "local",
            "model_name": pool,
            "model_version": "",
            "protocol": "openai",
            "server": "vllm",
            "max_concurrency": 512,
            "cluster": "local",
            "replicas": [{"name": replica.name, "url": replica.address} for replica in seen.pools[pool].replicas],
        }
        for pool in POOLS
    ]
    return {"models": [{"name": MODEL, "tokenizer": "estimate", "pools": pools}]}


async def _done(name: str, env: Mapping[str, str], *arguments: str) -> str:
    """The output of a command, which must end well. Raises BenchError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    if process.returncode:
        raise BenchError(f"{name} ended with {process.returncode}:\n{out.decode()[-1000:]}{err.decode()[-2000:]}")
    return out.decode()


def _figures(answered: int, lost: Sequence[str], said: dict[str, object]) -> list[Figure]:
    took_s, downs = said["took_s"], said["downs"]
    assert isinstance(took_s, list)
    assert isinstance(downs, int)
    say(f"local: {answered} answered, {len(lost)} lost; {downs} removals in {said['s']} s: {said['outcomes']}")
    for text in lost[:5]:
        say(f"local: lost: {text}")
    return [
        Figure("local.scale_downs", downs, "replicas removed", f"{answered} requests answered meanwhile"),
        Figure("local.scale_down_lost_requests", len(lost), "requests", f"{answered + len(lost)} sent"),
        Figure("local.scale_down_s", median(took_s), "s", "from the decision to the end of the replica"),
    ]
