"""`python -m deploy.local.prepare FLEET_JSON [POLICIES]`: migrates the database, and sets up the first user, keys, fleet and policies.

It runs two of manage.py's commands in one process, because each start of Django takes seconds on a small machine.
"""

import os
import sys
from pathlib import Path

import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.migrations.exceptions import InconsistentMigrationHistory

from controlplane.config.databases import refusal


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    try:
        prepare(*sys.argv[1:])
    except DatabaseError as error:
        if not (line := refusal(error, settings.DATABASES["default"])):
            raise
        print(line)
        sys.exit(os.EX_CONFIG)


def prepare(fleet: str, policies: str = "") -> None:
    try:
        call_command("migrate", interactive=False, verbosity=1)
        failure: Exception | None = None
    except (DatabaseError, InconsistentMigrationHistory) as error:
        failure = error
    if other := other_tables():
        _refuse(other[0])
    if failure is not None:
        raise failure
    call_command("bootstrap", fleet=Path(fleet), demo=True, policies=Path(policies) if policies else None)


def other_tables() -> list[str]:
    """Those that are missing, or have other columns than the models say."""
    with connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
        return sorted(
            model._meta.db_table
            for model in apps.get_models(include_auto_created=True)
            if model._meta.managed
            and not model._meta.proxy
            and (
                model._meta.db_table not in there
                or {field.column for field in model._meta.local_concrete_fields}
                != {
                    column.name
                    for column in connection.introspection.get_table_description(cursor, model._meta.db_table)
                }
            )
        )


def _refuse(table: str) -> None:
    where = Path(os.environ.get("WEIR_HOME", ".weir")).absolute()
    print(
        f"the database of {where} was made by another version of Weir, whose table {table} is not the one of this version: "
        "set WEIR_HOME to a new folder, or move this one away"
    )
    sys.exit(os.EX_CONFIG)


if __name__ == "__main__":
    main()
