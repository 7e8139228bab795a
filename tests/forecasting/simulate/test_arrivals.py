import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.series import Series
from forecasting.simulate.arrivals import Arrivals, ArrivalsError, Lengths, from_rates
from forecasting.simulate.profile import ProfileError, ReplicaProfile

LENGTHS = Lengths(np.array([10, 20], dtype=np.int32), np.array([1, 2], dtype=np.int32))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 20.0, 300.0, float("nan")]), min_size=1, max_size=12), st.integers(0, 5))
def test_arrivals_are_in_order_and_follow_the_rates(rates: list[float], seed: int) -> None:
    if not np.isfinite(rates).any():
        return
    arrivals = from_rates(Series(0, 60, np.array(rates)), LENGTHS, seed=seed)
    assert (np.diff(arrivals.arrival_s) >= 0).all()
    known = np.flatnonzero(np.isfinite(rates))
    filled = np.interp(np.arange(len(rates)), known, np.array(rates)[known])
    counts = np.bincount((arrivals.arrival_s / 60).astype(int), minlength=len(rates))
    assert (np.abs(counts - 60 * filled) <= 6 * np.sqrt(60 * filled)).all()


@pytest.mark.parametrize("burstiness", [0.0, 0.5, 1.0, 3.0])
def test_intervals_vary_as_much_as_they_should(burstiness: float) -> None:
    gaps = np.diff(from_rates(Series(0, 60, np.full(200, 20.0)), LENGTHS, burstiness=burstiness).arrival_s)
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness, rel=0.05, abs=1e-6)
    assert gaps.mean() == pytest.approx(0.05, rel=0.05)


def test_lengths_are_drawn_in_pairs_and_equal_seeds_give_equal_arrivals() -> None:
    series = Series(0, 60, np.full(10, 20.0))
    first, second, other = (from_rates(series, LENGTHS, seed=seed) for seed in (1, 1, 2))
    assert (first.input_tokens == 10 * first.output_tokens).all()
    assert set(first.output_tokens) == {1, 2}
    assert (first.arrival_s == second.arrival_s).all()
    assert len(first) != len(other) or (first.arrival_s != other.arrival_s).any()


def test_lengths_around_means_have_these_means() -> None:
    lengths = Lengths.around(500, 120)
    assert lengths.input_tokens.mean() == pytest.approx(500, rel=0.01)
    assert lengths.output_tokens.mean() == pytest.approx(120, rel=0.01)
    assert set(Lengths.around(500, 120, spread=0).input_tokens) == {500}


@pytest.mark.parametrize(
    ("values", "options", "remedy"),
    [
        ([float("nan")], {}, "at least one step that is no gap"),
        ([-1.0], {}, "0 or more"),
        ([1.0], {"burstiness": -1.0}, "coefficient of variation"),
        ([1e9], {}, "give a shorter time or a share"),
    ],
)
def test_rates_that_cannot_be_replayed_say_what_to_give(
    values: list[float], options: dict[str, float], remedy: str
) -> None:
    with pytest.raises(ArrivalsError, match=remedy):
        from_rates(Series(0, 60, np.array(values)), LENGTHS, **options)


def test_a_trace_that_goes_back_in_time_or_lacks_lengths_is_refused() -> None:
    tokens = np.array([1, 1], dtype=np.int32)
    with pytest.raises(ArrivalsError, match="in order"):
        Arrivals(np.array([2.0, 1.0]), tokens, tokens)
    with pytest.raises(ArrivalsError, match="one of each per request"):
        Arrivals(np.array([2.0]), tokens, tokens)
    with pytest.raises(ArrivalsError, match="output_tokens has values below 0"):
        Arrivals(np.array([1.0, 2.0]), tokens, -tokens)


@pytest.mark.parametrize("fields", [{"prefill_s": -1.0}, {"step_s": float("nan")}, {"max_sequences": 0}])
def test_a_profile_that_cannot_be_names_the_field(fields: dict[str, float]) -> None:
    values = {"prefill_s": 0.1, "prefill_token_s": 0, "step_s": 0.1, "step_sequence_s": 0, "max_sequences": 1, **fields}
    with pytest.raises(ProfileError, match=next(iter(fields))):
        ReplicaProfile(**values)  # type: ignore[arg-type]
