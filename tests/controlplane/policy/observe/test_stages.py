"""How fast the objective of a policy burns for its pool, and in which stage the bad requests lose their time, from the real store."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.policy.core.observation import TierFacts
from controlplane.policy.observe.core.traffic import Traffic
from controlplane.policy.observe.gather import Background, _tier, gather
from controlplane.policy.observe.objectives import burning, read
from controlplane.policy.observe.stages import Lost, lost_in, wanted_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.models import ObjectiveState, StoredObjective
from controlplane.telemetry.store import Store
from tests.support.policy.cases import POOL, scaling
from tests.support.stored_pool import stored_pool
from tests.support.telemetry.samples import S, row

pytestmark = [pytest.mark.django_db, pytest.mark.processes]
MS = 1_000_000


@pytest.fixture(autouse=True)
def objective() -> StoredObjective:
    stored_pool(POOL, region="eu")
    stored = StoredObjective()
    stored.take(Objective("whole", "Whole", Latency("e2e", 2_000), 0.9, {"model": "chat"}))
    stored.save()
    return stored


def state(objective: StoredObjective, scope: dict[str, str], rate: float, age_s: int = 4, **more: Any) -> None:
    pairs = [{"long_s": 3_600, "long": rate, "short": rate + 1}, {"long_s": 86_400, "long": 0.1, "short": 0.1}]
    ObjectiveState.objects.create(
        objective=objective, key=str(scope), scope=scope, at=timezone.now() - timedelta(seconds=age_s), state="firing",
        since=timezone.now(), document={"verdicts": pairs, **more},
    )  # fmt: skip


def test_a_pool_burns_as_the_worst_scope_that_has_its_requests(objective: StoredObjective) -> None:
    state(objective, {"model": "chat", "tier": "batch"}, 3.0)
    state(objective, {"model": "chat", "tier": "premium"}, 20.0, age_s=9)
    state(objective, {"model": "chat", "region": "us"}, 90.0)
    policies = [scaling(objective="whole", reactive={"burn_rate": 6.0})]
    now_ms = int(time.time() * 1_000)
    known = Background(stages={(POOL, "whole"): Lost("queue", 0.2, now_ms - 3_000)})
    observation = gather(now_ms, policies, known)
    burn = observation.pools[POOL].burns["whole"]
    assert (burn.burn_rate, burn.stage, burn.bad_share, burn.bad_share_age_ms) == (20.0, "queue", 0.2, 3_000)
    assert burn.age_ms is not None and 9_000 <= burn.age_ms < 60_000
    assert wanted_of(policies, observation) == {(POOL, "whole")}
    calm = [scaling(objective="whole", reactive={"burn_rate": 30.0})]
    assert wanted_of(calm, observation) == set()
    assert wanted_of([scaling(objective="whole", reactive={"bad_share": 0.1})], observation) == {(POOL, "whole")}
    assert gather(int(time.time() * 1_000), [scaling()], known).pools[POOL].burns == {}
    tiers = observation.models["chat"].tiers
    assert {name: (tier.burn_rate_fast, tier.unjudged) for name, tier in tiers.items()} == {
        "batch": (3.0, ()),
        "premium": (20.0, ()),
    }
    ObjectiveState.objects.filter(scope__tier="premium").update(state="unknown")
    observation = gather(now_ms, policies, known)
    burn = observation.pools[POOL].burns["whole"]
    assert (burn.burn_rate, burn.unjudged) == (3.0, True)
    silent = observation.models["chat"].tiers["premium"]
    assert (silent.burn_rate_fast, silent.budget_left, silent.unjudged) == (None, None, ("whole",))
    ObjectiveState.objects.update(state="unknown")
    assert gather(now_ms, policies, known).pools[POOL].burns["whole"].burn_rate is None


def test_of_two_objectives_of_a_tier_each_number_is_the_worst_and_one_that_is_silent_is_named(
    objective: StoredObjective,
) -> None:
    other = StoredObjective()
    other.take(Objective("other", "Other", Latency("ttft", 300), 0.9, {"model": "chat", "tier": "premium"}))
    other.save()
    state(objective, {"model": "chat"}, 50.0)  # a more specific one counts
    state(other, {"model": "chat", "tier": "premium"}, 2.0, budget={"left_share": 0.2}, sli=0.8)
    third = StoredObjective()
    third.take(Objective("third", "Third", Latency("e2e", 900), 0.9, {"model": "chat", "tier": "premium"}))
    third.save()
    state(third, {"tier": "premium", "model": "chat"}, 5.0, budget={"left_share": 0.9}, sli=0.9)

    def premium() -> TierFacts:
        return gather(int(time.time() * 1_000), [scaling()], Background()).models["chat"].tiers["premium"]

    both = premium()
    assert (both.objective, both.burn_rate_fast, both.budget_left, both.attainment, both.unjudged) == (
        "third",
        5.0,
        0.2,
        0.8,
        (),
    )
    ObjectiveState.objects.filter(objective=third).update(state="unknown")
    left = premium()
    assert (left.objective, left.burn_rate_fast, left.unjudged) == ("other", 2.0, ("third",))
    ObjectiveState.objects.exclude(objective=objective).update(state="unknown")
    left = premium()
    assert (left.objective, left.burn_rate_fast, left.unjudged) == ("", None, ("other", "third"))
    ObjectiveState.objects.filter(objective=other).update(state="quiet")
    ObjectiveState.objects.filter(objective=third).update(scope={})
    StoredObjective.objects.filter(slug="third").update(scope={"model": "chat"}, split_by=["tier"])
    left = premium()  # one that is split by tier, and could not be judged as a whole
    assert (left.objective, left.burn_rate_fast, left.unjudged) == ("other", 2.0, ("third",))
    StoredObjective.objects.filter(slug="third").update(split_by=["tier", "tenant"])
    assert premium().unjudged == ()  # a part of the tier's traffic


def test_a_burn_rate_that_was_mostly_not_measured_is_not_known(objective: StoredObjective) -> None:
    state(objective, {"model": "chat"}, 0.5)
    [(_, measured)] = burning(["whole"])["whole"]
    assert (measured.fast, measured.slow, measured.is_judged) == (0.5, 0.1, True)
    row = ObjectiveState.objects.get()
    fast, slow = row.document["verdicts"]
    ObjectiveState.objects.update(document={"verdicts": [{**fast, "measured": False, "fires": False}, slow]})
    [(_, unmeasured)] = burning(["whole"])["whole"]
    assert (unmeasured.fast, unmeasured.slow, unmeasured.is_judged) == (None, 0.1, False)
    facts = _tier("chat", "premium", read(), Traffic(), int(time.time() * 1_000))
    assert (facts.burn_rate_fast, facts.burn_rate_slow, facts.unjudged) == (None, 0.1, ("whole",))
    ObjectiveState.objects.update(document={"verdicts": [{**fast, "measured": False, "fires": True}, slow]})
    [(_, fires)] = burning(["whole"])["whole"]
    assert fires.fast == 0.5


@pytest.mark.parametrize("stage", ["queue", "network"])
def test_the_stage_is_where_bad_requests_differ_most_from_the_others(store: Store, stage: str) -> None:
    now_s = int(time.time())
    rows = [
        row(
            number,
            entry_start_ns=(now_s - 60) * S + number * MS,
            model="chat",
            pool=POOL,
            region="eu",
            cache_outcome="miss",
            stages={"model": S, "queue": 0, "network": 0} | ({stage: 3 * S} if number < 8 else {}),
        )
        for number in range(40)
    ]
    store.writer.insert_requests(rows, version=1)
    now_ms = (now_s + 10) * 1_000
    assert lost_in(store, POOL, "whole", now_ms) == Lost(stage, 0.2, now_ms)
    assert lost_in(store, "elsewhere", "whole", now_ms) == Lost("", None, now_ms)
    assert lost_in(store, POOL, "gone", now_ms) == Lost("", None, now_ms)
