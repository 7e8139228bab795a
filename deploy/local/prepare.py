"""`python -m deploy.local.prepare FLEET_JSON [POLICIES]`: migrates the database, and sets up the first user, keys, fleet and policies.

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
    fleet, *policies = sys.argv[1:]
    call_command("migrate", interactive=False, verbosity=1)
    call_command("bootstrap", fleet=Path(fleet), demo=True, policies=Path(policies[0]) if policies else None)


if __name__ == "__main__":
    main()
