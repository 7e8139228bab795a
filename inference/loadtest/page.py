"""A result as one page that needs nothing else: tables, and charts that zoom."""

import importlib.util
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from inference.loadtest.core import summary
from inference.loadtest.core.result import Result, samples_of
from inference.loadtest.core.samples import MEASURES, SEND_LAG, Sample, Value

MAX_POINTS = 20_000
_COLOURS = {"ttft_from_due": "#0072b2", "e2e_from_due": "#d55e00", "send_lag": "#888888"}
_STYLE = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1rem 0}th,td{padding:.2rem .7rem;text-align:right;
border-bottom:1px solid #8884}th:first-child,td:first-child{text-align:left}.bad{color:#d33;font-weight:600}.chart{height:24rem}
"""


def html(result: Result) -> str:
    """The whole page."""
    samples = samples_of(result)
    charts = {"over": _over_time(samples), "shares": _shares(samples)}
    draws = "".join(
        f"Plotly.newPlot({name!r},{_json(chart['data'])},{_json(chart['layout'])},{{responsive:true}});"
        for name, chart in charts.items()
    )
    clear = result.valid and not result.cut_short
    verdict = "".join(f'<p class="{"" if clear else "bad"}">{escape(line)}</p>' for line in summary.verdict(result))
    failures = ((kind, count, result.said.get(kind, "")) for kind, count in result.failures.items())
    objectives = ((kept.objective, kept.share, "kept" if kept.kept else "MISSED") for kept in result.objectives)
    return "".join(
        (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>weir bench: {escape(result.model)}</title><style>{_STYLE}</style>",
            f"<h1>{escape(result.model)}</h1><p>{escape(result.url)}, {escape(result.began)}</p>{verdict}",
            _table(("requests", ""), result.requests.items()),
            _table(("failures", "", "what was said"), failures),
            _table(("per second", ""), result.per_second.items()),
            _table(("objective", "good", ""), objectives),
            _table(("milliseconds", *summary.SHARES), summary.rows(result)),
            '<h2>Each request, by when it was due</h2><div class=chart id=over></div>',
            '<h2>How many took at most so long</h2><div class=chart id=shares></div>',
            _unhappy(result),
            _table(("setting", ""), result.settings.items()),
            _table(("machine", ""), result.machine.items()),
            f"<script>{plotly_js()}</script><script>{draws}</script></html>",
        )
    )  # fmt: skip


def _table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Empty where there are no rows."""
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{body}</table>" if body else ""


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "unknown" if value is None else escape(str(value).replace("_", " "))


def _unhappy(result: Result) -> str:
    if result.unhappy is None:
        return ""
    cases = result.unhappy.cases
    rows = ((case.name, case.did, case.got, "; ".join(case.faults) or "as expected") for case in cases)
    return "<h2>Badly behaved clients</h2>" + _table(("client", "did", "got", ""), rows)


def _over_time(samples: Sequence[Sample]) -> dict[str, Any]:
    step = -(-len(samples) // MAX_POINTS) or 1
    measures: dict[str, Value] = {name: MEASURES[name] for name in ("ttft_from_due", "e2e_from_due")} | {
        "send_lag": SEND_LAG
    }
    data = [
        {
            "type": "scattergl",
            "mode": "markers",
            "name": summary.NAMES[name],
            "marker": {"size": 4, "color": _COLOURS[name]},
        }
        | _points((sample.due_s, value * 1000) for sample in samples[::step] if (value := measure(sample)) is not None)
        for name, measure in measures.items()
    ]
    note = f"due, s (each {step}th request)" if step > 1 else "due, s"
    return {"data": data, "layout": _layout(note, "ms")}


def _shares(samples: Sequence[Sample]) -> dict[str, Any]:
    data = []
    for name in ("ttft_from_due", "e2e_from_due"):
        times = sorted(
            value * 1000 for sample in samples if sample.good and (value := MEASURES[name](sample)) is not None
        )
        step = -(-len(times) // MAX_POINTS) or 1
        last = len(times) - 1
        points = (
            (time, 100 * (number + 1) / len(times))
            for number, time in enumerate(times)
            if number % step == 0 or number == last
        )
        data.append(
            {"type": "scatter", "name": summary.NAMES[name], "line": {"color": _COLOURS[name]}} | _points(points)
        )
    return {"data": data, "layout": _layout("ms", "% of requests")}


def _points(pairs: Iterable[tuple[float, float]]) -> dict[str, list[float]]:
    points = list(pairs)
    return {"x": [round(x, 3) for x, _ in points], "y": [round(y, 3) for _, y in points]}


def _layout(x: str, y: str) -> dict[str, Any]:
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "#888"},
        "margin": {"t": 10},
        "xaxis": {"title": {"text": x}},
        "yaxis": {"title": {"text": y}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.1},
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode().replace("</", "<\\/")


def plotly_js() -> str:
    """The script in plotly's wheel."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None and spec.origin is not None, "a dependency"
    return (Path(spec.origin).parent / "package_data" / "plotly.min.js").read_text()
