"""`python -m deploy.local.prepare FLEET_JSON`: migrates the database, and makes the first user, keys, fleet and snapshot.

It runs two of manage.py's commands in one process, because each start of Django takes seconds on a small machine.
"""

import os
import sys
from pathlib import Path

import django
from django.core.management import call_command


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    call_command("migrate", interactive=False, verbosity=1)
    call_command("bootstrap", fleet=Path(sys.argv[1]), demo=True)


if __name__ == "__main__":
    main()
