"""Second attempts."""

from hypothesis import given
from hypothesis import strategies as st

from inference.contract.snapshot import Model
from inference.core.routing.retry import RetryBudget, hedge_after_s


@given(st.integers(0, 500), st.integers(0, 200))
def test_retries_under_way_stay_below_a_fifth_of_the_requests_but_three_are_free(in_flight: int, wanted: int) -> None:
    budget = RetryBudget()
    begun = sum(budget.take(in_flight) for _ in range(wanted))
    assert begun == min(wanted, max(3, -(-in_flight // 5)))
    assert (budget.used, budget.denied) == (begun, wanted - begun)
    for _ in range(begun):
        budget.give_back()
    assert budget.take(0)


def test_only_short_deterministic_requests_are_hedged() -> None:
    model, longer = Model("m", (), hedge_ms=250), Model("m", (), hedge_ms=250, hedge_prompt_tokens=3000)
    assert hedge_after_s(model, True, 2048, 256) == 0.25
    assert hedge_after_s(model, False, 10, 10) == 0
    assert (hedge_after_s(model, True, 2049, 10), hedge_after_s(longer, True, 2049, 10)) == (0, 0.25)
    assert hedge_after_s(model, True, 10, 257) == 0
    assert hedge_after_s(Model("m", ()), True, 10, 10) == 0
