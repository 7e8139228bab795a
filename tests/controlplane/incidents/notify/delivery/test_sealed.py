"""Secrets of destinations and webhooks in the database: encrypted, rotated, and what a lost key does."""

import hashlib
import hmac
import json
import subprocess
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.test import Client
from pytest_django import Settings

from controlplane.config.secrets import new_secret
from controlplane.core.encryption import SealError
from controlplane.incidents.notify.delivery import enqueue
from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint, HookSecret
from controlplane.incidents.notify.delivery.secret_checks import check_secrets
from controlplane.incidents.notify.delivery.send.claim import send_again
from tests.support.incidents.notices import AT, notice, pagerduty, routing_key
from tests.support.incidents.pagerduty import PagerDuty
from tests.support.incidents.sender import StartSender
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db


def rows() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM delivery_endpoint")
        found = cursor.fetchall()
        cursor.execute("SELECT * FROM delivery_hooksecret")
        return repr([*found, *cursor.fetchall()])


def use(settings: Settings, *keys: str) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"encryption_keys": list(keys)})


def test_the_database_holds_no_secret_in_the_clear_and_the_key_is_its_owner_s_alone(home: Path) -> None:
    pagerduty("all", 7)
    HookSecret.objects.create(name="subscription", secret="hunter2hunter2")
    assert routing_key(7) not in rows()
    assert "hunter2" not in rows()
    assert Destination.objects.get().endpoint.secret == routing_key(7)
    assert HookSecret.objects.get().secret == "hunter2hunter2"
    assert (home / "encryption-keys").stat().st_mode & 0o777 == 0o600


def test_the_same_address_and_secret_are_one_endpoint_after_a_rotation_too(settings: Settings) -> None:
    old, new = new_secret(), new_secret()
    use(settings, old)
    first = pagerduty("one", 7).endpoint
    use(settings, new, old)
    assert pagerduty("two", 7).endpoint == first
    assert pagerduty("three", 8).endpoint != first
    with pytest.raises(IntegrityError):
        Endpoint.objects.create(kind="pagerduty", url="", secret=routing_key(8))


def test_after_sealing_again_the_old_key_can_go(settings: Settings) -> None:
    old, new = new_secret(), new_secret()
    use(settings, old)
    pagerduty("one", 7)
    HookSecret.objects.create(name="subscription", secret="hunter2hunter2")
    use(settings, new, old)
    call_command("seal_secrets")
    use(settings, new)
    assert Endpoint.objects.get().secret == routing_key(7)
    assert HookSecret.objects.get().secret == "hunter2hunter2"
    assert pagerduty("two", 7).endpoint == Endpoint.objects.get()


def test_sealing_again_without_the_old_key_changes_nothing(settings: Settings) -> None:
    use(settings, new_secret())
    pagerduty("one", 7)
    before = rows()
    use(settings, new_secret())
    with pytest.raises(CommandError, match="nothing was changed: the secret cannot be decrypted"):
        call_command("seal_secrets")
    assert rows() == before


def test_a_lost_key_is_not_replaced_in_silence(home: Path) -> None:
    pagerduty("one", 7)
    (home / "encryption-keys").unlink()
    with pytest.raises(SealError, match="is missing"):
        pagerduty("two", 8)
    assert not (home / "encryption-keys").exists()


def test_a_page_that_cannot_be_decrypted_is_refused_by_name_and_goes_out_once_the_key_is_back(
    settings: Settings, stand_in: PagerDuty, start_sender: StartSender
) -> None:
    key = new_secret()
    use(settings, key)
    pagerduty("all", url=stand_in.url)
    use(settings, new_secret())
    enqueue(notice("trigger", 1))
    start_sender()
    eventually(lambda: Delivery.objects.get().state == "dead")
    refused = Delivery.objects.get()
    assert "cannot be decrypted with the present encryption keys" in refused.error
    use(settings, key)
    assert send_again(refused)
    assert stand_in.wait(lambda it: it.actions("incident-1") == ["trigger"])


def test_a_wrong_key_is_said_before_a_page_finds_out(settings: Settings, owner: Client) -> None:
    use(settings, new_secret())
    pagerduty("all")
    assert health(AT).figures.unreadable == ()
    assert check_secrets(None, ["default"]) == []
    use(settings, new_secret())
    found = health(AT)
    assert found.is_stuck
    assert "1 of the stored secrets: the secret cannot be decrypted" in found.detail
    (warning,) = check_secrets(None, ["default"])
    assert warning.id == "delivery.W001"


def test_an_owner_with_a_wrong_key_is_told_what_to_do_and_can_enter_the_secret_again(
    settings: Settings, owner: Client
) -> None:
    use(settings, new_secret())
    destination = pagerduty("all", 7)
    use(settings, new_secret())
    path = f"/admin/delivery/destination/{destination.pk}/change/"
    form = {"name": "all", "kind": "pagerduty", "url": "", "severities": ["critical"], "fallback_after_s": "60"}
    page = owner.post(path, {**form, "secret": ""})
    assert page.status_code == 200
    assert "The secret cannot be decrypted with the present encryption keys" in page.content.decode()
    assert owner.post(path, {**form, "secret": routing_key(9)}).status_code == 302
    destination.refresh_from_db()
    assert destination.endpoint.secret == routing_key(9)


def test_a_webhook_that_cannot_be_checked_is_asked_for_again(settings: Settings, client: Client) -> None:
    use(settings, new_secret())
    HookSecret.objects.create(name="subscription", secret="hunter2hunter2")
    body = json.dumps({"event": {}})
    signature = "v1=" + hmac.new(b"hunter2hunter2", body.encode(), hashlib.sha256).hexdigest()
    use(settings, new_secret())
    answer = client.post(
        "/hooks/pagerduty", body, content_type="application/json", headers={"X-PagerDuty-Signature": signature}
    )
    assert answer.status_code == 503
    assert b"decrypt" not in answer.content


def _file() -> bytes:
    """Read by another process: closing the file here would drop the locks of SQLite's connections in this process, and then
    another process takes itself for the last one and deletes the write-ahead log under them
    (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return subprocess.run(["cat", connection.settings_dict["NAME"]], stdout=subprocess.PIPE, check=True).stdout
