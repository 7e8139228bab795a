"""Pools of model servers in the admin, and what the snapshot has of them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import Client
from django.utils import timezone

from controlplane.fleet import choices
from controlplane.fleet.models import (
    Fallback,
    GatewayKey,
    LLMModel,
    Observation,
    Pool,
    Price,
    Region,
    Replica,
    Tenant,
    Tier,
    Variant,
)
from controlplane.fleet.publish import publish
from controlplane.telemetry.ingest.scrape.targets import of_fleet
from inference.contract import snapshot
from inference.contract.snapshot import Checked, check

pytestmark = pytest.mark.django_db(transaction=True)

MAPPING = {
    "inputs": [{"name": "text_input", "datatype": "BYTES", "value": "prompt"}],
    "outputs": [{"name": "text_output", "datatype": "BYTES", "value": "text"}],
}


@pytest.fixture
def variant(home: Path) -> Variant:
    with transaction.atomic():
        Region.objects.create(name="local")
        return Variant.objects.create(name="chat-8b", model=LLMModel.objects.create(name="chat", tokenizer="estimate"))


def _typed(default: object) -> str:
    """What the form has in a field as a browser shows it: 0 is a value, and a box that is not ticked is none."""
    return "" if default is None or default is False else str(default)


def pool_form(variant: Variant, *replicas: dict[str, str], **values: str) -> dict[str, str]:
    defaults = {
        field.name: _typed(field.get_default()) for field in Pool._meta.fields if field.has_default() and field.editable
    }
    form = {
        **defaults,
        "name": "near",
        "variant": str(variant.pk),
        "region": str(Region.objects.get().pk),
        "enabled": "on",
        "model_name": "meta-llama/Llama-3.1-8B",
        "tls_enabled": "",
        "replicas-TOTAL_FORMS": str(len(replicas)),
        "prices-TOTAL_FORMS": "0",
        "prices-INITIAL_FORMS": "0",
        "replicas-INITIAL_FORMS": "0",
        **values,
    }
    for number, replica in enumerate(replicas):
        fields = {"name": f"r{number}", "enabled": "on", **replica}
        form |= {f"replicas-{number}-{name}": value for name, value in fields.items()}
    return form


def new_pool(variant: Variant, **values: Any) -> Pool:
    region = Region.objects.get()
    return Pool(**{"name": "near", "variant": variant, "region": region, "model_name": "chat"} | values)


def problems(row: Pool | Replica) -> dict[str, str]:
    """By field, as a form shows them."""
    with pytest.raises(ValidationError) as caught:
        row.full_clean()
    return {field: " ".join(messages) for field, messages in caught.value.message_dict.items()}


def in_force(home: Path) -> Checked:
    return check((home / "snapshot.json").read_bytes())


def test_a_pool_of_openai_servers_is_entered_in_one_form(owner: Client, variant: Variant, home: Path) -> None:
    form = pool_form(
        variant,
        {"url": "http://10.0.0.7:8000/v1"},
        {"url": "https://models.example.com/openai/v1/", "metrics": "http://10.0.0.8:9000/stats"},
        protocol="openai",
        server="vllm",
        credential="hosted-api",
        tls_ca="company.pem",
        tls_server_name="models.internal",
    )
    response = owner.post("/admin/fleet/pool/add/", form)
    assert response.status_code == 302, response.context["errors"]
    document, faults, *_ = in_force(home)
    (pool,) = document.pools
    assert not faults
    assert (pool.protocol, pool.server, pool.credential) == ("openai", "vllm", "hosted-api")
    assert pool.tls == snapshot.Tls(ca="company.pem", server_name="models.internal")
    assert [(one.url, one.grpc, one.metrics) for one in pool.endpoints] == [
        ("http://10.0.0.7:8000/v1", "", ""),
        ("https://models.example.com/openai/v1", "", "http://10.0.0.8:9000/stats"),
    ]


def test_a_warm_up_is_entered_with_its_pool(owner: Client, variant: Variant, home: Path) -> None:
    form = pool_form(
        variant,
        {"grpc": "10.0.0.7:8001"},
        warm_up_requests="3",
        warm_up_prompt="Count to ten.",
        warm_up_tokens="16",
        warm_up_within_s="120",
    )
    response = owner.post("/admin/fleet/pool/add/", form)
    assert response.status_code == 302, response.context["errors"]
    assert in_force(home).snapshot.pools[0].warm_up == snapshot.WarmUp(3, "Count to ten.", 16, 120)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("warm_up_requests", "101", "less than or equal to 100"),
        ("warm_up_tokens", "0", "greater than or equal to 1"),
        ("warm_up_within_s", "3601", "less than or equal to 3600"),
        ("warm_up_prompt", "", "This field cannot be blank"),
    ],
)
@pytest.mark.django_db
def test_a_warm_up_without_bounds_is_refused(variant: Variant, field: str, value: str, says: str) -> None:
    assert says in problems(new_pool(variant, **{field: value}))[field]


@pytest.mark.parametrize(
    ("replica", "says"),
    [
        ({"grpc": "10.0.0.7:8001"}, "write it, such as http://10.0.0.7:8000/v1"),
        ({}, "write it, such as http://10.0.0.7:8000/v1"),
        ({"url": "10.0.0.7:8000/v1"}, "does not begin with http://"),
        ({"url": "http://10.0.0.7:8000"}, "has no path: write the base of the API, such as http://10.0.0.7:8000/v1"),
        (
            {"url": "http://me:secret@10.0.0.7:8000/v1"},
            "carries a user or password: leave it out, and name a credential",
        ),
        ({"url": "http://10.0.0.7:8000/v1?api-key=1"}, "looks like a secret: leave it out, and name a credential"),
        ({"url": "http://10.0.0.7:8000/v1#x"}, "has a fragment or white space"),
        ({"url": "http://10.0.0.7:99999/v1"}, "is not a URL"),
        ({"url": "http://169.254.169.254/v1"}, "is a link-local address, where clouds have their metadata"),
        ({"url": "http://10.0.0.7:8000/v1", "metrics": "ftp://10.0.0.7/m"}, "does not begin with http://"),
    ],
)
@pytest.mark.django_db
def test_a_replica_that_cannot_be_reached_so_is_refused_with_the_remedy(
    variant: Variant, replica: dict[str, str], says: str
) -> None:
    pool = new_pool(variant, protocol="openai")
    pool.save()
    assert says in " ".join(problems(Replica(pool=pool, name="r0", **replica)).values())


def test_a_replica_is_checked_with_its_pool_and_its_secret_is_not_said(owner: Client, variant: Variant) -> None:
    form = pool_form(variant, {"url": "http://me:secret@10.0.0.7:8000/v1"}, protocol="openai")
    page = owner.post("/admin/fleet/pool/add/", form).content.decode()
    assert "carries a user or password: leave it out, and name a credential" in page
    assert "secret@" not in page.replace('value="http://me:secret@', "")
    assert not Pool.objects.exists()


def test_a_triton_needs_its_grpc_address(owner: Client, variant: Variant) -> None:
    page = owner.post("/admin/fleet/pool/add/", pool_form(variant, {"url": "http://a:1/v1"})).content.decode()
    assert "are reached by this: write it, such as 10.0.0.7:8001" in page


def test_a_form_shows_what_fits_the_protocol(owner: Client, variant: Variant, home: Path) -> None:
    owner.post("/admin/fleet/pool/add/", pool_form(variant, {"grpc": "a:8001", "http": "a:8000"}))
    url = f"/admin/fleet/pool/{Pool.objects.get().pk}/change/"
    assert "replicas-0-grpc" in (page := owner.get(url).content.decode()) and "replicas-0-url" not in page
    row = {"replicas-INITIAL_FORMS": "1", "replicas-0-id": str(Replica.objects.get().pk)}
    moved = pool_form(variant, {}, protocol="openai") | row
    assert "replicas-0-url" in (page := owner.post(url, moved).content.decode()) and "replicas-0-grpc" not in page
    assert "write it, such as http://10.0.0.7:8000/v1" in page
    assert owner.post(url, moved | {"replicas-0-url": "http://a:8000/v1"}).status_code == 302
    replica = Replica.objects.get()
    assert (replica.url, replica.grpc, replica.http) == ("http://a:8000/v1", "", "")
    page = owner.get(f"/admin/fleet/replica/{replica.pk}/change/").content.decode()
    assert 'name="url"' in page and 'name="grpc"' not in page


def test_the_list_of_replicas_shows_which_servers_they_are(owner: Client, variant: Variant) -> None:
    owner.post(
        "/admin/fleet/pool/add/",
        pool_form(variant, {"url": "http://a:8000/v1"}, {"url": "http://b:8000/v1"}, protocol="openai"),
    )
    about = {"kind": "vllm", "version": "0.32.0", "models": ["tiny"]}
    Observation.objects.create(
        component="near/r0", kind="replica", state="down", error="wrong model", about=about, observed_at=timezone.now()
    )
    page = owner.get("/admin/fleet/replica/").content.decode()
    for text in ("http://a:8000/v1", "vLLM 0.32.0, with tiny", "down: wrong model", "not seen yet"):
        assert text in page


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"signature": "mapping"}, "The signature needs a mapping"),
        ({"mapping": {"inputs": []}}, "missing required field `outputs`"),
        ({"mapping": {**MAPPING, "inputs": []}}, "has no input with the value 'prompt'"),
        ({"mapping": {**MAPPING, "outputs": []}}, "has no output with the value 'text'"),
        ({"credential": "../../etc/passwd"}, "The secret itself is not entered here"),
        ({"tls_ca": "/etc/ca.pem"}, "is not a name"),
        ({"tls_server_name": "https://models"}, "without scheme and port"),
        ({"signature": "vlm"}, "is not a valid choice"),
    ],
)
@pytest.mark.django_db
def test_what_a_pool_cannot_be_is_named_with_the_remedy(variant: Variant, values: dict[str, Any], says: str) -> None:
    assert says in " ".join(problems(new_pool(variant, **values)).values())


def test_a_mapping_reaches_the_snapshot(owner: Client, variant: Variant, home: Path) -> None:
    constant = {"name": "top_k", "datatype": "INT32", "value": "constant", "constant": "40"}
    mapping = {**MAPPING, "inputs": [*MAPPING["inputs"], constant]}
    form = pool_form(variant, {"grpc": "a:8001"}, signature="mapping", mapping=json.dumps(mapping), tls_enabled="on")
    assert owner.post("/admin/fleet/pool/add/", form).status_code == 302
    (pool,) = in_force(home).snapshot.pools
    assert pool.mapping is not None
    assert [tensor.value for tensor in pool.mapping.inputs] == ["prompt", "constant"]
    assert pool.tls.enabled
    Pool.objects.update(mapping={"inputs": 3})  # as only a program can
    publish()
    with pytest.raises(snapshot.SnapshotError, match="pool 'near': signature 'mapping' needs `mapping`"):
        in_force(home)


def pools(*names: str) -> list[Pool]:
    region, made = Region.objects.get(), []
    for name in names:
        model = name.partition("-")[0]
        variant = Variant.objects.filter(name=model).first() or Variant.objects.create(
            name=model, model=LLMModel.objects.get_or_create(name=model)[0]
        )
        pool = Pool.objects.create(name=name, variant=variant, region=region, model_name=model)
        Replica.objects.create(pool=pool, name="r0", grpc=f"{name}:8001")
        made.append(pool)
    return made


def test_fallbacks_follow_the_routes_in_their_order(variant: Variant, home: Path) -> None:
    large, spare, small = pools("large-near", "large-spare", "small-near")
    model = LLMModel.objects.get(name="large")
    Fallback.objects.create(model=model, pool=small, position=2)
    Fallback.objects.create(model=model, pool=spare, position=1)
    served = {one.name: one for one in in_force(home).snapshot.models}["large"]
    assert [route.pool for route in served.routes] == ["large-near"]
    assert served.fallbacks == ("large-spare", "small-near")
    small.enabled = False
    small.save()
    served = {one.name: one for one in in_force(home).snapshot.models}["large"]
    assert served.fallbacks == ("large-spare",)
    large.delete()
    served = {one.name: one for one in in_force(home).snapshot.models}["large"]
    assert [route.pool for route in served.routes] == ["large-spare"]


def test_a_key_has_limits_and_rights_of_its_own(variant: Variant, home: Path) -> None:
    tenant = Tenant.objects.create(name="shop", tier=Tier.objects.create(name="standard", weight=3, max_in_flight=20))
    plain, _ = GatewayKey.objects.issue(tenant, "plain")
    narrow, _ = GatewayKey.objects.issue(tenant, "narrow")
    edge, _ = GatewayKey.objects.issue(tenant, "edge")
    GatewayKey.objects.filter(pk=narrow.pk).update(requests_per_minute=60, max_in_flight=2)
    GatewayKey.objects.filter(pk=edge.pk).update(names_region=True, expires_at=datetime.fromtimestamp(1.5, UTC))
    edge.only_models.add(variant.model)
    publish()
    document = in_force(home).snapshot
    assert document.tenants[0].key_sha256 == (plain.sha256,)
    assert set(document.tenants[0].keys) == {
        snapshot.Key(narrow.sha256, requests_per_minute=60, max_in_flight=2),
        snapshot.Key(edge.sha256, names_region=True, models=(variant.model.name,), expires_ms=1_500),
    }
    assert (document.tiers[0].weight, document.tiers[0].max_in_flight) == (3, 20)


def test_the_closest_price_counts_and_of_equals_the_one_that_began_last(variant: Variant, home: Path) -> None:
    region = Region.objects.create(name="edge")
    pool = Pool.objects.create(name="edge", variant=variant, region=region, model_name="m")
    for of, usd, since_s in (
        ({"model": variant.model}, 1.0, None),
        ({"variant": variant}, 2.0, 10),
        ({"variant": variant}, 3.0, 20),
        ({"pool": pool}, 4.0, 30),
    ):
        since = datetime.fromtimestamp(since_s, UTC) if since_s else None
        Price.objects.create(**of, usd_per_1k_prompt_tokens=usd, usd_per_1k_output_tokens=usd, valid_from=since)
    publish()
    [served] = in_force(home).snapshot.pools
    assert [(price.usd_per_1k_prompt_tokens, price.from_ms) for price in served.prices] == [
        (4.0, 30_000),
        (3.0, 20_000),
        (2.0, 10_000),
        (1.0, 0),
    ]


def test_metrics_are_scraped_where_each_kind_of_server_has_them(variant: Variant, home: Path) -> None:
    """Of each pool, named as its only server's host: what is entered of it, and the URL."""
    triton = {"protocol": "triton"}
    cases: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
        "vllm": ({"server": "vllm"}, {}, "http://vllm:8000/metrics"),
        "trtllm": ({"server": "trtllm"}, {}, "http://trtllm:8000/prometheus/metrics"),
        "other": ({"server": "other"}, {}, ""),
        "unknown": ({}, {}, ""),
        "found-other": ({}, {}, ""),
        "found-trtllm": ({}, {}, "http://found-trtllm:8000/prometheus/metrics"),
        "deeper": ({"server": "vllm"}, {"url": "https://deeper/a/v1"}, "https://deeper:443/a/metrics"),
        "entered": ({"server": "other"}, {"metrics": "10.0.0.7:9100"}, "http://10.0.0.7:9100/metrics"),
        "triton": (triton, {"grpc": "triton:8001", "url": ""}, ""),
        "triton-entered": (triton, {"grpc": "b:8001", "url": "", "metrics": "b:8002"}, "http://b:8002/metrics"),
    }
    with transaction.atomic():
        for name, (of_pool, of_replica, _) in cases.items():
            pool = new_pool(variant, **{"name": name, "protocol": "openai"} | of_pool)
            pool.save()
            Replica.objects.create(pool=pool, name="r0", **{"url": f"http://{name}:8000/v1"} | of_replica)
            if kind := name.partition("found-")[2]:
                Observation.objects.create(
                    component=f"{name}/r0", kind="replica", state="up", observed_at=timezone.now(), about={"kind": kind}
                )
    urls = {target.labels["pool"]: target.url for target in of_fleet(home) if target.job == "replica"}
    assert urls == {name: url for name, (_, _, url) in cases.items() if url}
    entered = {pool.name: pool.endpoints[0].metrics for pool in in_force(home).snapshot.pools}
    assert entered == {name: url if "entered" in name else "" for name, (_, _, url) in cases.items()}, (
        "a gateway finds out the rest"
    )


def test_every_choice_has_words() -> None:
    for listed in (
        choices.protocols,
        choices.signatures,
        choices.servers,
        choices.tool_parsers,
        choices.reasoning_parsers,
        choices.unknown_parameters,
    ):
        assert [value for value, words in listed() if not words or (value == words and "_" in value)] == []
