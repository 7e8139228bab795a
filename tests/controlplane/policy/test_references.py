"""What other autoscalers would have wanted, from what a tick sees."""

from msgspec import structs

from controlplane.policy.core.record import Reference
from controlplane.policy.references import References
from tests.support.policy.cases import NOW_MS, POOL, pool, scaling, seen

NAMES = ["hpa", "kpa", "llm-d", "dynamo"]


def after(references: References, seconds: int, **facts: float) -> dict[str, int]:
    known = {"input_tokens": 500.0, "output_tokens": 200.0, "batching_factor": 6.0, **facts}
    said: tuple[Reference, ...] = ()
    for second in range(seconds + 1):
        said = references.of(seen(pool(**known), now_ms=NOW_MS + second * 1_000), [scaling(max=40)])
    assert all(each.target == POOL for each in said)
    return {each.name: each.wanted for each in said}


def test_each_says_its_count_once_its_own_period_is_over() -> None:
    assert after(References(), 1) == {}
    assert list(after(References(), 14)) == ["kpa"]
    assert list(after(References(), 180)) == NAMES


def test_more_load_makes_each_of_them_want_more() -> None:
    quiet = after(References(), 400, arrived_rps=20.0, in_flight=12.0)
    busy = after(References(), 400, arrived_rps=200.0, in_flight=160.0)
    assert all(busy[name] > quiet[name] for name in NAMES)


def test_they_are_bounded_as_the_policy_is() -> None:
    said = after(References(), 400, arrived_rps=9_000.0, in_flight=9_000.0)
    assert said["llm-d"] == said["dynamo"] == said["kpa"] == 40
    assert said["hpa"] == 8, "it doubles at most"


def test_of_a_pool_of_which_too_little_is_known_nothing_is_said() -> None:
    references = References()
    known = pool(input_tokens=500.0, output_tokens=200.0)
    for facts in ({"capacity_rps": None}, {"arrived_rps": None}, {"in_flight": None}, {"input_tokens": None}):
        for second in (0, 300):
            observation = seen(structs.replace(known, **facts), now_ms=NOW_MS + second * 1_000)
            assert references.of(observation, [scaling()]) == ()
