"""Failed logins are counted by the machine that they come from, and not by the proxy in between."""

from ipaddress import ip_network

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.accounts.client_ip import address_of

PROXIES = [ip_network("10.0.0.0/24"), ip_network("::1/128")]


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "expected"),
    [
        ("203.0.113.7", "", "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),  # no proxy of ours: it may write what it likes
        ("10.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.7, 10.0.0.2", "203.0.113.7"),
        ("::ffff:10.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "nobody", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.7, <script>", "10.0.0.1"),
        ("::1", "2001:db8::7", "2001:db8::7"),
    ],
)
def test_the_last_address_that_is_no_proxy_counts(peer: str, forwarded_for: str, expected: str) -> None:
    assert address_of(peer, forwarded_for, PROXIES) == expected


@pytest.mark.django_db
def test_who_fails_behind_a_proxy_locks_nobody_else_out(settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"trusted_proxies": ["127.0.0.1"]})
    User.objects.create_superuser("admin", password="correct horse battery")
    stranger, owner = Client(), Client()
    for _ in range(settings.AXES_FAILURE_LIMIT + 1):
        answer = stranger.post(
            "/login", {"login": "admin", "password": "guess"}, headers={"X-Forwarded-For": "203.0.113.66"}
        )
    assert answer.status_code == 429
    answer = owner.post(
        "/login",
        {"login": "admin", "password": "correct horse battery"},
        headers={"X-Forwarded-For": "203.0.113.7"},
    )
    assert answer.status_code == 302
