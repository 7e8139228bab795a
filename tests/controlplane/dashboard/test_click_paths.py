"""Whatever is clicked, the filters survive it, the URL says all of it, and the figures are of the filters that are shown."""

import html
import operator
import re
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from controlplane.core.formatting import PAGE
from controlplane.telemetry.core.query_types import Filters
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.question import DIMENSIONS, UNKNOWN, Question, parse
from controlplane.telemetry.query.core.slow import REGION
from controlplane.telemetry.query.core.timerange import SECOND_NS
from tests.support.web.html import html_of
from tests.support.web.page_model import LIFTS, SCREENS, Click, Screen
from tests.support.web.served import Filled

CLICKS = 3
OPENED = ("/latency/explain", "/latency/table")
"""What the latency screen asks for after its figures, with its own parameters."""
WRITTEN = ("tokens > 1000", "tokens<=600", "weir.tenant=search", "weir.tenant!=docs", "model!=chat-large")
CHOSEN: Mapping[str, Sequence[str]] = {
    "model": ("chat-small", "chat-large"),
    "tenant": ("support", "search"),
    "status": ("ok", "error"),
    "cache": ("hit", "miss"),
    "tier": ("premium", "batch"),
}
NAMES = ("Latency", "Requests")
SETTINGS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "/latency": {
        "by": ("pool", "replica", "prompt_bucket"),
        "q": ("p50", "p99"),
        "across": ("tenant", "status"),
        "view": ("heatmap",),
        "compare": ("previous", "model=chat-large"),
        "e2e_from_ms": ("100",),
    },
    "/requests": {"order": ("slowest",), "min_ms": ("40", "300"), "compare": ("yesterday", "model=chat-large")},
    "/map": {"compare": ("previous",)},
}
"""What a screen has beside the filters of requests."""
COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}


@st.composite
def questions(draw: Callable[[st.SearchStrategy[object]], object]) -> str:
    """The URL of a screen, without its range."""
    screen = str(draw(st.sampled_from(SCREENS)))
    pairs: list[tuple[str, str]] = []
    for name, values in CHOSEN.items():
        match draw(st.sampled_from(("", "", "is", "both", "not"))):
            case "is":
                pairs.append((name, str(draw(st.sampled_from(values)))))
            case "both":
                pairs += [(name, value) for value in values]
            case "not":
                pairs.append(("not", f"{name}={draw(st.sampled_from(values))}"))
    for name, values in SETTINGS[screen].items():
        if value := str(draw(st.sampled_from(("", *values)))):
            pairs.append((name, value))
    if draw(st.booleans()):
        pairs.append(("tz", "Asia/Kolkata"))
    return f"{screen}?{urlencode(pairs)}"


def asked(url: str) -> Question:
    return parse(parse_qs(urlsplit(url).query), time.time_ns())


def moves(question: Question) -> bool:
    """Whether its range is another one a moment later."""
    return "now" in question.range.from_text + question.range.to_text


def kept(before: Filters, click: Click) -> bool:
    """Every filter is still there, if perhaps narrower, or with the value that the link names."""
    after = asked(click.url).filters
    for name, values in before.items():
        if name not in DIMENSIONS:
            if not set(values) <= set(after.get(name, ())):
                return False
        elif not after.get(name) or any(value not in values and value not in click.says for value in after[name]):
            return False
    return True


def passing(rows: Sequence[LedgerRow], question: Question, least_ms: float = 0.0) -> list[LedgerRow]:
    """The rows that a question asks for."""
    window = question.range.window
    return [
        row
        for row in rows
        if window.from_ns <= row.entry_start_ns < window.to_ns
        and row.e2e_ns >= least_ms * 1e6
        and all(_holds(row, name, values) for name, values in question.filters.items())
    ]


def _holds(row: LedgerRow, name: str, values: Sequence[str]) -> bool:
    match name:
        case "not":
            pairs = [pair.partition("=") for pair in values]
            return not any(_is(row, key, value) for key, _, value in pairs)
        case "attribute":
            return all(_is(row, *pair.split("=")) for pair in values)
        case "tokens":
            bounds = [re.fullmatch(r"(\D+)(\d+)", bound) for bound in values]
            return all(bound and COMPARED[bound[1]](row.prompt_tokens, int(bound[2])) for bound in bounds)
        case _:
            return any(_is(row, name, value) for value in values)


def _is(row: LedgerRow, name: str, value: str) -> bool:
    """Whether a row has a value of a dimension, or of the attribute that became its column."""
    if name == "replica":
        return value in {row.replica, *(attempt.replica for attempt in row.attempts)}
    column = {"cache": "cache_outcome", "error.type": "error_type", "weir.tenant": "tenant"}.get(name, name)
    return bool(str(getattr(row, column)) == value)


def counted(page: str) -> int:
    """What the screen says that it is of."""
    text = " ".join(re.sub(r"<[^>]+>", " ", html.unescape(page)).split()).replace("\u202f", "")
    if re.search(r"No request was recorded in this range", text):
        return 0
    found = re.search(
        r"of (\d+) requests? (?:that were answered|was answered|failed)|(?<![\d/] )\b(\d+) requests?\b", text
    )
    assert found, text[:800]
    return int(found[1] or found[2])


def look(screen: Screen, url: str, rows: Sequence[LedgerRow]) -> None:
    """Hold a screen to what it shows: its filters are those of its URL, and its figures are those of its filters."""
    question, shown = asked(url), screen.filters()
    as_shown = parse(shown, time.time_ns())
    assert {name: set(values) for name, values in as_shown.filters.items()} == {
        name: set(values) for name, values in question.filters.items()
    }, (url, shown)
    assert (shown["from"], shown["to"]) == ([question.range.from_text], [question.range.to_text]), url
    if moves(question) and question.range.window.from_ns > min(row.entry_start_ns for row in rows) - 60 * SECOND_NS:
        return  # requests leave the range while the test looks
    of_all = passing(rows, as_shown)
    summary = screen.words('aria-label="Summary"', "</section>")
    assert counted(summary) == len(of_all), (url, summary)
    match screen.path:
        case "/requests":
            _look_at_list(screen, url, passing(rows, as_shown, _least_ms(url)))
        case "/latency" if of_all:
            _look_at_latency(screen, url, as_shown, of_all)


def _least_ms(url: str) -> float:
    return float(parse_qs(urlsplit(url).query).get("min_ms", ["0"])[0])


def _look_at_list(screen: Screen, url: str, expected: Sequence[LedgerRow]) -> None:
    listed = re.findall(r'<tr data-row id="row-([^"]*)"', screen.main)
    assert set(listed) <= {row.request_id for row in expected}, url
    if "cursor" not in url and "max_ms" not in url:
        assert len(listed) == min(50, len(expected)), url


def _look_at_latency(screen: Screen, url: str, question: Question, expected: Sequence[LedgerRow]) -> None:
    failed = sum(row.status in ("error", "rejected") for row in expected)
    said = re.search(r"✕ (\d+) of (\d+) requests? failed", screen.words('aria-label="Summary"', "</section>"))
    assert (int(said[1]) if said else 0) == failed, url
    if question.range.length_ns <= 6 * 3600 * SECOND_NS and (e2e := answers.report(question).e2e_ms):
        cells = screen.main.partition('<section class="stages panel"')[2].partition("<td colspan")[0]
        drawn = re.findall(r'<td class="n[^"]*">([^<]*)</td>', cells)
        assert drawn == [PAGE.ms(getattr(e2e, name)) for name in ("p50", "p95", "p99")], url
    by = parse_qs(urlsplit(url).query).get("by", ["model"])[0]
    across = parse_qs(urlsplit(url).query).get("across", [""])[0]
    groups = re.search(r'<section class="groups panel".*?</section>', screen.main, re.S)
    for row in (
        re.findall(r"<tr><th.*?</tr>", groups[0].partition("<tbody>")[2], re.S) if groups and by != "replica" else ()
    ):
        value = html.unescape(re.findall(r"data-go>(?:<span[^>]*>)?([^<]*)<", row)[0]).strip()
        beside = html.unescape(re.findall(r"<td>([^<]*)</td>", row)[0]) if across else ""
        number = re.findall(r'<td class="n">([\d\u202f]+)', row)[-1].replace("\u202f", "")
        assert int(number) == sum(
            _is(each, by, value) and (not across or _is(each, across, beside)) for each in expected
        ), (url, by, value, beside)


def clicks_of(reader: Client, served: Filled, url: str, part: str = "") -> list[Click]:
    """Where one can go from a screen, which is held to what it shows. `part`: what is opened below its figures."""
    response = reader.get(url)
    assert response.status_code == 200, (url, html_of(response))
    screen = Screen(urlsplit(url).path, html_of(response))
    look(screen, url, served.rows)
    clicks = [*screen.links(), *screen.choices(), *(screen.written(text) for text in WRITTEN)]
    if part:
        clicks += Screen(screen.path, html_of(reader.get(f"{part}?{urlsplit(url).query}"))).links()
    for click in clicks:
        assert LIFTS.search(click.says) or kept(asked(url).filters, click), (url, click)
        assert _keeps_settings(url, click), (url, click)
    return clicks


@pytest.mark.parametrize(
    "url",
    [
        "/latency?by=pool&across=tenant&tz=Asia/Kolkata&view=heatmap&compare=previous&q=p99&not=tenant%3Dsupport&tier=premium&tier=batch",
        "/latency?by=prompt_bucket&across=status&compare=model%3Dchat-large&model=chat-small&model=chat-large&cache=miss&e2e_from_ms=100",
        "/requests?order=slowest&min_ms=40&compare=last-week&model=chat-small&attribute=tokens%3E600",
        "/map?compare=previous&cache=miss&not=model%3Dchat-large",
    ],
)
def test_every_link_keeps_filters_and_settings(reader: Client, served: Filled, url: str) -> None:
    for part in ("", *OPENED) if url.startswith("/latency") else ("",):
        clicks_of(reader, served, f"{url}&{urlencode(served.range)}", part)


@pytest.mark.soak
@settings(
    max_examples=1000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.reuse, Phase.generate],  # a path is short as it is, and shrinking would ask the store for minutes
)
@given(
    questions(),
    st.lists(st.tuples(st.sampled_from(("", *OPENED)), st.integers(0, 999)), min_size=CLICKS, max_size=CLICKS),
)
def test_a_random_path_of_clicks_keeps_filters_and_shows_figures_of_them(
    reader: Client, served: Filled, url: str, path: list[tuple[str, int]]
) -> None:
    """What is drawn does not depend on the pages: those of a live range change as time passes."""
    url = f"{url}&{urlencode(served.range)}"
    for part, number in path:
        clicks = clicks_of(reader, served, url, part if url.startswith("/latency") else "")
        url = clicks[number % len(clicks)].url
    assert_alone(reader, url)


def _keeps_settings(url: str, click: Click) -> bool:
    """On the same screen its settings stay, but for the one that the link is about. The bar of all screens begins anew; a region leaves
    with the range."""
    before = parse_qs(urlsplit(url).query)
    if any(click.asks.get(end) != before[end] for end in ("from", "to")):
        before = {name: values for name, values in before.items() if name not in REGION}
    if click.path != urlsplit(url).path or LIFTS.search(click.says) or click.says.strip() in NAMES:
        return True
    return sum(click.asks.get(name) != before[name] for name in SETTINGS[click.path] if name in before) <= 1


def assert_alone(reader: Client, url: str) -> None:
    """A view's URL says all of it: in a fresh session it shows the same."""
    fresh = Client()
    fresh.force_login(reader.get("/begin").wsgi_request.user)
    if not moves(asked(url)):
        assert _timeless(html_of(fresh.get(url))) == _timeless(html_of(reader.get(url))), url


@pytest.mark.parametrize("screen", SCREENS)
def test_a_url_is_the_whole_truth_of_its_screen(reader: Client, screen: str, served: Filled) -> None:
    pairs = {"model": ["chat-small"], "not": ["tenant=support", f"tier={UNKNOWN}"], "compare": "previous"}
    asked_for = {**served.range, **pairs}
    assert_alone(reader, f"{screen}?{urlencode(asked_for, doseq=True)}")
    first = html_of(reader.get(screen, asked_for))
    assert "tenant is not support" in first and f"tier is not {UNKNOWN}" in html.unescape(first)


def _timeless(page: str) -> str:
    """Without what differs between two moments and sessions."""
    main = page[page.index("<main") :]
    return re.sub(r'value="[A-Za-z0-9]{64}"|data-now-ms="\d+"|data as of [^<]*', "", main[: main.index("</main>")])


@pytest.mark.parametrize("value", ["chat-small", "chat-large"])
def test_is_and_is_not_part_the_requests_and_one_click_turns_them(reader: Client, served: Filled, value: str) -> None:
    page = html_of(reader.get("/requests", {**served.range, "model": value}))
    [turned] = [click.url for click in Screen("/requests", page).links() if click.says.startswith("is not ")]
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
