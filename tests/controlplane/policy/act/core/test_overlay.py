"""A decision as what gateways obey."""

from typing import Any

import pytest

from controlplane.policy.act.core.overlay import awaited, is_empty, overlay, with_kept
from controlplane.policy.core.decision import ModelDecision, TierStep
from controlplane.policy.core.memory import Left, TargetMemory
from controlplane.policy.core.observation import Observation, PoolFacts
from inference.contract.rules import NO_OVERLAY, Overlay, Route


def test_a_decision_that_changes_nothing_is_no_overlay() -> None:
    assert is_empty(overlay({"chat": ModelDecision("chat")}, {"chat": {"east": 100}}))


def test_the_weight_of_a_failed_pool_goes_to_others_in_proportion() -> None:
    decision = ModelDecision("chat", moved={"east": {"west": 3, "north": 1}})
    value = overlay({"chat": decision}, {"chat": {"east": 80, "west": 20}})
    assert value.routes["chat"] == (Route("north", 2_000), Route("west", 8_000))
    assert value.instead == {"east": ("west", "north")}


def test_steps_and_canaries_are_passed_on() -> None:
    step = TierStep("batch", 2, "shed", "ladder@3", 0, shed_retry_after_s=20)
    value = overlay({"chat": ModelDecision("chat", canary={"new": 5}, degradation=(step,))}, {})
    (degradation,) = value.degradation
    assert (degradation.model, degradation.tier, degradation.step, degradation.shed) == ("chat", "batch", 2, True)
    assert (degradation.retry_after_s, value.canary) == (20.0, {"chat": {"new": 5}})


BOTH = overlay(
    {
        model: ModelDecision(
            model,
            moved={f"{model}-a": {f"{model}-b": 1}},
            canary={f"{model}-b": 5},
            degradation=(TierStep("batch", 1, "less", f"{model}-ladder@2", 0),),
        )
        for model in ("chat", "code")
    },
    {"chat": {"chat-a": 100}, "code": {"code-a": 100}},
)
ROUTES = {model: {f"{model}-a": 100, f"{model}-b": 0} for model in ("chat", "code")}


def models_in(value: Overlay) -> set[tuple[str, str]]:
    return {
        *(("routes", model) for model in value.routes),
        *(("instead", pool.partition("-")[0]) for pool in value.instead),
        *(("canary", model) for model in value.canary),
        *(("degradation", step.model) for step in value.degradation),
    }


@pytest.mark.parametrize(
    ("left", "stays"),
    [
        (Left("Degradation", "chat-ladder", "chat"), {("degradation", "chat")}),
        (Left("Degradation", "chat-ladder", ""), {("degradation", "chat")}),
        (Left("Routing", "chat-routes", "chat"), {("routes", "chat"), ("instead", "chat")}),
        (
            Left("Routing", "chat-routes", ""),
            {("routes", "chat"), ("instead", "chat"), ("routes", "code"), ("instead", "code")},
        ),
        (Left("Canary", "chat-canary", "chat"), {("canary", "chat")}),
        (Left("Scaling", "chat-a", "chat-a"), set()),
    ],
)
def test_what_a_policy_did_stays_while_nothing_is_decided_for_it(left: Left, stays: set[tuple[str, str]]) -> None:
    assert models_in(with_kept(NO_OVERLAY, BOTH, [left], ROUTES)) == stays
    assert models_in(with_kept(BOTH, NO_OVERLAY, [left], ROUTES)) == models_in(BOTH)
    assert with_kept(BOTH, BOTH, [left], ROUTES) == BOTH


STARTING = {"model": "chat", "wanted": 2, "ready": 0, "starting": 2, "pending": 0, "failing": 0, "cold_start_s": 300.0}


@pytest.mark.parametrize(
    ("facts", "steps", "expected"),
    [
        ({}, ((1_000_000, 1), (1_050_000, 1)), {"a": 1_300_000}),
        ({}, ((700_000, 1), (1_050_000, 1)), {"a": 1_350_000}),
        ({}, ((700_000, 1),), {}),
        ({}, ((1_000_000, -1),), {}),
        ({"ready": 1}, ((1_000_000, 1),), {}),
        ({"ready": None}, ((1_000_000, 1),), {}),
        ({"cold_start_s": None}, ((1_000_000, 1),), {}),
        ({"starting": 1, "pending": 1}, ((1_000_000, 1),), {}),
        ({"starting": 1, "failing": 1}, ((1_000_000, 1),), {}),
    ],
)
def test_the_first_replica_is_expected_a_cold_start_after_it_was_asked_for(
    facts: dict[str, Any], steps: tuple[tuple[int, int], ...], expected: dict[str, int]
) -> None:
    seen = Observation(1_100_000, {"a": PoolFacts("a", **{**STARTING, **facts})})
    assert awaited(seen, {"a": TargetMemory(steps=steps), "gone": TargetMemory(steps=steps)}) == expected
