""" "Would have paged" as a page: what it says of history with a known course, and how it answers drafts that cannot be."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.models import MeasurementGap, StoredObjective
from controlplane.slo.save import save_objective
from tests.support.web.html import html_of
from tests.support.web.served import Filled

PROMISE = Objective("large", "Large model", Latency("e2e", 1.0), 0.9, {"model": "chat-large"})
QUICK = "page 2m/1m 0.0001"


@pytest.fixture
def saved(db: None) -> Objective:
    save_objective(PROMISE, who="olga")
    return PROMISE


def get(client: Client, **parameters: str) -> tuple[int, str]:
    response = client.get("/objectives/preview", {"from": "now-1h", **parameters})
    return response.status_code, " ".join(html_of(response).split())


def test_it_says_how_often_the_saved_objective_would_have_paged(
    reader: Client, served: Filled, saved: Objective
) -> None:
    began_at = datetime.fromtimestamp(int(served.hour["from"]) / 1e9, UTC)
    counted = [("chat-large", "batch", 9)]
    MeasurementGap.objects.create(
        began_at=began_at,
        ended_at=began_at + timedelta(minutes=10),
        why="its disk is full",
        ended=counted,
        missing=counted,
    )
    status, text = get(reader, saved="large", **served.hour)
    assert status == 200
    assert "▲ 10 min were not measured (about 9 requests, " in text
    assert '<strong>Large model</strong> would have paged <strong class="bad">✕ 1 time</strong>' in text
    assert "windows and budget count no requests before it, as the controller does" in text
    assert " min of 30 days</strong>." in text


def test_it_says_that_nobody_would_have_been_paged(reader: Client, served: Filled, saved: Objective) -> None:
    status, text = get(reader, saved="large", threshold_ms="100000", **served.hour)
    assert status == 200
    assert "<strong>Large model</strong> would have paged <strong >nobody</strong>" in text
    assert '<th scope="row">pages</th><td >✓ none</td>' in text


def test_changed_windows_stand_beside_the_saved_ones(reader: Client, served: Filled, saved: Objective) -> None:
    status, text = get(reader, saved="large", windows=QUICK, **served.hour)
    assert status == 200
    assert 'would have paged <strong class="bad">✕ ' in text
    assert '<th scope="col">changed</th><th scope="col">as saved</th>' in text
    assert '"figure"' in text or 'id="figure"' in text
    assert "what was slow" in text


def test_a_draft_that_was_never_saved_needs_no_name(reader: Client, served: Filled) -> None:
    draft = {"indicator_kind": "availability", "target": "0.5", "minimum_bad": "1", "minimum_total": "1"}
    status, text = get(reader, windows=QUICK, **draft, **served.hour)
    assert status == 200
    assert "this draft would have paged" in text
    assert '<th scope="col">draft</th><th scope="col">workbook</th>' in text


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"target": "1.2"}, "target=1.2 is not between 0 and 1"),
        ({"target": "much"}, "Enter a number"),
        ({"threshold_ms": "0"}, "threshold_ms=0.0 is not above 0"),
        ({"windows": "page 1h"}, "Enter a valid JSON"),
        ({"windows": "page 60d/1d 0.1"}, "shorter windows"),
        ({"minimum_bad": "-1"}, "minimum_bad"),
        ({"saved": "nobody"}, "is no objective"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    reader: Client, served: Filled, saved: Objective, parameters: dict[str, str], words: str
) -> None:
    status, text = get(reader, **{"saved": "large", **parameters})
    assert status == 400
    assert words in text


def test_a_posted_form_becomes_the_shortest_url_that_shows_it(owner: Client, saved: Objective) -> None:
    response = owner.post(
        "/objectives/preview?saved=large",
        {
            "slug": "large",
            "name": "Large model",
            "target": "0.99",
            "threshold_ms": "1.0",
            "scope_model": "chat-large",
            "owner": "",
        },
    )
    assert response.status_code == 302
    assert parse_qs(urlsplit(response["Location"]).query) == {"saved": ["large"], "target": ["0.99"]}


def test_the_admin_offers_it_before_saving(owner: Client, saved: Objective) -> None:
    row = StoredObjective.objects.get(slug="large")
    page = owner.get(f"/admin/slo/storedobjective/{row.pk}/change/").content.decode()
    assert 'formaction="/objectives/preview?saved=large"' in page
    assert 'formaction="/objectives/preview"' in owner.get("/admin/slo/storedobjective/add/").content.decode()
