"""What the cache saved: known figures add up, and what is not known is counted apart."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.planning.core.saved import Price, Sum, altogether, saved
from controlplane.telemetry.core.cache_rows import CacheRow
from controlplane.telemetry.core.query_types import FROM_CACHE
from forecasting.capacity.assumptions import ReplicaCapacity, TokenMix

MS = 1_000_000
MISSES = CacheRow("m", "r", "p", "chat", "miss", 5, 10, 10, 10 * 900 * MS, 10, 1000, 200)
HITS = CacheRow("m", "r", "p", "chat", "hit", 5, 4, 4, 4 * 2 * MS, 4, 400, 80)
CAPACITY = ReplicaCapacity(2.0, "ledger", TokenMix(100, 20), input_share=0.5, gpus_per_replica=4)


def test_a_hit_saves_what_answers_of_its_length_took_and_cost() -> None:
    [row] = saved([MISSES, HITS], {"p": CAPACITY}, {"p": Price(0.5, 1.5)})
    assert (row.total, row.answered, row.share) == (14, 4, pytest.approx(4 / 14))
    assert row.ms == Sum(pytest.approx(4 * 898), 0)
    assert (row.prompt_tokens, row.output_tokens) == (Sum(400, 0), Sum(80, 0))
    assert row.gpu_s == Sum(pytest.approx(4 * 4 / 2), 0)
    assert row.usd == Sum(pytest.approx((400 * 0.5 + 80 * 1.5) / 1000), 0)


def test_an_answer_twice_as_long_takes_the_time_of_one_and_more_of_the_gpu() -> None:
    long = replace(HITS, output_tokens=160, prompt_tokens=400)
    [row] = saved([MISSES, long], {"p": CAPACITY}, {})
    assert row.gpu_s.value == pytest.approx(4 * 1.5 * 4 / 2)


def test_what_nobody_measured_or_entered_is_not_known_and_not_zero() -> None:
    [row] = saved([HITS, replace(MISSES, length=9)], {}, {})
    assert (row.ms, row.gpu_s, row.usd) == (Sum(None, 4), Sum(None, 4), Sum(None, 4))
    [row] = saved([MISSES, replace(HITS, counted=0, prompt_tokens=0, output_tokens=0)], {}, {"p": Price(1, 1)})
    assert (row.prompt_tokens, row.output_tokens, row.usd) == (Sum(None, 4), Sum(None, 4), Sum(None, 4))


def test_of_a_hit_whose_inference_had_begun_only_the_time_is_known() -> None:
    begun = replace(HITS, outcome="semantic", counted=1, prompt_tokens=100, output_tokens=20, begun=3)
    [row] = saved([MISSES, begun], {"p": CAPACITY}, {"p": Price(0.5, 1.5)})
    assert row.ms == Sum(pytest.approx(4 * 898), 0)
    assert (row.prompt_tokens, row.output_tokens) == (Sum(100, 3), Sum(20, 3))
    assert (row.gpu_s, row.usd) == (Sum(pytest.approx(4 / 2), 3), Sum(pytest.approx(0.08), 3))
    [row] = saved([replace(begun, begun=4, counted=0)], {"p": CAPACITY}, {})
    assert row.gpu_s == Sum(None, 4)


def test_who_joins_another_saves_tokens_and_no_waiting() -> None:
    [row] = saved([MISSES, replace(HITS, outcome="coalesced")], {}, {})
    assert (row.ms, row.output_tokens) == (Sum(), Sum(80, 0))


OUTCOMES = st.sampled_from((*FROM_CACHE, "miss", "partial", "bypass"))
ROWS = st.builds(
    lambda rule, pool, outcome, length, answered, failed, counted: CacheRow(
        "m", rule, pool, "chat", outcome, length, answered + failed, answered, answered * 5 * MS, min(counted, answered),
        100 * min(counted, answered), 7 * min(counted, answered),
    ),
    st.sampled_from("ab"), st.sampled_from("pq"), OUTCOMES, st.integers(-1, 3), st.integers(0, 9), st.integers(0, 2), st.integers(0, 9),
)  # fmt: skip


@given(st.lists(ROWS, max_size=20))
def test_known_and_unknown_requests_are_all_that_were_answered(rows: list[CacheRow]) -> None:
    whole = altogether(saved(rows, {"p": CAPACITY}, {"q": Price(1, 1)}))
    of_cache = [row for row in rows if row.outcome in FROM_CACHE]
    assert whole.total == sum(row.requests for row in rows)
    assert whole.answered == sum(row.answered for row in of_cache)
    assert (whole.output_tokens.value or 0) == 7 * sum(row.counted for row in of_cache)
    assert whole.output_tokens.unknown == sum(row.answered - row.counted for row in of_cache)
    assert whole.usd.unknown == sum(row.answered - (row.counted if row.pool == "q" else 0) for row in of_cache)
    assert whole.gpu_s.unknown == sum(row.answered for row in of_cache if row.pool == "q")
