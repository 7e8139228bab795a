from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.fleet.seed import SeedError
from controlplane.management.bootstrap import bootstrap
from controlplane.policy.seed import PoliciesError


class Command(BaseCommand):
    help = "First set-up, safe to repeat: user, API token, tiers, fleet and policy snapshot. Says what it did."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--fleet", type=Path, help="The launcher's fleet.json: models, pools, replica addresses.")

        parser.add_argument(
            "--policies",
            type=Path,
            metavar="DIR",
            help="A folder of policies (*.yaml) that come into force the first time.",
        )
        parser.add_argument(
            "--demo",
            action="store_true",
            help="Make tenants and gateway keys to try the gateway with, and a person of each role.",
        )

    def handle(self, **options: Any) -> None:
        try:
            done = bootstrap(settings.CONFIG.home, options["fleet"], options["demo"], _texts(options["policies"]))
        except (SeedError, PoliciesError) as error:
            raise CommandError(str(error)) from error
        for line in done:
            self.stdout.write(line)


def _texts(folder: Path | None) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(folder.glob("*.yaml"))} if folder else {}
