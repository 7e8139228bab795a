"""The degradation ladder: the least important tier first, a step at a time, and always back to zero."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.policy.core.conditions import Value
from controlplane.policy.core.memory import LadderMemory
from controlplane.policy.core.observation import ModelFacts, Override, TierFacts
from controlplane.policy.core.overlay.ladder import Climbed, climb, tier_values
from controlplane.policy.core.spec import Degradation, DegradationSpec
from tests.support.policy.cases import NOW_MS, policy

STEPS: list[dict[str, Any]] = [
    {
        "name": "short",
        "enter": "queue_delay_s > 1.0",
        "exit": "queue_delay_s < 0.5",
        "max_output_tokens": 256,
        "partial": True,
        "min_stay_s": 20,
    },
    {
        "name": "small",
        "enter": "queue_delay_s > 2.0",
        "exit": "queue_delay_s < 0.5",
        "variant": "chat-8b",
        "max_output_tokens": 64,
        "min_stay_s": 30,
    },
    {
        "name": "shed",
        "enter": "queue_delay_s > 4.0",
        "exit": "queue_delay_s < 0.5",
        "shed": {"retry_after_s": 7},
        "min_stay_s": 10,
    },
]
BUSY, CALM = {"queue_delay_s": 9.0, "arrived_rps": 5.0}, {"queue_delay_s": 0.1, "arrived_rps": 5.0}
IDLE = ModelFacts("chat")


def ladder(*tiers: str, steps: list[dict[str, Any]] | None = None) -> DegradationSpec:
    document = policy("Degradation", {"model": "chat", "tiers": list(tiers), "steps": steps or STEPS}).policy
    assert isinstance(document, Degradation)
    return document.spec


class Ladder:
    """A ladder that is moved tick by tick."""

    def __init__(self, spec: DegradationSpec) -> None:
        self.spec, self.memory, self.now_ms = spec, dict[str, LadderMemory](), NOW_MS

    def tick(self, values: dict[str, Value], after_s: float = 0.0, facts: ModelFacts = IDLE, **options: Any) -> Climbed:
        self.now_ms += round(after_s * 1_000)
        climbed = climb(self.spec, "p@1", self.memory, facts, values, self.now_ms, **options)
        self.memory = climbed.memory
        return climbed

    @property
    def levels(self) -> list[int]:
        return [self.memory[tier].level if tier in self.memory else 0 for tier in self.spec.tiers]


def test_the_least_important_tier_goes_first_and_the_next_once_that_need_not_go_further() -> None:
    moved = Ladder(ladder("batch", "standard"))
    seen = []
    for _ in range(7):
        moved.tick(BUSY, after_s=30)
        seen.append(moved.levels)
    assert seen == [[1, 0], [2, 0], [3, 0], [3, 1], [3, 2], [3, 3], [3, 3]]
    moved = Ladder(ladder("batch", "standard"))
    slow = {"queue_delay_s": 1.5}
    for _ in range(4):
        moved.tick(slow, after_s=30)
    assert moved.levels == [1, 1]


def test_the_most_important_tier_comes_back_first() -> None:
    moved = Ladder(ladder("batch", "standard"))
    moved.memory = {"batch": LadderMemory(2, NOW_MS - 90_000), "standard": LadderMemory(1, NOW_MS - 90_000)}
    seen = []
    for _ in range(4):
        moved.tick(CALM, after_s=30)
        seen.append(moved.levels)
    assert seen == [[2, 0], [1, 0], [0, 0], [0, 0]]


def test_a_step_stays_as_long_as_it_must() -> None:
    moved = Ladder(ladder("batch"))
    moved.tick(BUSY)
    moved.tick(BUSY, after_s=19.999)
    assert moved.levels == [1]
    moved.tick(CALM)
    assert moved.levels == [1]
    moved.tick(CALM, after_s=0.001)
    assert moved.levels == [0]


def test_a_change_says_why_and_a_step_does_what_those_below_do() -> None:
    moved = Ladder(ladder("batch"))
    climbed = moved.tick(BUSY)
    assert [(each.before, each.after, each.reason) for each in climbed.transitions] == [
        ("0", "1 short", "queue_delay_s > 1.0 holds")
    ]
    moved.tick(BUSY, after_s=20)
    (step,) = moved.tick(BUSY, after_s=30).degradation
    assert (step.tier, step.step, step.name, step.policy, step.since_ms) == ("batch", 3, "shed", "p@1", moved.now_ms)
    assert (step.max_output_tokens, step.partial, step.variant) == (64, True, "chat-8b")
    assert (step.shed_retry_after_s, step.cached_only, step.pool) == (7, False, None)


def test_what_is_unknown_neither_enters_nor_leaves() -> None:
    moved = Ladder(ladder("batch"))
    climbed = moved.tick({"arrived_rps": 5.0})
    assert moved.levels == [0]
    assert "'queue_delay_s > 1.0' is unknown without queue_delay_s" in climbed.transitions[0].reason
    moved.tick(BUSY)
    climbed = moved.tick({"arrived_rps": 5.0}, after_s=600)
    assert moved.levels == [1]
    assert [(alarm.key, alarm.severity) for alarm in climbed.alarms] == [("condition:chat", "ticket")]


def test_a_step_whose_exit_cannot_be_seen_pages_after_its_longest_stay() -> None:
    moved = Ladder(ladder("batch"))
    moved.tick(BUSY)
    severities = [moved.tick({"arrived_rps": 5.0}, after_s=s).alarms[0].severity for s in (900, 900, 1)]
    assert severities == ["ticket", "ticket", "page"]
    assert moved.tick(CALM).alarms == ()


def test_without_any_request_nothing_stays_degraded() -> None:
    moved = Ladder(ladder("batch"))
    moved.tick(BUSY)
    climbed = moved.tick({"arrived_rps": 0.0}, after_s=60)
    assert moved.levels == [0]
    assert climbed.transitions[0].reason == "no request arrives"
    assert climbed.alarms == ()


def test_a_pause_keeps_the_steps_that_are_entered() -> None:
    moved = Ladder(ladder("batch"))
    moved.tick(BUSY)
    climbed = moved.tick(CALM, after_s=600, paused=True)
    assert moved.levels == [1]
    assert len(climbed.degradation) == 1


def test_a_person_sets_a_step_for_a_tier_or_for_all() -> None:
    moved = Ladder(ladder("batch", "standard"))
    until_ms = NOW_MS + 600_000
    moved.tick(BUSY, overrides=[Override(until_ms, model="chat", level=0, by="ada")])
    assert moved.levels == [0, 0]
    climbed = moved.tick(CALM, overrides=[Override(until_ms, model="chat", tier="standard", level=9, by="ada")])
    assert moved.levels == [0, 3]
    assert climbed.transitions[0].reason == "set by ada for another 10 min"
    for _ in range(3):
        moved.tick(CALM, after_s=30)
    assert moved.levels == [0, 0]


def test_an_edited_ladder_with_fewer_steps_is_entered_at_its_last() -> None:
    moved = Ladder(ladder("batch", steps=STEPS[:1]))
    moved.memory = {"batch": LadderMemory(3, NOW_MS)}
    moved.tick(BUSY)
    assert moved.levels == [1]


def test_burn_rates_are_those_of_the_tiers_that_a_step_protects() -> None:
    tiers = {
        "batch": TierFacts("batch", burn_rate_fast=90.0, budget_left=-1.0, arrived_rps=2.0, age_ms=0),
        "standard": TierFacts("standard", burn_rate_fast=3.0, budget_left=0.5, age_ms=0),
        "premium": TierFacts("premium", burn_rate_fast=2.0, budget_left=0.7, age_ms=0),
    }
    spec, facts = ladder("batch", "standard"), ModelFacts("chat", tiers=tiers)
    of_batch, of_standard = (tier_values(spec, place, facts, {"waiting": 1.0, "arrived_rps": 2.0}) for place in (0, 1))
    assert (of_batch["burn_rate_fast"], of_batch["own_burn_rate_fast"]) == (3.0, 90.0)
    assert (of_batch["budget_left"], of_batch["own_arrived_rps"], of_batch["waiting"]) == (0.5, 2.0, 1.0)
    assert (of_standard["burn_rate_fast"], of_standard["own_burn_rate_fast"]) == (2.0, 3.0)


def test_the_last_tier_protects_itself_and_old_burn_rates_are_unknown() -> None:
    facts = ModelFacts("chat", tiers={"batch": TierFacts("batch", burn_rate_fast=9.0, age_ms=1_000)})
    assert tier_values(ladder("batch"), 0, facts, {})["burn_rate_fast"] == 9.0
    facts = ModelFacts("chat", tiers={"batch": TierFacts("batch", burn_rate_fast=9.0, age_ms=120_001)})
    assert tier_values(ladder("batch"), 0, facts, {})["burn_rate_fast"] is None


@pytest.mark.parametrize("silent", [{"unjudged": ("whole",), "age_ms": 0}, {"burn_rate_fast": 0.0, "age_ms": 120_001}])
def test_an_objective_that_falls_silent_leaves_no_step_and_one_that_is_known_to_burn_enters(
    silent: dict[str, Any],
) -> None:
    steps = [
        {
            "name": "short",
            "enter": "burn_rate_fast > 14.0",
            "exit": "burn_rate_fast < 1.0 && budget_left > 0.1",
            "shed": {},
        }
    ]
    moved = Ladder(ladder("batch", steps=steps))

    def tiers(rate: float, **premium: Any) -> ModelFacts:
        standard = TierFacts("standard", burn_rate_fast=rate, budget_left=0.5, age_ms=0)
        return ModelFacts("chat", tiers={"standard": standard, "premium": TierFacts("premium", **premium)})

    busy: dict[str, Value] = {"arrived_rps": 5.0}
    moved.tick(busy, facts=tiers(3.0, **silent))
    assert moved.levels == [0]
    moved.tick(busy, facts=tiers(20.0, **silent))
    assert moved.levels == [1]
    climbed = moved.tick(busy, 600, tiers(0.0, **silent))
    assert moved.levels == [1]
    assert "is unknown without burn_rate_fast, budget_left" in climbed.alarms[0].text
    assert ("not judged: whole" in climbed.alarms[0].text) == ("unjudged" in silent)
    moved.tick(busy, 600, tiers(0.0))  # a tier without an objective is not silent
    assert moved.levels == [0]


DELAYS = st.lists(st.tuples(st.none() | st.floats(0, 10), st.integers(0, 60)), max_size=40)


@given(DELAYS)
def test_a_ladder_moves_by_single_steps_in_order_and_comes_back(delays: list[tuple[float | None, int]]) -> None:
    moved = Ladder(ladder("batch", "standard", "premium"))
    for delay_s, after_s in delays:
        before = moved.levels
        moved.tick({"queue_delay_s": delay_s, "arrived_rps": 5.0}, after_s)
        assert sum(abs(now - was) for now, was in zip(moved.levels, before, strict=True)) <= 1
        assert moved.levels == sorted(moved.levels, reverse=True)
        assert delay_s is not None or moved.levels == before
    for _ in range(9):
        moved.tick(CALM, after_s=30)
    assert moved.levels == [0, 0, 0]
    assert moved.tick(CALM).degradation == ()
