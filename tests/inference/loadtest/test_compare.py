"""What two results differ by: real changes are seen, chance is not called one, and what cannot be said is not."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from inference.loadtest.__main__ import main
from inference.loadtest.core.compare import Comparison, compare
from inference.loadtest.core.result import Outcome, Result, result_of
from inference.loadtest.core.samples import Sample
from inference.loadtest.page import html, plotly_js

Scale = Callable[[int], float]


def result(
    seed: int, scale: Scale = lambda _: 1.0, requests: int = 600, failing: float = 0.0, lag_s: float = 0.0
) -> Result:
    """Log-normal answers, with slow stretches as queues make them."""
    chance, samples, queue = random.Random(seed), [], 0.0
    for number in range(requests):
        queue = 0.9 * queue + chance.expovariate(1 / 0.01)
        first_s = (chance.lognormvariate(-2.0, 0.5) + queue) * scale(number)
        due_s = number / 10
        failure = "http_500" if chance.random() < failing else ""
        samples.append(
            Sample(
                number,
                due_s,
                10,
                0,
                due_s + lag_s,
                due_s + first_s,
                due_s + 2 * first_s,
                due_s + 2 * first_s,
                200,
                10,
                5,
                -1,
                10,
                0.0,
                failure,
            )
        )
    outcome = Outcome(samples, [], [], 0.1, requests / 10, requests, False)
    return result_of(outcome, url="http://x/v1", model="m", settings={"seed": seed}, machine={}, began="")


def test_a_page_needs_nothing_else_and_shows_what_a_server_says_as_text() -> None:
    bad = result(1, failing=0.1)
    bad.said = {"http_500": "</script><script>alert(1)</script>"}
    page = html(bad)
    assert "alert(1)&lt;/script&gt;" in page and "<script>alert" not in page
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", page.replace(plotly_js(), ""))


def compared(before: Result, after: Result) -> Comparison:
    return compare(before, after, ("a.json", "b.json"), 0.05)


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {difference.name: difference.verdict for difference in comparison.differences}


def test_the_same_server_twice_is_seldom_called_different() -> None:
    different = sum(
        any(verdict != "no difference" for verdict in verdicts(compared(result(seed), result(seed + 100))).values())
        for seed in range(6)
    )
    assert different <= 1


@pytest.mark.parametrize(("times", "verdict"), [(1.4, "worse"), (0.7, "better")])
def test_a_change_of_all_latencies_is_seen_with_an_interval_that_has_it(times: float, verdict: str) -> None:
    comparison = compared(result(1), result(2, lambda _: times))
    assert verdicts(comparison) | {"failed": ""} == dict.fromkeys(verdicts(comparison), verdict) | {"failed": ""}
    first = comparison.differences[0]
    assert first.low < times < first.high and comparison.worse is (verdict == "worse")
    assert comparison.settings == {"seed": (1, 2)}


def test_a_change_of_the_slowest_alone_is_seen_in_p95_alone() -> None:
    seen = verdicts(compared(result(1), result(2, lambda number: 3.0 if number % 25 == 0 else 1.0)))
    assert (seen["ttft_from_due p50"], seen["ttft_from_due p95"]) == ("no difference", "worse")


def test_failures_are_compared_as_shares() -> None:
    seen = [
        verdicts(compared(result(1, failing=one), result(2, failing=other)))["failed"]
        for one, other in ((0, 0), (0, 0.05), (0.05, 0), (0.01, 0.012))
    ]
    assert seen == ["no difference", "worse", "better", "no difference"]


def test_too_few_requests_and_what_was_not_measured_are_unknown() -> None:
    assert verdicts(compared(result(1, requests=50), result(2)))["tpot p50"] == "unknown"
    assert verdicts(compared(result(1), result(2, requests=0)))["failed"] == "unknown"


@pytest.mark.parametrize(
    ("after", "status", "said"),
    [
        (result(2), 0, "no difference"), (result(2, lambda _: 2.0), 1, "worse"), (result(2, lag_s=0.02), 3, "INVALID"),
    ],
)  # fmt: skip
def test_the_exit_status_is_for_ci(
    after: Result, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, each in zip(paths, (result(1), after), strict=True):
        path.write_bytes(msgspec.json.encode(each))
    assert main(["bench", "--compare", *map(str, paths)]) == status and said in capsys.readouterr().out


def test_a_file_that_is_no_result_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text('{"format": "weir-bench/9"}')
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--compare", str(tmp_path / "x.json"), str(tmp_path / "y.json")])
    assert ended.value.code == 2 and "x.json: it is no result of weir bench" in capsys.readouterr().err
