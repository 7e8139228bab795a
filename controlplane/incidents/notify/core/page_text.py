"""What a person is told of an incident, composed from plain values: the summary first, then each thing by itself. Pure.

"premium chat TTFT p95 is 142 ms against 100 ms; 68 % of the burn is queue time on prompts of 4-8k tokens in pool chat-large,
since policy revision 14 (02:14 UTC); 31 % of the budget left, gone in 2 h; owner: serving; https://runbooks/chat-ttft"
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.core.formatting import TEXT, clock_minute, minute
from controlplane.incidents.components.core import page_text as component_text
from controlplane.incidents.notify.core.notice import Link

LONGEST = 1024
MEASURES = {"ttft": "TTFT", "itl": "ITL", "e2e": "E2E"}
DIMENSION_NAMES = {"prompt_bucket": "prompt length"}
MOST_SEGMENTS = 2
LEAST_SHARE = 0.5  # of the bad requests: a smaller segment is not whom it concerns
LEAST_STAGE = 0.2  # of the burn: below it no single stage is to blame
NEAR_S = 300  # a change so soon before the first bad minute is named as its beginning


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the text is made of. `promise`, `burning`: frozen.py, or components/frozen.py; `attribution`: attribution/ask.py."""

    name: str  # the objective's or the component's
    promise: Mapping[str, Any]
    scope: Mapping[str, str]
    burning: Mapping[str, Any]
    attribution: Mapping[str, Any] | None = None
    missing: str = ""  # why there is no attribution
    resolves: str = ""  # what ends it; empty: it is over
    owner: str = ""
    runbook: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def summary(facts: Facts) -> str:
    """At most LONGEST characters; what matters first, so that a phone's first line says what is wrong."""
    parts = [
        f"{subject(facts)} {measured(facts)}",
        blame(facts),
        facts.resolves if is_component(facts.promise) else "",
        budget(facts.burning),
        f"owner: {facts.owner}" if facts.owner else "no owner",
        facts.runbook or "no runbook",
    ]
    return shortened("; ".join(part for part in parts if part))


def is_component(promise: Mapping[str, Any]) -> bool:
    return promise.get("kind") == "component"


def state(facts: Facts) -> str:
    """How it is now, in a clause: `21.3 times too fast over 1 h and 5 min`, `gateway is down since 21:50:05 UTC`."""
    if is_component(facts.promise):
        return f"{component_text.subject(facts)} {component_text.measured(facts)}"
    return burn_text(facts.burning)


def sentence(clause: str) -> str:
    """With a capital at its beginning."""
    return f"{clause[:1].upper()}{clause[1:]}"


def subject(facts: Facts) -> str:
    """`premium chat TTFT p95`, `chat-large availability`; of a component its name."""
    if is_component(facts.promise):
        return component_text.subject(facts)
    scope = facts.scope
    whom = " ".join(value for value in (scope.get("tier"), scope.get("model") or scope.get("variant")) if value)
    where = [f"in pool {scope['pool']}"] if scope.get("pool") else []
    where += [f"in {scope['region']}"] if scope.get("region") else []
    where += [f"for tenant {scope['tenant']}"] if scope.get("tenant") else []
    where += [f"on prompts of {tokens(scope['prompt_bucket'])} tokens"] if scope.get("prompt_bucket") else []
    where += [f"of requests without a {name.replace('_', ' ')}" for name, value in scope.items() if not value]
    return " ".join((whom or "all traffic", quantity(facts.promise), *where))


def quantity(promise: Mapping[str, Any]) -> str:
    """`TTFT p95`, `queue time p99`, `availability`, `cost per 1,000 tokens p95`."""
    if promise.get("kind") == "latency":
        measure = str(promise.get("measure", ""))
        return f"{MEASURES.get(measure, f'{measure} time')} {percentile(promise)}"
    if promise.get("kind") == "cost":
        return f"cost per 1,000 tokens {percentile(promise)}"
    if promise.get("kind") == "histogram":
        return f"{promise.get('metric')} {percentile(promise)}"
    return "component down" if is_component(promise) else "availability"


def quantile(promise: Mapping[str, Any]) -> float:
    return float(promise.get("quantile") or promise.get("target") or 0)


def percentile(promise: Mapping[str, Any]) -> str:
    """A target of 0.95 is kept when p95 is under the threshold."""
    return f"p{quantile(promise) * 100:.6g}"


def measured(facts: Facts) -> str:
    """`is 142 ms against 100 ms`; where it could not be measured, how fast the budget burns."""
    if is_component(facts.promise):
        return component_text.measured(facts)
    against, value = threshold(facts.promise), facts.burning.get("value")
    if value is None:
        value = (facts.attribution or {}).get("value")
    burn, is_known = burn_text(facts.burning), facts.burning.get("state") != "unknown"
    if value is None or not against:
        said = f"{'burns' if is_known else 'burned'} its budget {burn}".rstrip()
    else:
        said = f"{'is' if is_known else 'was'} {amount(facts.promise, float(value))} against {against}"
    return said if is_known else f"{said} when it was last measured; what it is now is not known"


def threshold(promise: Mapping[str, Any]) -> str:
    match promise.get("kind"):
        case "latency":
            return amount(promise, float(promise["threshold_ms"]))
        case "cost":
            return amount(promise, float(promise["usd_per_1k_tokens"]))
        case "availability":
            return amount(promise, quantile(promise))
    return ""


def amount(promise: Mapping[str, Any], value: float) -> str:
    match promise.get("kind"):
        case "latency":
            return TEXT.ms(value)
        case "cost":
            return f"${value:.4g}"
    return TEXT.target(value) if value == quantile(promise) else TEXT.precise(value)


def blame(facts: Facts) -> str:
    """Which component is down now, which stage burned it, for whom, since when, and what was changed then."""
    if is_component(facts.promise):
        return component_text.cause(facts)
    down = "; ".join(facts.burning.get("down") or [])
    return f"{down}; {stages_blamed(facts)}" if down else stages_blamed(facts)


def stages_blamed(facts: Facts) -> str:
    found = facts.attribution
    if not found:
        return f"stage and segment not known ({facts.missing})" if facts.missing else "stage and segment not known"
    stage, segments = stage_text(facts.promise, found), segment_text(found.get("segments") or [])
    since = since_text(found)
    said = " ".join(part for part in (stage, segments) if part)
    return ", ".join(part for part in (said, since) if part)


def stage_text(promise: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    stages: Sequence[Mapping[str, Any]] = found.get("stages") or []
    if not stages or stages[0]["share"] < LEAST_STAGE:
        return "no single stage stands out"
    stage, percent = name_of(str(stages[0]["stage"])), TEXT.share(float(stages[0]["share"]))
    if promise.get("kind") == "availability":
        return f"{percent} of the failures are in {stage}"
    if promise.get("kind") == "cost":
        return ""
    return f"{percent} of the burn is {stage} time"


def name_of(stage: str) -> str:
    return stage if stage and stage != "unattributed" else "unattributed"


def segment_text(segments: Sequence[Mapping[str, Any]]) -> str:
    """`on prompts of 4-8k tokens in pool chat-large`, of segments that hold at least LEAST_SHARE of what was bad."""
    told = [one for one in segments if float(one["chosen_share"]) >= LEAST_SHARE and not _trivial(one)][:MOST_SEGMENTS]
    order = {"prompt_bucket": 0, "tenant": 1, "tier": 2}
    told.sort(key=lambda one: order.get(str(one["dimension"]), 5))
    return " ".join(segment(str(one["dimension"]), str(one["value"])) for one in told)


def _trivial(segment: Mapping[str, Any]) -> bool:
    """What the cache answers meets neither queue nor model: that the slow ones missed it says nothing."""
    return bool(segment["dimension"] == "cache" and segment["value"] == "miss")


def segment(dimension: str, value: str) -> str:
    if dimension == "prompt_bucket":
        return f"on prompts of {tokens(value)} tokens" if value else "on prompts of unknown length"
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
    return f"{words.get(dimension, dimension)} {value or 'unknown'}"


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


def since_text(found: Mapping[str, Any]) -> str:
    """A change is named as the beginning only where it came just before; an earlier one is named beside the time."""
    since_ns = found.get("since_ns")
    changes: Sequence[Mapping[str, Any]] = found.get("changes") or []
    if not isinstance(since_ns, int):
        return ""
    if not changes:
        return f"since {clock_minute(since_ns)} UTC"
    last = changes[0]
    what = f"{last['summary']} ({clock_minute(int(last['at_ns']))} UTC)"
    if abs(since_ns - int(last["at_ns"])) <= NEAR_S * 10**9:
        return f"since {what}"
    return f"since {clock_minute(since_ns)} UTC, after {what}"


def budget(burning: Mapping[str, Any]) -> str:
    """`31 % of the budget left, gone in 2 h`."""
    left = burning.get("left_share")
    if left is None:
        return ""
    if left <= 0:
        return f"the budget is gone ({TEXT.share(1 - float(left))} spent)"
    lasts = burning.get("lasts_s")
    gone = f", gone in {TEXT.duration(float(lasts))}" if lasts is not None else ""
    return f"{TEXT.share(float(left))} of the budget left{gone}"


def burn_text(burning: Mapping[str, Any]) -> str:
    """`21.3 times too fast over 1 h and 5 min`, of the fastest window that fires."""
    firing = [one for one in burning.get("windows") or [] if one.get("fires") and one.get("long") is not None]
    if not firing:
        return ""
    one = max(firing, key=lambda window: (window["severity"] == "page", window["threshold"]))
    return f"{one['long']:.3g} times too fast over {TEXT.duration(one['long_s'])} and {TEXT.duration(one['short_s'])}"


def details(facts: Facts) -> dict[str, Any]:
    """The same, each thing under its name: a page's custom details."""
    if is_component(facts.promise):
        return component_details(facts)
    found = facts.attribution or {}
    stages = [
        f"{one['stage']} {TEXT.share(float(one['share']))}" for one in found.get("stages") or [] if one["share"] >= 0.01
    ]
    segments = [
        f"{DIMENSION_NAMES.get(one['dimension'], one['dimension'])} {one['value'] or 'unknown'}: "
        f"{TEXT.share(float(one['chosen_share']))} of the bad requests, {TEXT.share(float(one['rest_share']))} of the others"
        for one in found.get("segments") or []
    ]
    written: dict[str, Any] = {
        "objective": facts.name,
        "scope": ", ".join(f"{name}={value or '(none)'}" for name, value in sorted(facts.scope.items()))
        or "all traffic",
        "now": f"{quantity(facts.promise)} {measured(facts)}",
        "burn": burn_text(facts.burning),
        "budget": budget(facts.burning),
        "stages": stages or (f"not known: {facts.missing}" if facts.missing else ""),
        "segments": segments,
        "components down": list(facts.burning.get("down") or []),
        "since": since_text(found),
        "changed before": [
            f"{one['summary']} at {minute(int(one['at_ns']))} UTC" for one in found.get("changes") or []
        ],
        "bad requests": f"{found['bad']:,} of {found['total']:,}" if found.get("total") else "",
        "exemplar traces": list(found.get("traces") or []),
        "resolves": facts.resolves,
        "known causes": [one["summary"] for one in found.get("causes") or []],
        "owner": facts.owner or "none",
        "runbook": facts.runbook or "none",
        "labels": dict(facts.labels),
    }
    return {name: value for name, value in written.items() if value}


def component_details(facts: Facts) -> dict[str, Any]:
    written = {
        "component": facts.promise.get("component"),
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
    """Incidents of one model and owner are shown together; each is told by itself."""
    return " · ".join((scope.get("model") or "all models", owner or "no owner"))


def links(page: str, facts: Facts, latency: str = "", traces: Sequence[tuple[str, str]] = ()) -> tuple[Link, ...]:
    """`page`: the incident's; `traces`: ids with their addresses. All absolute."""
    found = [Link(page, "Incident")]
    found += [Link(facts.runbook, "Runbook")] if facts.runbook.startswith(("http://", "https://")) else []
    found += [Link(latency, "Latency at that time")] if latency else []
    return (*found, *(Link(href, f"Trace {trace_id[:8]}") for trace_id, href in traces))


def shortened(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
