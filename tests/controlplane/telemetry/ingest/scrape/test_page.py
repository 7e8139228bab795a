"""Pages of metrics in both formats, from real targets and made by hand."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.exposition import generate_latest as text_format
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from controlplane.telemetry.ingest.scrape import page
from controlplane.telemetry.ingest.scrape.page import PageError, read

OPENMETRICS, TEXT = "application/openmetrics-text; version=1.0.0; charset=utf-8", "text/plain; version=0.0.4"


@pytest.mark.parametrize("expose, content_type", [(text_format, TEXT), (openmetrics, OPENMETRICS)])
def test_both_formats_say_the_same(expose: object, content_type: str) -> None:
    registry = CollectorRegistry()
    Counter("requests", "x", ["code"], registry=registry).labels("200").inc(3)
    Gauge("queue_depth", "x", registry=registry).set(7)
    Histogram("wait_seconds", "x", buckets=(0.5, 1), registry=registry).observe(0.7)
    Summary("size", "x", registry=registry).observe(2)
    found = {(one.metric, one.labels.get("le", "")): one for one in read(expose(registry), content_type)}  # type: ignore[operator]
    assert set(found) == {
        ("requests_total", ""), ("queue_depth", ""), ("size_count", ""), ("size_sum", ""), ("wait_seconds_count", ""),
        ("wait_seconds_sum", ""), ("wait_seconds_bucket", "0.5"), ("wait_seconds_bucket", "1.0"), ("wait_seconds_bucket", "+Inf"),
    }  # fmt: skip
    counter, bucket = found["requests_total", ""], found["wait_seconds_bucket", "1.0"]
    assert (counter.value, counter.labels, counter.kind) == (3, {"code": "200"}, "counter")
    assert (bucket.value, bucket.kind) == (1, "counter")
    assert found["queue_depth", ""].kind == "gauge"
    assert all(one.start_ns > 10**18 for one in found.values() if one.kind == "counter"), (
        "they say since when they count"
    )


def test_triton_s_page_is_read(shared_dir: Path) -> None:
    found = read((shared_dir / "fixtures" / "triton" / "metrics.txt").read_bytes(), "text/plain; charset=utf-8")
    [one] = [
        one for one in found if one.metric == "nv_inference_queue_duration_us" and one.labels["model"] == "textgen"
    ]
    assert (one.value, one.kind, one.time_ns, one.start_ns) == (664118448, "counter", 0, 0)


def test_a_sample_may_have_a_time_of_its_own() -> None:
    [one] = read(b"x 1 1789999999123\n", TEXT)
    assert one.time_ns == 1789999999123000000
    [one] = read(b"# TYPE x gauge\nx 1 1789999999.123456789\n# EOF\n", OPENMETRICS)
    assert one.time_ns == 1789999999123456789


@pytest.mark.parametrize(
    "body, content_type",
    [
        (b"x{ 1\n", TEXT),
        (b"\xff\xfe 1\n", TEXT),
        (b"x 1\n", OPENMETRICS),
        (b"<html>no</html>", TEXT),
        (b"x y\n", OPENMETRICS),
    ],
)
def test_what_is_no_page_is_said_to_be_none(body: bytes, content_type: str) -> None:
    with pytest.raises(PageError, match="is not"):
        read(body, content_type)


def test_a_page_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PageError, match="was cut"):
        read(b"x 12\ny 1", TEXT)
    monkeypatch.setattr(page, "MAX_SAMPLES", 100)
    for lines, says in ((101, "more than 100 samples"), (401, "more than 400 lines")):
        with pytest.raises(PageError, match=says):
            read(b"x 1\n" * lines, TEXT)


@settings(deadline=None)
@given(
    st.text(max_size=200) | st.from_regex(r'(# TYPE [a-c] \w+\n)?[a-c]\{[a-c]="[^"]*"\} [0-9NaInf.]+( \d+)?\n(# EOF)?'),
    st.booleans(),
)
@example('a{b="\\', True)
def test_no_page_is_answered_by_anything_else(text: str, is_openmetrics: bool) -> None:
    try:
        found = read(text.encode(errors="surrogatepass"), OPENMETRICS if is_openmetrics else TEXT)
    except PageError:
        return
    assert all(isinstance(one.value, float) for one in found)


def test_a_page_with_a_line_without_end_is_refused() -> None:
    line = "x{" + ",".join(f'l{number}="v"' for number in range(20_000)) + "} 1\n"
    with pytest.raises(PageError, match="a line of more than"):
        read(line.encode(), "text/plain")


@pytest.mark.parametrize(
    "wrong", ['{trace_id="ab} 1', '{trace_id="ab"}', f'{{trace_id="{"ab" * 70}"}} 1', "{=} 1", '{a="b"} one', "{"]
)
def test_an_exemplar_that_cannot_be_read_does_not_cost_the_page(wrong: str) -> None:
    body = (
        f'# TYPE a counter\na_total 1 # {{trace_id="ab"}} 1\na_total{{b="c"}} 2 # {wrong}\n# TYPE d gauge\nd 3\n# EOF\n'
    )
    assert [one.value for one in read(body.encode(), OPENMETRICS)] == [1, 2, 3]
