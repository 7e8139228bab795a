import pytest
from django.contrib.auth.models import User
from django.test import Client
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus
from pytest_django import Settings

from controlplane.accounts.models import ApiToken

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_served")]


def requests(page: str, route: str) -> float:
    return sum(
        sample.value
        for family in prometheus(page)
        for sample in family.samples
        if sample.name == "weir_web_requests_total" and sample.labels["route"] == route
    )


def test_requests_are_counted_by_route(owner: Client) -> None:
    before = requests(owner.get("/metrics").content.decode(), "login")
    owner.get("/login")
    assert requests(owner.get("/metrics").content.decode(), "login") == before + 1


def test_what_clients_invent_makes_no_new_series(owner: Client) -> None:
    for number in range(3):
        owner.get(f"/no/such/page/{number}")
    owner.generic("BREW", "/login")
    page = owner.get("/metrics").content.decode()
    assert "/no/such/page" not in page
    assert "BREW" not in page


def test_a_scraper_that_asks_for_openmetrics_gets_it(owner: Client) -> None:
    response = owner.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert response["Content-Type"].startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert response.content.endswith(b"# EOF\n")
    families = openmetrics(response.content.decode())  # type: ignore[no-untyped-call]
    assert "weir_web_requests" in {family.name for family in families}


def test_the_metrics_token_opens_the_metrics_and_nothing_else(settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"metrics_token": "m" * 32})
    scraper = Client(headers={"Authorization": f"Bearer {'m' * 32}"})
    assert scraper.get("/metrics").status_code == 200
    assert scraper.get("/api/v1/silences").status_code == 401
    assert scraper.get("/admin/").status_code == 302
    assert Client(headers={"Authorization": "Bearer another"}).get("/metrics").status_code == 401


def test_an_api_token_opens_neither_pages_nor_the_admin() -> None:
    _, token = ApiToken.objects.issue(User.objects.create_superuser("olga"), "tests")
    program = Client(headers={"Authorization": f"Bearer {token}"})
    assert program.get("/api/v1/silences").status_code == 200
    assert program.get("/metrics").status_code == 200
    for page in ("/", "/admin/", "/objectives"):
        answer = program.get(page)
        assert answer.status_code == 302 and "login" in answer["Location"].partition("?")[0]
