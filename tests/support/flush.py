"""Empties the database after a test that commits, at less cost.

Django empties every table, and then finds out again what belongs into an empty database: content types and permissions.
That takes 0.15 s, and is the same each time. So it is remembered from the first time, and written as it was.
Only tables with rows are emptied, row by row: PostgreSQL makes new files for each table that it truncates.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management.color import Style
from django.core.management.commands import flush
from django.core.management.sql import emit_post_migrate_signal, sql_flush
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

Rows = list[tuple[str, list[tuple[Any, ...]]]]
"""By the statement that writes them."""


@contextmanager
def flushed_at_less_cost() -> Iterator[None]:
    """While the block runs, `manage.py flush` empties the tables that have rows, and writes the remembered ones in place of sending
    `post_migrate`."""
    remembered: dict[str, Rows] = {}

    def emptied(
        style: Style, connection: BaseDatabaseWrapper, reset_sequences: bool = True, allow_cascade: bool = False
    ) -> list[str]:
        if reset_sequences or allow_cascade:
            return sql_flush(style, connection, reset_sequences, allow_cascade)
        names = connection.introspection.django_table_names(only_existing=True, include_views=False)
        tables = [connection.ops.quote_name(name) for name in names]
        with connection.cursor() as cursor:
            cursor.execute(
                " UNION ALL ".join(f"SELECT {at} WHERE EXISTS (SELECT 1 FROM {of})" for at, of in enumerate(tables))
            )
            return [f"DELETE FROM {tables[at]}" for (at,) in cursor.fetchall()]

    def fill(verbosity: int, interactive: bool, db: str, **more: object) -> None:
        if db not in remembered:
            emit_post_migrate_signal(verbosity, interactive, db, **more)
            remembered[db] = _rows(db)
            return
        with transaction.atomic(using=db), connections[db].cursor() as cursor:
            for statement, rows in remembered[db]:
                cursor.executemany(statement, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "sql_flush", emptied)
        patch.setattr(flush, "emit_post_migrate_signal", fill)
        yield


def _rows(db: str) -> Rows:
    """All that the database holds, but for empty tables."""
    found, quoted = [], connections[db].ops.quote_name
    with connections[db].cursor() as cursor:
        for table in connections[db].introspection.django_table_names(only_existing=True, include_views=False):
            cursor.execute(f"SELECT * FROM {quoted(table)}")
            if rows := cursor.fetchall():
                columns = ", ".join(quoted(column[0]) for column in cursor.description)
                places = ", ".join(["%s"] * len(rows[0]))
                found.append((f"INSERT INTO {quoted(table)} ({columns}) VALUES ({places})", rows))
    return found
