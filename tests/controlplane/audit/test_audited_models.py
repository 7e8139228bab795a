"""Every change of what people decide about has one entry, with who, through what, and both sides."""

import json
import os
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.accounts.models import ApiToken
from controlplane.audit.audited_models import LEFT_OUT, RECORDED
from controlplane.audit.core.chain import first_break
from controlplane.audit.core.differences import HIDDEN
from controlplane.audit.models import Entry, Head
from controlplane.core.acting import Actor, acting
from controlplane.fleet.models import GatewayKey, LLMModel, Team, Tenant, Tier
from controlplane.policy.revisions import steps
from deploy.local.process import ROOT
from tests.support.policy.people_and_texts import scaling, small_fleet
from tests.support.web.people import logged_in, member

pytestmark = pytest.mark.django_db


def content(**filters: Any) -> list[tuple[str, str, Any, Any]]:
    entries = Entry.objects.filter(**filters).order_by("number")
    return [(entry.action, entry.subject, entry.before, entry.after) for entry in entries]


def is_whole() -> bool:
    head = Head.objects.get()
    return first_break(Entry.links(), (head.number, head.hash)) == ""


def test_each_model_is_recorded_or_left_out_for_a_reason() -> None:
    named = [*RECORDED, *(label for labels in LEFT_OUT.values() for label in labels)]
    assert sorted(named) == sorted(model._meta.label for model in apps.get_models())


def test_a_change_says_who_made_it_through_what_and_both_sides() -> None:
    tier = Tier.objects.create(name="gold", priority=1)
    with acting(lambda: Actor("ada", "admin", "10.0.0.7")):
        tier.priority = 5
        tier.save()
        tier.save()  # nothing changed
        tier.delete()
    made, changed, deleted = Entry.objects.filter(kind="fleet.tier").order_by("number")
    assert (made.who, made.action, made.after["name"]) == ("", "created", "gold")
    assert (changed.who, changed.via, changed.address) == ("ada", "admin", "10.0.0.7")
    assert (changed.subject, changed.before, changed.after) == ("gold", {"priority": 1}, {"priority": 5})
    assert (deleted.action, deleted.before["priority"], deleted.after) == ("deleted", 5, None)
    assert is_whole()


def test_what_goes_with_a_deleted_one_has_an_entry_of_its_own() -> None:
    tenant = Tenant.objects.create(name="acme", tier=Tier.objects.create(name="gold", priority=1))
    GatewayKey.objects.issue(tenant, "shop")
    tenant.delete()
    assert {kind for kind, in Entry.objects.filter(action="deleted").values_list("kind")} == {
        "fleet.tenant", "fleet.gatewaykey",
    }  # fmt: skip


def test_what_a_deleted_one_leaves_behind_has_an_entry_that_it_is_nobodys() -> None:
    team = Team.objects.create(name="serving")
    model = LLMModel.objects.create(name="chat", team=team)
    tenant = Tenant.objects.create(name="acme", tier=Tier.objects.create(name="gold", priority=1), team=team)
    LLMModel.objects.create(name="other")
    pk = team.pk
    team.delete()
    left = Entry.objects.filter(action="changed").order_by("kind")
    assert [(entry.kind, entry.subject, entry.before, entry.after) for entry in left] == [
        ("fleet.llmmodel", model.name, {"team": pk}, {"team": None}), ("fleet.tenant", tenant.name, {"team": pk}, {"team": None}),
    ]  # fmt: skip
    assert is_whole()


def test_links_between_rows_are_changes() -> None:
    tenant = Tenant.objects.create(name="acme", tier=Tier.objects.create(name="gold", priority=1))
    key, _ = GatewayKey.objects.issue(tenant, "shop")
    models = [LLMModel.objects.create(name=name) for name in ("small", "large")]
    key.only_models.set(models)
    key.only_models.remove(models[0])
    key.only_models.clear()
    linked = content(kind="fleet.gatewaykey")[1:]
    assert [(action, *(side["gatewaykey_only_models"] for side in (before, after) if side)) for action, _, before, after in linked] == [
        ("added", ["large", "small"]), ("removed", ["small"]), ("removed", ["large"]),
    ]  # fmt: skip
    user = User.objects.create_user("rita")
    user.groups.add(Group.objects.create(name="Capacity"))
    assert content(kind="auth.user")[-1] == ("added", "rita", None, {"user_groups": ["Capacity"]})


def test_no_entry_has_a_secret() -> None:
    user = User.objects.create_user("rita", password="correct horse")
    user.set_password("battery staple")
    user.save()
    token, text = ApiToken.objects.issue(user, "robot")
    _, key = GatewayKey.objects.issue(
        Tenant.objects.create(name="acme", tier=Tier.objects.create(name="t", priority=1)), "shop"
    )
    everything = json.dumps([[entry.before, entry.after] for entry in Entry.objects.all()])
    assert HIDDEN in everything
    for secret in (text, key, token.sha256, user.password, "correct horse"):
        assert secret not in everything
    assert content(kind="auth.user")[-1][2:] == ({"password": HIDDEN}, {"password": HIDDEN})


@pytest.mark.django_db(transaction=True)
def test_a_change_that_is_rolled_back_has_no_entry_and_leaves_no_gap() -> None:
    Tier.objects.create(name="gold", priority=1)
    with pytest.raises(RuntimeError), transaction.atomic():
        Tier.objects.create(name="silver", priority=2)
        raise RuntimeError
    Tier.objects.create(name="bronze", priority=3)
    assert [subject for _, subject, _, _ in content(kind="fleet.tier")] == ["gold", "bronze"]
    assert is_whole()


@pytest.mark.django_db(transaction=True)
def test_a_change_whose_entry_cannot_be_written_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Entry, "write", lambda *_, **__: os.strerror(28) and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Tier.objects.create(name="gold", priority=1)
    assert not Tier.objects.exists()


def test_a_refusal_is_told_once_a_minute_with_its_token(client: Client) -> None:
    _, text = ApiToken.objects.issue(User.objects.create_user("rita"), "robot")
    for _ in range(3):
        answer = client.post(
            "/api/v1/batches/one/cancel", content_type="application/json", headers={"Authorization": f"Bearer {text}"}
        )
        assert answer.status_code == 403
    [refused] = Entry.objects.filter(action="refused")
    assert (refused.who, refused.via, refused.subject) == (
        "rita",
        "api, token robot",
        "POST /api/v1/batches/one/cancel",
    )
    client.post(
        "/api/v1/batches/two/cancel", content_type="application/json", headers={"Authorization": f"Bearer {text}"}
    )
    assert Entry.objects.filter(action="refused").count() == 2, "it is another one that was tried"


@pytest.mark.parametrize("via", ["page", "admin", "api"])
def test_a_refusal_is_told_whichever_way_it_was_tried(via: str) -> None:
    small_fleet()
    row = steps.propose(scaling(), who="ann", source="admin").revision
    path = {
        "page": f"/policies/{row.name}/1/shadow",
        "admin": f"/admin/policy/policyrevision/{row.pk}/step/shadow",
        "api": f"/api/v1/policies/{row.name}/revisions/1/shadow",
    }[via]
    client = logged_in(member(f"rita-{via}", "viewer"))
    assert client.post(path, "{}", content_type="application/json").status_code == 403
    [refused] = Entry.objects.filter(action="refused")
    assert (refused.who, refused.via, refused.subject) == (f"rita-{via}", via, f"POST {path}")


def test_who_logs_in_and_out_is_told(client: Client) -> None:
    User.objects.create_user("rita", password="correct horse")
    client.post("/login", {"login": "rita", "password": "correct horse"})
    client.post("/logout")
    assert [(entry.action, entry.who) for entry in Entry.objects.filter(kind="auth.user").order_by("number")[1:]] == [
        ("logged in", "rita"), ("logged out", "rita"),
    ]  # fmt: skip


def test_an_entry_costs_few_queries() -> None:
    tier = Tier.objects.create(name="gold", priority=1)
    tier.priority = 2
    with CaptureQueriesContext(connection) as asked:
        tier.save()
    statements = [query["sql"].split()[0] for query in asked if not query["sql"].startswith(("SAVEPOINT", "RELEASE"))]
    of_the_revision = ["SELECT"]  # by which name the row went until now
    locks = ["SELECT"] * connection.features.has_select_for_update
    assert statements == [*locks, "SELECT", *of_the_revision, "UPDATE", "SELECT", "INSERT", "SELECT", "UPDATE"], (
        asked.captured_queries
    )


def test_the_page_and_the_api_show_it_to_administrators_alone(owner: Client, reader: Client) -> None:
    with acting(lambda: Actor("ada", "admin", "10.0.0.7")):
        tier = Tier.objects.create(name="gold", priority=1)
        tier.priority = 5
        tier.save()
    page = owner.get("/audit?kind=fleet.tier&who=ada").content.decode()
    for text in ("ada", "10.0.0.7", "<del>1</del>", "<ins>5</ins>"):
        assert text in page
    rows = owner.get("/api/v1/audit?kind=fleet.tier&action=changed").json()["rows"]
    assert [(row["before"], row["after"]) for row in rows] == [({"priority": 1}, {"priority": 5})]
    assert "No entry with these filters" in owner.get("/audit?who=nobody").content.decode()
    for path in ("/audit", "/api/v1/audit"):
        assert reader.get(path).status_code == 403


def test_pages_of_the_list_follow_one_another(owner: Client) -> None:
    for number in range(60):
        Tier.objects.create(name=f"t{number}", priority=1)
    seen, before = [], None
    while True:
        page = owner.get(
            "/api/v1/audit", {"kind": "fleet.tier", "limit": 25, **({"before": before} if before else {})}
        ).json()
        seen += [row["subject"] for row in page["rows"]]
        if (before := page["next_before"]) is None:
            break
    assert seen == [f"t{number}" for number in reversed(range(60))]


def test_the_product_cannot_write_past_the_audit(db: None) -> None:
    LLMModel.objects.create(name="chat")
    product = ROOT / "controlplane" / "fleet" / "changes.py"
    for source in ("LLMModel.objects.update(enabled=False)", "LLMModel.objects.bulk_create([])"):
        with pytest.raises(AssertionError, match="has no entry in the audit"):
            exec(compile(source, str(product), "exec"), {"LLMModel": LLMModel})
    LLMModel.objects.update(enabled=False)
