"""`python -m tests.support.audit_histories KILLS SEED`: random changes by processes that are killed, on the database of WEIR_HOME.

After each kill the audit has to be whole, and what its entries say in turn has to be what the tables hold.
"""

import os
import random
import signal
import sys
import time
from contextlib import nullcontext
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connections, transaction  # noqa: E402

from controlplane.audit.audited_models import values_of  # noqa: E402
from controlplane.audit.core.chain import first_break  # noqa: E402
from controlplane.audit.core.differences import is_secret  # noqa: E402
from controlplane.audit.models import Entry, Head  # noqa: E402
from controlplane.fleet.models import GatewayKey, Tenant, Tier  # noqa: E402

MODELS = (Tier, Tenant, GatewayKey)
MAX_LIFE_S = 0.3


class UndoneError(Exception):
    """A transaction that is to be rolled back."""


def change(chance: random.Random) -> None:
    tiers, tenants = list(Tier.objects.all()), list(Tenant.objects.all())
    match chance.randrange(6):
        case 0:
            Tier.objects.create(name=f"tier-{chance.getrandbits(40)}", priority=1)
        case 1 if tiers:
            tier = chance.choice(tiers)
            tier.priority, tier.weight = chance.randrange(9), chance.randrange(1, 9)
            tier.save(update_fields=chance.choice([None, ["priority"]]))
        case 2 if tiers:
            tenant = Tenant.objects.create(name=f"tenant-{chance.getrandbits(40)}", tier=chance.choice(tiers))
            GatewayKey.objects.issue(tenant, "key")
        case 3 if tenants:
            chance.choice(tenants).delete()  # and its keys
        case 4 if tenants:
            tenant = chance.choice(tenants)
            tenant.enabled = not tenant.enabled
            tenant.save()
        case _:
            unused = Tier.objects.exclude(pk__in=Tenant.objects.values("tier")).first()
            if unused is not None:
                unused.delete()


def live(seed: int) -> None:
    """Change until killed: each by itself, or some in one transaction, of which some are rolled back."""
    chance = random.Random(seed)
    while True:
        try:
            with transaction.atomic() if chance.random() < 0.5 else nullcontext():
                for _ in range(chance.randrange(1, 4)):
                    change(chance)
                if chance.random() < 0.3:
                    raise UndoneError
        except UndoneError:
            pass


def checked() -> int:
    """The number of entries. Raises AssertionError."""
    head = Head.objects.filter(pk=Head.ONLY).first() or Head()
    assert not (broken := first_break(Entry.links(), (head.number, head.hash))), broken
    for model in MODELS:
        rows: dict[str, dict[str, Any]] = {}
        for entry in Entry.objects.filter(kind=model._meta.label_lower).order_by("number"):
            if entry.action == "deleted":
                del rows[entry.subject_id]
            else:
                assert (entry.action == "created") == (entry.subject_id not in rows), entry
                rows.setdefault(entry.subject_id, {}).update(entry.after or {})
        stored = {str(row.pk): values_of(row) for row in model.objects.all()}
        assert {key: _plain(row) for key, row in rows.items()} == {key: _plain(row) for key, row in stored.items()}
    return head.number


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not is_secret(name)}


def main(kills: int, seed: int) -> None:
    call_command("migrate", verbosity=0)
    chance, entries = random.Random(seed), 0
    for number in range(kills):
        connections.close_all()
        if not (child := os.fork()):
            live(seed * 1_000_003 + number)
        time.sleep(chance.random() * MAX_LIFE_S)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if number % 10 == 9 or number == kills - 1:
            entries = checked()
    print(f"{kills} kills, {entries} entries, each change has its entry and the chain is whole")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
