"""Fills a store with synthetic weeks, so that long pages, forecasts and plans can be seen alive; or removes them."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.planning import demo
from controlplane.telemetry.store import StoreError, StoreUnavailableError


class Command(BaseCommand):
    help = (
        "Write synthetic weeks of demand and latency before the oldest real request. Pages say that they are made up. "
        "Nothing is written to the ledger: they are rollups only, and --delete removes them all."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--weeks", type=int, default=5, help="How many, 1 to 52.")
        parser.add_argument("--requests-per-s", type=float, default=2.0, help="The mean over all models.")
        parser.add_argument("--seed", type=int, default=1, help="The same seed gives the same weeks.")
        parser.add_argument("--delete", action="store_true", help="Remove all synthetic weeks.")

    def handle(self, **options: Any) -> None:
        try:
            if options["delete"]:
                self.stdout.write(f"removed {demo.delete():,} synthetic requests")
                return
            row = demo.fill(options["weeks"], options["requests_per_s"], options["seed"], self._progress)
        except (demo.DemoRefusedError, StoreError, StoreUnavailableError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"wrote {row.requests:,} synthetic requests; remove them with --delete")

    def _progress(self, done: int, total: int) -> None:
        if done % 14 == 0 or done == total:
            self.stdout.write(f"{done} of {total} half days")
            self.stdout.flush()
