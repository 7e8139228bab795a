"""Whether the secrets in use can be decrypted, before a page has to find out; and sealing all of them with the first key."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, Q

from controlplane.incidents.notify.delivery.core.encryption import SealError
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint, HookSecret


def in_use() -> Iterator[Endpoint | HookSecret]:
    """What pages need: endpoints of destinations and of deliveries that wait, and enabled secrets of webhooks."""
    pointed_at = Exists(Destination.objects.filter(endpoint=OuterRef("pk")))
    awaited = Exists(Delivery.objects.filter(endpoint=OuterRef("pk"), state=Delivery.State.PENDING))
    yield from Endpoint.objects.filter(Q(pointed_at) | Q(awaited))
    yield from HookSecret.objects.filter(enabled=True)


def unreadable() -> list[str]:
    """Why, for each secret in use that cannot be decrypted."""
    found = []
    for row in in_use():
        try:
            _ = row.secret
        except SealError as error:
            found.append(str(error))
    return found


@register(Tags.database)
def check_secrets(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """A warning: `migrate` runs this, and a dashboard in which the secrets can be entered again must start."""
    if not databases:
        return []
    try:
        reasons = unreadable()
    except DatabaseError:
        return []  # not migrated yet
    return [
        Warning(f"{len(reasons)} of the stored secrets: {reasons[0][0].upper()}{reasons[0][1:]}.", id="delivery.W001")
        for _ in reasons[:1]
    ]


@transaction.atomic
def seal_again() -> int:
    """Every secret, with the first key; how many. Raises SealError, and changes nothing then."""
    rows: list[Endpoint | HookSecret] = [*Endpoint.objects.select_for_update(), *HookSecret.objects.select_for_update()]
    for row in rows:
        row.secret = row.secret
        row.save()
    return len(rows)
