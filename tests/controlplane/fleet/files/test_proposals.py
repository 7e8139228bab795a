"""The way back: any state of the fleet that was in force comes back, what was revoked does not, and who has to agree is asked."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import ProtectedError

from controlplane.accounts import rights
from controlplane.accounts.core.actions import APPROVE_FLEET, EDIT_FLEET, REVIEW_FLEET
from controlplane.fleet.files import revisions
from controlplane.fleet.files.proposals import bring_back, outlook, propose, take
from controlplane.fleet.models import (
    AllowedRegion,
    Fallback,
    FleetProposal,
    FleetRevision,
    GatewayKey,
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
)
from tests.support.entered_fleet import as_gateways_get_it, entered_fleet
from tests.support.soak import sized
from tests.support.web.people import member

pytestmark = pytest.mark.django_db


def _next() -> int | None:
    """What was changed until now is committed, as far as revisions know: the number of its revision."""
    made = revisions.write()
    transaction.get_connection().run_on_commit.clear()
    return made.number if made else None


def brought_back(number: int, **options: Any) -> FleetProposal:
    made = bring_back(number, who="ann", **options)
    return take("activate", made.pk, "ann", rights.unguarded)


def previewed(proposal: FleetProposal) -> None:
    """As the job of the worker leaves it."""
    FleetProposal.objects.filter(pk=proposal.pk).update(preview={"plan": outlook(proposal).digest})


def changed(seed: random.Random) -> None:
    """One change of anything that gateways obey, as a form or a command makes it."""
    pool: Any
    model: Any
    tier: Any
    pool, model, tier = (seed.choice(rows.order_by("pk")) for rows in (Pool.objects, LLMModel.objects, Tier.objects))
    name = f"n{seed.randrange(10**9)}"

    def set_to(row: Any, field: str, value: Any) -> None:
        setattr(row, field, value)
        row.save()

    def made() -> None:
        variant = Variant.objects.create(name=name, model=LLMModel.objects.create(name=name, team=model.team))
        row = Pool.objects.create(name=name, variant=variant, region=pool.region, model_name="m", protocol="openai")
        Replica.objects.create(pool=row, name="a", url="http://a:1/v1")

    def priced() -> None:
        usd, at = seed.randrange(9), datetime(2026, 12, seed.randrange(1, 4), tzinfo=UTC)
        Price.objects.create(pool=pool, usd_per_1k_prompt_tokens=usd, usd_per_1k_output_tokens=1, valid_from=at)

    changes: list[Callable[[], Any]] = [
        lambda: set_to(pool, "weight", seed.randrange(100)),
        lambda: set_to(pool, "enabled", not pool.enabled),
        lambda: set_to(pool, "name", name),
        lambda: set_to(pool, "variant", seed.choice(Variant.objects.order_by("pk"))),
        lambda: set_to(model, "prompt_version", str(seed.randrange(50))),
        lambda: set_to(model, "cache_ttl_s", seed.randrange(1, 900)),
        lambda: set_to(model, "name", name),
        lambda: set_to(tier, "priority", seed.randrange(1, 9)),
        lambda: set_to(tier, "name", name),
        lambda: set_to(StageTimeouts.objects.get(), "queue_ms", seed.randrange(1, 9000)),
        lambda: set_to(seed.choice(Region.objects.order_by("pk")), "name", name),
        lambda: Tenant.objects.create(name=name, tier=tier),
        lambda: seed.choice(Tenant.objects.order_by("pk")).delete(),
        lambda: Tier.objects.create(name=name, priority=2),
        lambda: tier.delete(),
        lambda: model.delete(),
        lambda: pool.delete(),
        lambda: Fallback.objects.get_or_create(model=model, pool=pool),
        lambda: TimeoutRule.objects.get_or_create(model=model, tier=tier, defaults={"queue_ms": 5}),
        lambda: AllowedRegion.objects.get_or_create(model=model, region=pool.region),
        lambda: AllowedRegion.objects.filter(model=model).first().delete(),  # type: ignore[union-attr]
        lambda: Price.objects.filter(pool=pool).first().delete(),  # type: ignore[union-attr]
        made,
        priced,
    ]
    with transaction.atomic():
        seed.choice(changes)()


def test_any_state_that_was_in_force_comes_back_to_the_byte(home: Path) -> None:
    """Seeded histories of changes; after every few of them a random revision comes back, and is a revision itself."""
    seed, back = random.Random(25), 0
    entered_fleet()
    TokenIssuer.objects.all().delete()  # what lets callers in stays as it is
    states = {_next(): as_gateways_get_it()}
    while back < sized(short=3, soak=1000):
        for _ in range(3):
            try:
                changed(seed)
            except (ProtectedError, IndexError, AttributeError):  # there is no such thing to change just now
                continue
            states[_next()] = as_gateways_get_it()
        states.pop(None, None)  # nothing was changed
        number = seed.choice([each for each in states if each][-40:])
        assert number
        try:
            brought_back(number)
        except ValidationError as error:
            assert "is like that already" in str(error), error
            assert as_gateways_get_it() == states[number]
            continue
        back += 1
        assert as_gateways_get_it() == states[number], number
        newest = _next()
        assert FleetRevision.objects.get(number=newest).restores == number
        states[newest] = as_gateways_get_it()


def test_what_was_revoked_does_not_come_back(home: Path) -> None:
    entered_fleet()
    shop = Tenant.objects.get(name="shop")
    key, _ = GatewayKey.objects.issue(shop, "web")
    first = _next()
    key.delete()
    TokenIssuer.objects.all().delete()
    again = LLMModel.objects.get(name="chat")
    again.prompt_version, again.cache_purges = "2", 3
    again.save()
    _next()
    assert first
    back = brought_back(first, note="It was better").revision
    assert back and (back.author, back.note, back.restores) == ("ann", "It was better", first)
    again.refresh_from_db()
    assert (again.prompt_version, again.cache_purges) == ("1", 3)
    assert not GatewayKey.objects.exists() and not TokenIssuer.objects.exists()


def test_teams_stay_as_they_are_and_come_back_where_they_are_missing(home: Path) -> None:
    entered_fleet()
    first = _next()
    Team.objects.filter(name="search").delete()
    Team.objects.create(name="later")
    serving = Team.objects.get(name="serving")
    serving.requires_approval = True
    serving.save()
    _next()
    assert first
    brought_back(first)
    assert LLMModel.objects.get(name="search").team == Team.objects.get(name="search")
    assert Team.objects.filter(name="later").exists()
    serving.refresh_from_db()
    assert serving.requires_approval, "no way back around an approval"


def test_a_team_brings_back_what_is_its_own(home: Path) -> None:
    entered_fleet()
    first = _next()
    for name in ("chat", "search"):
        model = LLMModel.objects.get(name=name)
        model.prompt_version = "9"
        model.save()
    _next()
    assert first
    rita = member("rita", "owner", team="serving")
    whole = bring_back(first, who="rita")
    with pytest.raises(PermissionDenied, match="search"):
        take("activate", whole.pk, "rita", rights.guard(rita, EDIT_FLEET))
    mine = bring_back(first, who="rita", team="serving")
    take("activate", mine.pk, "rita", rights.guard(rita, EDIT_FLEET))
    assert [LLMModel.objects.get(name=name).prompt_version for name in ("chat", "search")] == ["1", "9"]


def test_another_person_approves_where_the_team_wants_that(home: Path) -> None:
    entered_fleet()
    Team.objects.filter(name="serving").update(requires_approval=True)
    _next()
    text = "apiVersion: weir/v1\nkind: Variant\nmetadata: {name: chat}\nspec: {model: chat, description: new}\n"
    made = propose(text, author="rita", note="say what it is", label="repo")
    rita, abe = member("rita", "owner", "approver", team="serving"), member("abe", "approver", team="serving")
    edits, approves = rights.guard(rita, EDIT_FLEET), rights.guard(rita, APPROVE_FLEET)
    seen = outlook(made)
    assert (seen.approval, seen.gateways) == (("serving",), "")
    with pytest.raises(ValidationError, match="serving wants another person's approval, and this is draft"):
        take("activate", made.pk, "rita", edits)
    with pytest.raises(PermissionDenied, match="that 'rita' proposed"):
        take("approve", made.pk, "rita", approves)
    with pytest.raises(PermissionDenied):
        take("activate", made.pk, "abe", rights.guard(abe, EDIT_FLEET))
    approve = partial(take, "approve", made.pk, "abe", rights.guard(abe, APPROVE_FLEET))
    with pytest.raises(ValidationError, match="preview it first"):
        approve()
    previewed(made)
    approve()
    variant = Variant.objects.get(name="chat")
    variant.description = "changed since"
    variant.save()
    with pytest.raises(ValidationError, match="have it approved again"):
        take("activate", made.pk, "rita", edits)
    with pytest.raises(ValidationError, match="preview it first"):
        approve()
    previewed(made)
    approve()
    another = propose(text.replace("new", "old"), author="rita", note="or this", label="repo")
    with pytest.raises(PermissionDenied):
        take("retire", another.pk, "vera", rights.guard(member("vera", "viewer", team="serving"), REVIEW_FLEET))
    take("retire", another.pk, "abe", rights.guard(abe, REVIEW_FLEET), "not so")
    assert [(each.what, each.who, each.note) for each in another.events.all()] == [
        ("retired", "abe", "not so"),
        ("proposed", "rita", "or this"),
    ]
    done = take("activate", made.pk, "rita", edits)
    assert done.revision and (done.revision.author, done.revision.note) == ("rita", "say what it is")
    assert Variant.objects.get(name="chat").description == "new"
    with pytest.raises(ValidationError, match="it is active"):
        take("retire", made.pk, "rita", edits)


def test_a_proposal_says_what_gateways_would_obey(home: Path) -> None:
    entered_fleet()
    _next()
    text = (
        "apiVersion: weir/v1\nkind: Tier\nmetadata: {name: batch}\nspec: {priority: 5, timeouts: {queue_ms: 60000}}\n"
    )
    made = propose(text, author="ann", note="", label="repo")
    assert outlook(made).gateways == "tier batch: priority 3 → 5"
    assert Tier.objects.get(name="batch").priority == 3
    with pytest.raises(ValidationError, match="nothing to change"):
        propose(text.replace("5, ", "3, "), author="ann", note="")
    with pytest.raises(ValidationError, match="is no field"):
        propose(text.replace("priority", "prio"), author="ann", note="")
