"""Standing characters, and a home of its own for each test: nothing here touches a real WEIR_HOME."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connections
from django.test import Client
from pytest_django import Settings

from controlplane.web.health import _answers
from tests.support import past_the_audit
from tests.support.flush import flushed_at_less_cost
from tests.support.telemetry.store_fixtures import databases, dsn, front_dsn, shared_store, store
from tests.support.web.people import logged_in, on_call
from tests.support.web.served import (
    annex,
    annexed,
    away,
    caller,
    filled,
    fresh,
    reader,
    refusing,
    served,
    without_tables,
)

__all__ = [
    "annex", "annexed", "away", "caller", "databases", "dsn", "filled", "fresh", "front_dsn",
    "reader", "refusing", "served", "shared_store", "store", "without_tables",
]  # fmt: skip
"""Fixtures of all tests of the control plane. Imported here alone, each is made once in a session."""
WHOLE = configured.MIDDLEWARE


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SQLite in a file, as in earnest: in memory it has no write-ahead log, and its writers do not wait for each other.

    They do not wait for the disk: no test takes the machine's power away.
    """
    database = connections["default"]
    if database.vendor == "sqlite":
        database.settings_dict["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")
        options = database.settings_dict["OPTIONS"]
        options["init_command"] = f"{options['init_command']} PRAGMA synchronous=OFF;"
        options["timeout"] = 300  # SQLite's writers take no turns: on a busy machine one of many may wait for long


@pytest.fixture(scope="session", autouse=True)
def _flush() -> Iterator[None]:
    with flushed_at_less_cost(), past_the_audit.refused():
        yield


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are not made yet, one after the other. `tmp_path` would look at all earlier ones for each test."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) / "home" for number in count())


@pytest.fixture(autouse=True)
def home(settings: Settings, homes: Iterator[Path]) -> Path:
    """WEIR_HOME of this test, alone in its folder."""
    folder = next(homes)
    folder.parent.mkdir()
    folder.mkdir(mode=0o700)
    settings.CONFIG = settings.CONFIG.model_copy(
        update={"home": folder, "snapshot_path": None, "api_requests_per_minute": 0}
    )
    return folder


@pytest.fixture(autouse=True)
def quick(settings: Settings) -> None:
    """What every test would pay for and few need: slow hashing, and static files, for which each request has a thread and a loop.

    What `/readyz` answered in the test before is forgotten, and how many log-ins were tried from this address.
    """
    cache.clear()
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    _answers.forget()
    settings.MIDDLEWARE = [each for each in WHOLE if not each.startswith("servestatic.")]


@pytest.fixture
def as_served(quick: None, settings: Settings) -> None:
    """With static files, so that what lies above them is asynchronous, as it is under ASGI."""
    settings.MIDDLEWARE = WHOLE
    settings.SERVESTATIC_USE_FINDERS = settings.SERVESTATIC_USE_STATIC_ROOT = False


@pytest.fixture
def owner(db: None) -> Client:
    """Owns a service: edits objectives, policies and the fleet."""
    with past_the_audit.unrecorded():
        return logged_in(User.objects.create_superuser("olga"))


@pytest.fixture
def teammate(db: None) -> Client:
    """Works beside the owner: sees every page, and changes nothing in the admin."""
    return logged_in(on_call("tom"))


@pytest.fixture
def outsider() -> Client:
    """Has the URL, and no login."""
    return Client()
