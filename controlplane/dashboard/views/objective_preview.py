"""Replays a draft of an objective over recorded history, beside the saved one. The URL holds the whole draft."""

import time
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_OBJECTIVES
from controlplane.core.formatting import PAGE, instant, relative
from controlplane.dashboard import links, vendor
from controlplane.dashboard.core.figures.replay import replay_figure
from controlplane.dashboard.core.screen import link_query
from controlplane.dashboard.core.zone import minute
from controlplane.dashboard.views.common import page, render_page
from controlplane.slo.core import words
from controlplane.slo.core.gaps import document as gap_document
from controlplane.slo.core.gaps import gaps_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.period import Span, period_at
from controlplane.slo.core.sli import Histogram, Latency
from controlplane.slo.core.windows import WORKBOOK
from controlplane.slo.evaluate.gaps import Gaps
from controlplane.slo.models import StoredObjective
from controlplane.slo.models.planned_maintenance import enabled_maintenance
from controlplane.slo.openslo.core import weir
from controlplane.slo.replay.core.episodes import Episode
from controlplane.slo.replay.core.variant import Variant
from controlplane.slo.replay.draft import DraftError, differing, drafted
from controlplane.slo.replay.preview import preview
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.question import DIMENSIONS, Question
from controlplane.telemetry.query.core.timerange import SECOND_NS, TimeRange, parse

DEFAULT_FROM, DEFAULT_TO = "now-30d", "now"
RANGES = ("24h", "7d", "30d", "90d")
OWN = ("saved", "from", "to")
MAX_ROWS = 100
EDITED = ("target", "threshold_ms", "windows", "minimum_total", "minimum_bad")
"""Fields that the page itself can change; others come from the admin's form."""


@require_http_methods(["GET", "POST"])
@page
def objective_preview(request: HttpRequest) -> HttpResponse:
    """A form that was posted here, as the admin's is, becomes a URL."""
    saved = stored(request.GET.get("saved", ""))
    if request.method == "POST":
        return HttpResponseRedirect(address(saved, differing(saved, request.POST)))
    time_range = parse(request.GET.get("from", DEFAULT_FROM), request.GET.get("to", DEFAULT_TO), time.time_ns())
    context = {**form_context(request, saved, time_range), "plotly": vendor.plotly()}
    try:
        draft = drafted(saved, request.GET)
        context |= {"draft": draft, "fields": fields(draft)}
        variants = preview(
            answers.store(),
            beside(draft, saved),
            enabled_maintenance(),
            time_range.window.from_ns // SECOND_NS,
            time_range.window.to_ns // SECOND_NS,
        )
    except DraftError as error:
        context["wrong"] = error.fields
    except ValueError as error:
        if isinstance(error, BadQuestionError):
            raise
        context["wrong"] = {"": [str(error)]}
    else:
        context |= replay_context(variants, time_range, request.GET.urlencode())
    return render_page(request, "dashboard/objective_preview.html", context, status=400 if "wrong" in context else 200)


def stored(slug: str) -> StoredObjective | None:
    """Raises BadQuestionError."""
    if not slug:
        return None
    row = StoredObjective.objects.select_related("owner").filter(slug=slug).first()
    if row is None:
        raise BadQuestionError("saved", slug, "is no objective", "Choose one at /objectives, or leave it out")
    return row


def address(saved: StoredObjective | None, given: QueryDict, **own: str) -> str:
    pairs = [("saved", saved.slug)] if saved else []
    pairs += [(name, text) for name in given for text in given.getlist(name) if name not in OWN]
    return f"{reverse('objective-preview')}?{link_query([*pairs, *own.items()])}"


def beside(draft: Objective, saved: StoredObjective | None) -> dict[str, Objective]:
    """What it is compared with: the saved one, else the draft with the workbook's windows; nothing if they are equal."""
    before = saved.to_objective() if saved else None
    if before is not None:
        same = {"slug", "name", "revision", "owner", "runbook", "runbook_text", "labels", "description"}
        if all(
            getattr(before, name) == getattr(draft, name) for name in draft.__dataclass_fields__ if name not in same
        ):
            return {"as saved": draft}
        return {"changed": draft, "as saved": before}
    if draft.windows != WORKBOOK:
        return {"draft": draft, "workbook": replace(draft, windows=WORKBOOK)}
    return {"draft": draft}


def fields(draft: Objective) -> dict[str, Any]:
    """Values of the page's own form."""
    return {
        "target": draft.target,
        "threshold_ms": draft.indicator.threshold_ms if isinstance(draft.indicator, Latency) else None,
        "windows": weir.windows_text(draft.windows),
        "minimum_total": draft.minimum.total,
        "minimum_bad": draft.minimum.bad,
    }


def form_context(request: HttpRequest, saved: StoredObjective | None, time_range: TimeRange) -> dict[str, Any]:
    given = request.GET.copy()
    own = [(name, text) for name, text in (("from", time_range.from_text), ("to", time_range.to_text))]
    changed = differing(saved, given)
    return {
        "saved": saved,
        "hidden": [
            *([("saved", saved.slug)] if saved else []),
            *own,
            *((name, text) for name in changed for text in changed.getlist(name) if name not in EDITED),
        ],
        "ranges": [
            {
                "text": length,
                "href": address(saved, changed, **{"from": f"now-{length}", "to": "now"}),
                "current": time_range.live and time_range.from_text == f"now-{length}",
            }
            for length in RANGES
        ],
        "as_saved_href": address(saved, QueryDict(), **dict(own)) if saved and changed else "",
        "edit_href": _admin(request, saved),
        "fields": {name: given.get(name, "") for name in EDITED},
    }


def _admin(request: HttpRequest, saved: StoredObjective | None) -> str:
    if not rights.may_anywhere(request.user, EDIT_OBJECTIVES):
        return ""
    if saved is None:
        return reverse("admin:slo_storedobjective_add")
    return reverse("admin:slo_storedobjective_change", args=[saved.pk])


def replay_context(variants: list[Variant], time_range: TimeRange, key: str) -> dict[str, Any]:
    from_s, to_s = time_range.window.from_ns // SECOND_NS, time_range.window.to_ns // SECOND_NS
    recorded = min(
        (variant.recorded_from_s for variant in variants if variant.recorded_from_s is not None), default=None
    )
    return {
        "variants": [summary(variant) for variant in variants],
        "first": summary(variants[0]),
        "length": PAGE.duration(to_s - from_s),
        "recorded": "" if recorded is None else minute(recorded * SECOND_NS),
        "recorded_late": recorded is None or recorded > from_s,
        "history": history(variants[0].objective, recorded, to_s),
        "unmeasured": unmeasured(variants[0], from_s, to_s),
        "figure": replay_figure(variants, max(from_s, recorded or from_s), to_s, key),
        "episodes": [row for variant in variants for row in rows(variant)][:MAX_ROWS],
        "left_out": max(0, sum(len(variant.episodes) for variant in variants) - MAX_ROWS),
        "several": len(variants) > 1,
        "split": bool(variants[0].objective.split_by),
    }


def history(objective: Objective, recorded_s: int | None, to_s: int) -> str:
    """How much of the period that ends the range is recorded."""
    return words.recorded_part(recorded_s, period_at(objective.period, to_s * SECOND_NS).from_ns // SECOND_NS, to_s)


def unmeasured(variant: Variant, from_s: int, to_s: int) -> str:
    """What was not measured of the range, in words."""
    objective = variant.objective
    if isinstance(objective.indicator, Histogram):
        return ""
    gaps = gaps_of(Gaps.known(timezone.now()), objective.scope)
    missed = gap_document(gaps, objective.scope, Span(from_s * SECOND_NS, to_s * SECOND_NS), to_s * SECOND_NS)
    return words.unmeasured(missed, variant.events[1], minute)


def summary(variant: Variant) -> dict[str, Any]:
    bad, total = variant.events
    pages = variant.pages
    first = pages[0] if pages else None
    worst = variant.worst
    return {
        "name": variant.name,
        "pages": len(pages),
        "tickets": len(variant.tickets),
        "paged": PAGE.duration(variant.paged_s),
        "bad": bad,
        "total": total,
        "sli": (total - bad) / total if total else None,
        "target": variant.objective.target,
        "first": first,
        "first_at": minute(first.opened_s * SECOND_NS) if first else "",
        "early": early(first.exhausted_s - first.opened_s)
        if first and first.exhausted_s is not None
        else "it never was",
        "lasts": lasting(first.lasts_s) if first else "",
        "left": worst.left_share if worst else None,
        "scopes": len(variant.replays),
        "left_out": variant.left_out,
        "windows": weir.windows_text(variant.objective.windows),
        "minimum": variant.objective.minimum,
    }


def early(seconds: int) -> str:
    return PAGE.duration(seconds) if seconds > 0 else "it was gone already"


def lasting(seconds: float) -> str:
    return "gone" if seconds <= 0 else PAGE.duration(min(seconds, 366 * 86_400))


def rows(variant: Variant) -> list[dict[str, Any]]:
    """Incidents as a table's rows, each with a link to its requests."""
    return [row(variant, scope, episode) for scope, episode in variant.episodes]


def row(variant: Variant, scope: Any, episode: Episode) -> dict[str, Any]:
    first = episode.pages[0] if episode.pages else None
    end_s = max((replay.to_s for replay in variant.replays.values()), default=episode.opened_s)
    window = Window((episode.opened_s - 3600) * SECOND_NS, (episode.closed_s or end_s) * SECOND_NS)
    during = TimeRange(instant(window.from_ns), instant(window.to_ns), window)
    filters = {name: (value,) for name, value in scope.items() if name in DIMENSIONS}
    question = Question(range=during, filters=filters)  # type: ignore[arg-type]
    return {
        "variant": variant.name,
        "severity": episode.severity,
        "icon": "✕" if episode.severity == "page" else "▲",
        "look": "bad" if episode.severity == "page" else "warn",
        "scope": ", ".join(f"{name} {value or 'unknown'}" for name, value in scope.items()),
        "opened": minute(episode.opened_s * SECOND_NS),
        "closed": minute(episode.closed_s * SECOND_NS) if episode.closed_s else "",
        "length": PAGE.duration(episode.length_s(end_s)),
        "pages": len(episode.pages),
        "rate": episode.worst_rate,
        "left": first.left_share if first else None,
        "lasts": lasting(first.lasts_s) if first else "",
        "windows": ", ".join(relative(variant.objective.windows[at].long_s) for at in episode.windows),
        "href": links.latency(question) if window.to_ns - window.from_ns <= 92 * 86_400 * SECOND_NS else "",
    }
