"""Sets up an installation, and is safe to repeat: administrator, API token, gateway keys, fleet, first objectives and policies, snapshot.

Each secret is in one file of WEIR_HOME. A later run keeps it. Where the file is lost a new secret is issued, because only a
digest of the old one is stored. A secret that an owner has revoked stays revoked.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth.models import User
from django.db import transaction

from controlplane.accounts.core.rule import ROLES
from controlplane.accounts.core.scopes import EVERYDAY
from controlplane.accounts.models import TOKEN_PREFIX, ApiToken, BreakGlass, Membership
from controlplane.config.secrets import new_secret, read_secret, write_secret
from controlplane.fleet import seed
from controlplane.fleet.models import GatewayKey, StageTimeouts, Tenant, Tier
from controlplane.fleet.models.traffic import KEY_PREFIX
from controlplane.fleet.publish import publish
from controlplane.planning import seed as capacities
from controlplane.policy import seed as policies
from controlplane.slo import seed as objectives

ADMIN = "admin"
TIERS = {"premium": 1, "standard": 2, "batch": 3}
"""Priority by name."""
DEMO_RESERVE = {"premium": 15}
"""Reserved places by tier, percent: one of the six places that the demo's pools have, two of nine."""


@dataclass(frozen=True, slots=True)
class DemoTenant:
    name: str
    tier: str
    key_file: str


TENANTS = (
    DemoTenant("demo", "standard", "gateway-key"),
    DemoTenant("demo-premium", "premium", "gateway-key-premium"),
    DemoTenant("demo-batch", "batch", "gateway-key-batch"),
)


def bootstrap(
    home: Path,
    fleet_file: Path | None,
    demo: bool = False,
    policy_texts: Mapping[str, str] | None = None,
) -> list[str]:
    """Create what is missing, and return a line for each thing done; secrets are named by their file. `demo` adds tenants with keys, and a
    person of each role.
    `policy_texts` are by file, which come into force where there was no policy of their name yet, and the fleet has what they name.

    Raises seed.SeedError, policies.PoliciesError.
    """
    sown = seed.read(fleet_file) if fleet_file else None
    with transaction.atomic():
        done = [*_admin(home), *_api_token(home), *_tiers(demo), *(_tenants(home) if demo else [])]
        if sown:
            done += seed.apply_seed(sown)
            done += capacities.create_missing(pool for model in sown.models for pool in model.pools)
        done += _people(home) if demo else []
        done += objectives.make_first_objectives()
        done += policies.create_missing(policy_texts or {})
    revision = publish()
    return [*done, f"policy snapshot is at version {revision.version}"]


def _secret(path: Path, prefix: str = "") -> tuple[str, bool]:
    """The file's secret and whether it is new."""
    secret = read_secret(path)
    if secret:
        if os.access(path, os.W_OK):  # else it is mounted, as Kubernetes does with secrets
            path.chmod(0o600)
        return secret, False
    secret = new_secret(prefix)
    write_secret(path, secret)
    return secret, True


def _admin(home: Path) -> list[str]:
    path = home / "admin-password"
    password, is_new = _secret(path)
    user = User.objects.filter(username=ADMIN).first()
    if user is None:
        admin = User.objects.create_superuser(ADMIN, password=password)
        BreakGlass.objects.create(user=admin, reason=f"made by bootstrap; its password is {path.name} in WEIR_HOME")
        return [f"made user {ADMIN!r}, its password is in {path}"]
    if not is_new:
        return []  # the owner may have changed the password
    user.set_password(password)
    user.save(update_fields=["password"])
    return [f"gave user {ADMIN!r} a new password, it is in {path}"]


def _api_token(home: Path) -> list[str]:
    path = home / "api-token"
    text, _ = _secret(path, TOKEN_PREFIX)
    _, made = ApiToken.objects.adopt(User.objects.get(username=ADMIN), path.name, text, EVERYDAY)
    return [f"made an API token, it is in {path}"] if made else []


def _people(home: Path) -> list[str]:
    """A person of each role, called by it, in the team that owns what comes with the set-up; unless somebody is in a team already."""
    if Membership.objects.exists() or User.objects.filter(username__in=ROLES).exists():
        return []
    path = home / "demo-password"
    password, _ = _secret(path)
    team = seed.first_team()
    for role in ROLES:
        Membership.objects.create(team=team, user=User.objects.create_user(role, password=password), role=role)
    return [f"made users {', '.join(ROLES)} of team {team}, their password is in {path}"]


def _tiers(demo: bool) -> list[str]:
    StageTimeouts.objects.get_or_create(pk=StageTimeouts.ONLY)
    reserve = DEMO_RESERVE if demo else {}
    made = [
        name
        for name, priority in TIERS.items()
        if Tier.objects.get_or_create(
            name=name, defaults={"priority": priority, "reserved_percent": reserve.get(name, 0)}
        )[1]
    ]
    return [f"made tier {name}" for name in made]


def _tenants(home: Path) -> list[str]:
    done = []
    for demo in TENANTS:
        path = home / demo.key_file
        text, _ = _secret(path, KEY_PREFIX)
        tenant, made_tenant = Tenant.objects.get_or_create(
            name=demo.name, defaults={"tier": Tier.objects.get(name=demo.tier)}
        )
        _, made_key = GatewayKey.objects.adopt(tenant, path.name, text)
        done += [f"made tenant {tenant}"] if made_tenant else []
        done += [f"made a gateway key for {tenant}, it is in {path}"] if made_key else []
    return done
