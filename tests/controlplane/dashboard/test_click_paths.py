"""Whatever is clicked, the filters survive it, the URL says all of it, and the figures are of the filters that are shown."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.telemetry.core.query_types import Filters, excluded
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.query.core.question import DIMENSIONS, UNKNOWN, Question, parse
from tests.support.web.html import html_of
from tests.support.web.served import Filled

SCREENS = ("/latency", "/requests")
LIFTS = re.compile(r"Remove this|is\s+not|clear filters|Lift the filters|take this value away|Requests of every other")
"""How a link that takes a filter away says so."""
CHOSEN: Mapping[str, Sequence[str]] = {
    "model": ("chat-small", "chat-large"),
    "tenant": ("support", "search"),
    "status": ("ok", "error"),
    "cache": ("hit", "miss"),
    "tier": ("premium", "batch"),
}


@st.composite
def questions(draw: Callable[[st.SearchStrategy[object]], object]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, values in CHOSEN.items():
        match draw(st.sampled_from(("", "", "is", "both", "not"))):
            case "is":
                pairs.append((name, str(draw(st.sampled_from(values)))))
            case "both":
                pairs += [(name, value) for value in values]
            case "not":
                pairs.append(("not", f"{name}={draw(st.sampled_from(values))}"))
    return pairs


def anchors(page: str) -> list[tuple[str, str]]:
    """The links to screens of requests: URL, and the tag with what it says."""
    found = re.findall(r'(<a\b[^>]*href="((?:/latency|/requests)(?:\?[^"]*)?)"[^>]*>.*?</a>)', page, re.S)
    return [(html.unescape(href), html.unescape(tag)) for tag, href in found if "noreferrer" not in tag]


def asked(url: str) -> Question:
    return parse(parse_qs(urlsplit(url).query), 1_795_183_500 * 10**9)


def kept(before: Filters, after: Filters) -> bool:
    """Every filter is still there, if perhaps narrower."""
    return all(
        set(after.get(name, ())) <= set(values) and after.get(name)
        if name in DIMENSIONS
        else set(values) <= set(after.get(name, ()))
        for name, values in before.items()
    )


def matching(rows: Sequence[LedgerRow], filters: Filters) -> int:
    """How many requests pass the filters of dimensions."""

    def value(row: LedgerRow, name: str) -> str:
        return str(getattr(row, "cache_outcome" if name == "cache" else name))

    return sum(
        all(value(row, name) in values for name, values in filters.items() if name in DIMENSIONS)
        and not any(value(row, name) in values for name, values in excluded(filters).items())
        for row in rows
    )


def counted(page: str) -> int:
    """What the screen says that it is of."""
    text = " ".join(re.sub(r"<[^>]+>", " ", html.unescape(page)).split()).replace("\u202f", "")
    if re.search(r"No requests in this range", text):
        return 0
    found = re.search(
        r"of (\d+) requests? (?:that were answered|was answered|failed)|(?<![\d/] )\b(\d+) requests?\b", text
    )
    assert found, text[:800]
    return int(found[1] or found[2])


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_random_path_of_clicks_keeps_filters_and_shows_figures_of_them(
    reader: Client, served: Filled, data: st.DataObject
) -> None:
    pairs = [*served.range.items(), *data.draw(questions())]
    url = f"{data.draw(st.sampled_from(SCREENS))}?{'&'.join(f'{name}={value}' for name, value in pairs)}"
    for _ in range(4):
        response = reader.get(url)
        assert response.status_code == 200, url
        page, question = html_of(response), asked(url)
        if (
            "attribute" not in question.filters
            and "min_ms" not in url
            and question.range.from_text == served.range["from"]
        ):
            main = page[page.index("<main") :]
            assert counted(main[main.index('aria-label="Summary"') :]) == matching(served.rows, question.filters), url
        links = anchors(page)
        for href, tag in links:
            assert LIFTS.search(tag) or kept(question.filters, asked(href).filters), (url, href, tag)
        url = data.draw(st.sampled_from([href for href, _ in links]))


@pytest.mark.parametrize("screen", [*SCREENS, "/map"])
def test_a_url_is_the_whole_truth_of_its_screen(reader: Client, screen: str, served: Filled) -> None:
    pairs = {"model": ["chat-small"], "not": ["tenant=support", f"tier={UNKNOWN}"], "compare": "previous"}
    if screen != "/latency":
        del pairs["compare"]
    asked_for = {**served.range, **pairs}
    first = html_of(reader.get(screen, asked_for))
    fresh = Client()
    fresh.force_login(reader.get("/").wsgi_request.user)
    assert _timeless(html_of(fresh.get(screen, asked_for))) == _timeless(first)
    assert "tenant is not support" in first and f"tier is not {UNKNOWN}" in html.unescape(first)


def _timeless(page: str) -> str:
    """Without what differs between two moments and sessions."""
    main = page[page.index("<main") :]
    return re.sub(r'value="[A-Za-z0-9]{64}"|data-now-ms="\d+"|data as of [^<]*', "", main[: main.index("</main>")])


@pytest.mark.parametrize("value", ["chat-small", "chat-large"])
def test_is_and_is_not_part_the_requests_and_one_click_turns_them(reader: Client, served: Filled, value: str) -> None:
    page = html_of(reader.get("/requests", {**served.range, "model": value}))
    [turned] = [href for href, tag in anchors(page) if re.search(r"is\s+not</a>", tag)]
    other = html_of(reader.get(turned))
    assert asked(turned).filters == {"not": (f"model={value}",)}
    shown = [counted(each[each.index('aria-label="Summary"') :]) for each in (page, other)]
    assert shown == [len(served.of(model=value)), len(served.rows) - len(served.of(model=value))]


def test_an_attribute_can_be_ruled_out_as_people_write_it(reader: Client, caller: Client, served: Filled) -> None:
    written = html_of(reader.get("/requests", {**served.range, "attribute": "weir.tenant!=support"}))
    assert counted(written[written.index('aria-label="Summary"') :]) == len(served.rows) - len(
        served.of(tenant="support")
    )
    found = caller.get("/api/v1/latency", {**served.range, "not": ["model=chat-small", "status=error"]}).json()
    expected = [row for row in served.rows if row.model != "chat-small" and row.status != "error"]
    assert found["requests"] == len(expected) > 0
