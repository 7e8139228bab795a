"""Nothing but health checks and the login answers an outsider, whatever URLs anybody adds."""

import pytest
from django.test import Client

from tests.support.web.urls import all_urls

OPEN_TO_ALL = {
    "/healthz", "/readyz", "/login", "/hooks/pagerduty", "/shared/<str:text>", "/logout", "/login/closed", "/login/reset",
    "/login/reset/sent", "/login/reset/done", "/login/through/x", "/login/through/x/ended", "/login/cancelled", "/login/reset/x-<str:key>",
    "/login/saml/x", "/login/saml/x/back",
}  # fmt: skip
SENT_BACK = {
    "/login/through/x/back", "/login/saml/x/done", "/login/saml/x/metadata", "/admin/login/", "/login/second-factor", "/login/passkey",
}  # fmt: skip
"""Open, and nothing without a password or a passkey before."""


def is_refusal(status: int, location: str) -> bool:
    return status == 401 or (status == 302 and location.startswith(("/login", "/admin/login")))


ALL_URLS = all_urls()


def test_the_list_of_urls_is_not_empty_by_mistake() -> None:
    assert {"/healthz", "/metrics", "/admin/", "/admin/fleet/pool/add/"} <= set(ALL_URLS)


@pytest.mark.django_db
@pytest.mark.parametrize("url", ALL_URLS)
def test_an_outsider_is_let_into_nothing_but_health_checks_and_the_login(outsider: Client, url: str) -> None:
    response = outsider.get(url)
    if url in OPEN_TO_ALL | SENT_BACK:
        assert is_refusal(response.status_code, response.get("Location", "")) == (url in SENT_BACK)
    else:
        assert is_refusal(response.status_code, response.get("Location", "")), f"{url} answers {response.status_code}"


@pytest.mark.django_db
def test_health_checks_answer_an_outsider(outsider: Client) -> None:
    assert outsider.get("/healthz").status_code == 200
    assert outsider.get("/readyz").json() == {"ready": True}
