"""A result as text for people."""

from collections.abc import Iterator

from inference.loadtest.core.result import Result

NAMES = {
    "ttft_from_due": "time to first token, from due",
    "ttft_from_sent": "time to first token, from sent",
    "e2e_from_due": "end to end, from due",
    "e2e_from_sent": "end to end, from sent",
    "tpot": "time per output token",
    "chunk_gap": "time between chunks",
    "longest_chunk_gap": "longest such time of an answer",
    "send_lag": "client: sent after due",
    "loop_lag": "client: late for answers",
}
SHARES = ("count", "mean", "p50", "p90", "p95", "p99", "max")


def text(result: Result) -> str:
    """The figures for people, with their units."""
    lines = [f"{result.url}  {result.model}", *verdict(result), ""]
    counts = result.requests
    lines.append(
        f"requests: {counts['planned']} planned, {counts['sent']} sent, {counts['good']} answered, {counts['failed']} failed"
        + (f", {counts['cut_short']} cut short" if counts["cut_short"] else "")
    )
    lines += [f"  {kind}: {count}  {result.said.get(kind, '')}".rstrip() for kind, count in result.failures.items()]
    for name, value in result.per_second.items():
        lines.append(f"{name.replace('_', ' ')} per second: {'unknown' if value is None else f'{value:g}'}")
    lines.append(_tokens(result))
    lines += ["", f"{'milliseconds':34}" + "".join(f"{share:>10}" for share in SHARES)]
    lines += [f"{name:34}" + "".join(f"{figure:>10}" for figure in figures) for name, *figures in rows(result)]
    lines += _unhappy(result)
    if result.search is not None:
        lines += ["", f"the highest rate: {result.search.reason} The figures above are of its last step."]
    lines += [_objective(kept.objective, kept.share, kept.kept) for kept in result.objectives]
    return "\n".join(lines) + "\n"


def rows(result: Result) -> Iterator[list[str]]:
    """Of each time its name and its figures, milliseconds."""
    for name, figures in (result.latency_ms | result.client_ms).items():
        yield [NAMES[name], *(["unknown"] if figures is None else [_figure(share, figures[share]) for share in SHARES])]


def _figure(share: str, value: float) -> str:
    return str(value) if share == "count" else f"{value:.1f}"


def verdict(result: Result) -> list[str]:
    """Whether the figures are the server's."""
    lines = []
    if result.cut_short:
        lines.append("CUT SHORT: the figures are of what was measured until then.")
    if not result.valid:
        lines += ["INVALID: the client lagged, so these are not the server's figures.", *result.faults]
    return lines or [f"valid: the client kept up, with {result.client_cpu:.0%} of a core in its busiest seconds"]


def _tokens(result: Result) -> str:
    outputs, wanted, per_chunk = (
        result.tokens["output"],
        result.tokens["wanted_output"],
        result.tokens["output_per_chunk"],
    )
    if outputs["mean"] is None:
        return "output tokens: unknown, the server counts none"
    said = f"output tokens: {outputs['mean']:g} in the mean, {wanted['mean']:g} wanted at most"
    return said if per_chunk is None or abs(per_chunk - 1) < 0.05 else f"{said}; {per_chunk:g} in a chunk"


def _unhappy(result: Result) -> list[str]:
    if result.unhappy is None:
        return []
    lines = ["", f"badly behaved clients: {result.unhappy.faults} of {len(result.unhappy.cases)} did harm"]
    for case in result.unhappy.cases:
        lines.append(f"  {case.name}: {'; '.join(case.faults) or 'as expected'} ({case.did}: {case.got})")
    if not result.unhappy.leaks_known:
        lines.append("  leaks are unknown: the server has no page of metrics that says how many requests it has")
    return lines


def _objective(name: str, share: float | None, kept: bool) -> str:
    return f"{'kept' if kept else 'MISSED'}: {name}, good {'unknown' if share is None else f'{share:.2%}'}"
