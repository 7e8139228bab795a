from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from controlplane.fleet.publish import publish


class Command(BaseCommand):
    help = "Write the policy snapshot for the fleet as it is, if its file is missing or out of date."

    def handle(self, **_: Any) -> None:
        revision = publish()
        self.stdout.write(f"version {revision.version} is in {settings.CONFIG.snapshot_file}")
