"""The choice of a replica."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.server_metrics import ServerLoad
from inference.core.routing.balance import Balancer
from inference.core.routing.health import Health
from inference.core.routing.need import Need
from inference.core.routing.prefix import read_prompt
from tests.inference.core.routing.candidates import NEED, Replica, down, eject, says, up

STALE_S = 1.0


def chosen(replicas: list[Replica], need: Need = NEED, now_s: float = 0.0, tried: tuple[Replica, ...] = ()) -> Replica:
    replica = Balancer(STALE_S).choose(replicas, need, tried, now_s)
    assert replica is not None
    return replica


def test_equals_take_turns() -> None:
    replicas, balancer = [up(0), up(0), up(0)], Balancer(STALE_S)
    order = [balancer.choose(replicas, NEED, (), 0.0) for _ in range(6)]
    assert order[:3] == order[3:]
    assert len(set(map(id, order))) == 3


def test_a_replica_that_is_down_leaving_or_was_tried_is_not_chosen() -> None:
    well, leaving = up(9), up(0)
    leaving.leaving = True
    assert chosen([down(), leaving, well]) is well
    assert Balancer(STALE_S).choose([down(), leaving, well], NEED, (well,), 0.0) is None
    assert chosen([down(), leaving]) is leaving, "of a request from before"


def reports(replica: Replica, at_s: float = 0.0, **said: Any) -> Replica:
    replica.load.sampled(ServerLoad(at_s, 0.0, float(replica.load.own), **said), replica.load.own, 0)
    return replica


def test_a_replica_whose_kv_cache_is_nearly_full_is_left_to_others_that_are_as_busy() -> None:
    full, roomy = reports(up(4), kv_use=0.99), reports(up(4), kv_use=0.9)
    assert all(chosen(order) is roomy for order in ([full, roomy], [roomy, full]))
    assert {chosen([full, roomy], now_s=9.0), chosen([roomy, full], now_s=9.0)} == {full, roomy}, (
        "what is old is unknown"
    )
    assert chosen([full, up(40)]) is full, "it is a matter of time, and no limit"


def test_a_replica_that_has_loaded_the_adapter_is_preferred() -> None:
    balancer = Balancer(STALE_S, model="sql")
    has, lacks, silent = (
        reports(up(5), adapters=frozenset({"sql", "law"})),
        reports(up(4), adapters=frozenset({"law"})),
        up(9),
    )
    assert balancer.choose([lacks, has], NEED, (), 0.0) is has
    assert balancer.weighed is not None
    assert balancer.weighed.has_adapter is True
    lacks.load.own = 0
    has.load.own = 60
    assert balancer.choose([lacks, has, silent], NEED, (), 0.0) is lacks, "loading it is a matter of time too"
    assert Balancer(STALE_S, model="base").choose([reports(up(3), adapters=frozenset()), has], NEED, (), 0.0) is not has


def test_what_a_choice_weighed_is_what_was_known() -> None:
    balancer, need = Balancer(STALE_S), Need(100, *read_prompt("m", "t", [b"a" * 400]), 100)
    first, second = reports(up(2), kv_use=0.25), up(7)
    first.prefixes.add(need.blocks)
    assert balancer.choose([first, second], need, (), 0.0) is first
    weighed = balancer.weighed
    assert weighed is not None and weighed.next_s is not None
    assert 0 < weighed.expected_s < weighed.next_s
    assert (weighed.candidates, weighed.sequences, weighed.kv_use, weighed.has_adapter) == (2, 2.0, 0.25, None)
    assert weighed.cached_tokens == 100
    assert balancer.choose([first, second], need, (first,), 0.0) is second
    assert balancer.weighed is None, "there was no choice"


def test_a_replica_that_warms_up_is_chosen_only_where_there_is_no_other() -> None:
    warm, cold, lost = up(50), up(0), down()
    cold.warming.begin(2, kept_back=True)
    assert all(chosen(order) is warm for order in ([warm, cold, lost], [cold, warm]))
    assert chosen([lost, cold]) is cold
    assert chosen([warm, cold], tried=(warm,)) is cold, "a request that the other has failed is not refused for this"
    assert chosen([eject(warm, 0.0), cold]) is cold
    cold.warming.request_answered()
    warm = up(50)
    assert chosen([warm, cold]) is warm
    cold.warming.request_answered()
    assert chosen([warm, cold]) is cold


def test_an_unknown_replica_is_chosen_only_when_none_is_up() -> None:
    unknown, busy = Replica(), up(9)
    assert chosen([unknown, busy]) is busy
    assert chosen([unknown, down()]) is unknown


def test_a_replica_without_room_comes_after_the_others() -> None:
    full, overloaded, loaded = up(1), up(1), up(9)
    full.full = True
    overloaded.health.call_busy(0.0)
    assert chosen([full, overloaded, loaded]) is loaded
    assert chosen([full, down()]) is full, "waiting there is better than no answer"


def test_a_replica_that_was_busy_gets_one_call_at_a_time() -> None:
    replicas, balancer, now_s = [up(0), up(0)], Balancer(STALE_S), 0.11
    replicas[0].health.call_busy(0.0)
    for _ in range(8):
        replica = balancer.choose(replicas, NEED, (), now_s)
        assert replica is not None
        balancer.begin(replica, NEED, now_s)
    assert [replica.load.own for replica in replicas] == [1, 7]


@given(st.floats(0, 50), st.floats(0, 50))
def test_signals_that_are_stale_are_unknown_and_not_zero(waiting: float, running: float) -> None:
    stale, known = says(up(1), 0.0, waiting, running), says(up(0), 1.5, 2, 30)
    # Not known to be idle, it counts as loaded as the others, and has one more.
    assert chosen([stale, known], now_s=1.6) is known


def need_of(text: bytes) -> Need:
    return Need(len(text) / 4, *read_prompt("m", "t", (text,)), 100)


def test_a_replica_that_has_the_prefix_is_preferred_until_its_load_costs_more() -> None:
    replicas, balancer = [up(0, home) for home in range(1, 5)], Balancer(STALE_S)
    system = b"You are a patient assistant. " * 600
    first = balancer.choose(replicas, need_of(system + b"one"), (), 0.0)
    assert first is not None
    call = balancer.begin(first, need_of(system + b"one"), 0.0)
    call.first_token(0.5)
    again = need_of(system + b"two")
    assert balancer.choose(replicas, again, (), 0.5) is first
    first.load.own = 100
    assert balancer.choose(replicas, again, (), 0.5) is not first


def test_gateways_that_know_nothing_of_each_other_prefer_the_same_replica() -> None:
    systems = [bytes([number]) * 4000 for number in range(40)]
    homes = []
    for text in systems:
        picks = {
            chosen([up(0, home) for home in (11, 22, 33)], need_of(text + question)).home
            for question in (b"a", b"b", b"c")
        }
        assert len(picks) == 1
        homes.append(picks.pop())
    assert all(homes.count(home) >= 5 for home in (11, 22, 33)), "and they spread"


@given(st.integers(1, 500), st.floats(0.05, 1), st.integers(1, 3))
def test_a_replica_that_fails_everything_is_tried_once_in_a_while(load: int, gap_s: float, replicas: int) -> None:
    """This holds however busy the others are, and however fast requests come."""
    failing, others, balancer = up(0), [up(load) for _ in range(replicas)], Balancer(STALE_S)
    now_s, tried = 1000.0, 0
    while now_s < 1100:
        if balancer.choose([failing, *others], NEED, (), now_s) is failing:
            failing.health.call_failed(now_s)
            tried += 1
        now_s += gap_s
    # As many as its debt takes to reach the others' load, and then one each time it halves.
    assert tried <= load.bit_length() + 1 + 100 / Health.HALVES_S


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 60)), max_size=40))
def test_what_is_counted_of_calls_comes_back_to_nothing(calls: list[tuple[int, bool, int]]) -> None:
    replicas, balancer, begun = [up(), up(), up()], Balancer(STALE_S), []
    for number, answered, tokens in calls:
        call = balancer.begin(replicas[number], NEED, 1.0)
        if answered:
            call.first_token(2.0)
        begun.append((call, tokens if answered else 0))
    for call, tokens in begun:
        call.ended(3.0, tokens)
    for replica in replicas:
        load = replica.load
        assert (load.own, load.pending) == (0, 0)
        assert abs(load.pending_tokens) < 1e-6


PROMPT = Need(1000.0, (), 0, 100.0)
KNOWN = Need(1000.0, (1, 2, 3, 4), 0, 400.0)


def had(replica: Replica, *blocks: int) -> Replica:
    replica.prefixes.add(blocks)
    return replica


@pytest.mark.parametrize(
    ("best", "need", "tokens", "steps", "cached"),
    [
        # tokens: of a step, ahead of this request, and its own, once for each sequence there
        (up(2), PROMPT, 256 + 1000 * 3, 100 * (64 + 3), 0),
        (up(2), KNOWN, 256 + 1000 * 3, 128 * (64 + 3), 0),  # answers are 128 tokens long, as a rule
        (had(up(2), 1, 2, 3), KNOWN, 256 + 250 * 3, 128 * (64 + 3), 750),
        (says(up(2), 0.0, None, 5), PROMPT, 256 + 1000 * 6, 100 * (64 + 6), 0),  # three of others run
        (says(up(0), 0.0, 4, 1), PROMPT, 256 + 256 * 4 + 1000 * 6, 100 * (64 + 6), 0),  # five of others, and four wait
        (says(up(9), 0.0, 4, 1), PROMPT, 256 + 256 * 4 + 1000 * 10, 100 * (64 + 10), 0),
        (reports(up(2), kv_use=0.9), PROMPT, 256 + 1000 * 3, 100 * (64 + 3), 0),
        (reports(up(2), kv_use=0.95), PROMPT, 256 + 1000 * 3 + 550, 100 * (64 + 3), 0),
        (reports(up(2), adapters=frozenset("m")), PROMPT, 256 + 1000 * 3, 100 * (64 + 3), 0),
        (reports(up(2), adapters=frozenset("n")), PROMPT, 256 + 1000 * 3, 100 * (64 + 3), 0),  # none has it
    ],
)
def test_the_expected_time_is_that_of_the_prompts_ahead_and_of_the_steps(
    best: Replica, need: Need, tokens: float, steps: float, cached: float
) -> None:
    balancer = Balancer(STALE_S, model="m")
    other = reports(up(60), adapters=frozenset())
    for order in ([best, other], [other, best]):
        assert balancer.choose(order, need, (), 1.0) is best
        weighed = balancer.weighed
        assert weighed is not None
        assert weighed.expected_s == pytest.approx(tokens / 8000 + steps * 0.02 / 80)
        assert (weighed.cached_tokens, weighed.candidates) == (cached, 2)
        assert weighed.next_s is not None and weighed.next_s > weighed.expected_s
        assert weighed.sequences == steps / min(need.output_tokens, 128) - 65


def test_a_replica_that_is_not_yet_loaded_with_the_adapter_takes_2000_tokens_longer() -> None:
    balancer, lacks = Balancer(STALE_S, model="m"), reports(up(0), adapters=frozenset("n"))
    has = reports(up(60), adapters=frozenset("m"))
    assert balancer.choose([lacks, has], PROMPT, (), 0.0) is lacks
    assert balancer.weighed is not None
    assert balancer.weighed.expected_s == pytest.approx((256 + 1000 + 2000) / 8000 + 100 * 65 * 0.02 / 80)
    assert balancer.weighed.has_adapter is False


def test_the_home_of_a_prompt_probably_has_four_fifths_of_it() -> None:
    at_home = Need(1000.0, (), 7, 100.0)
    replicas = [up(0, home=1), up(0, home=2)]
    home = max(replicas, key=lambda replica: hash((replica.home, 7)))
    balancer = Balancer(STALE_S)
    for _ in range(2):
        assert balancer.choose(replicas, at_home, (), 0.0) is home
        assert balancer.weighed is not None
        assert balancer.weighed.cached_tokens == 800
        assert balancer.weighed.expected_s == pytest.approx((256 + 200) / 8000 + 100 * 65 * 0.02 / 80)


def test_what_is_learnt_of_a_call_is_its_time_for_each_unit_of_work() -> None:
    balancer, one, two = Balancer(STALE_S), up(3), up(5)
    call = balancer.begin(one, PROMPT, 10.0)
    assert (one.load.own, one.load.pending, one.load.pending_tokens) == (4, 1, 1000)
    call.first_token(12.0)
    assert (one.load.pending, one.load.pending_tokens, balancer.uncached) == (0, 0, pytest.approx(256 + 0.02 * 744))
    assert (one.load.first.seconds, one.load.first.units) == (2.0, 256 + 1000)
    one.load.own += 2
    call.ended(15.0, 11)
    assert (one.load.own, balancer.output) == (5, pytest.approx(128 - 0.02 * 117))
    assert (one.load.token.seconds, one.load.token.units) == (
        3.0,
        10 * (64 + 5),
    )  # four sequences at first, and six at last
    later, now_s = balancer.begin(two, PROMPT, 20.0), 25.0
    later.first_token(now_s)
    later.ended(30.0, 1)
    assert (two.load.token.units, two.load.own) == (0, 5)
    assert balancer.choose([one, two], PROMPT, (), now_s) is one
    assert balancer.weighed is not None and balancer.weighed.next_s is not None
    fresh, aged = 0.5 ** ((now_s - 12) / 10), 0.5 ** ((now_s - 15) / 10)
    first_s = (fresh * 2.0 + 5.0) / (fresh * 1256 + 1256)  # of the pool, by prompt token
    token_s = 3.0 / (10 * 69)
    output = min(100.0, balancer.output)
    prompt_s = (256 + 1000 * 6) * (fresh * 2.0 / 1256 + (1 - fresh) * first_s)
    assert balancer.weighed.expected_s == pytest.approx(
        prompt_s + output * 70 * (aged * token_s + (1 - aged) * token_s)
    )
    assert balancer.weighed.next_s == pytest.approx((256 + 1000 * 6) * 5.0 / 1256 + output * 70 * token_s)


@pytest.mark.parametrize(("at_s", "waiting"), [(1.0, 6), (1.1, 2), (3.1, 0)])
def test_requests_that_wait_are_of_the_servers_that_said_so_lately(at_s: float, waiting: int) -> None:
    replicas = [says(up(), 0.0, 4, 1), says(up(), 2.0, 2, None), says(up(), 2.0, None, 5), up()]
    assert Balancer(STALE_S).waiting(replicas, at_s) == waiting


def test_servers_are_idle_where_each_that_may_be_up_says_that_nobody_waits() -> None:
    balancer, idle, busy, silent = Balancer(STALE_S), says(up(3), 0.0, 0, 3), says(up(), 0.0, 1, 0), up()
    given = ([idle], [idle, down()], [idle, busy], [idle, silent], [idle, says(up(), 0.0, None, 1)], [down()], [])
    assert [balancer.idle(replicas, 1.0) for replicas in given] == [True, True] + [False] * 5
    assert not balancer.idle([idle], 1.1), "what is old is unknown"
