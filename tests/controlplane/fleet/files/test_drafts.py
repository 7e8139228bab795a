"""Where a team wants approvals, what its owners save, delete or do to many rows in the admin waits as a proposal."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from controlplane.accounts.rights import unguarded
from controlplane.fleet.files.proposals import outlook, take
from controlplane.fleet.models import (
    FleetProposal,
    FleetRevision,
    GatewayKey,
    LLMModel,
    Pool,
    Replica,
    Team,
    Tenant,
    Tier,
)
from controlplane.planning.models import GpuType, PoolCapacity, ReplicaCapacityEntry
from controlplane.slo.models import Maintenance, StoredObjective
from tests.support.entered_fleet import entered_fleet
from tests.support.slo.openslo_files import FOREIGN, slo
from tests.support.web.html import html_of
from tests.support.web.people import logged_in, member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rita(home: Path) -> Client:
    """Owns what is of the team `serving`, which wants approvals."""
    entered_fleet()
    Team.objects.filter(name="serving").update(requires_approval=True)
    return logged_in(member("rita", "owner", team="serving"))


def form_of(client: Client, path: str) -> dict[str, Any]:
    """What a browser would send of the form as it is."""
    page = client.get(path)
    form = page.context["adminform"].form
    fields = [
        *form,
        *(field for each in page.context["inline_admin_formsets"] for field in each.formset.management_form),
    ]
    for each in page.context["inline_admin_formsets"]:
        fields += [field for one in each.formset.initial_forms for field in one]
    values = {field.html_name: field.value() for field in fields}
    return {
        name: "on" if value is True else value
        for name, value in values.items()
        if value is not None and value is not False
    }


def path_of(row: Any, step: str = "change") -> str:
    return f"/admin/fleet/{row._meta.model_name}/{row.pk}/{step}/"


def proposed() -> FleetProposal:
    return FleetProposal.objects.get()


def brought_into_force(made: FleetProposal) -> None:
    FleetProposal.objects.update(preview={"plan": outlook(made).digest})
    take("approve", made.pk, "abe", unguarded)
    take("activate", made.pk, "rita", unguarded)


def test_what_is_saved_waits_and_says_so(rita: Client) -> None:
    pool, before = Pool.objects.get(name="chat-eu"), FleetRevision.objects.count()
    page = html_of(rita.get(path_of(pool)))
    assert "serving wants approvals: what you save or delete here becomes a proposal" in page
    answer = rita.post(path_of(pool), form_of(rita, path_of(pool)) | {"weight": "7"}, follow=True)
    page = html_of(answer)
    assert answer.redirect_chain == [(f"/changes/proposals/{proposed().pk}", 302)]
    assert "Nothing is in force yet" in page and "was changed successfully" not in page
    assert "weight: 100 → 7" in page and "serving wants another person" in page
    assert (proposed().author, proposed().via) == ("rita", "admin")
    assert Pool.objects.get(name="chat-eu").weight == 100 and FleetRevision.objects.count() == before
    brought_into_force(proposed())
    assert Pool.objects.get(name="chat-eu").weight == 7


def test_what_is_added_deleted_or_done_to_many_waits_too(rita: Client) -> None:
    pool, replica = Pool.objects.get(name="chat-eu"), Replica.objects.get(name="chat-eu-0")
    form = {"pool": str(pool.pk), "name": "two", "url": "http://two:8000/v1", "enabled": "on"}
    rita.post("/admin/fleet/replica/add/", form)
    rita.post(path_of(replica, "delete"), {"post": "yes"})
    rita.post("/admin/fleet/replica/", {"action": "delete_selected", "_selected_action": [replica.pk], "post": "yes"})
    first, second = FleetProposal.objects.order_by("pk")  # the same once more is the same proposal
    assert "two" in first.text and "chat-eu-0" in first.text and "chat-eu-0" not in second.text
    assert list(pool.replicas.values_list("name", flat=True)) == ["chat-eu-0"]
    take("retire", second.pk, "rita", unguarded, "not this one")
    brought_into_force(first)
    steps = [(each.what, each.who, each.note) for each in second.events.all()]
    assert steps == [("retired", "rita", "not this one"), ("proposed", "rita", "")]
    assert set(pool.replicas.values_list("name", flat=True)) == {"chat-eu-0", "two"}


def test_a_row_that_goes_is_named_with_what_goes_along(rita: Client, owner: Client) -> None:
    row = LLMModel.objects.get(name="chat")
    owner.post(path_of(row, "delete"), {"post": "yes"})
    assert LLMModel.objects.filter(name="chat").exists()
    assert ["Model", "chat"] in proposed().removes and ["Pool", "chat-eu"] in proposed().removes
    brought_into_force(proposed())
    assert not LLMModel.objects.filter(name="chat").exists()


def test_what_is_nobodys_or_of_a_team_without_approvals_is_in_force_at_once(rita: Client, owner: Client) -> None:
    tier = Tier.objects.get(name="batch")
    owner.post(path_of(tier), form_of(owner, path_of(tier)) | {"priority": "9"})
    search = Pool.objects.get(name="search-eu")
    owner.post(path_of(search), form_of(owner, path_of(search)) | {"weight": "5"})
    tier.refresh_from_db()
    search.refresh_from_db()
    assert (tier.priority, search.weight) == (9, 5) and not FleetProposal.objects.exists()


def test_a_purge_and_a_revoked_key_are_at_once(rita: Client) -> None:
    chat = LLMModel.objects.get(name="chat")
    rita.post("/admin/fleet/llmmodel/", {"action": "purge", "_selected_action": [chat.pk]})
    chat.refresh_from_db()
    key, _ = GatewayKey.objects.issue(Tenant.objects.get(name="shop"), "web")
    rita.post(path_of(key, "delete"), {"post": "yes"})
    assert chat.cache_purges == 1 and not GatewayKey.objects.exists() and not FleetProposal.objects.exists()


def test_a_form_that_changes_nothing_or_has_an_error_proposes_nothing(rita: Client) -> None:
    pool = Pool.objects.get(name="chat-eu")
    form = form_of(rita, path_of(pool))
    assert rita.post(path_of(pool), form).status_code == 302
    assert "Enter a whole number" in html_of(rita.post(path_of(pool), form | {"weight": "many"}))
    assert not FleetProposal.objects.exists()


def test_objectives_maintenance_and_what_plans_assume_wait_too(rita: Client) -> None:
    given = {"slug": "ok", "name": "Ok", "indicator": {"kind": "availability"}, "target": 0.99, "owner": "serving"}
    window = {
        "name": "Night",
        "start": "2026-12-24T02:00:00",
        "duration_s": 60,
        "reason": "New disks",
        "objectives": ["ok"],
    }
    floor = {"pool": str(Pool.objects.get(name="chat-us").pk), "gpus_per_replica": "1", "warm_floor": "2"}

    def waits(answer: Any) -> None:
        made = FleetProposal.objects.latest("pk")
        assert made.is_open and (answer.status_code == 302 or answer.json() == {"proposal": made.pk}), answer.content
        brought_into_force(made)

    waits(rita.post("/api/v1/objectives", given, content_type="application/json"))
    waits(rita.put("/api/v1/objectives/ok", given | {"target": 0.95}, content_type="application/json"))
    row = StoredObjective.objects.get(slug="ok")
    assert (row.target, row.owner) == (0.95, Team.objects.get(name="serving"))
    waits(rita.post("/api/v1/maintenance", window, content_type="application/json"))
    assert list(Maintenance.objects.get().objectives.all()) == [row]
    waits(rita.post(f"/admin/slo/storedobjective/{row.pk}/delete/", {"post": "yes"}))
    waits(rita.post("/admin/planning/poolcapacity/add/", form_of(rita, "/admin/planning/poolcapacity/add/") | floor))
    assert PoolCapacity.objects.get(pool__name="chat-us").warm_floor == 2
    assert not StoredObjective.objects.filter(slug="ok").exists() and FleetProposal.objects.count() == 5


def test_openslo_files_wait_and_own_what_was_approved(rita: Client) -> None:
    def sent(text: str, prune: bool = False) -> Any:
        query = {"owner_label": "repo", "prune": str(prune).lower()}
        return rita.post("/api/v1/openslo/apply", text, content_type="application/yaml", query_params=query)

    answer = sent(slo())
    assert (answer.status_code, answer.json()["applied"], answer.json()["proposal"]) == (202, False, proposed().pk)
    assert sent(slo()).json()["proposal"] == proposed().pk and not StoredObjective.objects.exists()
    brought_into_force(proposed())
    row = StoredObjective.objects.get()
    assert (row.slug, row.threshold_ms, row.annotations["weir.slo/managed-by"]) == ("chat-ttft", 100, "repo")
    assert sent(slo()).json()["summary"] == "1 changed.", "the text is kept once the objective is in force"
    assert sent(slo()).json()["summary"] == "Nothing changed: 1 unchanged."
    assert sent(FOREIGN, prune=True).status_code == 202 and StoredObjective.objects.exists()
    brought_into_force(FleetProposal.objects.latest("pk"))
    assert not StoredObjective.objects.exists()
    assert (sent(FOREIGN, prune=True).status_code, sent(slo().replace("0.95", "1")).status_code) == (200, 409)


def test_what_a_benchmark_found_waits_and_no_file_takes_it_away(rita: Client, owner: Client) -> None:
    def entered(rate: int, **given: Any) -> Any:
        body = {"requests_per_s": rate, "gpu": "h100", **given}
        return rita.put("/api/v1/planning/capacities/chat-us", body, content_type="application/json")

    GpuType.objects.create(name="h100", usd_per_hour=2.0)
    assert entered(40, dry_run=True).json()["entered"] is False and not FleetProposal.objects.exists()
    assert (entered(40).status_code, ReplicaCapacityEntry.objects.count()) == (202, 0)
    brought_into_force(proposed())
    entry = ReplicaCapacityEntry.objects.get()
    assert (entry.requests_per_s, entry.source, entry.pool.pool.name) == (40, "benchmark", "chat-us")
    document = "/api/v1/fleet/documents/PoolCapacity/chat-us"
    text = owner.get(document).content.decode()
    assert "benchmarks" not in text and "gpu_type: h100" in text
    assert owner.put(document, text, content_type="application/yaml").json()["summary"].startswith("Nothing changed")
    assert owner.put(document, text + "  warm_floor: 3\n", content_type="application/yaml").status_code == 202
    brought_into_force(FleetProposal.objects.latest("pk"))
    assert (
        ReplicaCapacityEntry.objects.get() == entry and PoolCapacity.objects.get(pool__name="chat-us").warm_floor == 3
    )
    assert entered(50, gpu="h200").status_code == 202
    made = FleetProposal.objects.latest("pk")
    whom = {"approve": "an administrator", "activate": "an administrator"}.items()
    assert rita.get(f"/api/v1/fleet/proposals/{made.pk}").json()["who_may"].items() >= whom
    said = "An administrator may approve it. An administrator may activate it. It changes what no team owns"
    assert said in html_of(rita.get(f"/changes/proposals/{made.pk}"))
    rita.post(f"/admin/planning/poolcapacity/{entry.pool_id}/delete/", {"post": "yes"})
    brought_into_force(FleetProposal.objects.latest("pk"))
    assert not ReplicaCapacityEntry.objects.exists()


def test_a_row_of_a_form_that_somebody_has_changed_meanwhile_is_not_overwritten_unseen(
    rita: Client, owner: Client
) -> None:
    row = Replica.objects.get(name="search-eu-0")
    page = path_of(row.pool)
    opened = owner.get(page).context["adminform"].form.as_read
    sent = form_of(owner, page) | {"as-read": opened, "replicas-0-metrics": "10.0.0.7:9"}
    Replica.objects.filter(pk=row.pk).update(url="http://moved:8000/v1")
    refused = owner.post(page, sent)
    assert f"changed this since you opened it: replica {row}." in html_of(refused)
    row.refresh_from_db()
    assert (row.url, row.metrics) == ("http://moved:8000/v1", "")
    again = sent | {"as-read": refused.context["adminform"].form.as_read}
    assert owner.post(page, again).status_code == 302
    row.refresh_from_db()
    assert (row.url, row.metrics) == ("http://search-eu:8000/v1", "10.0.0.7:9")
    opened = owner.get(page).context["adminform"].form.as_read
    row.delete()
    assert "you opened it: replica that is gone." in html_of(owner.post(page, sent | {"as-read": opened}))
