"""Burn rates equal those of a real Prometheus that runs the rules Sloth generates, on the same requests.

What is equal to what: requests are ledger rows in our store, and counters (by code) in Prometheus, scraped at every whole minute. At a
whole minute `rate(…[w])` sees samples at both ends of its window, so it extrapolates nothing, and Sloth's
`slo:sli_error:ratio_rate<w>` is bad ÷ all of exactly the requests in the window. Our window ends at the edge of its grid, which a whole
minute is. Not compared is Sloth's `ratio_rate30d`: a mean of five-minute ratios, each of which weighs the same however few
requests it had, where a budget counts requests.
"""

import json
import random
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.slo.core.alert import Alert
from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import DAY_S, HOUR_S
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from deploy.local.ports import free_port
from deploy.local.process import Command, Managed, http_ok
from tests.support import need
from tests.support.slo.ledger_rows import rows
from tests.support.soak import sized

MINUTE_S = 60
NOW_S = int(time.time()) // (2 * HOUR_S) * 2 * HOUR_S - 2 * HOUR_S  # whole blocks, all of them past
EVERY_S = sized(240, soak=120)
MOMENTS = list(range(NOW_S - 4_800, NOW_S + 1, EVERY_S))
WINDOWS = {"5m": 300, "30m": 1_800, "1h": HOUR_S, "2h": 2 * HOUR_S, "6h": 6 * HOUR_S, "1d": DAY_S, "3d": 3 * DAY_S}
CODES = {"ok": "200", "error": "500", "rejected": "429"}
SLO1 = Objective("slo1", "", Availability(), 0.999)
NO_MINIMUM = replace(SLO1, slug="no-minimum", minimum=MinimumEvents(0, 0))
"""As Sloth has it."""


@dataclass
class Prometheus:
    port: int

    def query(self, expression: str, at_s: int) -> list[dict[str, Any]]:
        parameters = urllib.parse.urlencode({"query": expression, "time": at_s})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{parameters}", timeout=60) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def query_range(self, expression: str, from_s: int, to_s: int, step_s: int) -> list[tuple[int, str]]:
        parameters = urllib.parse.urlencode({"query": expression, "start": from_s, "end": to_s, "step": step_s})
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/api/v1/query_range?{parameters}", timeout=60
        ) as answer:
            result = json.load(answer)["data"]["result"]
        return [(at_s, value) for series in result for at_s, value in series["values"]]

    def ratio(self, slo: str, window: str, at_s: int) -> float | None:
        found = self.query(f'slo:sli_error:ratio_rate{window}{{sloth_slo="{slo}"}}', at_s)
        assert len(found) <= 1
        value = float(found[0]["value"][1]) if found else float("nan")
        return None if value != value else value

    def budget(self, slo: str, at_s: int) -> float:
        return float(self.query(f'slo:error_budget:ratio{{sloth_slo="{slo}"}}', at_s)[0]["value"][1])


def requests() -> list[LedgerRow]:
    """Four days with a base of errors, a quiet night, and a burst in the last two hours that comes and goes."""
    source = random.Random(20)
    begin, found = NOW_S - 4 * DAY_S, []
    for row in rows(source, 12_000, begin * 10**9, NOW_S * 10**9):
        age_s = NOW_S - row.entry_start_ns / 1e9
        if 30_000 < age_s < 45_000 and source.random() < 0.97:
            continue
        bad = source.random() < (0.3 if 1_500 < age_s < 4_000 else 0.005 if age_s < DAY_S else 0.0007)
        status = source.choice(("error", "rejected")) if bad else "ok"
        found.append(replace(row, status=status, error_type="queue_full" if status == "rejected" else ""))
    return found


def exposition(ledger: list[LedgerRow]) -> Iterator[str]:
    """Counters by code at every whole minute, in OpenMetrics: what a scrape would have seen."""
    ends = {code: sorted(row.entry_start_ns for row in ledger if CODES[row.status] == code) for code in CODES.values()}
    yield "# TYPE http_request_duration_seconds_count unknown\n"
    for code, times in ends.items():
        counted, place = 1_000_000, 0
        for at_s in range(NOW_S - 4 * DAY_S + MINUTE_S, NOW_S + MINUTE_S, MINUTE_S):
            while place < len(times) and times[place] < at_s * 10**9:
                counted, place = counted + 1, place + 1
            yield f'http_request_duration_seconds_count{{job="myservice",code="{code}"}} {counted} {at_s}\n'
    yield "# EOF\n"


@pytest.fixture(scope="module")
def ledger() -> list[LedgerRow]:
    return requests()


@pytest.fixture(scope="module")
def prometheus(
    ledger: list[LedgerRow], shared_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """The samples and what the golden rules make of them at each moment, in blocks; then a server over both."""
    promtool, folder = need.prometheus("promtool"), tmp_path_factory.mktemp("prometheus")
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
    data = folder / "data"
    _load(promtool, folder, data, exposition(ledger))
    first = _server(folder, data)
    try:
        recorded = list(recordings(Prometheus(first.port), shared_dir))
    finally:
        first.process.stop()
    _load(promtool, folder, data, recorded)
    second = _server(folder, data)  # it has read the blocks when it is ready
    yield Prometheus(second.port)
    second.process.stop()


def rules(shared_dir: Path) -> list[dict[str, Any]]:
    """The golden rules, as Sloth writes them for Prometheus."""
    text = (shared_dir / "fixtures/sloth/out-base.yaml.tpl").read_text().replace("{{ .version }}", "golden")
    whole = yaml.safe_load(re.sub(r'\{\{"(\{\{[^"]*\}\})"\}\}', r"\1", text))
    return [rule for group in whole["groups"] for rule in group["rules"]]


def recordings(server: Prometheus, shared_dir: Path) -> Iterator[str]:
    """What the recording rules give at each moment. `promtool … create-blocks-from rules` would do, but not at whole minutes."""
    named: dict[str, list[str]] = {}
    for rule in rules(shared_dir):
        if "record" not in rule or rule["labels"].get("sloth_window") == "30d" or "burn" in rule["record"]:
            continue
        labels = ",".join(f'{name}="{value}"' for name, value in rule["labels"].items())
        for at_s, value in server.query_range(rule["expr"], MOMENTS[0], MOMENTS[-1], EVERY_S):
            named.setdefault(rule["record"], []).append(f"{rule['record']}{{{labels}}} {value} {at_s}\n")
    for name, lines in named.items():
        if "remaining" not in name:
            yield f"# TYPE {name} gauge\n"
            yield from lines
    yield "# EOF\n"


def _load(promtool: Path, folder: Path, data: Path, lines: Iterable[str]) -> None:
    (folder / "samples.om").write_text("".join(lines))
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", "-q", folder / "samples.om", data], check=True
    )


@dataclass
class _Running:
    process: Managed
    port: int


def _server(folder: Path, data: Path) -> _Running:
    port = free_port()
    arguments = (
        str(need.prometheus()), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={data}",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y", "--log.level=warn",
    )  # fmt: skip
    command = Command("prometheus", arguments, lambda: http_ok(port, "/-/ready"), start_s=60)
    return _Running(Managed(command, folder / f"prometheus-{port}.log").start().wait_ready(), port)


@pytest.fixture(scope="module")
def alerts(shared_store: Store, ledger: list[LedgerRow]) -> dict[int, tuple[Alert, Alert]]:
    """Ours of both objectives at each moment: a second before it, because a window holds the step that its end lies in."""
    shared_store.writer.insert_requests(ledger, 1)
    evaluator, found = Evaluator(shared_store), {}
    for at_s in MOMENTS:
        evaluator.tick([SLO1, NO_MINIMUM], [], (at_s - 1) * 10**9)
        while evaluator.behind:
            evaluator.sweep((at_s - 1) * 10**9)
        by_slug = {
            one.alert.objective.slug: one.alert for one in evaluator.tick([SLO1, NO_MINIMUM], [], (at_s - 1) * 10**9)
        }
        found[at_s] = (by_slug[SLO1.slug], by_slug[NO_MINIMUM.slug])
    return found


def test_burn_rates_are_prometheus_own(prometheus: Prometheus, alerts: dict[int, tuple[Alert, Alert]]) -> None:
    compared = 0
    for at_s, (alert, _) in alerts.items():
        ours = {verdict.window.long_s: verdict.long for verdict in alert.verdicts}
        ours |= {verdict.window.short_s: verdict.short for verdict in alert.verdicts}
        budget = prometheus.budget(SLO1.slug, at_s)
        for name, length_s in WINDOWS.items():
            ratio = prometheus.ratio(SLO1.slug, name, at_s)
            if ratio is None:
                assert ours[length_s] is None
                continue
            assert ours[length_s] == pytest.approx(ratio / budget, rel=1e-9, abs=0), (name, at_s)
            compared += ratio > 0
    assert compared > 4 * len(MOMENTS)


def test_both_alert_at_the_same_moments(
    prometheus: Prometheus, alerts: dict[int, tuple[Alert, Alert]], shared_dir: Path
) -> None:
    page, ticket = [rule["expr"] for rule in rules(shared_dir) if "alert" in rule]
    paged = ticketed = 0
    for at_s, (_, alert) in alerts.items():
        fires = {verdict.window.severity for verdict in alert.verdicts if verdict.fires}
        assert ("page" in fires) == bool(prometheus.query(page, at_s)), at_s
        assert ("ticket" in fires) == bool(prometheus.query(ticket, at_s)), at_s
        paged, ticketed = paged + ("page" in fires), ticketed + ("ticket" in fires)
    assert 0 < paged < len(MOMENTS)
    assert ticketed > 0
