"""A decision as what gateways obey."""

from controlplane.policy.act.core.overlay import is_empty, overlay
from controlplane.policy.core.decision import ModelDecision, TierStep
from inference.contract.rules import Route


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
