"""Parts of every page: the question in its URL, answers to bad ones and to an unavailable store, and freshness."""

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

import structlog
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme

from controlplane.dashboard import links
from controlplane.dashboard.core.freshness import freshness
from controlplane.dashboard.core.screen import Screen, link_query
from controlplane.telemetry.core.query_types import Dimension, Filter, excluded
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.parameters import whole_number
from controlplane.telemetry.query.core.question import DIMENSIONS, UNKNOWN, Question, parse
from controlplane.telemetry.query.core.timerange import UNIT_S
from controlplane.telemetry.store import StoreError, StoreUnavailableError

log = structlog.get_logger(__name__)
View = Callable[..., HttpResponse]

FACETS: tuple[tuple[Dimension, str], ...] = (
    ("model", "model"),
    ("tier", "tier"),
    ("cache", "cache"),
    ("prompt_bucket", "prompt tokens"),
    ("pool", "pool"),
    ("region", "region"),
    ("tenant", "tenant"),
    ("status", "status"),
)
FACET_NAMES = tuple(name for name, _ in FACETS)
LENGTHS = ("30m", "1h", "2h", "4h", "8h", "1d", "3d", "7d")
"""What forms offer for how long something is to hold."""


def page(view: View) -> View:
    """Decorates a page that queries telemetry: a bad question is answered with 400 and its remedy, an unavailable store with 503,
    and one that refuses with 500 and what its owner can do.
    """

    @functools.wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = view(request, *args, **kwargs)
        except BadQuestionError as error:
            response = trouble(request, 400, {"error": error, "default": request.path})
        except StoreUnavailableError as error:
            log.warning("store.unavailable", path=request.path, error=str(error))
            response = trouble(request, 503, {"away": error})
            response["Retry-After"] = str(max(1, round(error.retry_after_s)))
        except StoreError as error:
            log.error("store.refused", path=request.path, code=error.code, error=str(error))  # noqa: TRY400  (the reason is all)
            response = trouble(request, 500, {"refused": error})
        response["Cache-Control"] = "no-store"  # else the back button may show a fragment for a page
        patch_vary_headers(response, ("HX-Request",))
        return response

    return answered


def trouble(request: HttpRequest, status: int, context: Mapping[str, Any]) -> HttpResponse:
    """The trouble page; for htmx its fragment."""
    name = "dashboard/_trouble.html" if is_fragment(request) else "dashboard/trouble.html"
    return render(request, name, {**context, "status": status, "retry": request.get_full_path()}, status=status)


def render_page(request: HttpRequest, name: str, context: Mapping[str, Any], status: int = 200) -> HttpResponse:
    """The page of the template `name`, or its data alone where htmx asks for that: with the filters, unless it is a refresh."""
    data = is_fragment(request)
    whole = {"filters_too": data and not is_refresh(request), **context}
    return render(request, f"{name}#data" if data else name, whole, status=status)


def framed(
    request: HttpRequest, room: str, title: str, content: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """The page of a room whose screens have one frame. `content` is the template of the data."""
    whole = {**context, "title": title, "content": f"dashboard/{room}/{content}", "path": request.path}
    return render_page(request, f"dashboard/{room}/page.html", whole, status)


def is_fragment(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"


def is_refresh(request: HttpRequest) -> bool:
    """Whether a live page requests its data again; the filters, which the reader may be using, stay."""
    return request.headers.get("Weir-Refresh") == "1"


def back(request: HttpRequest, otherwise: str) -> HttpResponse:
    """Redirects to the page of the form (`next`), if it is one of ours."""
    target = request.POST.get("next", "")
    ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, request.is_secure())
    return HttpResponseRedirect(target if ours else otherwise)


def end_of(text: str, since: datetime) -> datetime:
    """When a form's `length`, such as 30m, is over. Raises ValidationError."""
    try:
        return since + timedelta(seconds=int(text[:-1]) * UNIT_S[text[-1]])
    except (ValueError, KeyError, IndexError, OverflowError):
        raise ValidationError({"length": [f"length={text[:20]!r} is not a length: use 30m, 4h or 2d."]}) from None


def question_of(request: HttpRequest) -> tuple[Question, int]:
    """The question in the URL and the present, ns. Raises BadQuestionError."""
    now_ns = time.time_ns()
    return parse(dict(request.GET.lists()), now_ns), now_ns


def facet_values(request: HttpRequest, question: Question) -> dict[Dimension, list[str]]:
    """The values of the filters; nothing for a refresh, which does not replace them."""
    return {} if is_refresh(request) else answers.values(question.range.window, FACET_NAMES)


def ledger_freshness(question: Question, matching_ns: int | None, now_ns: int) -> dict[str, Any]:
    """How old the ledger as a whole is, whatever the filters. `matching_ns`: the end of the newest request
    of the question, shown beside it where there are filters."""
    whole = question.range.live and (bool(question.filters) or matching_ns is None)
    newest_ns = answers.newest_ns() if whole else matching_ns
    return {
        **freshness_context(question, newest_ns, now_ns),
        "filtered": question.range.live and bool(question.filters),
        "matching_ns": matching_ns,
    }


def freshness_context(question: Question, newest_ns: int | None, now_ns: int) -> dict[str, Any]:
    return {
        "freshness": freshness(newest_ns, now_ns, live=question.range.live),
        "newest_ms": None if newest_ns is None else newest_ns // 1_000_000,
        "now_ms": now_ns // 1_000_000,
    }


def filter_context(screen: Screen, values: Mapping[Dimension, Sequence[str]]) -> dict[str, Any]:
    """The filter bar."""
    question, query = screen.question, screen.query
    wider = links.wider(question)

    def without(name: Filter, value: str) -> str:
        return query(question.without(name, "" if value == UNKNOWN else value))

    def turned(name: Dimension, value: str) -> str:
        return query(question.turned(name, "" if value == UNKNOWN else value))

    return {
        "path": screen.path,
        "question": question,
        "question_query": link_query(question.pairs()),
        "presets": presets(question, query),
        "facets": [
            facet(
                name,
                label,
                [value or UNKNOWN for value in values.get(name, ())],
                [value or UNKNOWN for value in question.filters.get(name, ())],
                partial(without, name),
                partial(turned, name),
            )
            for name, label in FACETS
        ],
        "conditions": [
            *({"text": text, "without": without("attribute", text)} for text in question.filters.get("attribute", ())),
            *(
                {"text": f"tokens {bound}", "without": without("tokens", bound)}
                for bound in question.filters.get("tokens", ())
            ),
            *(
                {"text": f"{name} {value or UNKNOWN}", "without": without(name, value or UNKNOWN)}
                for name in DIMENSIONS
                if name not in FACET_NAMES
                for value in question.filters.get(name, ())
            ),
            *(
                {
                    "text": f"{name.replace('_', ' ')} is not {value or UNKNOWN}",
                    "without": query(question.without("not", f"{name}={value}")),
                }
                for name, values in excluded(question.filters).items()
                for value in values
            ),
        ],
        "kept": [*screen.region, *screen.own(), *_unseen(question)],
        "wider": query(wider) if wider else "",
        "day": query(links.back(question, "24h")),
        "resume": query(links.back(question, "15m")),
        "unfiltered": query(_without_filters(question)) if question.filters else "",
    }


def choices(
    values: Iterable[str], current: str, query: Callable[[str], str], texts: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Links to what a page shows by each value: `query` gives the query string, and `texts` what is written for a value, if not itself."""
    names = texts or {}
    return [{"text": names.get(each, each), "query": query(each), "current": each == current} for each in values]


def presets(
    question: Question, query: Callable[[Question], str], lengths: Sequence[str] = links.PRESETS
) -> list[dict[str, Any]]:
    """The usual lengths of time up to now, for the filter bar. `query` gives the query string of a question."""
    shown = question.range.from_text.removeprefix("now-") if question.range.live else ""
    return choices(lengths, shown, lambda length: query(links.back(question, length)))


def facet(
    name: str,
    label: str,
    values: Iterable[str],
    chosen: Sequence[str],
    without: Callable[[str], str] = lambda value: "",
    turned: Callable[[str], str] | None = None,
) -> dict[str, Any]:
    """A choice among the values there are and those that are asked for, for `_facets.html`. Of several that are asked for each is shown,
    kept, and can be taken away by itself: `without` is the query string without it. `turned` is the one with "is" turned into "is not"."""
    return {
        "name": name,
        "label": label,
        "chosen": bool(chosen),
        "turned": turned(chosen[0]) if turned and len(chosen) == 1 else "",
        "several": [{"value": value, "without": without(value)} for value in chosen] if len(chosen) > 1 else [],
        "options": [{"value": value, "chosen": value in chosen} for value in dict.fromkeys([*values, *chosen])],
    }


def _unseen(question: Question) -> list[tuple[str, str]]:
    """Filters and settings that the bar has no control for: they must survive a change of those it has."""
    controls = {name for name, _ in FACETS} | {"from", "to"}
    return [(name, value) for name, value in question.pairs() if name not in controls]


def _without_filters(question: Question) -> Question:
    for name in list(question.filters):
        question = question.with_filter(name)
    return question


def list_filters(request: HttpRequest, names: Iterable[str]) -> tuple[dict[str, list[str]], int | None]:
    """What the URL of a list chooses by these names, each repeatable, and `before`, where its page begins. Raises BadQuestionError."""
    before = whole_number(dict(request.GET.lists()), "before", 0, 0, 2**62) or None
    return {name: request.GET.getlist(name)[:20] for name in names}, before


def list_links(
    wanted: Mapping[str, Sequence[str]],
    name: str,
    choices: Sequence[tuple[str, Sequence[str]]],
    before: int | None,
    next_before: int | None,
) -> dict[str, Any]:
    """Of a list whose filter `name` is one of `choices`, each a text and its values. `chosen` are the other filters."""
    kept = [(other, value) for other, values in wanted.items() if other != name for value in values]

    def link(values: Sequence[str], *more: tuple[str, int]) -> str:
        return f"?{urlencode([*kept, *((name, value) for value in values), *more])}"

    return {
        "chosen": kept,
        "choices": [
            {"text": text, "href": link(values), "current": set(values) == set(wanted[name])}
            for text, values in choices
        ],
        "first_href": link(wanted[name]) if before else "",
        "next_href": link(wanted[name], ("before", next_before)) if next_before else "",
    }
