"""The first steps say what was seen of each, and nothing works that was not seen."""

import pytest
from django.test import Client

from controlplane.dashboard.views.entry import begin
from controlplane.incidents.notify.delivery.models import Delivery
from controlplane.telemetry.store import StoreUnavailableError
from tests.support.incidents.notices import pagerduty

pytestmark = pytest.mark.django_db


def unavailable() -> int:
    raise StoreUnavailableError("no answer")


def test_nothing_works_at_first_and_an_absent_store_is_not_known(
    owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.telemetry.query.answers.newest_ns", unavailable)
    page = " ".join(owner.get("/begin").content.decode().split())
    assert "3 of 3 to go" in page
    assert "○ not known" in page
    assert "There is no objective yet." in page
    assert "There is no enabled destination: nobody is paged." in page


@pytest.mark.parametrize(
    ("state", "works", "says"),
    [("delivered", True, "delivered"), ("dead", False, "refused"), ("pending", None, "pending")],
)
def test_a_page_works_once_one_was_delivered(state: str, works: bool | None, says: str) -> None:
    destination = pagerduty("on call")
    assert begin._paging().works is False
    settled = None if state == "pending" else "2026-11-25T10:00:00Z"
    Delivery.objects.create(
        destination=destination, endpoint=destination.endpoint, key="weir-test-1", sequence=1, action="trigger", is_page=True,
        notice={}, state=state, enqueued_at="2026-11-25T10:00:00Z", due_at="2026-11-25T10:00:00Z", settled_at=settled,
    )  # fmt: skip
    step = begin._paging()
    assert step.works is works
    assert says in step.says
