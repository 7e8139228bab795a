"""Two teams and their people, made once for all rows; what a request changes is taken back after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import transaction
from django.test import override_settings
from pytest_django import DjangoDbBlocker, Settings

from controlplane.accounts.models import TenantMembership
from tests.support.web.two_teams import MINE, THEIRS, World, belongings, people


@pytest.fixture(scope="module")
def made(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    with django_db_blocker.unblock(), transaction.atomic():
        with override_settings(CONFIG=settings.CONFIG.model_copy(update={"home": home, "snapshot_path": None})):
            world = World(people(), {team: belongings(team) for team in (MINE, THEIRS)}, home)
            TenantMembership.objects.create(tenant=world.of[MINE]["tenant"], user=world.people["tenant"])
        yield world
        transaction.set_rollback(True)


@pytest.fixture
def world(made: World, home: Path, away: None, settings: Settings) -> World:
    """In the home in which it was made: there is the key of its secrets."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"home": made.home})
    return made
