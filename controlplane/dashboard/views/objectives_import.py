"""Applies pasted or uploaded OpenSLO: shows the problems by line and the planned steps first."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from controlplane.core.documents import report
from controlplane.core.documents.plan import Applied
from controlplane.core.documents.problem import Problem
from controlplane.core.documents.reading import MAX_BYTES
from controlplane.core.documents.writing import join_documents
from controlplane.slo.openslo.apply import apply

RIGHTS = ("slo.add_storedobjective", "slo.change_storedobjective", "slo.delete_storedobjective")
SOURCE = "page"
LOOKS = {
    "create": ("+", "good"),
    "change": ("~", "warn"),
    "unchanged": ("=", "muted"),
    "prune": ("−", "bad"),
    "conflict": ("!", "bad"),
}
MAX_LINES = 5_000


@require_http_methods(["GET", "POST"])
def objectives_import(request: HttpRequest) -> HttpResponse:
    allowed = request.user.has_perms(RIGHTS)
    context: dict[str, Any] = {"allowed": allowed}
    if request.method == "POST":
        doing = request.POST.get("do") == "apply"
        if doing and not allowed:
            raise PermissionDenied(f"Applying objectives wants {', '.join(RIGHTS)}")
        text, wrong = sent(request)
        label = request.POST.get("label", "").strip()[:100]
        prune = "prune" in request.POST and bool(label)
        adopt = "adopt" in request.POST
        context |= {"text": text, "label": label, "prune": prune, "adopt": adopt, "wrong": wrong}
        if text.strip() and not wrong:
            result = apply(
                {SOURCE: text},
                label=label,
                who=request.user.get_username(),
                prune=prune,
                adopt=adopt,
                dry_run=not doing,
            )
            context |= result_context(result, text)
    return render(request, "dashboard/objectives_import.html", context)


def sent(request: HttpRequest) -> tuple[str, str]:
    """The text of the uploaded files, else the pasted text; and what is wrong with it."""
    files = request.FILES.getlist("files")
    if not files:
        return request.POST.get("text", "").replace("\r\n", "\n"), ""
    texts = []
    for file in files:
        data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            return "", f"{file.name} is larger than {MAX_BYTES // 1024} KiB: split it into several files"
        try:
            texts.append(data.decode("utf-8-sig").replace("\r\n", "\n"))
        except UnicodeDecodeError:
            return "", f"{file.name} is no UTF-8 text"
    return join_documents(texts), ""


def result_context(result: Applied[str], text: str) -> dict[str, Any]:
    return {
        "result": result,
        "documents": result.documents,
        "counted": report.count_problems(result.problems),
        "sentence": report.summarise(result.steps, result.done),
        "steps": [
            {
                "step": step,
                "icon": LOOKS[step.action][0],
                "look": LOOKS[step.action][1],
                "changes": [report.change_text(change) for change in step.changes] if step.action == "change" else [],
            }
            for step in result.steps
        ],
        "lines": lines(text, result.problems),
        "source": SOURCE,
        "anything": result.changes_something,
    }


def lines(text: str, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """The text by lines, each with what is wrong on it."""
    by_line: dict[int, list[Problem]] = {}
    for problem in problems:
        if problem.source == SOURCE:
            by_line.setdefault(problem.mark.line, []).append(problem)
    return [
        {
            "number": number,
            "text": line,
            "problems": by_line.get(number, []),
            "severity": min((problem.severity for problem in by_line.get(number, [])), default=""),
        }
        for number, line in enumerate(text.split("\n")[:MAX_LINES], 1)
    ]
