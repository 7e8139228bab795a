import json
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.test import Client, RequestFactory

from controlplane.accounts.models import ApiToken, Membership
from controlplane.fleet.models import GatewayKey
from controlplane.management.bootstrap import TENANTS
from inference.contract import snapshot
from inference.contract.snapshot import key_digest
from tests.support.commands import said
from tests.support.fleet import fleet

pytestmark = pytest.mark.django_db(transaction=True)

SECRETS = ["admin-password", "api-token", *(tenant.key_file for tenant in TENANTS)]


def bootstrap(*arguments: str) -> str:
    """Of a newcomer's machine."""
    return said("bootstrap", "--demo", *arguments)


def secret(home: Path, name: str) -> str:
    return (home / name).read_text().strip()


def can_log_in(password: str) -> bool:
    return authenticate(RequestFactory().post("/login"), username="admin", password=password) is not None


def test_what_is_in_the_files_opens_the_doors(home: Path) -> None:
    bootstrap()
    assert can_log_in(secret(home, "admin-password"))
    assert Client().get("/metrics", headers={"Authorization": f"Bearer {secret(home, 'api-token')}"}).status_code == 200
    keys = {
        tenant.name: tenant.key_sha256
        for tenant in snapshot.check((home / "snapshot.json").read_bytes()).snapshot.tenants
    }
    assert keys == {tenant.name: (key_digest(secret(home, tenant.key_file)),) for tenant in TENANTS}


def test_demo_tenants_are_made_where_they_are_asked_for_alone(home: Path) -> None:
    said("bootstrap")
    assert not GatewayKey.objects.exists()
    assert not any((home / tenant.key_file).exists() for tenant in TENANTS)


def test_secrets_are_for_their_owner_alone(home: Path) -> None:
    bootstrap()
    assert {name: (home / name).stat().st_mode & 0o777 for name in SECRETS} == dict.fromkeys(SECRETS, 0o600)


def test_a_demo_has_a_person_of_each_role_and_anything_else_an_administrator_alone(home: Path) -> None:
    said("bootstrap")
    assert [(user.username, user.is_superuser) for user in User.objects.all()] == [("admin", True)]
    assert "made users viewer, responder, owner, approver of team serving" in bootstrap()
    assert secret(home, "demo-password") not in bootstrap()
    client = Client()
    for row in Membership.objects.all():
        assert client.login(
            request=RequestFactory().post("/login"), username=row.role, password=secret(home, "demo-password")
        )
        assert client.get("/silences").status_code == 200
    User.objects.get(username="viewer").delete()
    bootstrap()
    assert {row.role for row in Membership.objects.all()} == {"responder", "owner", "approver"}


def test_secrets_are_not_printed(home: Path) -> None:
    said = bootstrap()
    assert not any(secret(home, name) in said for name in SECRETS)
    assert all(str(home / name) in said for name in SECRETS)


def test_a_second_run_changes_nothing(home: Path) -> None:
    bootstrap()
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    assert bootstrap() == "policy snapshot is at version 1\n"
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before
    assert (User.objects.filter(is_superuser=True).count(), ApiToken.objects.count(), GatewayKey.objects.count()) == (
        1,
        1,
        len(TENANTS),
    )


def test_a_lost_file_gets_a_new_secret(home: Path) -> None:
    bootstrap()
    old = {name: secret(home, name) for name in SECRETS}
    for name in SECRETS:
        (home / name).unlink()
    bootstrap()
    assert all(secret(home, name) != old[name] for name in SECRETS)
    assert can_log_in(secret(home, "admin-password"))
    assert not can_log_in(old["admin-password"])


def test_a_lost_database_takes_up_the_secrets_of_the_files(home: Path) -> None:
    bootstrap()
    token = secret(home, "api-token")
    User.objects.all().delete()
    GatewayKey.objects.all().delete()
    bootstrap()
    assert secret(home, "api-token") == token
    assert can_log_in(secret(home, "admin-password"))


def test_a_password_that_the_owner_changed_stands(home: Path) -> None:
    bootstrap()
    user = User.objects.get(username="admin")
    user.set_password("a-password-of-my-own")
    user.save()
    bootstrap()
    assert can_log_in("a-password-of-my-own")


def test_a_key_that_was_switched_off_stays_off(home: Path) -> None:
    bootstrap()
    GatewayKey.objects.update(enabled=False)
    bootstrap()
    assert not GatewayKey.objects.filter(enabled=True).exists()


def test_the_fleet_file_is_in_force_afterwards(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(fleet(("triton-0", 7000))))
    bootstrap("--fleet", str(path))
    document = snapshot.check((home / "snapshot.json").read_bytes()).snapshot
    assert [endpoint.grpc for endpoint in document.pools[0].endpoints] == ["127.0.0.1:7000"]


def test_a_fleet_file_that_is_none_stops_it_with_a_sentence(home: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="does not exist"):
        bootstrap("--fleet", str(tmp_path / "nowhere.json"))
    assert not User.objects.exists()
