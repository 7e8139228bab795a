"""What the tests' database holds after each test that commits: what belongs into an empty one, and nothing else."""

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command

from controlplane.fleet.models import Team

pytestmark = pytest.mark.django_db(transaction=True)


def contents() -> set[tuple[str, str]]:
    return set(Permission.objects.values_list("content_type__model", "codename"))


def test_permissions_are_as_before_each_time() -> None:
    before = contents()
    assert before
    for _ in range(3):
        Team.objects.create(name="left over")
        call_command("flush", verbosity=0, interactive=False)
        assert contents() == before
        assert not Team.objects.exists()
