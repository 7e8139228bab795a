"""A database written before the stages' budgets were renamed to timeouts keeps its row and its permissions."""

from pathlib import Path

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from controlplane.fleet.models import StageTimeouts

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "0004_cache_scope_and_token_limits"


def test_the_row_and_the_permissions_are_kept(home: Path) -> None:
    try:
        call_command("migrate", "fleet", BEFORE, verbosity=0)
        old = MigrationExecutor(connection).loader.project_state([("fleet", BEFORE)]).apps
        old.get_model("fleet", "StageBudgets").objects.create(id=1, cache_ms=7)
        people = Group.objects.create(name="operators")
        people.permissions.add(Permission.objects.get(codename="change_stagebudgets"))
    finally:
        call_command("migrate", verbosity=0)
    assert StageTimeouts.objects.get().cache_ms == 7
    assert [permission.codename for permission in people.permissions.all()] == ["change_stagetimeouts"]
    assert Permission.objects.filter(content_type__model__contains="stage").count() == 4
