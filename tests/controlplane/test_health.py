"""What readiness says of a database is true, and so is what it advises."""

from pathlib import Path

import pytest
from django.db.utils import ConnectionHandler
from pytest_django import Settings

from controlplane.web import health


@pytest.mark.django_db
def test_of_a_database_that_is_gone_it_is_not_said_to_migrate_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """SQLite makes an empty file in the place of one that was deleted. To migrate that makes a new installation of it."""
    settings.MIGRATION_MODULES = {}
    path = tmp_path / "weir.sqlite3"
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}})
    monkeypatch.setattr(health, "connection", handler["default"])
    assert health.look() == health.Answer(
        503,
        {
            "ready": False,
            "reason": "the database is empty: run manage.py migrate if Weir is new here, else restore the database",
        },
    )
    handler.close_all()
