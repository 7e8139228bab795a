"""What the tests' database holds after each test that commits: what belongs into an empty one, and nothing else."""

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command

from controlplane.fleet.models import Team

pytestmark = pytest.mark.django_db(transaction=True)
Contents = tuple[set[tuple[str, str]], dict[str, set[str]]]


def contents() -> Contents:
    permissions = set(Permission.objects.values_list("content_type__model", "codename"))
    return permissions, {
        group.name: set(group.permissions.values_list("codename", flat=True)) for group in Group.objects.all()
    }


def test_permissions_and_groups_are_as_before_each_time() -> None:
    before = contents()
    assert all(before)
    for _ in range(3):
        Team.objects.create(name="left over")
        Group.objects.all().delete()
        call_command("flush", verbosity=0, interactive=False)
        assert contents() == before
        assert not Team.objects.exists()
