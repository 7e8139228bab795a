"""`make run` under bursts of its own traffic: does the pool grow and shrink again, and does the ladder climb and come down to zero?

The usual traffic goes on throughout. First three times as much is added, for which a third replica is enough; then more than three
replicas carry. Premium traffic is counted over both bursts and the minutes between.
"""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from controlplane.fleet.clusters.local import LocalCluster
from controlplane.fleet.clusters.port import PoolBinding
from deploy.local.ports import LOOPBACK
from deploy.local.traffic.burst import burst
from deploy.local.traffic.client import Outcome, Settings
from tests.bench.figures import Figure, say
from tests.bench.processes import BenchError
from tests.support.deploy.run import Run

POOL = "chat-large-local"
QUIET_S = 45.0
BURST_S = float(os.environ.get("BURST_S", "90"))
TIMES = 3.0
TOO_MUCH = 10.0
PATIENCE_S = 300.0
FIRST_TOKEN_S = 1.0
"""The threshold of the demo's own objective."""
PREMIUM = "gateway-key-premium"


def measure(folder: Path) -> Iterator[Figure]:
    run = Run(folder / "home")
    try:
        say("local: starting everything")
        run.start()
        time.sleep(QUIET_S)
        with closing(_cluster(run)) as cluster:
            yield from _measure(run, cluster)
    finally:
        run.end()


def _measure(run: Run, cluster: LocalCluster) -> Iterator[Figure]:
    if (before := _ready(cluster)) != 2:
        raise BenchError(f"{POOL} has {before} replicas before the burst, and should have 2")
    with ThreadPoolExecutor(1) as sending:
        outcomes: list[Outcome] = []
        for name, times in (("burst", TIMES), ("overload", TOO_MUCH)):
            say(f"local: {name}: {times:g} times the usual traffic for {BURST_S:g} s")
            began = time.monotonic()
            sent = sending.submit(_send, run, times, BURST_S)
            out_s = _until(lambda: _ready(cluster) >= 3, began)
            outcomes += sent.result()
            ended = time.monotonic()
            in_s = _until(lambda: _ready(cluster) == 2 and len(_replicas(cluster)) == 2, ended)
            yield Figure(f"local.{name}_scaled_out_s", out_s, "s", "from the start of the burst to 3 ready replicas")
            yield Figure(f"local.{name}_scaled_in_s", in_s, "s", "from its end until the third has ended")
        _until(lambda: not _steps(run), time.monotonic())
    yield from _ladder(run)
    yield from _of_premium(outcomes)
    failed = [each for each in outcomes if not (each.answered or each.refused or each.has_left)]
    for each in failed[:5]:
        say(f"local: lost: {each}")
    yield Figure("local.burst_lost_requests", len(failed), "requests", f"{len(outcomes)} sent, all tiers")


def _send(run: Run, times: float, duration_s: float) -> list[Outcome]:
    """A burst, as `python -m deploy.local.traffic --burst` sends it, and what became of each request."""
    settings = Settings(
        home=run.home,
        gateway_url=f"http://{LOOPBACK}:{run.gateway}",
        otlp_endpoint=f"http://{LOOPBACK}:{run.env['WEIR_OTLP_HTTP_PORT']}",
    )
    return asyncio.run(
        burst(settings, times * settings.traffic_rps, duration_s, say=lambda text: say(f"local: {text}"))
    )


def _of_premium(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    own = [each for each in outcomes if each.key_file == PREMIUM and not each.has_left]
    answered = sum(each.answered for each in own)
    in_time = sum(each.answered and (each.first_s or 0.0) <= FIRST_TOKEN_S for each in own)
    yield Figure("local.premium_answered_pct", 100 * answered / len(own), "%", f"{len(own)} premium requests")
    yield Figure(
        "local.premium_in_time_pct", 100 * in_time / len(own), "%", f"streams begin within {FIRST_TOKEN_S:g} s"
    )
    for tier in ("gateway-key", "gateway-key-batch"):
        others = [each for each in outcomes if each.key_file == tier and not each.has_left]
        answered, refused = sum(each.answered for each in others), sum(each.refused for each in others)
        say(f"local: {tier}: {len(others)} sent, {answered} answered, {refused} refused")


def _ladder(run: Run) -> Iterator[Figure]:
    moves = _rows(
        run, "select tier, before, after, at, reason from policy_decisionchange where kind = 'ladder' order by id"
    )
    for tier, before, after, at, reason in moves:
        say(f"local: {at[11:19]} {tier}: {before} → {after}: {reason}")
    now: dict[str, float] = {}
    for tier, _, after, _, _ in moves:
        now[tier] = after or 0.0
    yield Figure("local.ladder_top_step", max((after or 0.0 for _, _, after, _, _ in moves), default=0.0), "of 4 steps")
    yield Figure(
        "local.ladder_last_step", max(now.values(), default=0.0), "of 4 steps", "after the overload; 0 is none"
    )


def _steps(run: Run) -> dict[str, Any]:
    """The tiers that are on a step, as the controller remembers them."""
    ((document,),) = _rows(run, "select document from policy_memory where name = 'active'")
    ladders = json.loads(document).get("ladders", {})
    return {tier: at for tiers in ladders.values() for tier, at in tiers.items() if at.get("level")}


def _rows(run: Run, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{run.home / 'weir.sqlite3'}?mode=ro", uri=True, timeout=30)) as database:
        return database.execute(query).fetchall()


def _cluster(run: Run) -> LocalCluster:
    """The launcher's cluster, watched as the controller does."""
    controller = run.process("-m controlplane.controller")
    cluster = LocalCluster(
        "local", controller.environ()["WEIR_LOCAL_CLUSTER_URL"], (run.home / "cluster-token").read_text().strip()
    )
    cluster.bind([PoolBinding(POOL, POOL, "triton")])
    _until(lambda: cluster.seen().watching, time.monotonic())
    return cluster


def _replicas(cluster: LocalCluster) -> Sequence[Any]:
    return cluster.seen().pools[POOL].replicas


def _ready(cluster: LocalCluster) -> int:
    return sum(replica.ready for replica in _replicas(cluster))


def _until(holds: Callable[[], bool], since: float) -> float:
    """Seconds from `since` (monotonic) until it holds. Raises BenchError."""
    while not holds():
        if time.monotonic() - since > PATIENCE_S:
            raise BenchError(f"not within {PATIENCE_S:.0f} s: {holds}")
        time.sleep(0.1)
    return time.monotonic() - since
