"""Lists the audit for the page and the API."""

from collections.abc import Mapping, Sequence

from controlplane.audit.models import Entry
from controlplane.core.listing import Listed, newest_first

FILTERS = ("who", "via", "action", "kind", "subject_id")


def listed(wanted: Mapping[str, Sequence[str]], before: int | None, limit: int) -> Listed[Entry]:
    """The newest first. `wanted` has values by the names of FILTERS; several values of one name are alternatives."""
    return newest_first(Entry.objects.all(), {name: name for name in FILTERS}, wanted, before, limit)
