"""Empties the database after a test that commits, at less cost.

Django empties every table, and then finds out again what belongs into an empty database: content types, permissions
and our groups. That takes 0.15 s, and is the same each time. So it is remembered from the first time, and written as it was.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.apps import apps
from django.core.management.commands import flush
from django.core.management.sql import emit_post_migrate_signal
from django.db import models, transaction

Rows = list[tuple[type[models.Model], list[models.Model]]]


@contextmanager
def flushed_at_less_cost() -> Iterator[None]:
    """While the block runs, `manage.py flush` writes the remembered rows in place of sending `post_migrate`."""
    remembered: dict[str, Rows] = {}

    def fill(verbosity: int, interactive: bool, db: str, **more: object) -> None:
        if db in remembered:
            with transaction.atomic(using=db):
                for model, rows in remembered[db]:
                    model._base_manager.using(db).bulk_create(rows)
            return
        emit_post_migrate_signal(verbosity, interactive, db, **more)
        every = (
            (model, list(model._base_manager.using(db).all())) for model in apps.get_models(include_auto_created=True)
        )
        remembered[db] = [(model, rows) for model, rows in every if rows]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "emit_post_migrate_signal", fill)
        yield
