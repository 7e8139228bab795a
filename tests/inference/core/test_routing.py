"""The choice of a route and of a replica."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from inference.core.rate_limit import Bucket, duration
from inference.core.routing import Health, choose_replica, choose_route
from inference.core.snapshot import Route

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


@dataclass
class Replica:
    in_flight: int = 0
    health: Health = field(default_factory=Health)
    full: bool = False


def up(in_flight: int) -> Replica:
    replica = Replica(in_flight)
    replica.health.answered()
    return replica


def down() -> Replica:
    replica = Replica()
    replica.health.failed()
    return replica


def test_the_least_loaded_replica_is_chosen() -> None:
    few, many = up(1), up(5)
    assert all(choose_replica([many, few], [], turn, 0.0) is few for turn in range(3))


def test_equals_take_turns() -> None:
    replicas = [up(0), up(0), up(0)]
    assert [replicas.index(choose_replica(replicas, [], turn, 0.0) or Replica()) for turn in range(4)] == [0, 1, 2, 0]


def test_a_replica_that_is_down_or_was_tried_is_not_chosen() -> None:
    well = up(9)
    assert choose_replica([down(), well], [], 0, 0.0) is well
    assert choose_replica([down(), well], [well], 0, 0.0) is None


def test_an_unknown_replica_is_chosen_only_when_none_is_up() -> None:
    unknown, busy = Replica(0), up(9)
    assert choose_replica([unknown, busy], [], 0, 0.0) is busy
    assert choose_replica([unknown, down()], [], 0, 0.0) is unknown


def test_a_replica_whose_server_takes_no_more_calls_comes_after_the_others() -> None:
    full, busy = up(1), up(9)
    full.full = True
    assert choose_replica([full, busy], [], 0, 0.0) is busy
    assert choose_replica([full, down()], [], 0, 0.0) is full, "waiting there is better than no answer"


@given(st.integers(1, 500), st.floats(0.05, 1), st.integers(1, 3))
def test_a_replica_that_fails_everything_is_tried_once_in_a_while(load: int, gap_s: float, replicas: int) -> None:
    """This holds however busy the others are, and however fast requests come."""
    failing, others = up(0), [up(load) for _ in range(replicas)]
    now_s, tried = 1000.0, 0
    while now_s < 1100:
        if choose_replica([failing, *others], [], 0, now_s) is failing:
            failing.health.call_failed(now_s)
            tried += 1
        now_s += gap_s
    # As many as its debt takes to reach the others' load, and then one each time it halves.
    assert tried <= load.bit_length() + 1 + 100 / Health.DEBT_HALVES_S


def test_a_replica_that_is_well_again_is_forgiven() -> None:
    health = Health()
    for _ in range(50):
        health.call_failed(0.0)
    assert health.debt(0.0) == Health.MOST_DEBT
    assert health.debt(60.0) == 0
    health.call_failed(100.0)
    for _ in range(3):
        health.call_answered(100.0)
    assert health.debt(100.0) == 0


def test_a_few_slow_probes_do_not_take_a_replica_out() -> None:
    health = Health()
    health.answered()
    for _ in range(2):
        health.delayed()
        assert (health.state, health.next_probe_s(5.0)) == ("up", 0.1)
    health.answered()
    assert health.next_probe_s(5.0) == 5.0
    for _ in range(3):
        health.delayed()
    assert health.state == "down"


def test_only_a_probe_brings_a_replica_back_and_probes_slow_down() -> None:
    health = Health()
    waits = []
    for _ in range(8):
        health.failed()
        waits.append(health.next_probe_s(5.0))
    assert health.state == "down"
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.1, 2.0)
    health.answered()
    assert (health.state, health.next_probe_s(5.0)) == ("up", 5.0)


@given(st.integers(1, 1000), st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50)), max_size=50))
def test_a_bucket_never_lets_more_than_its_limit_through_in_a_minute(
    limit: int, arrivals: list[tuple[float, int]]
) -> None:
    bucket, now, taken = Bucket(limit), 0.0, []
    for gap, _ in arrivals:
        now += gap
        if bucket.wait_s(now) == 0:
            bucket.take(1, now)
            taken.append(now)
        assert 0 <= bucket.remaining(now) <= limit
    for moment in taken:
        # The burst, and what leaked out meanwhile.
        assert sum(moment <= other < moment + 60 for other in taken) <= 2 * limit
    assert sum(other < 1e-9 for other in taken) <= limit


def test_waiting_as_long_as_it_says_is_enough() -> None:
    bucket = Bucket(6)
    bucket.take(10, 0.0)
    wait_s = bucket.wait_s(0.0)
    assert wait_s == 50.0  # four units over, and one to come, at ten seconds each
    assert bucket.wait_s(wait_s) == 0


def test_durations_are_written_as_openai_writes_them() -> None:
    assert [duration(seconds) for seconds in (0.012, 1.5, 90)] == [b"12ms", b"1.5s", b"1m30s"]
