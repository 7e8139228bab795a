"""The page of the audit: who changed what, or was refused."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SEE_AUDIT
from controlplane.audit.models import Entry
from controlplane.core.listing import newest_first
from controlplane.dashboard.views.common import list_filters, list_links, page

PAGE_ROWS = 50
MAX_VALUE = 80
"""Characters of a value on the page; the API has all."""
CHOICES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("all", ()),
    ("changes", ("created", "changed", "deleted", "added", "removed")),
    ("refusals", ("refused",)),
    ("log-ins", ("logged in", "logged out", "broke the glass")),
)


@page
def audit(request: HttpRequest) -> HttpResponse:
    """`who`, `via`, `action`, `kind` and `subject_id`, each repeatable; `before` is where a page begins."""
    rights.require(request.user, SEE_AUDIT)
    wanted, before = list_filters(request, Entry.FILTERS)
    listing = newest_first(Entry.objects.all(), Entry.FILTERS, wanted, before, PAGE_ROWS)
    context = {
        "rows": [_row(entry) for entry in listing.rows],
        **list_links(wanted, "action", CHOICES, before, listing.next_before),
    }
    return render(request, "dashboard/audit.html", context)


def _row(entry: Entry) -> dict[str, Any]:
    names = sorted({*(entry.before or {}), *(entry.after or {})})
    return {
        "entry": entry,
        "changes": [
            {"field": name, "before": _text(entry.before, name), "after": _text(entry.after, name)}
            for name in names
            if _is_set(entry.before, name) or _is_set(entry.after, name)
        ],
        "who_href": f"{reverse('audit')}?{urlencode({'who': entry.who})}",
        "subject_href": f"{reverse('audit')}?{urlencode({'kind': entry.kind, 'subject_id': entry.subject_id})}",
    }


def _is_set(side: dict[str, Any] | None, name: str) -> bool:
    """Not empty: of a new row most fields are, and say nothing."""
    return side is not None and side.get(name) not in (None, "", [], {})


def _text(side: dict[str, Any] | None, name: str) -> str:
    """A value as JSON has it, shortened; empty where the side does not have it."""
    if side is None or name not in side:
        return ""
    value = side[name]
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
