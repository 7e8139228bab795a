"""Previews of routing, degradation and canary policies on what the ledger and the decisions have."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from controlplane.fleet.models import Pool
from controlplane.planning.models import GpuType, PoolCapacity, ReplicaCapacityEntry
from controlplane.policy.core.decide import decide
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import ModelFacts
from controlplane.policy.core.record import encode, record_of
from controlplane.policy.models import DecisionRecord, PolicyRevision
from controlplane.policy.preview import preview
from controlplane.policy.revisions import steps
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from tests.support.policy.cases import pool, seen
from tests.support.policy.people_and_texts import ladder, routing, small_fleet
from tests.support.telemetry.samples import row

pytestmark = [pytest.mark.django_db, pytest.mark.processes]
NS, MS, MINUTE_S = 10**9, 10**6, 60


@pytest.fixture(autouse=True)
def answering(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "store", lambda: store)
    small_fleet()


@pytest.fixture
def numbers() -> Iterator[int]:
    return count(1)


def stored(store: Store, numbers: Iterator[int], requests: int, ago_s: float, ms: int = 100, **changes: Any) -> None:
    """Requests for `chat`, ten a second."""
    from_ns = time.time_ns() - int(ago_s * NS)
    values = {"model": "chat", "pool": "chat-eu", "stages": {"queue": 0, "model": ms * MS}} | changes
    rows: list[LedgerRow] = [
        row(next(numbers), entry_start_ns=from_ns + at * NS // 10, **values) for at in range(requests)
    ]
    store.writer.insert_requests(rows, version=1)


def revision(text: str) -> PolicyRevision:
    return steps.propose(text, who="ann", source="api").revision


def in_force(text: str) -> PolicyRevision:
    return steps.activate(revision(text), "ann")


def previewed(text: str) -> dict[str, Any]:
    said: list[float] = []
    result = preview(revision(text), lambda share, note: said.append(share))
    assert all(0 <= share <= 1 for share in said)
    return result


def test_a_routing_revision_says_what_each_rule_takes_and_what_moves(store: Store, numbers: Iterator[int]) -> None:
    stored(store, numbers, 100, 7_200, tier="premium", prompt_tokens=9_000)
    stored(store, numbers, 60, 3_600, tier="premium", prompt_tokens=500)
    stored(store, numbers, 40, 3_600, tier="batch", prompt_tokens=9_000, pool="chat-us", ms=400)
    gpu = GpuType.objects.create(name="h100", usd_per_hour=4)
    for each in Pool.objects.all():
        own = PoolCapacity.objects.create(pool=each, gpu_type=gpu, gpus_per_replica=1)
        ReplicaCapacityEntry.objects.create(pool=own, gpu_type=gpu, source="benchmark", requests_per_s=1.0)
    result = previewed(routing())
    own, current = result["revision"], result["current"]
    assert [(each["rule"], each["requests"]) for each in own["rules"]] == [("chat-routes/long", 100), ("", 100)]
    assert [each["rule"] for each in current["rules"]] == [""]
    assert own["rules"][0]["tiers"] == {"premium": 100}
    assert own["rules"][0]["e2e_p50_ms"] == pytest.approx(400, rel=0.06)  # as chat-us answered
    to_us = {each["pool"]: each for each in own["pools"]}["chat-us"]
    assert to_us["requests"] > {each["pool"]: each["requests"] for each in current["pools"]}["chat-us"]
    assert result["moved"] == pytest.approx(100 * 2 / 3, abs=1)  # a third of them went there by weight already
    assert to_us["usd"] == pytest.approx(to_us["requests"] * 4 / 3_600, rel=0.01)
    assert (result["current_revision"], own["requests"], result["requests"]) == (None, 200, 200)
    assert "does not have where clients are" in result["note"]
    assert "may carry more" not in result["note"]
    ReplicaCapacityEntry.objects.filter(pool__pool__name="chat-us").update(lower_bound=True)
    assert "Replicas of chat-us may carry more than is known of them" in previewed(routing())["note"]
    GpuType.objects.update(usd_per_hour=0)  # as a benchmark makes it: nobody has entered a price
    assert previewed(routing())["revision"]["usd"] is None


def test_without_requests_a_routing_revision_says_so() -> None:
    assert previewed(routing()) == {
        "error": "no request for model 'chat' was recorded in the last 14 days: send some first"
    }


def decided(now_s: float, delay_s: float) -> None:
    """A record of a decision without policies, as shadows leave them too."""
    facts = {"chat": ModelFacts("chat", pools=("chat-eu",))}
    observation = seen(pool(queue_delay_s=delay_s), now_ms=int(now_s * 1_000), models=facts)
    record = record_of(observation, [], Memory(), decide(observation, [], Memory()))
    DecisionRecord.objects.create(
        at=datetime.fromtimestamp(now_s, UTC), version=record.version, holder="a", generation=1,
        packed=DecisionRecord.pack(encode(record)),
    )  # fmt: skip


def test_a_ladder_says_how_long_each_step_would_have_been_entered_and_what_it_would_have_changed(
    store: Store, numbers: Iterator[int]
) -> None:
    begun_s = int(time.time()) // MINUTE_S * MINUTE_S - 1_200
    for minute in range(11):
        decided(begun_s + minute * MINUTE_S, 3.0 if 2 <= minute < 6 else 0.1)
    stored(store, numbers, 600, time.time() - begun_s - 3 * MINUTE_S, tier="batch", output_tokens=500)
    stored(store, numbers, 300, time.time() - begun_s - 8 * MINUTE_S, tier="batch", output_tokens=500)
    text = ladder()
    in_force(
        text.replace("queue_delay_s > 2.0", "queue_delay_s > 100.0").replace(
            "queue_delay_s > 5.0", "queue_delay_s > 100.0"
        )
    )
    result = previewed(text)
    batch = result["revision"]["steps"][0]
    assert (batch["tier"], batch["name"], batch["entered"]) == ("batch", "shorter", 1)
    assert batch["seconds"] == pytest.approx(5 * MINUTE_S)  # standard comes down first
    assert (batch["requests"], batch["changed"], batch["changed_share"]) == (600, 600, 1.0)
    assert result["revision"]["changes"] == 2
    assert (result["current"]["changes"], result["current"]["degraded_s"]) == (0, 0)
    assert result["days"] == pytest.approx(600 / 86_400, abs=0.01)
    assert "a shorter peak between two is not seen" in result["note"]


def test_a_ladder_without_recorded_decisions_says_so() -> None:
    assert "no decision about model 'chat' was recorded in the last 14 days" in previewed(ladder())["error"]


CANARY = """\
apiVersion: weir/v1
kind: Canary
metadata: {name: try}
spec: {model: chat, baseline: chat-eu, candidate: chat-mini, max_requests: 2000}
"""


def test_a_canary_says_how_long_it_takes_and_whether_its_requests_suffice(store: Store, numbers: Iterator[int]) -> None:
    for requests, ms in ((365, 100), (20, 190), (5, 200), (10, 400)):
        stored(store, numbers, requests, 1_000, ms=ms)
    result = previewed(CANARY)
    own = result["revision"]
    rps = result["baseline"]["rps"]
    assert rps == pytest.approx(0.4, rel=0.05)
    assert own["steps"][0]["hours"] == pytest.approx(667 / (rps * 0.05) / 3_600, rel=0.01)
    assert own["most_hours"] == pytest.approx(sum(each["hours"] for each in own["steps"]))
    assert own["requests_needed"] > own["max_requests"]
    assert result["baseline"]["quantile_ms"] == pytest.approx(190, rel=0.1)


def test_a_baseline_without_answers_says_so(store: Store) -> None:
    assert previewed(CANARY)["error"].startswith("0 answers of baseline 'chat-eu' to requests for 'chat' were recorded")


def test_the_api_tier_has_no_preview_and_is_put_in_shadow() -> None:
    text = "apiVersion: weir/v1\nkind: Scaling\nmetadata: {name: gateways}\nspec: {gateway: gateway, max: 9, reactive: {cpu_use: 0.5}}\n"
    assert "put it in shadow" in previewed(text)["error"]
