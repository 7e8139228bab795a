from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.core.encryption import SealError
from controlplane.incidents.notify.delivery.secret_checks import seal_again


class Command(BaseCommand):
    help = "Encrypt every stored secret of pages with the first encryption key, so that the keys behind it can go."

    def handle(self, **_: Any) -> None:
        try:
            count = seal_again()
        except SealError as error:
            raise CommandError(f"nothing was changed: {error}") from None
        self.stdout.write(f"{count} secrets are encrypted with the first key")
