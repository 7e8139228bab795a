"""`manage.py leader`: the generations of leaders, and what bears one that is higher than the lease's."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from controlplane.controller.loop import LEASE
from controlplane.core import lease
from controlplane.core.models import Lease
from controlplane.fleet.clusters import registry
from controlplane.fleet.clusters.errors import ClusterError
from controlplane.fleet.models import Cluster, PublishedSnapshot

SNAPSHOT = "the policy snapshot"


class Command(BaseCommand):
    help = (
        "Show which controller leads, and what bears a higher generation than its lease: it is refused there. "
        "Exit codes: 0 nothing does, 1 something does or could not be read, 2 it cannot be raised."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--raise",
            action="store_true",
            dest="raises",
            help="raise the lease above all of them; the leader goes on with that within seconds",
        )

    def handle(self, *, raises: bool, **options: Any) -> None:
        row = Lease.objects.filter(name=LEASE).first()
        own = row.generation if row is not None else 0
        self.stdout.write(_lease(row))
        seen, unread = self._seen()
        above = {place: generation for place, generation in seen.items() if generation > own}
        for place, generation in seen.items():
            mark = ": the leader is refused there" if place in above else ""
            self.stdout.write(f"{place}: generation {generation}{mark}")
        for place, why in unread.items():
            self.stdout.write(f"{place} could not be read: {why}")
        if raises:
            self._raise(seen, own)
        elif above:
            self.stdout.write(
                f"The lease's generation is lower than that of {len(above)} of {len(seen)}. Make sure that no other Weir acts on "
                "these clusters, such as a copy of this database. Then run `manage.py leader --raise`."
            )
        if unread:
            raise CommandError(f"{', '.join(unread)} could not be read: run this again later")
        if above and not raises:
            raise CommandError("the leader is refused")

    def _seen(self) -> tuple[dict[str, int], dict[str, str]]:
        """Generations by what bears them, and why the others could not be read."""
        seen = {SNAPSHOT: PublishedSnapshot.objects.values_list("generation", flat=True).first() or 0}
        unread = {}
        openers = {Cluster.Kind.KUBERNETES: registry.kubernetes, Cluster.Kind.LOCAL: registry.open_local}
        for row in Cluster.objects.filter(enabled=True):
            cluster = openers[Cluster.Kind(row.kind)](row)
            try:
                seen |= {f"cluster {row.name}, {name}": generation for name, generation in cluster.fences().items()}
            except ClusterError as error:
                unread[f"cluster {row.name}"] = str(error)
        return seen, unread

    def _raise(self, seen: dict[str, int], own: int) -> None:
        highest = max(seen, key=lambda place: seen[place])
        if seen[highest] > lease.MAX_GENERATION:
            raise CommandError(
                f"{highest} bears {seen[highest]}, which is above {lease.MAX_GENERATION}: no leader wrote it. Remove the annotation "
                "weir.dev/leader-generation there, and run this again",
                returncode=2,
            )
        if seen[highest] <= own:
            self.stdout.write("Nothing bears a higher generation than the lease: nothing was changed.")
            return
        now = timezone.now()
        generation = lease.raise_above(LEASE, seen[highest], now)
        self.stdout.write(
            f"The lease has generation {generation} now. The leader goes on with it at its next tick, and writes it to each of these."
        )


def _lease(row: Lease | None) -> str:
    if row is None:
        return "No controller has led yet."
    until = f"{row.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    if row.expires_at <= timezone.now():
        return f"The lease has generation {row.generation}, and ended at {until}: no controller leads."
    return f"The lease has generation {row.generation}, and {row.holder} holds it until {until}."
