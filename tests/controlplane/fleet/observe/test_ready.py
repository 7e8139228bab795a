import pytest

from controlplane.fleet.observe.core import ready
from controlplane.fleet.observe.core.ready import Count, Fault, Names

NAMES = Names(
    counts=(Count("requests", "app_requests_total"), Count("errors", "app_requests_total", frozenset({"error"}))),
    gauges=(("in_flight", "app_in_flight"),),
    faults=(Fault("app_cache_up", 0, "no cache"),),
)
METRICS = """\
# TYPE app_requests_total counter
app_requests_total{model="a",status="ok"} 90
app_requests_total{model="b",status="ok"} 5
app_requests_total{model="a",status="error"} 5
# TYPE app_in_flight gauge
app_in_flight{pool="x"} 2
app_in_flight{pool="y"} 3
# TYPE app_cache_up gauge
app_cache_up 1
"""


def test_figures_are_sums_over_all_series() -> None:
    seen = ready.reading(200, "", 200, METRICS, NAMES)
    assert (seen.state, seen.error) == ("up", "")
    assert seen.counters == {"requests": 100, "errors": 5}
    assert seen.figures == {"in_flight": 5}


def test_a_counter_that_is_announced_without_series_is_zero_and_one_that_is_absent_is_unknown() -> None:
    announced = ready.reading(200, "", 200, "# TYPE app_requests_total counter\n", NAMES)
    assert announced.counters == {"requests": 0, "errors": 0}
    assert ready.reading(200, "", 200, "", NAMES).counters == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"status": "unavailable", "reason": "no replica is ready"}', "no replica is ready"),
        ('{"ready": false, "receiving": "refusing"}', "receiving: refusing"),
    ],
)
def test_what_is_not_ready_is_degraded_and_says_why(body: str, said: str) -> None:
    seen = ready.reading(503, body, 200, METRICS, NAMES)
    assert (seen.state, seen.error) == ("degraded", said)
    assert seen.counters["requests"] == 100


def test_a_fault_is_said_of_each_series_that_shows_it() -> None:
    names = Names(counts=(), faults=(Fault("app_pool_replicas_up", 0, "no replica is up in pool {pool}"),))
    page = "# TYPE app_pool_replicas_up gauge\n" + "".join(
        f'app_pool_replicas_up{{pool="{pool}"}} {up}\n' for pool, up in (("a", 0), ("b", 2), ("c", 0))
    )
    seen = ready.reading(200, "", 200, page, names)
    assert (seen.state, seen.error) == ("degraded", "no replica is up in pool a; no replica is up in pool c")


def test_a_note_has_the_figures_of_its_own_series() -> None:
    note = Fault("app_serving", 0, "{model}: {0:.0f} of {1:.0f}", ("app_labels", "app_wanted"))
    stands = {"app_serving": (0, 1, 0), "app_labels": (212, 900, 5), "app_wanted": (677, 677, 677)}
    page = "".join(
        f"# TYPE {metric} gauge\n"
        + "".join(f'{metric}{{model="{model}"}} {value}\n' for model, value in zip("abc", values, strict=True))
        for metric, values in stands.items()
    )
    seen = ready.reading(200, "", 200, page, Names(counts=(), notes=(note,)))
    assert (seen.state, seen.error) == ("up", "a: 212 of 677; c: 5 of 677")


def test_a_figure_beside_a_note_that_the_page_does_not_have_is_not_zero() -> None:
    note = Fault("app_serving", 0, "{model}: {0:.0%} done", ("app_done_ratio",))
    page = '# TYPE app_serving gauge\napp_serving{model="a"} 0\n'
    assert ready.reading(200, "", 200, page, Names(counts=(), notes=(note,))).error == "a: nan% done"


def test_hidden_metrics_leave_it_up_without_figures() -> None:
    seen = ready.reading(200, "", 401, "", NAMES)
    assert (seen.state, seen.counters) == ("up", {})
    assert "/metrics answers 401" in seen.error
