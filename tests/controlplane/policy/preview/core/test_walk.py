"""What a ladder or a failover would have done on recorded decisions."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from controlplane.policy.core.decide import decide
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import ModelFacts, Pause
from controlplane.policy.core.record import Record, record_of
from controlplane.policy.core.spec import InForce
from controlplane.policy.preview.core.walk import Spell, Walk, shares_of_minutes
from tests.support.policy.cases import NOW_MS, policy, pool, scaling, seen

STEP = {"name": "shorter", "enter": "queue_delay_s > 2.0", "exit": "queue_delay_s < 0.5", "max_output_tokens": 64}
SHED = {"name": "shed", "enter": "queue_delay_s > 5.0", "exit": "queue_delay_s < 1.0", "shed": {}}
MINUTE = 60_000


def ladder(*steps: Mapping[str, object]) -> InForce:
    return policy(
        "Degradation", {"model": "chat", "tiers": ["batch", "standard"], "steps": [dict(each) for each in steps]}
    )


def record(
    minute: float, delay_s: float, *, model: str = "chat", scaled: Sequence[InForce] = (), **facts: object
) -> Record:
    observation = seen(
        pool(queue_delay_s=delay_s, **facts),
        now_ms=NOW_MS + round(minute * MINUTE),
        models={model: ModelFacts(model, pools=("chat-eu",))},
    )
    decision = decide(observation, scaled, Memory())
    return record_of(observation, scaled, Memory(), decision)


def walked(followed: InForce, records: Sequence[Record], scaled: Sequence[InForce] = ()) -> Walk:
    walk = Walk(followed)
    for each in records:
        walk.see(each, scaled)
    return walk


def test_steps_are_counted_and_timed_as_the_tick_would_have_entered_them() -> None:
    delays = (0.0, 3.0, 3.0, 3.0, 0.1, 0.1, 0.1)
    walk = walked(ladder(STEP), [record(at, delay) for at, delay in enumerate(delays)])
    assert (walk.entered("batch"), walk.entered("standard")) == (1, 1)  # one tier a minute, the least important first
    assert walk.spells == [
        Spell("batch", 1, NOW_MS + MINUTE, NOW_MS + 5 * MINUTE),
        Spell("standard", 1, NOW_MS + 2 * MINUTE, NOW_MS + 4 * MINUTE),
    ]
    assert (walk.seconds("batch"), walk.seconds("standard"), walk.known_s) == (240, 120, 360)


def test_a_higher_step_has_its_own_time() -> None:
    walk = walked(
        ladder(STEP, SHED), [record(at, delay) for at, delay in enumerate((3.0, 9.0, 9.0, 0.1, 0.1, 0.1, 0.1))]
    )
    assert [(walk.entered("batch", level), walk.seconds("batch", level)) for level in (1, 2)] == [
        (1, 120.0),
        (1, 180.0),
    ]


def test_what_no_record_saw_or_what_lies_far_apart_counts_for_nothing() -> None:
    walk = walked(ladder(STEP), [record(0, 3.0), record(1, 3.0), record(60, 3.0), record(61, 0.1)])
    assert walk.known_s == 120
    assert walk.seconds("batch") == 120
    walk = walked(ladder(STEP), [record(0, 3.0, model="other"), record(1, 3.0, model="other")])
    assert (walk.known_s, walk.entered("batch")) == (0, 0)


def test_pauses_of_that_time_are_left_out() -> None:
    first = record(0, 3.0)
    pause = Pause(until_ms=NOW_MS + 10**9, scope="all")
    observation = structs.replace(first.observation, pauses=(pause,))
    kept = structs.replace(first, observation=observation)
    assert walked(ladder(STEP), [kept]).entered("batch") == 1


def test_a_step_that_asks_whether_more_replicas_can_come_is_decided_by_the_scaling_of_that_time() -> None:
    step = STEP | {"enter": "at_most && queue_delay_s > 2.0"}
    for most, entered in ((4, 1), (50, 0)):
        scaled = [scaling(max=most)]
        records = [record(at, 3.0, scaled=scaled, arrived_rps=90.0) for at in range(3)]
        assert walked(ladder(step), records, scaled).entered("batch") == entered


def test_failovers_are_followed_too() -> None:
    routes = policy(
        "Routing", {"model": "chat", "failover": [{"name": "down", "pools": ["chat-eu"], "to": {"chat-us": 1}}]}
    )
    reachable = (True, False, False, True, True, True)
    records = [record(at, 0.0, reachable=each, ready=4 if each else 0) for at, each in enumerate(reachable)]
    walk = walked(routes, records)
    assert walk.entered("down") == 1
    assert walk.seconds("down") == 180  # until its pools have been well for a minute


def test_shares_of_minutes() -> None:
    shares = shares_of_minutes([Spell("batch", 1, 90_000, 210_000)])
    assert shares == {("batch", 1): {1: 0.5, 2: 1.0, 3: 0.5}}
