"""Editing objectives and maintenance windows in the admin."""

import re
from html import unescape
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.fleet.models import LLMModel, Team
from controlplane.management.bootstrap import bootstrap
from controlplane.slo import seed
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.models import Maintenance, StoredObjective
from controlplane.slo.save import save_objective

pytestmark = pytest.mark.django_db


def form(**values: str) -> dict[str, str]:
    return {
        "slug": "chat-ttft",
        "name": "Chat, first token",
        "enabled": "on",
        "indicator_kind": "latency",
        "measure": "ttft",
        "threshold_ms": "300",
        "ttft_definition": "gateway",
        "scope_model": "chat-large",
        "scope_tier": "premium",
        "split_by": "region",
        "target": "0.95",
        "period_kind": "rolling",
        "period_s": "2592000",
        "calendar_unit": "month",
        "calendar_count": "1",
        "calendar_start": "2026-01-01T00:00:00",
        "calendar_zone": "UTC",
        "method": "occurrences",
        "slice_s": "60",
        "slice_target": "0.95",
        "windows": '[{"severity": "page", "long_s": 3600, "short_s": 300, "budget_share": 0.02}]',
        "minimum_total": "10",
        "minimum_bad": "3",
        "metric_labels": "{}",
        "labels": "{}",
        "annotations": "{}",
        "revisions-TOTAL_FORMS": "0",
        "revisions-INITIAL_FORMS": "0",
        **values,
    }


def test_an_objective_made_in_the_admin_has_a_first_revision_by_its_maker(owner: Client) -> None:
    response = owner.post("/admin/slo/storedobjective/add/", form())
    assert response.status_code == 302, unescape(response.content.decode())
    row = StoredObjective.objects.get()
    wanted = row.to_objective()
    assert wanted.indicator == Latency("ttft", 300)
    assert (wanted.scope, wanted.split_by) == ({"model": "chat-large", "tier": "premium"}, ("region",))
    assert list(row.revisions.values_list("number", "who")) == [(1, "olga")]


def test_the_list_asks_as_much_of_three_objectives_as_of_one(owner: Client) -> None:
    asked = []
    for number in range(3):
        save_objective(Objective(f"chat-{number}", "Chat", Latency("ttft", 300), 0.95), who="olga")
        with CaptureQueriesContext(connection) as queries:
            assert owner.get("/admin/slo/storedobjective/").status_code == 200
        asked.append(len(queries))
    assert asked[1] == asked[2]


def test_an_edit_is_the_next_revision_and_the_slug_stays(owner: Client) -> None:
    owner.post("/admin/slo/storedobjective/add/", form())
    row = StoredObjective.objects.get()
    page = owner.get(f"/admin/slo/storedobjective/{row.pk}/change/").content.decode()
    assert 'value="chat-large"' in page
    changed = owner.post(
        f"/admin/slo/storedobjective/{row.pk}/change/", form(slug="other", target="0.9", scope_tier="")
    )
    assert changed.status_code == 302
    row.refresh_from_db()
    assert (row.slug, row.target, row.scope) == ("chat-ttft", 0.9, {"model": "chat-large"})
    assert row.revisions.first().changed == ["target", "scope"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"threshold_ms": ""}, "threshold_ms=None is missing"),
        ({"windows": '[{"severity": "page", "long_s": 300, "short_s": 3600, "budget_share": 0.02}]'}, "short_s=3600"),
        ({"windows": '[{"long": 300}]'}, "windows"),
        *(
            ({name: text}, "Write a JSON object")
            for name in ("labels", "annotations", "metric_labels")
            for text in ('"text"', "3", "[[1]]")
        ),
        *(({name: "null"}, "Write a JSON object") for name in ("annotations", "metric_labels")),
    ],
)
def test_a_wrong_edit_is_refused_with_the_remedy(owner: Client, wrong: dict[str, str], words: str) -> None:
    response = owner.post("/admin/slo/storedobjective/add/", form(**wrong))
    assert response.status_code == 200
    assert words in unescape(response.content.decode())
    assert not StoredObjective.objects.exists()


def test_maintenance_has_its_author(owner: Client) -> None:
    planned = {
        "name": "Drivers",
        "reason": "update",
        "enabled": "on",
        "start": "2026-11-22T02:00:00",
        "zone": "Europe/Berlin",
        "duration_s": "3600",
        "rule": "FREQ=WEEKLY;BYDAY=SU",
        "scope_model": "chat-large",
    }
    assert owner.post("/admin/slo/maintenance/add/", planned).status_code == 302
    row = Maintenance.objects.get()
    assert (row.author, row.scope) == ("olga", {"model": "chat-large"})
    refused = owner.post("/admin/slo/maintenance/add/", {**planned, "rule": "every sunday"})
    assert "FREQ=WEEKLY;BYDAY=SU" in unescape(refused.content.decode())


def test_the_first_set_up_makes_objectives_for_each_model_once() -> None:
    LLMModel.objects.create(name="chat-large")
    done = seed.make_first_objectives()
    assert {row.slug for row in StoredObjective.objects.all()} == {
        "chat-large-availability",
        "chat-large-ttft",
        "chat-large-e2e",
        "queue-by-pool",
    }
    assert len(done) == 4
    assert Team.objects.get().name == "serving"
    StoredObjective.objects.filter(slug="queue-by-pool").delete()
    assert seed.make_first_objectives() == []


def test_set_up_without_a_fleet_makes_no_objective(home: Path) -> None:
    bootstrap(home, None)
    assert not StoredObjective.objects.exists()


def test_saving_a_window_that_never_fires_warns(owner: Client) -> None:
    page = unescape(owner.post("/admin/slo/storedobjective/add/", form(target="0.9"), follow=True).content.decode())
    assert "The page window of 1 h and 5 min never fires" in page
    sound = owner.post("/admin/slo/storedobjective/add/", form(slug="sound"), follow=True)
    assert "never fires" not in sound.content.decode()


def test_what_somebody_has_changed_meanwhile_is_not_overwritten_unseen(owner: Client) -> None:
    owner.post("/admin/slo/storedobjective/add/", form())
    row = StoredObjective.objects.get()
    page = f"/admin/slo/storedobjective/{row.pk}/change/"

    def as_read(content: bytes) -> str:
        found = re.search(r'name="as-read" value="([^"]*)"', content.decode())
        assert found is not None
        return unescape(found[1])

    opened = as_read(owner.get(page).content)
    StoredObjective.objects.update(target=0.9)
    refused = owner.post(page, form(**{"name": "Mine", "as-read": opened}))
    assert refused.status_code == 200
    said = unescape(refused.content.decode())
    assert "Somebody has changed this since you opened it: target." in said
    assert 'value="Mine"' in said
    row.refresh_from_db()
    assert (row.name, row.target) == ("Chat, first token", 0.9)
    assert owner.post(page, form(**{"name": "Mine", "as-read": as_read(refused.content)})).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.target) == ("Mine", 0.95)
