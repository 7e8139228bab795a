"""A proposed change of the fleet is replayed over what the ledger has, by itself, and only what was replayed is approved."""

import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from controlplane.accounts.rights import unguarded
from controlplane.fleet.files.proposals import propose
from controlplane.fleet.models import FleetProposal, Team, Tier
from controlplane.planning import jobs
from controlplane.planning.models import PlanJob
from controlplane.policy.preview import proposal
from controlplane.policy.preview.proposal import newest_job, take
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store, StoreUnavailableError
from tests.support.entered_fleet import entered_fleet
from tests.support.telemetry.samples import row
from tests.support.web.html import html_of

pytestmark = [pytest.mark.django_db, pytest.mark.processes]
NS, MS = 10**9, 10**6
NUMBERS = count(1)
MOVED = """\
apiVersion: weir/v1
kind: Pool
metadata: {name: chat-eu}
spec:
  {variant: chat, region: eu, protocol: openai, model_name: m, weight: 300, replicas: [{name: chat-eu-0, url: "http://chat-eu:8000/v1"}]}
"""
LIMITED = "apiVersion: weir/v1\nkind: Tier\nmetadata: {name: batch}\nspec: {priority: 3, requests_per_minute: 5}\n"


@pytest.fixture(autouse=True)
def answering(store: Store, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(answers, "store", lambda: store)
    entered_fleet()
    StoredObjective.objects.create(slug="fast", name="Fast", threshold_ms=150, measure="e2e", target=0.9)


def stored(store: Store, requests: int, ms: int = 100, **changes: Any) -> None:
    from_ns = time.time_ns() - 3_600 * NS
    values = {
        "model": "chat",
        "pool": "chat-eu",
        "tenant": "reports",
        "tier": "batch",
        "stages": {"queue": 0, "model": ms * MS},
    }
    rows = [row(next(NUMBERS), entry_start_ns=from_ns + at * NS // 10, **values | changes) for at in range(requests)]
    store.writer.insert_requests(rows, version=1)


def previewed(text: str) -> FleetProposal:
    made = propose(text, author="rita", note="why", label="repo")
    assert jobs.run_queued() == 1
    made.refresh_from_db()
    return made


def test_recorded_requests_say_what_moves_is_refused_and_attained(store: Store) -> None:
    stored(store, 40)
    stored(store, 40, ms=400, pool="chat-us")
    stored(store, 3, model="gone")
    made = previewed(MOVED)
    result = made.preview
    assert (result["requests"], result["recorded"], result["moved"]) == (80, 80, 20)
    assert made.previewed_at and result["never_served"] == []
    pools = {each["pool"]: (each["before"], each["after"]) for each in result["pools"]}
    assert pools == {"chat-eu": (40.0, 60.0), "chat-us": (40.0, 20.0)}
    [fast] = result["objectives"]
    assert fast["before"] == 0.5
    assert fast["after"][0] > fast["before"], "more of them go where they were fast"
    limited = previewed(LIMITED).preview
    assert limited["refused"] == [{"why": "requests_per_minute", "before": 0, "after": 75}]
    assert limited["moved"] == 0


def test_a_sample_is_the_newest_and_says_of_how_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposal, "MAX_REQUESTS", 10)
    stored(store, 40)
    result = previewed(MOVED).preview
    assert (result["requests"], result["recorded"]) == (10, 40)
    assert result["to_ms"] - result["from_ms"] == 900


def test_without_traffic_it_says_so_and_may_be_approved(store: Store) -> None:
    made = previewed(LIMITED)
    assert (made.preview["requests"], made.preview["pools"], made.preview["from_ms"]) == (0, [], None)
    assert take("approve", made.pk, "abe", unguarded).approved_by == "abe"


def test_a_preview_that_ended_in_an_error_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Store:
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(answers, "store", broken)
    Team.objects.update(requires_approval=True)
    made = previewed(MOVED)
    job = newest_job(made)
    assert made.preview == {} and job and (job.state, job.error) == (PlanJob.State.FAILED, "the store does not answer")
    with pytest.raises(ValidationError, match="preview it first"):
        take("approve", made.pk, "abe", unguarded)
    with pytest.raises(ValidationError, match="serving wants another person's approval, and this is draft"):
        take("activate", made.pk, "ann", unguarded)


def test_a_preview_is_of_the_fleet_as_it_is_and_is_made_again(store: Store) -> None:
    made = previewed(LIMITED)
    Tier.objects.filter(name="batch").update(priority=7)
    with pytest.raises(ValidationError, match="preview it first"):
        take("approve", made.pk, "abe", unguarded)
    take("preview", made.pk, "abe", unguarded)
    assert jobs.run_queued() == 1
    assert take("approve", made.pk, "abe", unguarded).approved_by == "abe"


def test_its_page_has_the_figures_and_what_is_not_known(store: Store, owner: Any) -> None:
    stored(store, 40)
    stored(store, 4, cache_outcome="hit")
    page = html_of(owner.get(f"/changes/proposals/{previewed(LIMITED).pk}"))
    assert "refused: requests_per_minute" in page and "of 44 recorded requests would go to" in page
    other = "apiVersion: weir/v1\nkind: Model\nmetadata: {name: chat}\nspec: {team: serving, prompt_version: '2', hedge_ms: 9}\n"
    made = previewed(other)
    page = html_of(owner.get(f"/changes/proposals/{made.pk}"))
    assert "4 requests answered from the cache: whether they would still be" in page and "model chat: " in page
    answer = owner.get(f"/api/v1/fleet/proposals/{made.pk}").json()
    assert answer["preview"]["cache"] == {"answered": 4, "lost": 0, "unknown": 4}
    assert ">Preview</button>" in page
