"""Lists deliveries for pages and the API."""

from collections.abc import Mapping, Sequence

from controlplane.core.listing import Listed, newest_first
from controlplane.incidents.notify.delivery.models import Delivery

FILTERS = {"key": "key", "destination": "destination__name", "state": "state", "action": "action"}
"""By the name in a URL."""


def listed(wanted: Mapping[str, Sequence[str]], before: int | None, limit: int) -> Listed[Delivery]:
    """`wanted` has values by the names of FILTERS. Several values of one name are alternatives."""
    return newest_first(Delivery.objects.select_related("destination"), FILTERS, wanted, before, limit)
