"""Purging cached answers: people ask for it in the admin and over REST, and the next snapshot says it to the gateways."""

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.accounts.models import Membership
from controlplane.audit.models import Entry
from controlplane.fleet.core.snapshot import render
from controlplane.fleet.models import CachePurge, LLMModel, Team, Tenant, Tier
from controlplane.fleet.snapshot_values import fleet_values

pytestmark = pytest.mark.django_db
KEY = "0a" * 32


@pytest.fixture(autouse=True)
def _fleet() -> None:
    LLMModel.objects.create(name="chat")
    Tenant.objects.create(name="acme", tier=Tier.objects.create(name="gold", priority=1))


def purge(client: Client, **what: str) -> tuple[int, dict[str, object]]:
    answer = client.post("/api/v1/cache/purge", what, content_type="application/json")
    return answer.status_code, answer.json()


def test_each_purge_is_another_number_in_the_snapshot_and_in_the_audit(owner: Client) -> None:
    assert [purge(owner, model="chat"), purge(owner, model="chat"), purge(owner, tenant="acme")] == [
        (200, {"purges": 1}), (200, {"purges": 2}), (200, {"purges": 1}),
    ]  # fmt: skip
    newest = Entry.objects.filter(kind="fleet.llmmodel", action="changed").first()
    assert newest is not None
    assert newest.after == {"cache_purges": 2}
    values = fleet_values()
    assert [model.cache.purges for model in values.models] == [2]
    assert [tenant.cache_purges for tenant in values.tenants] == [1]


def test_one_thing_is_purged_at_a_time(owner: Client) -> None:
    both = owner.post("/api/v1/cache/purge", {"tag": "faq", "key": "0" * 64}, content_type="application/json")
    assert (both.status_code, "is given beside another" in both.json()["detail"]) == (409, True)


def test_a_tag_and_a_prompt_version_have_numbers_of_their_own(owner: Client) -> None:
    asked = (
        {"tag": "faq"},
        {"tag": "faq"},
        {"model": "chat", "prompt_version": "1"},
        {"model": "chat", "prompt_version": "2"},
    )
    assert [purge(owner, **what)[1] for what in asked] == [{"purges": it} for it in (1, 2, 1, 1)]
    assert purge(owner, key=KEY) == (200, {"purges": 1})
    values = fleet_values()
    assert values.tag_purges == {"faq": 2, KEY: 1}
    assert [(it.cache.purges, it.cache.version_purges) for it in values.models] == [(0, 1)], (
        "the present version's alone"
    )
    assert render(values, 1).tag_purges == {"faq": 2, KEY: 1}
    LLMModel.objects.update(prompt_version="3")
    assert [it.cache.version_purges for it in fleet_values().models] == [0]


def test_a_teams_owner_purges_its_models_and_no_tag_of_all(teammate: Client) -> None:
    team = Team.objects.create(name="serving-models")
    LLMModel.objects.update(team=team)
    assert purge(teammate, model="chat", prompt_version="1")[0] == 403
    Membership.objects.create(user=User.objects.get(username="tom"), team=team, role="owner")
    assert purge(teammate, model="chat", prompt_version="1")[0] == 200
    assert purge(teammate, tag="faq")[0] == 403


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for what in (
        ["--tag", "faq"],
        ["--key", KEY],
        ["--model", "chat"],
        ["--model", "chat", "--prompt-version", "1"],
        ["--tenant", "acme"],
    ):
        call_command("purge_cache", *what)
    assert capsys.readouterr().out == "purged, 1 times by now\n" * 5
    for wrong in (
        ["--tag", "A b"],
        ["--key", "faq"],
        ["--model", "other"],
        ["--tenant", "acme", "--prompt-version", "1"],
    ):
        with pytest.raises(CommandError):
            call_command("purge_cache", *wrong)


def test_the_admin_adds_one_and_deletes_none(owner: Client) -> None:
    owner.post("/admin/fleet/cachepurge/add/", {"tag": "faq"})
    row = CachePurge.objects.get()
    assert (str(row), row.cache_purges) == ("tag faq", 1)
    page = owner.post("/admin/fleet/cachepurge/", {"action": "purge", "_selected_action": [row.pk]}, follow=True)
    assert "cached for tag faq until now" in page.content.decode()
    assert owner.post(f"/admin/fleet/cachepurge/{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert fleet_values().tag_purges == {"faq": 2}


def test_the_admin_does_it_for_those_that_are_chosen(owner: Client) -> None:
    for kind, row in (("llmmodel", LLMModel.objects.get()), ("tenant", Tenant.objects.get())):
        page = owner.post(f"/admin/fleet/{kind}/", {"action": "purge", "_selected_action": [row.pk]}, follow=True)
        assert f"cached for {row} until now" in page.content.decode()
        assert type(row)._default_manager.get().cache_purges == 1


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ({}, 409),
        ({"model": "chat", "tenant": "acme"}, 409),
        ({"model": "other"}, 409),
        ({"pool": "x"}, 422),
        ({"tag": "A b"}, 409),
        ({"key": "faq"}, 422),
        ({"tenant": "acme", "prompt_version": "1"}, 409),
        ({"tag": "faq", "model": "chat"}, 409),
    ],
)
def test_what_cannot_be_purged_is_said(owner: Client, what: dict[str, str], status: int) -> None:
    assert purge(owner, **what)[0] == status


def test_times_to_live_are_of_known_operations_and_of_tags() -> None:
    model = LLMModel.objects.get()
    for wrong in (
        ["chat"],
        {"embedding": 60},
        {"tag:": 60},
        {"tag:A b": 60},
        {"chat": 0},
        {"chat": 1.5},
        {"chat": True},
        {"chat": 10**9},
    ):
        model.cache_ttls_s = wrong
        with pytest.raises(ValidationError, match="of an operation"):
            model.full_clean()
    model.cache_ttls_s = {"embeddings": 604_800, "tag:weather": 30}
    model.cache_stales_s = {"chat": 60}
    model.full_clean()
    model.save()
    rules = [it.cache for it in fleet_values().models]
    assert [(it.ttls_s, it.stales_s) for it in rules] == [(model.cache_ttls_s, {"chat": 60})]
