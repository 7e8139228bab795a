"""A fleet with something in every form that people enter, and what gateways would get of the fleet as it is."""

from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from controlplane.core.documents.report import plan_lines
from controlplane.fleet.core.snapshot import render
from controlplane.fleet.files.apply import apply
from controlplane.fleet.files.kinds import KINDS
from controlplane.fleet.files.revisions import write
from controlplane.fleet.models import (
    AllowedRegion,
    Cluster,
    Fallback,
    GuardRule,
    LLMModel,
    Pool,
    Price,
    Region,
    Replica,
    StageTimeouts,
    Team,
    Tenant,
    Tier,
    TimeoutRule,
    TokenIssuer,
    Variant,
    Workload,
)
from controlplane.fleet.snapshot_values import fleet_values
from inference.contract import snapshot
from tests.support.past_the_audit import unrecorded


@transaction.atomic
@unrecorded()
def entered_fleet() -> None:
    """Models `chat` and `org/embed` of team `serving`, and `search` of team `search`."""
    serving, search = (Team.objects.create(name=name) for name in ("serving", "search"))
    eu, us = (Region.objects.create(name=name) for name in ("eu", "us"))
    place = Cluster.objects.create(name="west", namespace="weir")
    Workload.objects.create(cluster=place, kind="gateway", name="weir-gateway", image="weir/gateway:1")
    StageTimeouts.objects.create(queue_ms=900)
    premium, batch = (Tier.objects.create(name=name, priority=at) for at, name in ((1, "premium"), (3, "batch")))
    TimeoutRule.objects.create(tier=batch, queue_ms=60_000)
    embed = LLMModel.objects.create(name="org/embed", team=serving)
    chat = LLMModel.objects.create(
        name="chat", team=serving, semantic_mode="shadow", semantic_embedder=embed, image_hosts=["images.example.com"]
    )
    other = LLMModel.objects.create(name="search", team=search, prompt_version="1")
    TimeoutRule.objects.create(model=chat, first_token_ms=700)
    TimeoutRule.objects.create(model=chat, tier=premium, first_token_ms=300)
    for row in (AllowedRegion(model=chat, region=eu), AllowedRegion(model=chat, region=us)):
        row.save()
    at = datetime(2026, 12, 1, tzinfo=UTC)
    Price.objects.create(model=chat, usd_per_1k_prompt_tokens=0.002, usd_per_1k_output_tokens=1, valid_until=at)
    Price.objects.create(model=chat, usd_per_1k_prompt_tokens=0.001, usd_per_1k_output_tokens=1, valid_from=at)
    pools = []
    for model, name in ((chat, "chat-eu"), (chat, "chat-us"), (embed, "embed-eu"), (other, "search-eu")):
        variant, _ = Variant.objects.get_or_create(name=name.partition("-")[0], model=model)
        region = us if name == "chat-us" else eu
        pool = Pool(name=name, variant=variant, region=region, model_name="m", protocol="openai")
        pool.headers = {"api-key": "secret:hosted"} if name == "chat-us" else {}
        pool.save()
        Replica.objects.create(pool=pool, name=f"{name}-0", url=f"http://{name}:8000/v1")
        pools.append(pool)
    pools[1].cluster, pools[1].workload = place, "chat-us"
    pools[1].save()
    Workload.objects.create(pool=pools[1], kind="vllm", image="vllm/vllm-openai:v1", model_source="org/chat")
    Price.objects.create(pool=pools[1], usd_per_1k_prompt_tokens=0, usd_per_1k_output_tokens=0)
    Fallback.objects.create(model=chat, pool=pools[3], position=2)
    tenant = Tenant.objects.create(name="shop", tier=premium, team=serving)
    AllowedRegion.objects.create(tenant=tenant, region=eu)
    tenant.token_tiers.set([premium, batch])
    Tenant.objects.create(name="reports", tier=batch)
    guard = GuardRule.objects.create(name="no-cards", tenant=tenant, patterns=["card"])
    guard.tiers.set([premium])
    issuer = TokenIssuer.objects.create(
        name="login", issuer="https://login.example.com", audience="weir", jwks_url="https://login.example.com/keys"
    )
    issuer.tenants.set([tenant])


def applied(*texts: str, label: str = "repo", **options: Any) -> tuple[list[str], list[str]]:
    """The lines of the plan, and of the problems."""
    done = apply({"fleet.yaml": "---\n".join(texts)}, label=label, **options)
    write()
    return list(plan_lines(done.steps)), [each.text() for each in done.problems]


@transaction.atomic
def emptied() -> None:
    Workload.objects.all().delete()
    LLMModel.objects.filter(semantic_embedder__isnull=False).delete()
    for kind in reversed(KINDS.values()):
        kind.table._default_manager.all().delete()


def as_gateways_get_it() -> bytes:
    """The snapshot of the fleet as it is now, but for its number."""
    return snapshot.encode(render(fleet_values(), version=1))
