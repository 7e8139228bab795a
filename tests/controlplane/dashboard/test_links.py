"""Links that carry the question along."""

from controlplane.dashboard import links
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query.core.question import parse
from controlplane.telemetry.query.core.timerange import fixed

NOW = 1_795_183_500 * 10**9


def test_a_fixed_range_is_written_as_people_read_it_and_reads_back() -> None:
    written = fixed(Window(NOW - 15 * 10**9, NOW + 250_000_000))
    assert (written.from_text, written.to_text) == ("2026-11-20T14:04:45Z", "2026-11-20T14:05:00.250Z")
    assert parse({"from": [written.from_text], "to": [written.to_text]}, NOW).range.window == written.window


def test_zooming_out_of_a_live_range_stays_live() -> None:
    wider = links.wider(parse({"from": ["now-15m"]}, NOW))
    assert wider is not None
    assert (wider.range.from_text, wider.range.to_text) == ("now-30m", "now")


def test_zooming_out_of_a_fixed_range_keeps_its_middle() -> None:
    question = parse({"from": ["2026-11-20T14:00:00Z"], "to": ["2026-11-20T14:10:00Z"]}, NOW)
    wider = links.wider(question)
    assert wider is not None
    assert (wider.range.from_text, wider.range.to_text) == ("2026-11-20T13:55:00Z", "2026-11-20T14:15:00Z")


def test_there_is_an_end_to_zooming_out() -> None:
    assert links.wider(parse({"from": ["now-90d"]}, NOW)) is None


def test_links_carry_range_filters_and_quantile() -> None:
    question = parse({"from": ["now-1h"], "model": ["a b"], "q": ["p99"]}, NOW)
    assert links.latency(question) == "/latency?from=now-1h&to=now&model=a+b&q=p99"
    assert links.requests(question, order="newest") == "/requests?from=now-1h&to=now&model=a+b&q=p99&order=newest"
