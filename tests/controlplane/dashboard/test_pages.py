"""The pages as a server answers them."""

import re
from pathlib import Path

import pytest
from django.template.loader import get_template
from django.test import Client

from controlplane.dashboard.urls import urlpatterns
from tests.support.web.served import Filled

ROOT = Path(__file__).parents[3]
PAGES = ["/", "/latency", "/requests"]


@pytest.mark.parametrize("path", PAGES)
def test_pages_answer_and_are_kept_by_no_cache(reader: Client, served: Filled, path: str) -> None:
    response = reader.get(path)
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert "HX-Request" in response["Vary"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_inline_script_and_asks_no_other_host(reader: Client, served: Filled, path: str) -> None:
    page = reader.get(path).content.decode()
    for attributes in re.findall(r"<script([^>]*)>", page):
        assert "src=" in attributes or 'type="application/json"' in attributes
    assert not re.findall(r"""\son\w+=|(?:src|href|action)=["'](?:https?:)?//""", page)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),  # the overview still shows the components
        ("/latency", 503),
        ("/latency/explain", 503),
        ("/requests", 503),
        ("/signals", 503),
        ("/objectives/preview?target=0.9&indicator_kind=availability", 503),
    ],
)
def test_an_absent_store_is_said_in_words(reader: Client, away: None, path: str, status: int) -> None:
    response = reader.get(path)
    assert response.status_code == status
    assert "The store does not answer" in response.content.decode()
    if status == 503:
        assert int(response["Retry-After"]) >= 1
    else:
        assert "Gateway" in response.content.decode()
    assert "/latency" in reader.get("/quick").content.decode()


@pytest.mark.parametrize("path", PAGES)
def test_a_store_without_tables_is_said_with_who_makes_them(reader: Client, without_tables: None, path: str) -> None:
    assert "start telemetry, which makes them" in reader.get(path).content.decode()


def test_a_store_that_refuses_is_said_with_what_its_owner_can_do(reader: Client, refusing: None) -> None:
    response = reader.get("/latency")
    text = response.content.decode()
    assert response.status_code == 500
    assert "The store refuses" in text and "Its user or password is wrong: correct WEIR_STORE_DSN." in text


@pytest.mark.parametrize("query", ["from=yesterday", "q=p42", "to=now-1h", "by=colour"])
def test_a_bad_parameter_is_explained(reader: Client, served: Filled, query: str) -> None:
    response = reader.get(f"/latency?{query}")
    assert response.status_code == 400
    assert query.split("=")[1] in response.content.decode()


def test_htmx_is_given_the_fragment_alone_and_a_live_refresh_no_filters_that_a_reader_may_be_holding(
    reader: Client, served: Filled
) -> None:
    fragment = reader.get("/latency", headers={"hx-request": "true"}).content.decode()
    assert "<html" not in fragment
    assert 'id="figure"' in fragment
    assert 'id="filters"' in fragment
    fragment = reader.get("/latency", headers={"hx-request": "true", "weir-refresh": "1"}).content.decode()
    assert 'id="figure"' in fragment
    assert 'id="filters"' not in fragment


def test_an_unknown_trace_is_a_404_that_helps(reader: Client, served: Filled) -> None:
    response = reader.get(f"/traces/{'0' * 31}1")
    assert response.status_code == 404
    assert "WEIR_RETENTION_DAYS" in response.content.decode()


def test_what_a_visitor_writes_into_a_url_is_escaped(reader: Client, served: Filled) -> None:
    for path in ("/latency?model=<script>x", "/latency?from=<script>x", "/traces/<script>x", "/quick?text=<script>x"):
        assert "<script>x" not in reader.get(path).content.decode()


def test_quick_finds_a_trace_by_its_id(reader: Client, served: Filled) -> None:
    trace_id = served.rows[0].trace_id
    assert f"/traces/{trace_id}" in reader.get("/quick", {"text": trace_id}).content.decode()


def test_every_page_and_its_parameters_are_in_the_manual() -> None:
    manual = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    for pattern in urlpatterns:
        if pattern.name not in ("live", "quick", "latency-table"):
            first = str(pattern.pattern).split("/")[0].split("<")[0]
            assert f"`/{first}" in manual, pattern
    for parameter in ("q", "by", "view", "order", "min_ms", "limit", "cursor", "request"):
        assert f"`{parameter}`" in manual


def test_the_list_of_requests_leads_to_files_of_the_same_requests(reader: Client, served: Filled) -> None:
    page = reader.get("/requests", {**served.range, "q": "p99", "model": "chat-small"}).content.decode()
    for href in re.findall(r'href="(/api/v1/requests\.[^"]+)"', page):
        response = reader.get(href.replace("&amp;", "&"))
        assert response.status_code == 200
        assert "model=chat-small" in href
    assert page.count("/api/v1/requests.") == 2


@pytest.mark.parametrize(
    ("path", "said"), [("/nowhere/at/all", "/nowhere/at/all"), ("/incidents/999999", "No Incident matches")]
)
def test_what_is_not_there_is_answered_within_the_site(reader: Client, path: str, said: str) -> None:
    response = reader.get(path)
    page = response.content.decode()
    assert response.status_code == 404
    assert said in page
    assert 'aria-label="Pages"' in page


def test_who_is_not_logged_in_is_not_told_what_is_not_there(client: Client, caller: Client) -> None:
    assert client.get("/nowhere")["Location"] == "/login?next=/nowhere"
    assert client.get("/api/v1/nowhere").status_code == 401
    problem = caller.get("/api/v1/nowhere")
    assert (problem.status_code, problem["Content-Type"]) == (404, "application/problem+json")


def test_every_template_can_be_read() -> None:
    folder = Path(__file__).resolve().parents[3] / "templates"
    names = [str(path.relative_to(folder)) for path in folder.rglob("*.html")]
    assert len(names) > 50
    for name in names:
        get_template(name)
