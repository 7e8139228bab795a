"""Rates and sums of several gateways' answers."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from controlplane.policy.observe.core.tiers import tier_traffic
from controlplane.policy.observe.core.traffic import NoGateway, Traffic, pool_traffic
from inference.contract.gateway_signals import GatewaySignals, ModelSignals, Obeyed, PoolSignals, ReplicaSignals

A, B = "http://a", "http://b"
_TIMES = count()


def _signals(arrived: int, started_ms: int = 1, version: int = 1, **pool: Any) -> GatewaySignals:
    return GatewaySignals(
        at_ms=next(_TIMES),
        started_ms=started_ms,
        gateway="",
        region="",
        requests=arrived,
        cpu_s=0.0,
        snapshot=Obeyed(1, version, 0),
        pools={"large": PoolSignals(arrived=arrived, answered=arrived, **pool)},
        models={"chat": {"batch": ModelSignals(arrived=arrived, shed=arrived // 2)}},
    )


def _heard(*rounds: dict[str, GatewaySignals | str]) -> Traffic:
    traffic = Traffic()
    for number, answers in enumerate(rounds, 1):
        traffic = traffic.next(number * 1_000, answers)
    return traffic


def test_nothing_is_known_before_every_gateway_has_answered_and_a_silent_one_is_named() -> None:
    traffic = _heard({A: _signals(10), B: "no answer"}, {A: _signals(20), B: "no answer"})
    assert pool_traffic(traffic, "large", 2_000).traffic_age_ms is None
    assert pool_traffic(Traffic(), "large", 0).arrived_rps is None
    why = "http://b/signals does not answer within 0.9 s"
    traffic = _heard({A: _signals(10), B: why}, {A: _signals(20), B: why})
    assert pool_traffic(traffic, "large", 2_000).traffic_problem == why
    assert traffic.of_gateways("gateway:g", {B}, 2_000).traffic_problem == why
    assert traffic.of_gateways("gateway:g", {A}, 2_000).traffic_problem == ""


def test_what_is_no_gateway_holds_nothing_up() -> None:
    foreign = NoGateway("http://b is no gateway")
    traffic = _heard({A: _busy(0, 10), B: foreign}, {A: _busy(0, 20), B: foreign})
    seen = pool_traffic(traffic, "large", 2_000)
    assert (seen.arrived_rps, seen.traffic_age_ms) == (10.0, 0)
    assert (traffic.in_flight_at("large", "r"), traffic.obeys(1, 1_500)) == (0, True)
    assert traffic.of_gateways("gateway:g", {A, B}, 2_000).arrived_rps == 10.0
    assert not _heard({B: foreign}).obeys(0, 0), "no gateway is no answer"
    lost = traffic.next(3_000, {A: NoGateway("http://a is no gateway"), B: foreign})
    assert lost.age_ms(3_000) == 1_000, "it was one, and may have its traffic yet"


def test_gateways_add_up() -> None:
    traffic = _heard({A: _signals(10), B: _signals(100)}, {A: _signals(14), B: _signals(106)})
    seen = pool_traffic(traffic, "large", 2_500)
    assert (seen.arrived_rps, seen.traffic_age_ms) == (10.0, 500)


def test_a_gateway_that_falls_silent_counts_on_with_its_age() -> None:
    rounds = [{A: _signals(10 * n), B: _signals(5 * n) if n < 3 else "no answer"} for n in range(1, 6)]
    seen = pool_traffic(_heard(*rounds), "large", 5_000)
    assert (seen.arrived_rps, seen.traffic_age_ms) == (15.0, 3_000), "never read as idle"
    assert seen.silent is not None and seen.silent.arrived_rps == 5.0
    assert pool_traffic(_heard(*rounds[:2]), "large", 2_000).silent is None


def test_an_answer_that_is_repeated_is_no_answer() -> None:
    kept = _signals(25)
    traffic = _heard({A: _signals(10)}, {A: kept}, *({A: kept} for _ in range(3)))
    seen = pool_traffic(traffic, "large", 5_000)
    assert (seen.arrived_rps, seen.traffic_age_ms) == (15.0, 3_000), "never read as idle"
    assert seen.traffic_problem == "http://a/signals repeats an answer: what lies between must not keep it"
    later = pool_traffic(traffic.next(6_000, {A: _signals(65)}), "large", 6_000)
    assert (later.traffic_age_ms, later.traffic_problem) == (0, "")
    assert traffic.next(6_000, {A: _signals(65)}).gateways[A].requests_per_s == 10.0, "over all the time"


def test_a_gateway_that_no_cluster_has_any_more_counts_on_until_it_is_gone_for_good() -> None:
    def rates(gateway: str, each: int) -> GatewaySignals:
        return structs.replace(_busy(30 if gateway == B else 0, 10 * each), gateway=gateway)

    traffic = _heard(*({A: rates(A, n), B: rates(B, 9 * n)} for n in (1, 2)))
    seen = {}
    for at_s in range(3, 34):
        traffic = traffic.next(at_s * 1_000, {A: rates(A, at_s)})
        said = pool_traffic(traffic, "large", at_s * 1_000)
        seen[at_s] = (
            said.arrived_rps,
            said.traffic_age_ms,
            traffic.in_flight_at("large", "r"),
            traffic.obeys(1, 3_000),
        )
    assert seen[3] == (100.0, 1_000, 30, False), "it still has its traffic, and a drain waits"
    assert seen[32] == (100.0, 30_000, 30, False)
    assert seen[33] == (10.0, 0, 0, True)


def test_what_was_heard_by_a_clock_that_was_ahead_is_no_load_of_now() -> None:
    traffic = _heard(*({A: _busy(1, 10 * n), B: structs.replace(_busy(1, 10 * n), gateway=B)} for n in range(4)))
    for at_s in range(-3_600, -3_569):
        traffic = traffic.next(at_s * 1_000, {A: _busy(1, 200_000 + 50 * at_s)})
    assert [each.at_ms // 1_000 for each in traffic.rounds] == list(range(-3_599, -3_569))
    assert (traffic.mean_since(lambda each: sum(each.requests_per_s.values())), list(traffic.gateways)) == (50.0, [A])


def test_a_gateway_that_is_read_at_another_url_counts_once() -> None:
    by_service = {"http://gateway": _signals(10)}
    traffic = _heard(by_service, {"http://gateway": _signals(20)}, {A: _signals(30)}, {A: _signals(40)})
    assert set(traffic.gateways) == {A}


def test_what_arrived_while_a_tick_took_longer_than_a_round_counts_over_that_time() -> None:
    traffic = Traffic()
    for at_ms, arrived in ((0, 0), (1_000, 10), (2_000, 100), (4_000, 110), (5_000, 110)):
        traffic = traffic.next(at_ms, {A: _signals(arrived)})
    since = {None: 0.0, 5_000: 0.0, 4_000: 0.0, 2_000: 10 / 3, 1_000: 25.0}
    for since_ms, rps in since.items():
        seen = replace(traffic, since_ms=since_ms)
        assert pool_traffic(seen, "large", 5_000).arrived_rps == pytest.approx(rps)
        assert seen.of_gateways("gateway:g", {A}, 5_000).arrived_rps == pytest.approx(rps)


def test_pools_and_the_api_tier_know_for_how_long_rates_were_read() -> None:
    traffic, heard_s = Traffic(), []
    for at_ms in (0, 1_000, 2_000, 4_000):
        traffic = traffic.next(at_ms, {A: _signals(at_ms)})
        facts = pool_traffic(traffic, "large", at_ms), traffic.of_gateways("gateway:g", {A}, at_ms)
        assert facts[0].heard_s == facts[1].heard_s
        heard_s.append(facts[0].heard_s)
    assert heard_s == [None, 0.0, 1.0, 3.0]


@pytest.mark.parametrize("started_ms", [1, 2])
def test_what_a_gateway_has_counted_since_it_started_again_is_no_rate(started_ms: int) -> None:
    rounds: list[dict[str, GatewaySignals | str]] = [
        {A: _signals(100)},
        {A: _signals(200)},
        {A: _signals(4, started_ms)},
        {A: _signals(54, started_ms)},
    ]
    rates = [pool_traffic(_heard(*rounds[:n]), "large", 1_000 * n).arrived_rps for n in (2, 3, 4)]
    assert rates == [100.0, 100.0, 50.0], "the last rate counts until the second answer"
    assert pool_traffic(_heard(rounds[0], rounds[2]), "large", 2_000).arrived_rps is None, "there is no last one"


def test_a_pool_is_unreachable_where_every_gateway_says_so() -> None:
    def sees(up: bool, age_s: float) -> GatewaySignals:
        return _signals(0, replicas={"r": ReplicaSignals(up=up, age_s=age_s)})

    for one, two, three, reachable, cut_off in (
        (sees(False, 0.1), sees(True, 5.0), sees(True, 5.0), True, 1),
        (sees(True, 5.0), sees(False, 0.1), sees(False, 0.1), True, 2),
        (sees(False, 0.1), sees(False, 0.1), sees(False, 0.1), False, 3),
        (sees(False, 0.1), sees(False, 0.1), _signals(0), False, 2),
        (_signals(0), _signals(0), _signals(0), None, 0),
    ):
        traffic = pool_traffic(_heard({A: one, B: two, "http://c": three}), "large", 1_000)
        assert (traffic.reachable, traffic.cut_off) == (reachable, cut_off)


def test_what_servers_have_is_old_while_one_that_serves_does_not_say_it() -> None:
    says = ReplicaSignals(up=True, kv_use=0.1, age_s=0.5)
    for other, age_ms in (
        (ReplicaSignals(up=True, kv_use=0.9, age_s=0.1), 500),
        (ReplicaSignals(up=True), None),
        (ReplicaSignals(up=True, running=3, age_s=0.1), None),
        (ReplicaSignals(), 500),
    ):
        seen = pool_traffic(_heard({A: _signals(0, replicas={"r": says, "s": other})}), "large", 1_000)
        assert seen.servers_age_ms == age_ms
        assert seen.kv_use is not None, "it may add replicas"


def test_the_wait_is_that_of_the_requests_that_got_a_place() -> None:
    traffic = _heard(
        {A: _signals(0)}, {A: _signals(10, queue_wait_s_sum=5.0, queue_wait_count=10)}, {A: _signals(10, waiting=3)}
    )
    assert pool_traffic(traffic, "large", 3_000).waiting == 3
    waits = _heard({A: _signals(0)}, {A: _signals(10, queue_wait_s_sum=5.0, queue_wait_count=10)})
    assert pool_traffic(waits, "large", 2_000).queue_delay_s == pytest.approx(0.5)
    stuck = _heard({A: _signals(0)}, {A: _signals(0, waiting=3)})
    assert pool_traffic(stuck, "large", 2_000).queue_delay_s == 3.0, "at least as long as nobody got a place"


def test_a_replica_is_empty_only_where_every_gateway_says_so() -> None:
    busy: dict[str, Any] = {"replicas": {"r": ReplicaSignals(in_flight=2, up=True)}}
    traffic = _heard({A: _signals(0, **busy), B: _signals(0)})
    assert traffic.in_flight_at("large", "r") == 2
    assert _heard({A: _signals(0), B: "no answer"}).in_flight_at("large", "r") is None


def _busy(in_flight: int, arrived: int = 0, **more: Any) -> GatewaySignals:
    return _signals(arrived, replicas={"r": ReplicaSignals(in_flight=in_flight, up=True)}, in_flight=in_flight, **more)


def test_a_replica_is_not_empty_while_a_gateway_that_ends_has_requests_there() -> None:
    """A gateway that ends gets no new requests, finishes those it has, and closes its port before they have all ended."""
    traffic = Traffic().next(1_000, {A: _busy(0), B: _busy(2, started_ms=2)})
    traffic = traffic.next(2_000, {A: _busy(0), B: _busy(1, started_ms=2)}, unready={B})
    assert traffic.in_flight_at("large", "r") == 1
    silent = traffic.next(3_000, {A: _busy(0), B: "no answer"}, unready={B})
    assert silent.in_flight_at("large", "r") == 1, "it may still have them"
    assert not silent.obeys(1, 2_500), "it has not said so"
    assert silent.age_ms(3_000) == 0, "it holds up no decision"
    assert pool_traffic(silent, "large", 3_000).in_flight == 0, "and is no load that grows"
    missing = silent.next(4_000, {A: _busy(0)})
    assert (missing.in_flight_at("large", "r"), missing.obeys(1, 3_500)) == (1, True), "its process may have them yet"
    gone = missing.next(34_000, {A: _busy(0)})
    assert gone.in_flight_at("large", "r") == 0


def test_a_gateway_that_has_never_been_heard_and_is_not_ready_counts_for_nothing() -> None:
    traffic = Traffic().next(1_000, {A: _busy(0), B: "no answer"}, unready={B})
    assert (traffic.in_flight_at("large", "r"), traffic.obeys(1, 500), set(traffic.gateways)) == (0, True, {A})


def test_the_load_of_a_gateway_that_ends_counts_while_it_answers() -> None:
    rounds = [{A: _busy(0, 10 * n), B: _busy(0, 5 * n)} for n in range(1, 4)]
    traffic = Traffic()
    for at_s, answers in enumerate(rounds, 1):
        traffic = traffic.next(1_000 * at_s, answers, unready={B})
    assert pool_traffic(traffic, "large", 3_000).arrived_rps == 15.0
    silent = traffic.next(4_000, {A: _busy(0, 40), B: "no answer"}, unready={B})
    assert pool_traffic(silent, "large", 4_000).arrived_rps == 10.0


def test_a_replica_is_cold_only_where_no_gateway_uses_it() -> None:
    cold: dict[str, Any] = {"replicas": {"r": ReplicaSignals(up=True, warming=True)}}
    warm: dict[str, Any] = {"replicas": {"r": ReplicaSignals(up=True)}}
    leaving: dict[str, Any] = {"replicas": {"r": ReplicaSignals(up=True, warming=True, draining=True)}}
    assert _heard({A: _signals(0, **cold), B: _signals(0)}).warming_in("large") == {"r"}
    assert _heard({A: _signals(0, **cold), B: _signals(0, **warm)}).warming_in("large") == set()
    assert _heard({A: _signals(0, **leaving)}).warming_in("large") == set()
    assert _heard({A: _signals(0, **cold)}).warming_in("small") == set()


def test_endpoints_are_obeyed_once_every_gateway_has_said_so_since() -> None:
    traffic = _heard({A: _signals(0, version=7), B: _signals(0, version=6)})
    assert not traffic.obeys(7, 0)
    assert traffic.obeys(6, 1_000)
    assert not traffic.obeys(6, 1_001), "what it said before does not count"
    assert not Traffic().obeys(0, 0), "no gateway is no answer"


@pytest.mark.parametrize("workers", [1, 4])
def test_the_cpu_of_a_gateway_is_of_a_core_for_each_of_its_workers(workers: int) -> None:
    cpu_s = {1: 0.0, 2: 0.6 * workers}
    rounds = [structs.replace(_signals(0), cpu_s=cpu_s[n], workers=workers) for n in (1, 2)]
    traffic = _heard(*({A: each} for each in rounds))
    assert traffic.of_gateways("gateway:g", {A}, 2_000).cpu_use == pytest.approx(0.6)


def test_tiers_have_rates_and_shares() -> None:
    rps, shed = tier_traffic(_heard({A: _signals(0)}, {A: _signals(10)}), "chat", "batch")
    assert (rps, shed) == (10.0, 0.5)
