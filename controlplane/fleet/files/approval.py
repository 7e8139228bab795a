"""Which teams want another person's approval of what is changed: of policies and of the fleet alike."""

from collections.abc import Iterable

from controlplane.accounts.core.rule import EVERY_TEAM, Owned
from controlplane.fleet.models import Team


def wanting(touched: Iterable[Owned], of: str = "requires_approval") -> tuple[str, ...]:
    """The teams of these that want approvals, by the field `of` of a team; of what is every team's, all that do."""
    teams = frozenset[str]().union(*(owned.teams for owned in touched))
    rows = Team.objects.filter(**{of: True}).order_by("name")
    return tuple((rows if EVERY_TEAM in teams else rows.filter(name__in=teams)).values_list("name", flat=True))
