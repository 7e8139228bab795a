"""Collects static files into WEIR_HOME/static, hashed and compressed. Web serves them from its next start."""

import hashlib
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.management.commands.collectstatic import Command as CollectStatic
from django.core.management.base import CommandParser

from controlplane.web.static_files import StaticFiles

STAMP = ".sources"


def sources_digest() -> str:
    """Changes whenever a static file is added, removed or touched."""
    digest = hashlib.sha256()
    for finder in finders.get_finders():
        for name, storage in sorted(finder.list(None), key=lambda entry: entry[0]):
            stat = Path(storage.path(name)).stat()
            digest.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class Command(CollectStatic):
    help = "Collect, hash and compress the static files into WEIR_HOME/static. Does nothing when nothing changed."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.set_defaults(interactive=False, verbosity=0)

    def handle(self, **options: Any) -> str | None:
        stamp = Path(settings.STATIC_ROOT) / STAMP
        digest = sources_digest()
        if stamp.is_file() and stamp.read_text() == digest:
            return None
        # Without a manifest the settings choose another storage.
        self.storage = StaticFiles()
        super().handle(**options)
        stamp.write_text(digest)
        return None
