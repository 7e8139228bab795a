"""Links that show one view without a log-in: as long as they hold, and that view alone."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.accounts.models import SharedLink

pytestmark = pytest.mark.django_db


def made(client: Client, path: str, length: str = "1d") -> SharedLink:
    client.post("/share", {"path": path, "length": length})
    return SharedLink.objects.latest("pk")


def test_whoever_has_a_link_reads_its_view_and_can_change_nothing(owner: Client, outsider: Client) -> None:
    link = made(owner, "/silences?reason=load+test")
    assert timedelta(hours=23) < link.ends_at - timezone.now() <= timedelta(days=1)
    answer = outsider.get(f"/shared/{link.text}")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "Read-only, until" in page
    assert "Log out" not in page
    assert "data-live-path" not in page
    assert outsider.get("/silences").status_code == 302
    assert outsider.post(f"/shared/{link.text}", {"reason": "x"}).status_code == 405


@pytest.mark.parametrize("how", ["ended", "withdrawn", "forged", "another"])
def test_a_link_that_does_not_hold_shows_nothing_and_says_so(owner: Client, outsider: Client, how: str) -> None:
    link = made(owner, "/silences")
    text = link.text
    if how == "ended":
        SharedLink.objects.update(ends_at=timezone.now())
    elif how == "withdrawn":
        SharedLink.objects.update(withdrawn=True)
    else:
        text = f"{link.pk + 1}{text[text.index(':') :]}" if how == "another" else f"{link.pk}:x"
    answer = outsider.get(f"/shared/{text}")
    assert answer.status_code == 404
    assert "has ended, or was withdrawn" in answer.content.decode()


@pytest.mark.parametrize(
    ("path", "length"),
    [
        ("/admin/", "1d"),
        ("/api/v1/incidents", "1d"),
        ("https://evil.example/", "1d"),
        ("/silences", "900d"),
        ("/logout", "1d"),
    ],
)
def test_only_views_of_weir_are_shared_and_not_without_an_end(owner: Client, path: str, length: str) -> None:
    assert owner.post("/share", {"path": path, "length": length}).status_code == 400
    assert not SharedLink.objects.exists()
