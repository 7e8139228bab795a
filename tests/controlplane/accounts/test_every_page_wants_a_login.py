"""Nothing but health checks and the login answers an outsider, whatever URLs anybody adds."""

import pytest
from django.test import Client

from tests.support.web.urls import all_urls

OPEN_TO_ALL = {
    "/healthz", "/readyz", "/login", "/hooks/pagerduty", "/shared/<str:text>", "/logout", "/login/closed", "/login/reset",
    "/login/reset/sent", "/login/reset/done", "/login/through/x", "/login/through/x/ended", "/login/cancelled", "/login/reset/x-<str:key>",
    "/login/saml/x", "/login/saml/x/back",
}  # fmt: skip


def is_refusal(status: int, location: str) -> bool:
    return status == 401 or (status == 302 and location.startswith(("/login", "/admin/login")))


ALL_URLS = all_urls()


def test_the_list_of_urls_is_not_empty_by_mistake() -> None:
    assert {"/healthz", "/metrics", "/admin/", "/admin/fleet/pool/add/"} <= set(ALL_URLS)


@pytest.mark.django_db
def test_an_outsider_is_let_into_nothing_but_health_checks_and_the_login() -> None:
    answers = {url: Client().get(url) for url in ALL_URLS}
    let_in = {url for url, answer in answers.items() if not is_refusal(answer.status_code, answer.get("Location", ""))}
    assert let_in == OPEN_TO_ALL


@pytest.mark.django_db
def test_health_checks_answer_an_outsider(outsider: Client) -> None:
    assert outsider.get("/healthz").status_code == 200
    assert outsider.get("/readyz").json() == {"ready": True}
