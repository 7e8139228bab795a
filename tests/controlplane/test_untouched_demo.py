"""What `make run` comes with, against the simulator: an hour of its own traffic, a burst of it, and the first plan. Nothing is started."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from controlplane.fleet.core.local_cluster import LocalPool, LocalState
from controlplane.management.bootstrap import bootstrap
from controlplane.planning import inputs
from controlplane.planning.core.demo_traffic import expected, requests
from controlplane.planning.demo import fleet_streams
from controlplane.policy.core.document import read
from controlplane.policy.core.spec import Scaling, ScalingSpec
from controlplane.policy.simulated import Simulated
from controlplane.slo.seed import TTFT_MS
from deploy.local import fleet
from deploy.local.models.timing import TIMINGS
from deploy.local.parts import POLICIES
from deploy.local.traffic.__main__ import DAY_S
from deploy.local.traffic.client import Settings
from deploy.local.traffic.questions import TENANTS, questions, rate_at
from forecasting.capacity.assumptions import Demand, PlanInputs
from forecasting.capacity.replicas import make_plan
from forecasting.series import Series
from forecasting.simulate.arrivals import Arrivals, Lengths, from_rates
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Fixed
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay
from tests.support import capacity as made
from tests.support.forecasting.simulate import requests as sent

HOUR_S = 3_600
RATE_RPS = Settings.model_fields["traffic_rps"].default
FIRST_TOKEN = Objective(0.95, ttft_s=TTFT_MS / 1_000)
WAIT_S = 0.5
"""Of the objective `queue-by-pool`, at 99 %."""
SIGNALS_S = 3.0
"""The time over which gateways' waits are averaged."""
TOKENS_A_WORD = 1.3


def profile(model: str) -> ReplicaProfile:
    gpu, gpus = fleet.CAPACITIES[model]["gpu"], fleet.OF_ALL["gpus_per_replica"]
    [timing] = [timing for name, timing in TIMINGS.items() if name.endswith(f"/{gpu}/tp{gpus}")]
    ms = (timing.prefill_ms, timing.prefill_token_ms, timing.decode_ms, timing.decode_sequence_ms)
    return ReplicaProfile(*(each / 1e3 for each in ms), max_sequences=fleet.REPLICA_CONCURRENCY, gpus=float(gpus))


def policy(model: str) -> ScalingSpec:
    path = POLICIES / f"{model}-replicas.yaml"
    [found], _ = read(path.read_text(), path.name)
    assert isinstance(found.policy, Scaling)
    return found.policy.spec


def generated(model: str, duration_s: float, seed: int, times: float = 0.0) -> Arrivals:
    """The generated traffic that reaches the model's pool, with a burst beside it: what the cache knows does not."""
    chance = random.Random(seed)
    endless, cached, at, rows = questions(chance, TENANTS), set(), 0.0, []
    while (at := at + chance.expovariate(rate_at(at, RATE_RPS, DAY_S) + times * RATE_RPS)) < duration_s:
        question = next(endless)
        known = (question.key_file, question.prompt) if question.temperature == 0 else None
        if question.model == model and known not in cached:
            rows.append((at, int(len(question.prompt.split()) * TOKENS_A_WORD), question.max_tokens))
        cached.update({known} - {None})
    return sent(*rows)


def scaled(model: str) -> Simulated:
    return Simulated(policy(model), None, fleet.OF_ALL["cold_start_s"], tick_s=SIGNALS_S)


def pool(model: str, replicas: int, at_most: int) -> Pool:
    starts = (fleet.OF_ALL["cold_start_s"],)
    return Pool(profile(model), starts, replicas, at_most, max_in_flight=fleet.REPLICA_CONCURRENCY)


@pytest.mark.parametrize("seed", range(4))
def test_an_hour_of_its_own_traffic_keeps_its_objectives_without_flapping(seed: int) -> None:
    changes = 0
    for model in fleet.MODELS:
        outcome = replay(generated(model, HOUR_S, seed), pool(model, 2, 3), scaled(model), FIRST_TOKEN)
        assert outcome.kept
        assert outcome.wait.p99_s <= WAIT_S
        changes += outcome.changes
    assert changes <= 4


@pytest.mark.parametrize("model", fleet.MODELS)
def test_a_burst_of_three_times_the_traffic_brings_a_third_replica_and_it_ends(model: str) -> None:
    quiet, burst = generated(model, 300, 1), generated(model, 120, 2, times=3.0)
    after = generated(model, 300, 3)
    both = sent(
        *(
            (begin_s + at, reads, writes)
            for begin_s, each in ((0, quiet), (300, burst), (420, after))
            for at, reads, writes in zip(each.arrival_s, each.input_tokens, each.output_tokens, strict=True)
        )
    )
    wanted = replay(both, pool(model, 2, 3), scaled(model), FIRST_TOKEN, step_s=SIGNALS_S).steps.wanted
    assert (max(wanted[:100]), max(wanted[100:140]), wanted[-1]) == (2, 3, 2)


@pytest.mark.django_db
def test_the_first_plan_has_replicas_and_a_cost_that_the_simulator_confirms(home: Path) -> None:
    """Of the weeks that `demo_history` writes: at the busiest hour of the next two days the planned replicas keep the objective."""
    names = [f"{model}-local" for model in fleet.ALL_MODELS]
    state = LocalState(
        version="1",
        slots=8,
        pools=tuple(LocalPool(name=name, wanted=2, set_by="launcher", replicas=()) for name in names),
    )
    (home / "fleet.json").write_text(json.dumps(fleet.fleet(state)))
    bootstrap(home, home / "fleet.json", demo=True)
    streams = fleet_streams(2.0)
    start_s, hours = made.MONDAY_S + 35 * 86_400, 48
    steps = hours * 12
    demands = [
        Demand(
            stream.model,
            stream.tier,
            stream.region,
            made.forecast(rate := expected(stream, start_s, steps, made.MONDAY_S) / 300, start_s=start_s, spread=0.5),
            made.forecast(rate * stream.input_tokens, start_s=start_s),
            made.forecast(rate * stream.output_tokens, start_s=start_s),
            hit_rate=0.2,
        )
        for stream in streams
    ]
    assumed = inputs.plan_inputs(start_s, hours)
    plan = make_plan(PlanInputs(tuple(demands), assumed.pools, assumed.usd_per_gpu_hour, start_s=start_s, hours=hours))
    columns = requests(streams, start_s, hours * HOUR_S, made.MONDAY_S, seed=1)
    for each in plan.pools:
        model = each.assumptions.model
        if model == fleet.EMBEDDER:  # whose requests are those of others
            continue
        own = (columns["pool"] == each.pool) & (columns["cache_outcome"] == "miss")
        lengths = Lengths(columns["prompt_tokens"][own].astype(int), columns["output_tokens"][own].astype(int))
        busiest = int(each.requests_per_s.argmax())
        arrivals = from_rates(Series(0, HOUR_S, np.full(3, each.requests_per_s[busiest])), lengths, seed=1)

        def kept(replicas: int, arrivals: Arrivals = arrivals, model: str = model) -> bool:
            fixed = Fixed(replicas, tick_s=60.0)
            return replay(arrivals, pool(model, replicas, replicas), fixed, FIRST_TOKEN).kept

        needed = int(each.demand_replicas[busiest])
        assert each.replicas[busiest] == needed + 1, "and a spare one"
        assert kept(needed)
        assert needed == 1 or not kept(needed - 1), "and no more than that"
        usd = fleet.OF_ALL["gpus_per_replica"] * fleet.CAPACITIES[model]["usd_per_gpu_hour"]
        assert each.cost_usd.sum() == pytest.approx(each.replicas.sum() * usd)
    assert not any(each.shortfall_rps.any() for each in plan.pools)
    [vectors] = [each for each in plan.pools if each.assumptions.model == fleet.EMBEDDER]
    assert vectors.replicas.all() and not vectors.gpu_hours.any(), "its replicas have no GPU"
