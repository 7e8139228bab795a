"""What an owner edits in the admin, and what it says when an edit cannot be."""

import re
import time
from pathlib import Path

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from redis import Redis

from controlplane.core.issued import ROTATES_WITHIN
from controlplane.dashboard.admin_site import GROUPS
from controlplane.fleet.models import GatewayKey, LLMModel, Pool, Replica, SnapshotRevision, StageTimeouts, Tenant, Tier
from inference.contract import snapshot
from inference.contract.metering.spending import key_prefix, period_of
from inference.contract.snapshot import key_digest
from tests.support.stored_pool import stored_pool

pytestmark = pytest.mark.django_db(transaction=True)

NO_LIMITS = dict.fromkeys(
    ("requests_per_minute", "tokens_per_minute", "max_in_flight", "usd_per_day", "usd_per_month"), "0"
)


@pytest.fixture
def pool(home: Path) -> Pool:
    with transaction.atomic():
        return stored_pool()


def replica_form(pool: Pool, **values: str) -> dict[str, str]:
    form = {"pool": str(pool.pk), "name": "one", "grpc": "127.0.0.1:8001", "http": "", "metrics": "", "enabled": "on"}
    return form | values


def test_a_replica_added_in_the_admin_gets_requests(owner: Client, pool: Pool, home: Path) -> None:
    before = snapshot.check((home / "snapshot.json").read_bytes()).snapshot
    response = owner.post("/admin/fleet/replica/add/", replica_form(pool))
    assert response.status_code == 302
    document = snapshot.check((home / "snapshot.json").read_bytes()).snapshot
    assert document.endpoints_version > before.endpoints_version
    assert document.version == before.version, "an endpoint is no policy"
    assert [one.grpc for one in document.pools[0].endpoints] == ["127.0.0.1:8001"]


def test_names_and_both_kinds_of_ip_are_addresses_and_another_is_refused_with_a_remedy(
    owner: Client, pool: Pool
) -> None:
    for number, address in enumerate(("triton-0.chat.svc:8001", "10.0.0.7:8001", "[::1]:8001")):
        owner.post("/admin/fleet/replica/add/", replica_form(pool, name=f"r{number}", grpc=address))
    page = owner.post("/admin/fleet/replica/add/", replica_form(pool, grpc="::1:8001")).content.decode()
    assert "“::1:8001” is not an address: write host:port" in page
    assert Replica.objects.count() == 3


def test_one_server_cannot_be_two_replicas_of_a_pool(owner: Client, pool: Pool) -> None:
    owner.post("/admin/fleet/replica/add/", replica_form(pool))
    page = owner.post("/admin/fleet/replica/add/", replica_form(pool, name="two")).content.decode()
    assert "is already replica “one” of this pool" in page


def test_a_name_that_labels_could_not_carry_is_refused(owner: Client) -> None:
    page = owner.post("/admin/fleet/region/add/", {"name": "Frankfurt am Main"}).content.decode()
    assert "“Frankfurt am Main” is not a name" in page


def test_a_key_is_shown_once_and_stored_as_a_digest(owner: Client, home: Path) -> None:
    tenant = Tenant.objects.create(name="shop", tier=Tier.objects.create(name="standard"))
    page = owner.post(
        "/admin/fleet/gatewaykey/add/", {"tenant": tenant.pk, "name": "web", "enabled": "on", **NO_LIMITS}, follow=True
    )
    key = GatewayKey.objects.get()
    words = page.content.decode().replace("<", " ").split()
    text = next(word for word in words if word.startswith(key.prefix) and len(word) > len(key.prefix))
    assert key.sha256 == key_digest(text)
    assert text not in owner.get(f"/admin/fleet/gatewaykey/{key.pk}/change/").content.decode()
    assert text not in (home / "snapshot.json").read_text()
    assert snapshot.check((home / "snapshot.json").read_bytes()).snapshot.tenants[0].key_sha256 == (key_digest(text),)


def test_an_owner_sees_what_a_key_has_spent(owner: Client, home: Path, settings: Settings, redis_url: str) -> None:
    tenant = Tenant.objects.create(name="shop", tier=Tier.objects.create(name="standard"))
    key, _ = GatewayKey.objects.issue(tenant, "web")
    key.usd_per_month = 5
    key.save()
    (budget,) = snapshot.check((home / "snapshot.json").read_bytes()).snapshot.tenants[0].keys
    assert (budget.usd_per_day, budget.usd_per_month) == (0, 5)
    page = f"/admin/fleet/gatewaykey/{key.pk}/change/"
    settings.CONFIG = settings.CONFIG.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    assert "Not known: Redis" in owner.get(page).content.decode()
    settings.CONFIG = settings.CONFIG.model_copy(update={"redis_url": redis_url})
    with Redis.from_url(redis_url) as redis:
        redis.hset(key_prefix("shop", key.sha256) + "usd_month", period_of("usd_month", time.time()).name, 1_250_000)
    assert "0.0000 USD today, 1.2500 USD this month" in owner.get(page).content.decode()


def test_a_rotated_key_works_beside_the_new_one_for_a_day(owner: Client, home: Path) -> None:
    tenant = Tenant.objects.create(name="shop", tier=Tier.objects.create(name="standard"))
    old, _ = GatewayKey.objects.issue(tenant, "web")
    old.max_in_flight = 3
    old.save()
    old.only_models.add(LLMModel.objects.create(name="chat"))
    page = owner.post(
        "/admin/fleet/gatewaykey/", {"action": "rotate", "_selected_action": [old.pk]}, follow=True
    ).content.decode()
    new = GatewayKey.objects.exclude(pk=old.pk).get()
    [text] = set(re.findall(rf"{re.escape(new.prefix)}[\w-]{{20,}}", page))
    old.refresh_from_db()
    assert old.expires_at is not None and timezone.now() < old.expires_at <= timezone.now() + ROTATES_WITHIN
    assert (new.name, new.max_in_flight, new.expires_at, new.sha256) == ("web", 3, None, key_digest(text))
    assert [model.name for model in new.only_models.all()] == ["chat"]
    keys = {key.sha256: key for key in snapshot.check((home / "snapshot.json").read_bytes()).snapshot.tenants[0].keys}
    assert set(keys) == {old.sha256, new.sha256} and all(key.models == ("chat",) for key in keys.values())


def test_a_key_whose_only_models_are_deleted_may_use_none(owner: Client, home: Path) -> None:
    """It became a key that may use all of them."""
    tenant = Tenant.objects.create(name="shop", tier=Tier.objects.create(name="standard"))
    models = [LLMModel.objects.create(name=name) for name in ("one", "two", "three")]
    keys = [GatewayKey.objects.issue(tenant, name)[0] for name in ("narrow", "wide", "free")]
    keys[0].only_models.set(models[:2])
    keys[1].only_models.set(models)
    chosen = {"action": "delete_selected", "_selected_action": [model.pk for model in models[:2]], "post": "yes"}
    owner.post("/admin/fleet/llmmodel/", chosen)
    assert [model.name for model in LLMModel.objects.all()] == ["three"]
    assert [GatewayKey.objects.get(pk=key.pk).enabled for key in keys] == [False, True, True]
    published = snapshot.check((home / "snapshot.json").read_bytes()).snapshot.tenants[0]
    known = {*published.key_sha256, *(key.sha256 for key in published.keys)}
    assert known == {keys[1].sha256, keys[2].sha256}


def model_form(**values: str) -> dict[str, str]:
    defaults = {field.name: str(field.get_default()) for field in LLMModel._meta.fields if field.has_default()}
    inline = {
        f"{part}-{name}": "0"
        for part in ("variants", "fallbacks", "regions", "prices")
        for name in ("TOTAL_FORMS", "INITIAL_FORMS")
    }
    return {**defaults, "name": "chat", "team": "", **inline, **values}


def test_a_tokenizer_that_is_a_path_is_refused_with_the_remedy(owner: Client) -> None:
    page = owner.post("/admin/fleet/llmmodel/add/", model_form(tokenizer="../tekken")).content.decode()
    assert (
        "“../tekken” is not the name of a tokenizer: write “tekken”, “server”, “estimate”, or the name of a folder"
        in page
    )
    assert not LLMModel.objects.exists()


def test_an_owner_says_who_shares_cached_answers(owner: Client, pool: Pool, home: Path) -> None:
    url = f"/admin/fleet/llmmodel/{LLMModel.objects.get().pk}/change/"
    assert "learn from an answer" in owner.get(url).content.decode()
    assert owner.post(url, model_form(cache_scope="all")).status_code == 302
    assert snapshot.check((home / "snapshot.json").read_bytes()).snapshot.models[0].cache.scope == "all"
    assert "Select a valid choice" in owner.post(url, model_form(cache_scope="some")).content.decode()


def test_an_owner_has_similar_requests_served_by_another_model_that_embeds(
    owner: Client, pool: Pool, home: Path
) -> None:
    chat = LLMModel.objects.get()
    url, embedder = f"/admin/fleet/llmmodel/{chat.pk}/change/", LLMModel.objects.create(name="embedder")
    assert "Choose the model that makes vectors" in owner.post(url, model_form(semantic_mode="on")).content.decode()
    itself = model_form(semantic_mode="on", semantic_embedder=str(chat.pk))
    assert "Choose another model" in owner.post(url, itself).content.decode()
    chosen = model_form(
        semantic_mode="on", semantic_embedder=str(embedder.pk), semantic_wrong_percent="5", semantic_timely="on"
    )
    across = owner.post(url, chosen | {"semantic_across_tenants": "on"}).content.decode()
    assert "What one tenant calls its own is not another&#x27;s" in across
    assert owner.post(url, chosen).status_code == 302
    published = snapshot.check((home / "snapshot.json").read_bytes()).snapshot
    rule = next(model.cache.semantic for model in published.models if model.name == "chat")
    assert (rule.mode, rule.embedder, rule.wrong_percent, rule.other_words, rule.timely) == (
        "on",
        "embedder",
        5.0,
        False,
        True,
    )


def test_an_owner_reserves_places_and_limits_each_replica(owner: Client, pool: Pool, home: Path) -> None:
    tier = Tier.objects.create(name="premium", priority=1)
    form = {
        "name": "premium",
        "priority": "1",
        "weight": "1",
        **NO_LIMITS,
        "reserved_percent": "15",
        "tokens_per_minute": "60000",
    }
    assert owner.post(f"/admin/fleet/tier/{tier.pk}/change/", form).status_code == 302
    assert SnapshotRevision.objects.latest("version").author == "olga"
    wrong = form | {"reserved_percent": "51", "tokens_per_minute": "-1"}
    page = owner.post(f"/admin/fleet/tier/{tier.pk}/change/", wrong).content.decode()
    assert "Ensure this value is less than or equal to 50" in page and "greater than or equal to 0" in page
    assert 'name="replica_concurrency"' in owner.get(f"/admin/fleet/pool/{pool.pk}/change/").content.decode()
    pool.replica_concurrency = 8
    pool.save()
    document = snapshot.check((home / "snapshot.json").read_bytes()).snapshot
    assert [(tier.reserved_percent, tier.tokens_per_minute) for tier in document.tiers] == [(15, 60_000)]
    assert [pool.replica_concurrency for pool in document.pools] == [8]
    assert SnapshotRevision.objects.latest("version").author == "", "no request is served"


def test_timeouts_and_what_is_done_about_failures_reach_the_gateway(owner: Client, home: Path, pool: Pool) -> None:
    tier, model = Tier.objects.create(name="gold"), pool.variant.model
    given = {**dict.fromkeys(snapshot.StageTimeouts.__struct_fields__, "0"), "queue_ms": "15", "tier": tier.pk}
    for _ in range(2):
        page = owner.post("/admin/fleet/timeoutrule/add/", {**given, "model": model.pk})
    assert "There are timeouts for this model and tier already" in page.content.decode()
    owner.post("/admin/fleet/timeoutrule/add/", given)
    assert 'name="panic_percent"' in owner.get(f"/admin/fleet/llmmodel/{model.pk}/change/").content.decode()
    model.eject_failures, model.panic_percent, model.attempts, model.hedge_output_tokens = 9, 0, 2, 64
    model.save()
    document = snapshot.check((home / "snapshot.json").read_bytes()).snapshot
    assert [(rule.model, rule.tier, rule.queue_ms) for rule in document.timeout_rules] == [
        (model.name, "gold", 15),
        ("", "gold", 15),
    ]
    (served,) = document.pools
    assert (served.ejection.failures, served.ejection.panic_percent, served.retries.attempts) == (9, 0, 2)
    assert document.models[0].hedge_output_tokens == 64


def test_there_is_one_row_of_stage_timeouts(owner: Client) -> None:
    timeouts = dict.fromkeys(snapshot.StageTimeouts.__struct_fields__, "1000")
    owner.post("/admin/fleet/stagetimeouts/add/", timeouts)
    StageTimeouts(cache_ms=5).save()
    assert StageTimeouts.objects.get().cache_ms == 5
    assert owner.get("/admin/fleet/stagetimeouts/add/").status_code == 403


def test_the_index_has_a_group_for_everything(owner: Client) -> None:
    groups = owner.get("/admin/").context["app_list"]
    assert [group["name"] for group in groups] == [group.name for group in GROUPS], "a new model has no group: name one"
