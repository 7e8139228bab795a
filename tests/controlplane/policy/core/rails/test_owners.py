"""The rail of a second owner of the same count, and what follows from it."""

from typing import Any

import pytest

from controlplane.policy.core.decide import decide
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.memory import Memory, TargetMemory
from controlplane.policy.core.observation import Override
from tests.support.policy.cases import NOW_MS, POOL, pool, scaling, seen

OWNED = Memory({POOL: TargetMemory(seen=4, owned=True)})
HPA = {"owner_of_count": "hpa:chat", "hpa_min": 2, "hpa_max": 6}


def decided(other_owner: str, count: int, memory: Memory = OWNED, **facts: Any) -> tuple[Decision, str]:
    overrides = (Override(NOW_MS + 60_000, POOL, count),)
    decision = decide(
        seen(pool(in_flight=0.0, **facts), overrides=overrides), [scaling(other_owner=other_owner)], memory
    )
    return decision, decision.targets[POOL].action


@pytest.mark.parametrize("other_owner", ["stop", "adopt"])
def test_beside_an_hpa_nothing_is_done(other_owner: str) -> None:
    decision, action = decided(other_owner, 8, **HPA)
    assert action == "hold"
    assert decision.targets[POOL].wanted == 4
    assert [(alarm.kind, alarm.severity) for alarm in decision.alarms] == [("owner", "page")]
    assert "The HPA chat sets the count of chat-eu too: delete it" in decision.alarms[0].text


def test_with_an_hpa_its_floor_is_raised_and_lowered() -> None:
    decision, action = decided("cooperate", 5, **HPA)
    target = decision.targets[POOL]
    assert (action, target.seen, target.wanted, decision.alarms) == ("raise_floor", 2, 5, ())
    _, action = decided("cooperate", 2, **HPA)
    assert action == "none"


def test_the_floor_is_never_above_what_the_hpa_allows() -> None:
    decision, _ = decided("cooperate", 9, **HPA)
    assert decision.targets[POOL].wanted == 6
    assert [alarm.kind for alarm in decision.alarms] == ["owner"]


def test_a_floor_that_its_keeper_would_set_back_is_left_alone_and_said() -> None:
    decision, action = decided("cooperate", 5, **HPA, hpa_kept_by="KEDA sets it back.")
    assert (action, decision.targets[POOL].wanted) == ("hold", 2)
    assert [(alarm.kind, alarm.severity) for alarm in decision.alarms] == [("owner", "page")]
    assert decision.alarms[0].text == f"KEDA sets it back. The floor of {POOL} stays as it is."


def test_a_hand_stops_it_until_the_owner_says_otherwise() -> None:
    decision, action = decided("stop", 8, owner_of_count="hand")
    assert (action, decision.targets[POOL].wanted) == ("hold", 4)
    assert decision.alarms[0].severity == "page"
    assert "was set to 4 by hand" in decision.alarms[0].text


def test_a_count_of_a_hand_is_adopted_or_not_gone_below() -> None:
    assert decided("adopt", 8, owner_of_count="hand")[1] == "up"
    assert decided("cooperate", 8, owner_of_count="hand")[1] == "up"
    assert decided("adopt", 3, owner_of_count="hand")[1] == "down"
    assert decided("cooperate", 3, owner_of_count="hand")[1] == "hold"


def test_the_count_of_before_the_policy_is_nobody_elses() -> None:
    decision, action = decided("stop", 8, Memory(), owner_of_count="hand")
    assert (action, decision.alarms) == ("up", ())
