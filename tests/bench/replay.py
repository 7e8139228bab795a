"""The simulator: how fast it is, how near to queueing theory, and how near to a run of the local stack.

`TRACE=FILE` replays that trace, without it all of the shared folder (demand_traces.py), and without that a made-up day. Rates are
scaled to ten million requests in 14 days, some 8 a second, and requests repeated to a million.
"""

import time
from collections.abc import Iterator
from math import ceil

import numpy as np

from deploy.local.models.timing import TIMINGS
from forecasting.series import Series
from forecasting.simulate.arrivals import Arrivals, Lengths, from_rates
from forecasting.simulate.outcome import Objective, Outcome
from forecasting.simulate.policy import Fixed, Policy
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay
from tests.bench import local_run
from tests.bench.figures import Figure, say
from tests.bench.loads.demand_traces import demands, files, rows_of
from tests.bench.processes import BenchError
from tests.bench.references.dynamo import Dynamo
from tests.bench.references.hpa import Hpa
from tests.bench.references.kpa import Kpa
from tests.bench.references.llmd import LlmdSlo
from tests.bench.references.oracle import least_oracle
from tests.support.forecasting.closed_forms import md1_wait_quantile_s, md1_wait_s, mmc_wait_quantile_s, mmc_wait_s

DAYS = 14
REQUESTS_14_D = 10_000_000
MIN_REQUESTS = 1_000_000
LENGTHS = Lengths.around(500, 200)
OBJECTIVE = Objective(0.95, ttft_s=0.5, itl_s=0.05)
COLD_START_S = (90.0, 120.0, 180.0)


def _profile() -> ReplicaProfile:
    timing = TIMINGS["C/a100-80gb/tp4"]
    times_ms = (timing.prefill_ms, timing.prefill_token_ms, timing.decode_ms, timing.decode_sequence_ms)
    return ReplicaProfile(*(value / 1e3 for value in times_ms), max_sequences=64)


def run() -> Iterator[Figure]:
    yield from _theory()
    profile = _profile()
    replay(
        from_rates(Series(0, 60, np.ones(10)), LENGTHS), Pool(profile), LlmdSlo(profile, OBJECTIVE), OBJECTIVE
    )  # compiles
    speeds, slowest_s = [], 0.0
    for name, series in _rates():
        arrivals = _fourteen_days(series)
        speeds.append(_speed(name, arrivals, profile))
        slowest_s = max(slowest_s, *_policies(name, arrivals, profile))
    speeds += [_speed(name, arrivals, profile) for name, arrivals in _requests()]
    yield Figure("replay.requests_per_s", min(speeds), "1/s", "1,000,000")
    yield Figure("plan.replay_14d_s", slowest_s, "s", "10 s")
    yield from local_run.run()


def _rates() -> Iterator[tuple[str, Series]]:
    """Rates over at least a day; a made-up day where no trace has them."""
    try:
        traces = [(trace.name, trace.series) for trace in demands(files())]
        known = [(name, series) for name, series in traces if len(series) * series.step_s >= 86_400]
    except BenchError as missing:
        say(f"replay: {missing}")
        known = []
    day = 1 + 0.7 * np.sin(np.arange(DAYS * 144) / 144 * 2 * np.pi)
    yield from known or [("a made-up day", Series(0, 600, day))]


def _fourteen_days(series: Series) -> Arrivals:
    values = np.resize(series.values, DAYS * 86_400 // series.step_s)
    scaled = values * REQUESTS_14_D / (np.nanmean(values) * DAYS * 86_400)
    return from_rates(Series(0, series.step_s, scaled), LENGTHS)


def _requests() -> Iterator[tuple[str, Arrivals]]:
    """Traces of requests, one after the other until there are a million."""
    try:
        paths = files()
    except BenchError:
        return
    for path in paths:
        rows = rows_of(path)
        if rows and {"arrival_s", "input_tokens", "output_tokens"} <= set(rows[0]):
            columns = ([float(row[name]) for row in rows] for name in ("arrival_s", "input_tokens", "output_tokens"))
            at, read, written = (np.array(column) for column in columns)
            order = np.argsort(at, kind="stable")
            at = at[order] - at.min()
            times = ceil(MIN_REQUESTS / len(at))
            starts_s = np.repeat(np.arange(times) * (at[-1] + 1), len(at))
            yield (
                path.name.split(".")[0],
                Arrivals(starts_s + np.tile(at, times), np.tile(read[order], times), np.tile(written[order], times)),
            )


def _enough(arrivals: Arrivals, profile: ReplicaProfile) -> int:
    """Replicas that are in use for six tenths at the busiest hour."""
    hour = (arrivals.arrival_s / 3600).astype(np.int64)
    return ceil(
        np.bincount(hour, weights=profile.busy_s(arrivals.input_tokens, arrivals.output_tokens)).max() / 3600 / 0.6
    )


def _speed(name: str, arrivals: Arrivals, profile: ReplicaProfile) -> float:
    """Requests per second of CPU time, with the outcome; the best of two."""
    replicas = _enough(arrivals, profile)
    pool = Pool(profile, min_replicas=replicas, max_replicas=replicas)
    took_s = []
    for _ in range(2):
        start_s = time.process_time()
        outcome = replay(arrivals, pool, Fixed(replicas), OBJECTIVE)
        took_s.append(time.process_time() - start_s)
    speed = len(arrivals) / min(took_s)
    say(f"replay: {name}: {len(arrivals):,} requests on {replicas} replicas, {speed:,.0f}/s; {_line(outcome)}")
    return speed


def _policies(name: str, arrivals: Arrivals, profile: ReplicaProfile) -> Iterator[float]:
    """Seconds that each reference policy's replay takes."""
    pool = Pool(profile, cold_start_s=COLD_START_S, start_replicas=_enough(arrivals, profile))
    half = profile.max_sequences / 2
    policies: list[Policy] = [
        Hpa(half),
        Kpa(half),
        LlmdSlo(profile, OBJECTIVE),
        Dynamo(profile, OBJECTIVE),
        least_oracle(arrivals, pool, OBJECTIVE),
    ]
    for policy in policies:
        start_s = time.perf_counter()
        outcome = replay(arrivals, pool, policy, OBJECTIVE)
        took_s = time.perf_counter() - start_s
        say(f"replay: {name}, {policy.name}: {took_s:.1f} s; {_line(outcome)}")
        yield took_s


def _line(outcome: Outcome) -> str:
    return (
        f"{outcome.attainment:.2%} good, {outcome.replica_hours:,.0f} replica hours, {outcome.flaps} flaps, "
        f"wait p95 {outcome.wait.p95_s:.3f} s, TTFT p95 {outcome.ttft.p95_s:.3f} s"
    )


def _theory() -> Iterator[Figure]:
    """The largest error of utilisation, mean and p95 of the wait, over queues with known answers."""
    count, service_s = 4_000_000, 0.1
    profile = ReplicaProfile(0, 1e-6, 0, 0, 1)
    rng = np.random.default_rng(1)
    errors = []
    for servers, load, alike in ((1, 0.7, False), (4, 0.8, False), (16, 0.8, False), (1, 0.5, True), (1, 0.8, True)):
        rate_rps = servers * load / service_s
        served_s = np.full(count, service_s) if alike else rng.exponential(service_s, count)
        at = np.cumsum(rng.exponential(1 / rate_rps, count))
        arrivals = Arrivals(at, np.rint(served_s * 1e6).astype(np.int32), np.ones(count, dtype=np.int32))
        pool = Pool(profile, min_replicas=servers, max_replicas=servers, max_in_flight=1)
        said = replay(arrivals, pool, Fixed(servers, tick_s=float(at[-1])), OBJECTIVE)
        expected = (
            load,
            md1_wait_s(rate_rps, service_s) if alike else mmc_wait_s(servers, rate_rps, service_s),
            md1_wait_quantile_s(rate_rps, service_s, 0.95)
            if alike
            else mmc_wait_quantile_s(servers, rate_rps, service_s, 0.95),
        )
        got = (said.utilisation, said.wait.mean_s, said.wait.p95_s)
        errors += [abs(value / right - 1) for value, right in zip(got, expected, strict=True)]
        queue = f"M/{'D' if alike else 'M'}/{servers}"
        say(
            f"replay: {queue} at {load}: utilisation, mean wait, p95 off by "
            + ", ".join(f"{e:.2%}" for e in errors[-3:])
        )
    yield Figure("replay.theory_error_pct", 100 * max(errors), "%", "2 %")
