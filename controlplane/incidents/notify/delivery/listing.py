"""Deliveries as pages and the API list them: newest first, by what was asked."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.incidents.notify.delivery.models import Delivery

FILTERS = {"key": "key", "destination": "destination__name", "state": "state", "action": "action"}
"""By the name in a URL."""


class Listed(NamedTuple):
    rows: list[Delivery]
    next_before: int | None  # where the next page begins; None: that is all of them


def listed(wanted: Mapping[str, Sequence[str]], before: int | None, limit: int) -> Listed:
    """`wanted` has values by the names of FILTERS; several of one are alternatives, none takes all."""
    found = Delivery.objects.select_related("destination").order_by("-id")
    for name, field in FILTERS.items():
        if wanted.get(name):
            found = found.filter(**{f"{field}__in": wanted[name]})
    if before is not None:
        found = found.filter(id__lt=before)
    rows = list(found[: limit + 1])
    return Listed(rows[:limit], rows[limit - 1].pk if len(rows) > limit else None)
