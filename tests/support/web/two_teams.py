"""Two teams that each own one of everything, and a person of each role in the first one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.utils import timezone

from controlplane.accounts.core.rule import ROLES
from controlplane.fleet.models import (
    CachePurge,
    Fallback,
    FleetProposal,
    GatewayKey,
    LLMModel,
    Pool,
    Price,
    Region,
    Replica,
    Team,
    Tenant,
    Tier,
    TimeoutRule,
    Variant,
)  # fmt: skip
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint
from controlplane.lane.models import Batch
from controlplane.planning.models import PlanJob, PlannedEvent, PoolCapacity
from controlplane.policy.models import Override, Pause
from controlplane.policy.revisions import steps
from controlplane.slo.models import Maintenance, StoredObjective
from tests.support.policy.people_and_texts import scaling
from tests.support.web.people import member

DESCRIBED = (
    "apiVersion: weir/v1\nkind: Variant\nmetadata: {name: TEAM-variant}\nspec: {model: TEAM-model, description: new}\n"
)
MINE, THEIRS = "serving", "search"
PEOPLE = ("nobody", "tenant", *ROLES, "administrator")
"""Each by what the person is in MINE; nobody has no role at all, and tenant is of its tenant."""


@dataclass(frozen=True)
class World:
    people: dict[str, User]
    of: dict[str, dict[str, Any]]
    home: Path
    clients: dict[str, Client]
    """Of the people, logged in once for all rows: that costs as much as a request."""

    def user(self, person: str) -> User:
        """As a request would read it: nothing is known of his roles yet."""
        return User.objects.get(pk=self.people[person].pk)


@contextmanager
def taken_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def people() -> dict[str, User]:
    made = {role: member(role, role, team=MINE) for role in ROLES}
    member("other", team=THEIRS)
    made |= {name: User.objects.create_user(name) for name in ("nobody", "tenant")}
    made["administrator"] = User.objects.create_superuser("ada")
    User.objects.update(password="of no hasher")  # they have one, as people with a local log-in do
    return made


def belongings(team: str) -> dict[str, Any]:
    """One of everything of the team, by the name of its model."""
    owner, _ = Team.objects.get_or_create(name=team)
    now = timezone.now()
    lasts = {"starts_at": now, "ends_at": now + timedelta(hours=9)}
    tier, _ = Tier.objects.get_or_create(name="batch")
    region, _ = Region.objects.get_or_create(name="eu")
    model = LLMModel.objects.create(name=f"{team}-model", team=owner)
    variant = Variant.objects.create(name=f"{team}-variant", model=model)
    pool = Pool.objects.create(name=f"{team}-pool", variant=variant, region=region, model_name="m")
    tenant = Tenant.objects.create(name=f"{team}-tenant", tier=tier, team=owner)
    objective = StoredObjective.objects.create(
        slug=f"{team}-objective", name=team, owner=owner, target=0.9, indicator_kind="availability"
    )
    maintenance = Maintenance.objects.create(name=team, start="2026-11-22T02:00:00", reason="patches")
    maintenance.objectives.add(objective)
    destination = Destination.objects.create(
        name=f"{team}-hook",
        kind="webhook",
        endpoint=Endpoint.objects.at("webhook", f"https://{team}.example/", ""),
        team=owner,
    )
    policy = steps.propose(scaling(name=f"{team}-policy", pool=pool.name), who="author", source="admin").revision
    steps.activate(policy, "author")
    revision = steps.propose(scaling(6, name=f"{team}-policy", pool=pool.name), who="author", source="admin").revision
    type(revision).objects.filter(pk=revision.pk).update(state="previewed")
    return {
        "model": model, "variant": variant, "pool": pool, "tenant": tenant, "objective": objective, "maintenance": maintenance,
        "destination": destination, "revision": revision,
        "replica": Replica.objects.create(name=f"{team}-0", pool=pool, grpc=f"{team}:8001"),
        "fallback": Fallback.objects.create(model=model, pool=pool),
        "price": Price.objects.create(model=model, usd_per_1k_prompt_tokens=1, usd_per_1k_output_tokens=1),
        "purge": CachePurge.objects.create(model=model, prompt_version="1"),
        "timeout": TimeoutRule.objects.create(model=model),
        "key": GatewayKey.objects.issue(tenant, "shop")[0],
        "proposal": FleetProposal.objects.create(
            text=DESCRIBED.replace("TEAM", team), note="say what it is", author="author", label="files"
        ),
        "incident": Incident.objects.create(
            alert_key=team, notice_key=team, severity="page", opened_at=now, owner=team, runbook_text="1. Look", group=team
        ),
        "silence": SilenceRecord.objects.create(matchers=[f"owner={team}"], author="author", reason="test", **lasts),
        "delivery": Delivery.objects.create(
            destination=destination, endpoint=destination.endpoint, key=team, sequence=1, action="trigger", is_page=True, notice={}
        ),
        "batch": Batch.objects.create(
            name=f"{team}-batch", tenant=tenant.name, status="in_progress", created_at=now, expires_at=lasts["ends_at"]
        ),
        "event": PlannedEvent.objects.create(name=team, kind="launch", start=now, duration_s=600, model=model.name),
        "capacity": PoolCapacity.objects.create(pool=pool),
        "job": PlanJob.objects.create(kind="refresh", state="done"),
        "pause": Pause.objects.create(scope="pool", target=pool.name, author="author", reason="test", **lasts),
        "override": Override.objects.create(pool=pool.name, replicas=2, author="author", reason="test", **lasts),
    }  # fmt: skip
