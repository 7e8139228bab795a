"""Nothing but health checks and the login answers an outsider, whatever URLs anybody adds."""

from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

OPEN_TO_ALL = {
    "/healthz", "/readyz", "/login", "/hooks/pagerduty", "/shared/<str:text>", "/logout", "/login/closed", "/login/reset",
    "/login/reset/sent", "/login/reset/done", "/login/through/x", "/login/cancelled", "/login/reset/x-<str:key>",
}  # fmt: skip
SENT_BACK = {"/login/through/x/back", "/admin/login/", "/login/second-factor", "/login/passkey"}
"""Open, and nothing without a password or a passkey before."""
SAMPLES = {
    "int": "1",
    "str": "x",
    "slug": "x",
    "uuid": "0b2f5e1e-5d54-4bd1-9c5c-07d6e1cbb4a1",
    "path": "x/y",
    "trace_id": "a" * 32,
}


def urls(resolver: URLResolver, prefix: str = "/") -> Iterator[str]:
    for one in resolver.url_patterns:
        if not isinstance(one.pattern, RoutePattern):
            continue  # the admin's catch-all for what does not exist
        part = str(one.pattern)
        for name, converter in one.pattern.converters.items():
            kind = type(converter).__name__.removesuffix("Converter").lower()
            part = part.replace(f"<{name}>", SAMPLES["str"]).replace(f"<{kind}:{name}>", SAMPLES.get(kind, "x"))
        if isinstance(one, URLPattern):
            yield prefix + part
        else:
            yield from urls(one, prefix + part)


def is_refusal(status: int, location: str) -> bool:
    return status == 401 or (status == 302 and location.startswith(("/login", "/admin/login")))


ALL_URLS = sorted(set(urls(get_resolver())))


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
