"""What a request costs, and where that is not known."""

import pytest

from inference.contract.metering.cost import Used, cost_usd, is_free, most_usd, price_at
from inference.contract.snapshot import Pool, Price

PLAIN = Price(1.0, 4.0)
FULL = Price(1.0, 4.0, 0.1, 10.0, 0.05)


@pytest.mark.parametrize(
    ("price", "used", "usd"),
    [
        (None, Used(1000, 1000), None),
        (PLAIN, Used(-1, 10), None),
        (PLAIN, Used(10, -1), None),
        (PLAIN, Used(1000, 500), 3.0),
        (PLAIN, Used(1000, 500, cached_tokens=400, audio_tokens=100, images=2), 3.0),
        (FULL, Used(1000, 500, cached_tokens=-1, audio_tokens=-1), 3.0),
        (FULL, Used(1000, 500, cached_tokens=400), 2.64),
        (FULL, Used(1000, 0, audio_tokens=100), 1.9),
        (FULL, Used(1000, 0, images=2), 1.1),
        (FULL, Used(100, 0, cached_tokens=4000), 0.01),  # no more than the prompt
        (Price(0.0, 0.0), Used(1000, 1000), 0.0),  # free, and known to be
    ],
)
def test_cost(price: Price | None, used: Used, usd: float | None) -> None:
    assert cost_usd(price, used) == (usd if usd is None else pytest.approx(usd))


def test_the_most_that_a_request_may_cost_is_by_the_dearer_of_its_tokens() -> None:
    assert [most_usd(price, 500) for price in (None, PLAIN, Price(4.0, 1.0))] == [0.0, 2.0, 2.0]
    pools = [Pool("p", "v", "eu", "m", "1", prices=prices) for prices in ((), (PLAIN,), (Price(0.0, 0.0),))]
    assert [is_free(pool) for pool in pools] == [False, False, True]


def test_a_price_holds_from_its_beginning_until_before_its_end() -> None:
    before, after = Price(1, 1, until_ms=100), Price(2, 2, from_ms=100, until_ms=200)
    assert [price_at((before, after), at_ms) for at_ms in (0, 99, 100, 199, 200)] == [
        before,
        before,
        after,
        after,
        None,
    ]
    assert price_at((), 5) is None and price_at((after, PLAIN), 50) is PLAIN
