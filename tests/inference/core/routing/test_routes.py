"""The choice of a pool."""

from hypothesis import given
from hypothesis import strategies as st

from inference.contract.snapshot import Route
from inference.core.routing.routes import choose_route

routes = st.lists(st.integers(0, 5), min_size=1, max_size=5).map(
    lambda weights: [Route(f"p{number}", weight) for number, weight in enumerate(weights)]
)
draws = st.floats(0, 1, exclude_max=True)


@given(routes, draws)
def test_a_route_without_weight_gets_nothing_while_another_has_some(given_routes: list[Route], draw: float) -> None:
    chosen = choose_route(given_routes, lambda _: True, draw)
    assert chosen.weight > 0 or not any(route.weight for route in given_routes)


@given(routes, draws, st.data())
def test_an_available_pool_is_found_whenever_there_is_one(
    given_routes: list[Route], draw: float, data: st.DataObject
) -> None:
    up = data.draw(st.sets(st.sampled_from([route.pool for route in given_routes])))
    chosen = choose_route(given_routes, up.__contains__, draw)
    assert chosen.pool in up or not up


@given(routes, draws, st.data())
def test_the_state_of_others_moves_no_request_from_a_route_that_is_up(
    given_routes: list[Route], draw: float, data: st.DataObject
) -> None:
    chosen = choose_route(given_routes, lambda _: True, draw)
    up = data.draw(st.sets(st.sampled_from([route.pool for route in given_routes]))) | {chosen.pool}
    assert choose_route(given_routes, up.__contains__, draw) == chosen


def test_the_shares_are_the_weights() -> None:
    given_routes = [Route("a", 1), Route("b", 3)]
    chosen = [choose_route(given_routes, lambda _: True, draw / 100).pool for draw in range(100)]
    assert chosen.count("a") == 25
