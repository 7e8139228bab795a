from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.fleet.seed import SeedError
from controlplane.management.bootstrap import bootstrap


class Command(BaseCommand):
    help = "First set-up, safe to repeat: user, API token, tiers, fleet and policy snapshot. Says what it did."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--fleet", type=Path, help="The launcher's fleet.json: models, pools, replica addresses.")

        parser.add_argument(
            "--demo", action="store_true", help="Make tenants and gateway keys to try the gateway with."
        )

    def handle(self, **options: Any) -> None:
        try:
            done = bootstrap(settings.CONFIG.home, options["fleet"], options["demo"])
        except SeedError as error:
            raise CommandError(str(error)) from error
        for line in done:
            self.stdout.write(line)
