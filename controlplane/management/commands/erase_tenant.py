"""`manage.py erase_tenant`: what Weir keeps of a tenant's requests, counted, erased, and counted again."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from controlplane.fleet.models import Tenant
from controlplane.management.erase import counts, erase
from controlplane.telemetry.store import Store, StoreError, StoreUnavailableError
from controlplane.tenants.tasks import kept_since_ns


class Command(BaseCommand):
    help = (
        "Count what is kept of a tenant's requests; with --erase, erase it and count again. "
        "Exit codes: 0 fine, 1 something is left, 2 wrong usage."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="its name, as the admin has it")
        parser.add_argument(
            "--erase", action="store_true", help="cannot be undone; its keys have to be disabled before"
        )

    def handle(self, *, tenant: str, **options: Any) -> None:
        row = Tenant.objects.filter(name=tenant).first()
        if row is None:
            raise CommandError(f"there is no tenant {tenant!r}: give its name as the admin has it", returncode=2)
        store = Store(settings.CONFIG.store_dsn)
        try:
            self._say(counts(tenant, store))
            if (before_ns := kept_since_ns(row, timezone.now())) is not None:
                self.stdout.write(f"of these older than the {row.retention_days} days that it is to be kept:")
                self._say(store.eraser.counts(tenant, before_ns))
            if not options["erase"]:
                return
            left = erase(row, store)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages), returncode=2) from None
        except (StoreError, StoreUnavailableError) as error:
            raise CommandError(
                f"the store does not answer ({error}): run it again, until it says that nothing is left"
            ) from error
        self.stdout.write("erased; what is left:")
        self._say(left)
        if any(left.values()):
            raise CommandError("something is left, or came meanwhile: run it again")

    def _say(self, rows: dict[str, int]) -> None:
        for name, count in rows.items():
            self.stdout.write(f"{count:>12,}  {name}")
