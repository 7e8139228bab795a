"""Lists deliveries for pages and the API: filtered, the newest first."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.incidents.notify.delivery.models import Delivery

FILTERS = {"key": "key", "destination": "destination__name", "state": "state", "action": "action"}
"""By the name in a URL."""


class Listed(NamedTuple):
    rows: list[Delivery]
    next_before: int | None  # where the next page begins; None on the last page


def listed(wanted: Mapping[str, Sequence[str]], before: int | None, limit: int) -> Listed:
    """`wanted` has values by the names of FILTERS. Several values of one name are alternatives."""
    deliveries = Delivery.objects.select_related("destination").order_by("-id")
    for name, field in FILTERS.items():
        if wanted.get(name):
            deliveries = deliveries.filter(**{f"{field}__in": wanted[name]})
    if before is not None:
        deliveries = deliveries.filter(id__lt=before)
    rows = list(deliveries[: limit + 1])
    return Listed(rows[:limit], rows[limit - 1].pk if len(rows) > limit else None)
