"""The kinds of destinations, a module each. The model's choices, the admin's form, the sender and the REST API read `KINDS`.

docs/paging.md ("A new destination") says how to add one. What is here is pure: the sender alone speaks to the network.
"""

from collections.abc import Mapping
from types import MappingProxyType

from controlplane.incidents.notify.delivery.destinations.kind import DestinationKind
from controlplane.incidents.notify.delivery.destinations.pagerduty import PAGERDUTY
from controlplane.incidents.notify.delivery.destinations.slack import SLACK
from controlplane.incidents.notify.delivery.destinations.webhook import WEBHOOK

KINDS: Mapping[str, DestinationKind] = MappingProxyType({kind.name: kind for kind in (PAGERDUTY, WEBHOOK, SLACK)})
"""By name, in the order of the form."""


def choices() -> list[tuple[str, str]]:
    """Name and label of each kind. A model's field calls it, so that a new kind needs no migration."""
    return [(kind.name, kind.label) for kind in KINDS.values()]
