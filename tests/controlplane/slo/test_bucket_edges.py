"""Objectives on stored histograms: judged where a bucket ends, else refused with the nearest bounds."""

import math
import threading
from typing import Any

import pyarrow as pa
import pytest
from django.core.exceptions import ValidationError
from pytest_django import Settings

from controlplane.fleet.models import Pool, Replica
from controlplane.slo import bucket_edges
from controlplane.slo.bucket_edges import check_edges, grown, known_edges, refusal
from controlplane.slo.core.evaluation import Evaluation
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability, Histogram
from controlplane.slo.core.windows import DAY_S, HOUR_S
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.slo.save import save_objective
from controlplane.telemetry.metrics.core.series import identity, labels_of
from controlplane.telemetry.metrics.core.stale import STALE
from controlplane.telemetry.metrics.sample_columns import SAMPLE_SCHEMA, SERIES_SCHEMA
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from tests.support.policy.world import fleet

NS = 10**9
NOW_S = 500_000 * HOUR_S + 1_230
METRIC = "vllm:time_to_first_token_seconds"
BOUNDS = (0.3, 0.5, 1.0, math.inf)


def put(
    store: Store,
    counts: dict[float, list[float]],
    *,
    times_s: list[int],
    replica: str = "a",
    start_s: int = 0,
    **more: str,
) -> None:
    """Cumulative buckets by bound, one value for each time; fewer values are those of the first times."""
    series, samples = [], []
    for bound, values in counts.items():
        edge = "+Inf" if math.isinf(bound) else str(bound)
        labels = labels_of([("le", edge), *more.items(), ("replica", replica)])
        number = identity(f"{METRIC}_bucket", labels)
        series.append({"metric": f"{METRIC}_bucket", "series": number, "kind": "counter", "unit": "", "delta": False,
                       "labels": list(labels), "seen_ns": times_s[-1] * NS})  # fmt: skip
        samples += [
            {"series": number, "time_ns": at * NS, "start_ns": start_s * NS, "value": value}
            for at, value in zip(times_s, values, strict=False)
        ]
    store.writer.insert_metric_columns(
        series=pa.Table.from_pylist(series, schema=SERIES_SCHEMA),
        samples=pa.Table.from_pylist(samples, schema=SAMPLE_SCHEMA),
    )


def fill(store: Store) -> None:
    """Every 15 s for an hour ten requests on each of two replicas, of which one is slower than 0.5 s; replica b begins again once."""
    times = [NOW_S - 15 * back for back in range(240, -1, -1)]
    steps = range(len(times))
    put(store, {0.3: [5.0 * n for n in steps], 0.5: [9.0 * n for n in steps], 1.0: [10.0 * n for n in steps],
                math.inf: [10.0 * n for n in steps]}, times_s=times)  # fmt: skip
    again = [n if n < 100 else n - 100 for n in steps]
    put(store, {0.3: [5.0 * n for n in again], 0.5: [9.0 * n for n in again], 1.0: [10.0 * n for n in again],
                math.inf: [10.0 * n for n in again]}, times_s=times, replica="b")  # fmt: skip


def test_growth_above_the_bound_is_bad_across_resets(store: Store) -> None:
    fill(store)
    from_s = (NOW_S - 3_600) // 60 * 60
    bad, total = counted(store, Histogram(METRIC, 0.5), from_s)
    assert total == 10 * 240 + 10 * 239  # between 241 samples 240 steps; beginning again at nothing counts nothing
    assert bad == total / 10
    assert counted(store, Histogram(METRIC, 0.5, {"replica": "a"}), from_s) == (240, 2_400)


def counted(store: Store, indicator: Histogram, from_s: int) -> tuple[int, int]:
    """Bad and total observations of an hour and a minute, of which none is in doubt."""
    block, doubt, _ = grown(store, indicator, from_s, from_s + 3_660)
    assert doubt == ""
    bad, total = block.sum(axis=1).tolist()
    return bad, total


def judged(store: Store, at_s: int = NOW_S) -> tuple[str, str]:
    """The state of an objective on the histogram, and why it is not known."""
    found = evaluation(store, at_s)
    return found.alert.state, found.why


def evaluation(store: Store, at_s: int = NOW_S) -> Evaluation:
    evaluator, objective = Evaluator(store, retention_s=DAY_S), Objective("vllm-ttft", "", Histogram(METRIC, 0.5), 0.95)
    evaluator.tick([objective], [], at_s * NS)
    while evaluator.sweep(at_s * NS):
        pass
    [found] = evaluator.tick([objective], [], at_s * NS)
    return found


def test_what_lies_in_a_bucket_around_the_threshold_is_neither_good_nor_bad_and_that_is_said(store: Store) -> None:
    """Another version of the server has other bounds."""
    times = [NOW_S - 15 * back for back in range(240, -1, -1)]
    steps = [10.0 * n for n in range(len(times))]
    put(store, {0.5: steps, math.inf: steps}, times_s=times)
    assert judged(store) == ("quiet", "")
    put(store, {0.3: [0.0] * len(times), 0.7: steps, math.inf: steps}, times_s=times, replica="b")
    block, doubt, _ = grown(store, Histogram(METRIC, 0.5), times[0] // 60 * 60, times[0] // 60 * 60 + 3_660)
    assert block.sum(axis=1).tolist() == [0, 2_400]
    assert "replica=b" in doubt
    assert judged(store) == ("unknown", doubt)


def test_a_bucket_that_is_there_from_its_first_observation_on_makes_none_before_it_bad(store: Store) -> None:
    """Exponential histograms have the buckets between their least and their greatest observation."""
    times = [NOW_S - 15 * back for back in range(240, -1, -1)]
    steps = [10.0 * n for n in range(len(times))]
    put(store, {0.25: steps[:100], math.inf: steps}, times_s=times)
    fast = [990.0 + 9 * n for n in range(1, 142)]
    put(store, {0.25: fast, 0.5: fast, 1.0: steps[100:]}, times_s=times[100:])
    assert counted(store, Histogram(METRIC, 0.5), times[0] // 60 * 60) == (141, 2_400)


def windows(store: Store, at_s: int) -> list[tuple[int, int]]:
    """Bad and total observations of each hour around a time, and of each minute's five from then on."""
    hour_s = at_s // HOUR_S * HOUR_S
    spans = [(hour_s - HOUR_S, hour_s), (hour_s, hour_s + HOUR_S)]
    spans += [(from_s, from_s + 300) for from_s in range(at_s // 60 * 60 - 240, at_s // 60 * 60 + 1, 60)]
    counts = [grown(store, Histogram(METRIC, 0.5), *span)[0].sum(axis=1).tolist() for span in spans]
    return [(bad, total) for bad, total in counts]


def test_what_counters_grew_by_in_a_gap_counts_in_whatever_window_the_next_sample_lies(store: Store) -> None:
    """Also where the gap began long before the window, with or without a stale marker: these observations were in no window."""
    back_s = NOW_S // HOUR_S * HOUR_S + 600
    times = [back_s - 3_000, back_s - 610, back_s, back_s + 15]
    put(store, {0.5: [9.0, STALE, 79.0, 79.0], math.inf: [10.0, STALE, 90.0, 90.0]}, times_s=times)
    assert windows(store, back_s) == [(0, 0)] + [(10, 80)] * 6


def test_all_that_a_new_sender_has_counted_counts_in_whatever_window_its_first_sample_lies(store: Store) -> None:
    first_s = NOW_S // HOUR_S * HOUR_S + 30
    for replica, before_s in (("a", 45), ("b", 2 * DAY_S)):  # what b has counted was not seen
        counts = {0.5: [9.0, 9.0], math.inf: [10.0, 10.0]}
        put(store, counts, times_s=[first_s, first_s + 15], replica=replica, start_s=first_s - before_s)
    assert windows(store, first_s) == [(0, 0)] + [(1, 10)] * 6


def test_a_count_without_end_is_no_measurement(store: Store) -> None:
    times = [NOW_S - 45, NOW_S - 30, NOW_S - 15, NOW_S]
    put(store, {0.5: [9.0, 9.0, 9.0, 19.0], math.inf: [10.0, math.inf, 10.0, 30.0]}, times_s=times)
    assert counted(store, Histogram(METRIC, 0.5), NOW_S // 60 * 60 - 3_600) == (10, 20)


def test_while_no_bucket_is_sampled_it_is_not_known_whether_observations_are_good(store: Store) -> None:
    fill(store)
    assert judged(store, NOW_S + 60)[0] == "firing"
    assert judged(store, NOW_S + 7 * HOUR_S)[0] == "unknown"
    for replica in "ab":  # their servers do not answer
        put(store, {bound: [STALE] for bound in BOUNDS}, times_s=[NOW_S + 15], replica=replica)
    _, doubt, _ = grown(store, Histogram(METRIC, 0.5), NOW_S // 60 * 60 - 300, NOW_S // 60 * 60 + 60)
    assert doubt == "no bucket of vllm:time_to_first_token_seconds has a sample now"


@pytest.mark.django_db
def test_of_a_pool_without_a_replica_it_is_said_that_none_runs(store: Store) -> None:
    """It was said that no bucket has a sample now, as of servers that do not answer."""
    fleet({"chat/eu": "chat", "chat/us": "chat"})
    running = [Replica.objects.create(pool=pool, name="a", url="http://a:8000/v1") for pool in Pool.objects.all()]
    for pool in ("chat/eu", "chat/us"):
        put(store, {bound: [10.0, STALE] for bound in BOUNDS}, times_s=[NOW_S - 30, NOW_S - 15], pool=pool)

    def said(**labels: str) -> str:
        return grown(store, Histogram(METRIC, 0.5, labels), NOW_S // 60 * 60 - 300, NOW_S // 60 * 60 + 60)[1]

    unanswered = "no bucket of vllm:time_to_first_token_seconds has a sample now"
    assert said() == said(pool="chat/eu") == unanswered
    running[0].delete()
    assert (said(), said(pool="chat/eu")) == (unanswered, "no replica of chat/eu runs, so nothing is measured")
    running[1].delete()
    assert said() == "no replica of chat/eu and chat/us runs, so nothing is measured"
    found = evaluation(store)
    assert (found.alert.state, found.why, found.idle) == ("unknown", said(), ("chat/eu", "chat/us"))
    put(store, {bound: [10.0, STALE] for bound in BOUNDS}, times_s=[NOW_S - 30, NOW_S - 15], replica="unknown")
    assert said() == unanswered


def test_a_histogram_is_judged_as_any_other_objective(store: Store) -> None:
    fill(store)
    slow = Objective("vllm-ttft", "", Histogram(METRIC, 0.5), 0.95)
    evaluator = Evaluator(store, retention_s=DAY_S)
    evaluator.tick([slow, Objective("up", "", Availability(), 0.9)], [], NOW_S * NS)
    while evaluator.sweep(NOW_S * NS):
        pass
    found = {one.alert.key: one for one in evaluator.tick([slow], [], NOW_S * NS)}
    verdict = found["vllm-ttft"].alert.verdicts[0]
    assert verdict.long == pytest.approx(2.0)
    assert found["vllm-ttft"].alert.state == "firing"  # the slowest window: 2 × is above 1 ×
    assert found["vllm-ttft"].alert.severity == "ticket"


def test_a_missing_histogram_is_unknown_with_the_reason(store: Store) -> None:
    evaluator = Evaluator(store)
    [found] = evaluator.tick([Objective("x", "", Histogram("absent", 0.5), 0.95)], [], NOW_S * NS)
    assert (found.alert.state, found.alert.verdicts) == ("unknown", ())
    assert "metric='absent' has no buckets in the store" in found.why


@pytest.mark.parametrize(("threshold", "words"), [(0.5, ""), (0.4, "use 0.3 or 0.5"), (0.1, "use 0.3"), (2.0, "use 1")])
def test_a_threshold_between_bounds_is_refused_with_its_neighbours(threshold: float, words: str) -> None:
    found = refusal(Histogram(METRIC, threshold), BOUNDS)
    assert bool(found) == bool(words)
    assert found.endswith(words)


@pytest.mark.django_db
def test_saving_checks_the_bounds_in_the_store(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    settings.CONFIG = settings.CONFIG.model_copy(update={"store_dsn": "clickhouse://somewhere"})
    monkeypatch.setattr(answers, "store", lambda: store)
    assert known_edges(store, Histogram(METRIC, 0.5)) == list(BOUNDS)

    def save(indicator: Histogram) -> Any:
        return save_objective(Objective("vllm", "vLLM", indicator, 0.95), who="olga")

    with pytest.raises(ValidationError) as refused:
        save(Histogram(METRIC, 0.4))
    assert "use 0.3 or 0.5" in refused.value.message_dict["metric_threshold"][0]
    with pytest.raises(ValidationError) as absent:
        save(Histogram(METRIC, 0.5, {"replica": "z"}))
    assert "replica='z'" in absent.value.message_dict["metric"][0]
    assert save(Histogram(METRIC, 0.5)).created


def test_a_store_that_does_not_answer_in_time_refuses_nothing(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An objective is saved within a transaction, for which pages and policies may wait."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"store_dsn": "clickhouse://somewhere"})
    monkeypatch.setattr(answers, "store", lambda: store)
    with pytest.raises(ValueError, match="has no buckets in the store"):
        check_edges(Histogram(METRIC, 0.5))
    answered = threading.Event()
    monkeypatch.setattr(store.metrics, "series", lambda *_: answered.wait())
    monkeypatch.setattr(bucket_edges, "MAX_CHECK_S", 0.0)
    check_edges(Histogram(METRIC, 0.5))
    answered.set()
