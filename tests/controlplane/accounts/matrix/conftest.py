"""Two teams and their people, made once for all rows; what a request changes is taken back after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.test import override_settings
from pytest_django import DjangoDbBlocker, Settings

from controlplane.accounts.models import TenantMembership
from tests.support.web.people import logged_in
from tests.support.web.two_teams import MINE, THEIRS, World, belongings, people


@pytest.fixture(scope="module")
def made(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    with django_db_blocker.unblock(), transaction.atomic():
        with override_settings(CONFIG=settings.CONFIG.model_copy(update={"home": home, "snapshot_path": None})):
            known = people()
            clients = {name: logged_in(User.objects.get(pk=user.pk)) for name, user in known.items()}
            world = World(known, {team: belongings(team) for team in (MINE, THEIRS)}, home, clients)
            TenantMembership.objects.create(tenant=world.of[MINE]["tenant"], user=known["tenant"])
        yield world
        transaction.set_rollback(True)


@pytest.fixture
def world(made: World, home: Path, away: None, settings: Settings) -> World:
    """In the home in which it was made: there is the key of its secrets."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"home": made.home})
    return made
