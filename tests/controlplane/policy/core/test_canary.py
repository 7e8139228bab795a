"""Moves canaries on, from counts that grow."""

from dataclasses import dataclass, field
from typing import Literal

import pytest
from msgspec import structs

from controlplane.policy.core.canary import Advanced, advance, waits_for
from controlplane.policy.core.memory import CanaryMemory
from controlplane.policy.core.observation import Arm, CanaryCounts, PoolFacts, Stratum
from controlplane.policy.core.spec import CanarySpec, Compared

SPEC = CanarySpec(model="chat", baseline="old", candidate="new", steps=(5, 25, 50), max_requests=4_000)
EQUAL, SLOWER = 0.05, 0.12


@dataclass
class Canary:
    """A canary whose candidate serves the given requests, of which the shares are slow."""

    spec: CanarySpec = SPEC
    memory: CanaryMemory | None = None
    seen: list[str] = field(default_factory=list)
    now_ms: int = 1_000
    waits: str = ""

    def serve(self, requests: int, *, slow: float = EQUAL, too_slow: float = 0.02, age_ms: int | None = 0) -> Advanced:
        self.now_ms += 1_000
        counts = CanaryCounts(
            since_ms=self.memory.entered[0][0] if self.memory else 0,
            until_ms=self.now_ms,
            strata=(
                Stratum(
                    candidate=Arm(requests, 0, requests, round(requests * slow), round(requests * too_slow)),
                    baseline=Arm(requests * 3, 0, requests * 3, round(requests * 0.15), round(requests * 0.06)),
                ),
            ),
            age_ms=age_ms,
        )
        advanced = advance("try-new", self.spec, "digest", counts, self.memory, self.now_ms, self.waits)
        self.memory = advanced.memory
        if advanced.transition:
            self.seen.append(advanced.transition.after)
        return advanced


def test_an_equal_candidate_goes_from_step_to_step_and_is_promoted() -> None:
    canary = Canary()
    advanced = [canary.serve(requests) for requests in range(0, 4_001, 50)][-1]
    assert canary.seen == ["5 %", "25 %", "50 %", "promoted"]
    assert advanced.percent == {"old": 0, "new": 100}
    assert advanced.alarm is None


def test_a_slower_candidate_is_rolled_back_and_the_sentence_says_why() -> None:
    canary = Canary()
    advanced = [canary.serve(requests, slow=SLOWER, too_slow=EQUAL) for requests in range(0, 4_001, 50)][-1]
    assert canary.seen[-1] == "rolled back"
    assert advanced.percent == {"old": 100, "new": 0}
    assert advanced.alarm is not None
    assert advanced.alarm.text.startswith("new is rolled back after ")
    assert "its p95 is higher than the baseline's" in advanced.alarm.text


def test_a_candidate_that_cannot_be_judged_is_rolled_back_when_its_requests_are_used_up() -> None:
    canary = Canary()
    advanced = [canary.serve(requests, too_slow=EQUAL) for requests in range(0, 4_001, 50)][-1]
    assert advanced.percent == {"old": 100, "new": 0}
    assert advanced.memory.reason == (
        "new is rolled back after 4,000 requests: 4,000 requests do not show that its p95 is not 20% higher"
    )


@pytest.mark.parametrize("age_ms", [None, 61_000])
def test_without_fresh_counts_it_stays_where_it_is(age_ms: int | None) -> None:
    canary = Canary()
    canary.serve(0)
    advanced = canary.serve(4_000, slow=SLOWER, age_ms=age_ms)
    assert canary.seen == ["5 %"]
    assert advanced.percent == {"old": 95, "new": 5}


def test_a_measure_that_nobody_knows_promotes_nothing() -> None:
    canary = Canary(structs.replace(SPEC, measures=(Compared("score:help"),)))
    advanced = [canary.serve(requests) for requests in range(0, 4_001, 50)][-1]
    assert canary.seen == ["5 %", "25 %", "50 %", "rolled back"]
    assert advanced.alarm is not None
    assert advanced.alarm.text.endswith("4,000 requests do not show that its score:help at p5 is not 20% lower")


def test_no_step_begins_before_the_candidate_is_ready_for_it() -> None:
    canary = Canary(waits="no replica of new is ready")
    waiting = [canary.serve(requests) for requests in range(0, 2_001, 50)][-1]
    assert (canary.memory, waiting.percent, canary.seen) == (None, {"old": 100, "new": 0}, [])
    assert waiting.alarm is not None
    assert waiting.alarm.text == "new gets no requests yet: no replica of new is ready."
    canary.waits = ""
    canary.serve(0)
    canary.waits = "1 of 2 replicas of new are ready"
    waiting = [canary.serve(requests) for requests in range(0, 4_001, 50)][-1]
    assert canary.seen == ["5 %"] and waiting.percent == {"old": 95, "new": 5}
    assert waiting.alarm is not None
    assert waiting.alarm.text == "new gets no more than 5 % of the requests yet: 1 of 2 replicas of new are ready."
    canary.waits = ""
    canary.serve(4_000)
    assert canary.seen == ["5 %", "promoted"], "it was found to be as good"
    worse = Canary()
    worse.serve(0)
    worse.waits = "no replica of new is ready"
    for requests in range(50, 4_001, 50):
        worse.serve(requests, slow=SLOWER, too_slow=EQUAL)
    assert worse.seen == ["5 %", "rolled back"]


READY = PoolFacts("new", wanted=2, ready=2, cluster_age_ms=0)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (READY, ""),
        (structs.replace(READY, ready=1, starting=1), "1 of 2 replicas of new are ready"),
        (structs.replace(READY, wanted=0, ready=0), "no replica of new is ready"),
        (structs.replace(READY, cluster_age_ms=61_000), "whether the replicas of new are ready is not known"),
        (structs.replace(READY, reachable=False, traffic_age_ms=0), "no gateway reaches a replica of new"),
        (structs.replace(READY, disabled=True), "new is not in the fleet, or disabled"),
        (PoolFacts("new"), "whether the replicas of new are ready is not known"),
        (PoolFacts("new", reachable=True, traffic_age_ms=0), ""),
        (None, "new is not in the fleet, or disabled"),
    ],
)
def test_it_is_ready_where_all_its_replicas_are_known_to_be(facts: PoolFacts | None, why: str) -> None:
    assert waits_for("new", facts) == why


@pytest.mark.parametrize(("on_fail", "after"), [("roll_back", "rolled back"), ("hold", "held at 5 %")])
def test_its_time_is_limited_whatever_is_counted(on_fail: Literal["roll_back", "hold"], after: str) -> None:
    canary = Canary(structs.replace(SPEC, on_fail=on_fail, time_limit_s=3_600.0))
    canary.serve(0)
    canary.now_ms += 3_598_000
    assert canary.serve(0, age_ms=None).transition is None
    ended = canary.serve(0, age_ms=None)
    assert canary.seen == ["5 %", after]
    assert ended.alarm is not None and ended.alarm.text.endswith(": 60 min did not show that it is as good")


def test_an_owner_may_keep_the_last_word() -> None:
    worse = Canary(structs.replace(SPEC, on_fail="hold"))
    held = [worse.serve(requests, slow=SLOWER, too_slow=EQUAL) for requests in range(0, 4_001, 50)][-1]
    assert held.memory.outcome == "held"
    assert held.percent == {"old": 95, "new": 5}
    assert held.alarm is not None
    equal = Canary(structs.replace(SPEC, on_equal="hold"))
    held = [equal.serve(requests) for requests in range(0, 4_001, 50)][-1]
    assert held.percent == {"old": 50, "new": 50}
    assert held.alarm is None


@pytest.mark.parametrize(
    ("conclude", "outcome", "share"), [("promote", "promoted", 100), ("roll_back", "rolled_back", 0)]
)
def test_a_person_ends_it_at_once(conclude: Literal["promote", "roll_back"], outcome: str, share: int) -> None:
    concluded = structs.replace(SPEC, conclude=conclude)
    new = Canary(concluded)
    assert new.serve(0).percent == {"old": 100 - share, "new": share}
    canary = Canary()
    for requests in range(0, 600, 50):
        canary.serve(requests)
    canary.spec = concluded
    advanced = canary.serve(600)
    assert advanced.memory.outcome == outcome
    assert advanced.percent == {"old": 100 - share, "new": share}
    assert advanced.alarm is None
    canary.spec = SPEC
    assert canary.serve(4_000).percent == advanced.percent, "it stays when the word is taken out again"


def test_a_person_has_the_last_word_over_an_outcome() -> None:
    canary = Canary()
    for requests in range(0, 4_001, 50):
        canary.serve(requests, slow=SLOWER, too_slow=EQUAL)
    canary.spec = structs.replace(SPEC, conclude="promote")
    advanced = canary.serve(4_000)
    assert canary.seen[-2:] == ["rolled back", "promoted"]
    assert advanced.alarm is None


def test_an_edited_canary_begins_anew() -> None:
    canary = Canary()
    for requests in range(0, 4_001, 50):
        canary.serve(requests)
    advanced = advance("try-new", SPEC, "another digest", None, canary.memory, canary.now_ms)
    assert advanced.percent == {"old": 95, "new": 5}
    assert advanced.memory.looks == ()


def test_what_was_counted_before_it_began_is_not_used() -> None:
    canary = Canary()
    canary.serve(0)
    assert canary.memory is not None
    stale = CanaryCounts(since_ms=0, until_ms=5_000, strata=(Stratum(Arm(4_000, 4_000), Arm(4_000)),), age_ms=0)
    assert advance("try-new", SPEC, "digest", stale, canary.memory, 9_000).memory == canary.memory
