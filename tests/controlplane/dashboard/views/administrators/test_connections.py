"""The page of connections."""

import pytest
from django.conf import settings
from django.test import Client

from controlplane.fleet.models import Pool, Replica
from tests.support.stored_pool import stored_pool
from tests.support.web.html import page_of, words_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"redis_url": "redis://:secret@redis:6379/0", "store_dsn": "clickhouses://weir:secret@store/weir"}
    monkeypatch.setattr(settings, "CONFIG", settings.CONFIG.model_copy(update=changes))


@pytest.fixture
def pool() -> Pool:
    """Of a server on this machine, two that are called with https, and two in plain text."""
    pool = stored_pool("large")
    Replica.objects.all().delete()
    for number, url in enumerate(
        ("http://127.0.0.1:8000", "https://a", "https://b", "http://10.0.0.7:8000", "http://c")
    ):
        Replica.objects.create(pool=pool, name=f"r{number}", url=f"{url}/v1")
    return pool


@pytest.mark.usefixtures("elsewhere", "pool")
def test_what_is_in_the_clear_is_said_without_a_secret(admin_client: Client) -> None:
    page = words_of(page_of(admin_client, "/connections"))
    assert "2 in the clear: whoever listens" in page
    assert "Redis redis:6379 ✕ in the clear" in page
    assert "store store ✓ encrypted" in page
    for row in (
        "large 1 127.0.0.1:8000 stays on this machine",
        "large 2 a ✓ encrypted",
        "large 2 10.0.0.7:8000 ✕ in the clear",
    ):
        assert row in page
    assert "secret" not in page


@pytest.mark.usefixtures("elsewhere")
def test_a_triton_is_called_with_tls_where_its_pool_says_so(admin_client: Client, pool: Pool) -> None:
    Replica.objects.all().delete()
    Replica.objects.create(pool=pool, name="t", grpc="triton:8001")
    assert "large 1 triton:8001 ✕ in the clear" in words_of(page_of(admin_client, "/connections"))
    Pool.objects.update(tls_enabled=True)
    assert "large 1 triton:8001 ✓ encrypted" in words_of(page_of(admin_client, "/connections"))


def test_an_empty_fleet_on_one_machine_has_nothing_in_the_clear(admin_client: Client) -> None:
    page = words_of(page_of(admin_client, "/connections"))
    assert "Nothing that these settings and the fleet name is in the clear." in page
    assert "The fleet has no replica yet." in page
