"""Composes the text of an incident's page: a summary in one sentence, and details by name. A summary reads:

"premium chat TTFT p95 is 142 ms against 100 ms; 68 % of the burn is queue time on prompts of 4-8k tokens in pool chat-large,
since policy revision 14 (02:14 UTC); 31 % of the budget left, used up in 2 h; owner: serving; https://runbooks/chat-ttft"
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.core.formatting import TEXT, clock_minute, minute, shortened
from controlplane.incidents.components.core import component_text
from controlplane.incidents.notify.core.notice import Link

MAX_SUMMARY_CHARS = 1024
MEASURES = {"ttft": "TTFT", "itl": "ITL", "e2e": "E2E"}
DIMENSION_NAMES = {"prompt_bucket": "prompt length"}
MAX_SEGMENTS = 2
MIN_SHARE = 0.5  # of the bad requests: smaller segments are not named
MIN_STAGE = 0.2  # of the burn: below it no stage is named
MANY_TIMES = 3  # the budget: from here on its use is no percentage any more
NEAR_S = 300  # a change so soon before the first bad request is named as its beginning


@dataclass(frozen=True, slots=True)
class Facts:
    """The values of the text. `definition`, `burning`: as `alert_record.py` makes them; `attribution`: attribution/questions.py."""

    name: str  # the objective's or the component's
    definition: Mapping[str, Any]
    scope: Mapping[str, str]
    burning: Mapping[str, Any]
    attribution: Mapping[str, Any] | None = None
    missing: str = ""  # why there is no attribution
    changes: Sequence[Mapping[str, Any]] = ()  # before it, the latest first
    resolves: str = ""  # what ends it; empty: it is over
    owner: str = ""
    runbook: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def summary(facts: Facts) -> str:
    """At most MAX_SUMMARY_CHARS characters. What is wrong comes first, for the first line on a phone."""
    parts = [
        f"{subject(facts)} {measured(facts)}",
        blame(facts),
        facts.resolves if is_component(facts.definition) else "",
        budget(facts.burning),
        f"owner: {facts.owner}" if facts.owner else "no owner",
        facts.runbook or "no runbook",
    ]
    return shortened("; ".join(part for part in parts if part), MAX_SUMMARY_CHARS)


def is_component(definition: Mapping[str, Any]) -> bool:
    return definition.get("kind") == "component"


def state(facts: Facts) -> str:
    """How it is now, in a clause: `21.3 times too fast over 1 h and 5 min`, `gateway is down since 21:50:05 UTC`."""
    if is_component(facts.definition):
        return f"{facts.name} {measured(facts)}"
    return burn_text(facts.burning)


def subject(facts: Facts) -> str:
    """`premium chat TTFT p95`, `chat-large availability`; of a component its name."""
    if is_component(facts.definition):
        return facts.name
    scope = facts.scope
    whom = " ".join(value for value in (scope.get("tier"), scope.get("model") or scope.get("variant")) if value)
    where = [f"in pool {scope['pool']}"] if scope.get("pool") else []
    where += [f"in {scope['region']}"] if scope.get("region") else []
    where += [f"for tenant {scope['tenant']}"] if scope.get("tenant") else []
    where += [f"on prompts of {tokens(scope['prompt_bucket'])} tokens"] if scope.get("prompt_bucket") else []
    where += [f"of requests without a {name.replace('_', ' ')}" for name, value in scope.items() if not value]
    return " ".join((whom or "all traffic", quantity(facts.definition), *where))


def quantity(definition: Mapping[str, Any]) -> str:
    """`TTFT p95`, `queue time p99`, `availability`, `cost per 1,000 tokens p95`."""
    if definition.get("kind") == "latency":
        measure = str(definition.get("measure", ""))
        return f"{MEASURES.get(measure, f'{measure} time')} {percentile(definition)}"
    if definition.get("kind") == "cost":
        return f"cost per 1,000 tokens {percentile(definition)}"
    if definition.get("kind") == "histogram":
        return f"{definition.get('metric')} {percentile(definition)}"
    return "component down" if is_component(definition) else "availability"


def quantile(definition: Mapping[str, Any]) -> float:
    return float(definition.get("quantile") or definition.get("target") or 0)


def percentile(definition: Mapping[str, Any]) -> str:
    """`p95` of a target of 0.95: the objective holds if p95 is below the threshold."""
    return f"p{quantile(definition) * 100:.6g}"


def measured(facts: Facts) -> str:
    """`is 142 ms against 100 ms`; once measured again `was 142 ms against 100 ms at opening, 180 ms at worst, 81.6 ms now`, or in the end
    `81.6 ms when it was resolved`. Where it could not be measured, how fast the budget burns.
    """
    if is_component(facts.definition):
        return component_text.measured(facts.definition, facts.burning)
    against, is_known = threshold(facts.definition), facts.burning.get("state") != "unknown"
    opened, latest = (facts.attribution or {}).get("value"), facts.burning.get("value")
    either, is_present = latest if opened is None else opened, is_known and bool(facts.resolves)
    if either is None or not against:
        said = f"{'burns' if is_present else 'burned'} its budget {burn_text(facts.burning)}".rstrip()
    elif opened is None or latest is None:
        said = f"{'is' if is_present else 'was'} {amount(facts.definition, float(either))} against {against}"
    else:
        then, now, worst = (
            amount(facts.definition, float(value)) for value in (opened, latest, facts.burning.get("worst", latest))
        )
        at_worst = f", {worst} at worst" if worst not in (then, now) else ""
        when = "" if not is_known else " now" if is_present else " when it was resolved"
        said = f"was {then} against {against} at opening{at_worst}, {now}{when}"
    if is_known:
        return said
    return f"{said} when it was last measured" + ("; what it is now is not known" if facts.resolves else "")


def worse(definition: Mapping[str, Any], *values: float) -> float:
    """The worst of values of an objective: of availability the lowest one."""
    return min(values) if definition.get("kind") == "availability" else max(values)


def threshold(definition: Mapping[str, Any]) -> str:
    match definition.get("kind"):
        case "latency":
            return TEXT.threshold_ms(float(definition["threshold_ms"]))
        case "cost":
            return amount(definition, float(definition["usd_per_1k_tokens"]))
        case "availability":
            return amount(definition, quantile(definition))
    return ""


def amount(definition: Mapping[str, Any], value: float) -> str:
    match definition.get("kind"):
        case "latency":
            return TEXT.ms(value)
        case "cost":
            return f"{value:.4g} USD"
    return TEXT.target(value) if value == quantile(definition) else TEXT.precise(value)


def blame(facts: Facts) -> str:
    """Which component is down, which stage used the budget, for whom, since when, and what was changed then."""
    if is_component(facts.definition):
        return component_text.cause(facts.definition, facts.burning)
    down = "; ".join(facts.burning.get("down") or [])
    return f"{down}; {stages_blamed(facts)}" if down else stages_blamed(facts)


def stages_blamed(facts: Facts) -> str:
    attribution = facts.attribution
    if not attribution:
        unknown = f"stage and segment not known ({facts.missing})" if facts.missing else "stage and segment not known"
        return ", ".join(part for part in (unknown, since_text(facts)) if part)
    stage, errors = stage_text(facts.definition, attribution), error_text(attribution)
    named = [
        entry for entry in attribution.get("segments") or [] if not (errors and _is_nobodys(entry))
    ]  # the error's stage says that no replica took them
    since = since_text(facts)
    said = " ".join(part for part in (errors or stage, segment_text(named)) if part)
    return ", ".join(part for part in (said, since) if part)


def stage_text(definition: Mapping[str, Any], attribution: Mapping[str, Any]) -> str:
    stages: Sequence[Mapping[str, Any]] = attribution.get("stages") or []
    if not stages or stages[0]["share"] < MIN_STAGE:
        return "no single stage stands out"
    stage, percent = str(stages[0]["stage"] or "unattributed"), TEXT.share(float(stages[0]["share"]))
    if definition.get("kind") == "availability":
        return f"{percent} of the failures are in {stage}"
    if definition.get("kind") == "cost":
        return ""
    return f"{percent} of the burn is {stage} time"


def error_text(attribution: Mapping[str, Any]) -> str:
    """`82 % of the failures are 503 replica_unavailable in queue`: how most requests failed; empty where that is not known."""
    errors: Sequence[Mapping[str, Any]] = attribution.get("errors") or []
    if not errors:
        return ""
    return f"{TEXT.share(int(errors[0]['requests']) / max(int(attribution['bad']), 1))} of the failures are {error(errors[0])}"


def error(failed: Mapping[str, Any]) -> str:
    """`503 replica_unavailable in queue for tenant acme`."""
    parts = [str(failed["http_status"] or ""), str(failed["error_type"] or "")]
    named = " ".join(part for part in parts if part) or "of an unknown kind"
    stage = f" in {failed['stage']}" if failed["stage"] else ""
    return f"{named}{stage}" + (f" for tenant {failed['tenant']}" if failed["tenant"] else "")


def segment_text(segments: Sequence[Mapping[str, Any]]) -> str:
    """`on prompts of 4-8k tokens in pool chat-large`, of segments that hold at least MIN_SHARE of what was bad."""
    shown = [entry for entry in segments if float(entry["chosen_share"]) >= MIN_SHARE and not _trivial(entry)][
        :MAX_SEGMENTS
    ]
    order = {"prompt_bucket": 0, "tenant": 1, "tier": 2}
    shown.sort(key=lambda entry: order.get(str(entry["dimension"]), 5))
    known = [entry for entry in shown if entry["value"] or _is_nobodys(entry)]
    parts = [segment(str(entry["dimension"]), str(entry["value"])) for entry in known]
    if unknown := [str(entry["dimension"]) for entry in shown if entry not in known]:
        names = " and ".join(DIMENSION_NAMES.get(dimension, dimension) for dimension in unknown)
        parts.append(f"of requests whose {names} {'is' if len(unknown) == 1 else 'are'} not known")
    return " ".join(parts)


def _trivial(segment: Mapping[str, Any]) -> bool:
    """Requests that the cache answers meet no queue and no model, so slow requests are always misses."""
    return bool(segment["dimension"] == "cache" and segment["value"] == "miss")


def _is_nobodys(segment: Mapping[str, Any]) -> bool:
    return bool(segment["dimension"] == "replica" and not segment["value"])


def segment(dimension: str, value: str) -> str:
    if dimension == "prompt_bucket":
        return f"on prompts of {tokens(value)} tokens"
    if dimension == "replica" and not value:
        return "of requests that no replica took"
    words = {
        "pool": "in pool",
        "replica": "on replica",
        "region": "in",
        "tenant": "for tenant",
        "tier": "in tier",
        "model": "of",
    }
    words |= {"variant": "of variant", "cache": "with cache", "operation": "in", "service": "from"}
    return f"{words.get(dimension, dimension)} {value}"


def tokens(bucket: str) -> str:
    """`4096-8191` as `4-8k`, `131072+` as `128k+`: in units of 1,024 where both edges are whole ones."""
    match = re.fullmatch(r"(\d+)(?:-(\d+)|\+)", bucket)
    if not match:
        return bucket
    low = int(match[1])
    high = int(match[2]) + 1 if match[2] else None
    if low % 1024 or (high or 0) % 1024 or low == 0:
        return bucket
    return f"{low // 1024}k+" if high is None else f"{low // 1024}-{high // 1024}k"


def since_text(facts: Facts) -> str:
    """A change just before the first bad request is named as the beginning, an earlier one beside the time. Where it is not known when it
    began, the last change before it opened is named as no more than that."""
    since_ns = (facts.attribution or {}).get("since_ns")
    if not facts.changes:
        return f"since {clock_minute(since_ns)} UTC" if isinstance(since_ns, int) else ""
    last = facts.changes[0]
    what = f"{last['summary']} ({clock_minute(int(last['at_ns']))} UTC)"
    if not isinstance(since_ns, int):
        return f"since when is not known, the last change before was {what}"
    if abs(since_ns - int(last["at_ns"])) <= NEAR_S * 10**9:
        return f"since {what}"
    return f"since {clock_minute(since_ns)} UTC, after {what}"


def budget(burning: Mapping[str, Any]) -> str:
    """`31 % of the budget left, used up in 2 h, as far as measured: 10 min of the period are not`."""
    left, missed_s = burning.get("left_share"), burning.get("unmeasured_s")
    if left is None:
        return ""
    measured = f", as far as measured: {TEXT.duration(float(missed_s))} of the period are not" if missed_s else ""
    if left <= 0:
        spent = 1 - float(left)
        return f"the budget is used up ({TEXT.share(spent) if spent < MANY_TIMES else f'{TEXT.number(spent)} times'} spent){measured}"
    lasts = burning.get("lasts_s")
    lasting = f", used up in {TEXT.duration(float(lasts))}" if lasts is not None else ""
    return f"{TEXT.share(float(left))} of the budget left{lasting}{measured}"


def burn_text(burning: Mapping[str, Any]) -> str:
    """`21.3 times too fast over 1 h and 5 min`, of the fastest window that fires."""
    firing = [
        window for window in burning.get("windows") or [] if window.get("fires") and window.get("long") is not None
    ]
    if not firing:
        return ""
    fastest = max(firing, key=lambda window: (window["severity"] == "page", window["threshold"]))
    return f"{TEXT.number(fastest['long'])} times too fast over {TEXT.duration(fastest['long_s'])} and {TEXT.duration(fastest['short_s'])}"


def details(facts: Facts) -> dict[str, Any]:
    """The same by name: a page's custom details."""
    if is_component(facts.definition):
        return component_details(facts)
    attribution = facts.attribution or {}
    stages = [
        f"{stage['stage']} {TEXT.share(float(stage['share']))}"
        for stage in attribution.get("stages") or []
        if stage["share"] >= 0.01
    ]
    segments = [
        f"{DIMENSION_NAMES.get(entry['dimension'], entry['dimension'])} {entry['value'] or 'unknown'}: "
        f"{TEXT.share(float(entry['chosen_share']))} of the bad requests, {TEXT.share(float(entry['rest_share']))} of the others"
        for entry in attribution.get("segments") or []
    ]
    written: dict[str, Any] = {
        "objective": facts.name,
        "scope": ", ".join(f"{name}={value or '(none)'}" for name, value in sorted(facts.scope.items()))
        or "all traffic",
        "now": f"{quantity(facts.definition)} {measured(facts)}",
        "burn": burn_text(facts.burning),
        "budget": budget(facts.burning),
        "errors": [f"{error(failed)}: {int(failed['requests']):,}" for failed in attribution.get("errors") or []],
        "stages": stages or (f"not known: {facts.missing}" if facts.missing else ""),
        "segments": segments,
        "components down": list(facts.burning.get("down") or []),
        "since": since_text(facts),
        "changed before": [f"{change['summary']} at {minute(int(change['at_ns']))} UTC" for change in facts.changes],
        "bad requests": f"{attribution['bad']:,} of {attribution['total']:,}" if attribution.get("total") else "",
        "exemplar traces": list(attribution.get("traces") or []),
        "resolves": facts.resolves,
        "known causes": [cause["summary"] for cause in attribution.get("causes") or []],
        "owner": facts.owner or "none",
        "runbook": facts.runbook or "none",
        "labels": dict(facts.labels),
    }
    return {name: value for name, value in written.items() if value}


def component_details(facts: Facts) -> dict[str, Any]:
    written = {
        "component": facts.definition.get("component"),
        "scope": ", ".join(f"{name}={value}" for name, value in sorted(facts.scope.items())) or "all traffic",
        "now": f"{subject(facts)} {measured(facts)}",
        "cause": blame(facts),
        "resolves": facts.resolves,
        "owner": facts.owner or "none",
        "runbook": facts.runbook or "none",
    }
    return {name: value for name, value in written.items() if value}


def component(scope: Mapping[str, str]) -> str:
    return scope.get("pool") or scope.get("variant") or scope.get("model") or ""


def group(scope: Mapping[str, str], owner: str) -> str:
    """Incidents of one model and owner are shown together. Each sends its own notices."""
    return " · ".join((scope.get("model") or "all models", owner or "no owner"))


def links(page: str, facts: Facts, latency: str = "", traces: Sequence[tuple[str, str]] = ()) -> tuple[Link, ...]:
    """`page`: the incident's; `traces`: ids with their addresses. All absolute."""
    shown = [Link(page, "Incident")]
    shown += [Link(facts.runbook, "Runbook")] if facts.runbook.startswith(("http://", "https://")) else []
    shown += [Link(latency, "Latency at that time")] if latency else []
    return (*shown, *(Link(href, f"Trace {trace_id[:8]}") for trace_id, href in traces))
