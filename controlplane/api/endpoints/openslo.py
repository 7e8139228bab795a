"""Objectives as OpenSLO over REST: check files, apply them, read objectives as YAML."""

import json
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_OBJECTIVES, VIEW
from controlplane.api.endpoints.objectives import row_of
from controlplane.api.formats import Words
from controlplane.core.documents import report
from controlplane.core.documents.plan import Applied, PlanStep
from controlplane.fleet.files import proposals
from controlplane.slo.openslo.apply import apply, known_documents
from controlplane.slo.openslo.core.lint import lint
from controlplane.slo.openslo.export import export_all, export_one
from controlplane.telemetry.query.core.errors import BadParameterError

router = Router(tags=["objectives as code"])
YAML = "application/yaml"
MAX_FILES = 1000
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            YAML: {"schema": {"description": "One or several documents"}},
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {
                            "type": "object",
                            "additionalProperties": {"type": "string"},
                            "description": "Texts by file name",
                        }
                    },
                }
            },
        },
    }
}


class LintProblemOut(Schema):
    source: str
    line: int = Field(validation_alias="mark.line")
    column: int = Field(validation_alias="mark.column")
    severity: str
    rule: str
    path: str
    message: str


class LintOut(Schema):
    documents: int
    errors: int
    warnings: int
    problems: list[LintProblemOut]


class FieldChangeOut(Schema):
    field: str
    before: Any
    after: Any


class FileStepOut(Schema):
    kind: str
    name: str
    source: str
    note: str
    changes: list[FieldChangeOut]


class FilesAppliedOut(Schema):
    applied: bool = Field(
        validation_alias="done", description="False for a dry run, and where errors or conflicts forbade it"
    )
    summary: str
    problems: list[LintProblemOut]

    @staticmethod
    def resolve_summary(result: Applied[Any]) -> str:
        return report.summarise(result.steps, result.done)


class SentOut(Schema):
    summary: str
    problems: list[LintProblemOut] = Field(validation_alias="applied.problems")
    applied: bool = Field(
        validation_alias="applied.done",
        description="False for a dry run, and where something forbids it",
    )
    proposal: int | None = Field(
        None,
        validation_alias="proposal.pk",
        description="Where a team wants another person's approval: what waits for it",
    )

    @staticmethod
    def resolve_summary(sent: proposals.Sent) -> str:
        return report.summarise(sent.applied.steps, sent.applied.done)


class StepOut(FileStepOut):
    action: str = Field(..., description="create, change, unchanged, prune or conflict")
    slug: str | None = Field(None, description="Of the objective; null where Weir does not evaluate it")

    @staticmethod
    def resolve_slug(step: PlanStep[str]) -> str | None:
        return step.key or None


class AppliedOut(SentOut):
    steps: list[StepOut] = Field(validation_alias="applied.steps")


class ApplyParameters(Schema):
    owner_label: Words = Field("api", max_length=100, description="Marks what these files own; empty imports once")
    prune: bool = Field(False, description="Delete what has the label and is in no file")
    adopt: bool = Field(False, description="Take over what was made by hand or elsewhere")
    dry_run: bool = False


@router.post("/openslo/lint", response=LintOut, summary="What to correct in OpenSLO files", openapi_extra=BODY)
def lint_files(request: HttpRequest) -> dict[str, Any]:
    rights.require(request.user, VIEW)
    checked = lint(files(request), known_documents())
    return {
        "documents": len(checked.documents),
        "errors": len(checked.errors),
        "warnings": len(checked.problems) - len(checked.errors),
        "problems": checked.problems,
    }


@router.post(
    "/openslo/apply",
    response={200: AppliedOut, 202: AppliedOut, 409: AppliedOut},
    summary="Make objectives equal to OpenSLO files, all or none",
    openapi_extra=BODY,
)
def apply_files(request: HttpRequest, parameters: Query[ApplyParameters]) -> Status[proposals.Sent]:
    """Idempotent. 409 where a file has errors or something belongs to another owner; nothing is changed then. 202 where a team wants
    another person's approval of its objectives: `proposal` waits for it. Once it is in force, apply the files again.
    """
    rights.require_anywhere(request.user, EDIT_OBJECTIVES)
    given, who = parameters.dict(), request.user.get_username()
    label, guard = given.pop("owner_label"), rights.guard(request.user, EDIT_OBJECTIVES)
    with proposals.drafted(who, label) as draft:
        result = apply(files(request), label=label, who=who, guard=guard, **given)
    if draft.proposal:
        return Status(202, proposals.Sent(replace(result, done=False), draft.proposal))
    return Status(200 if result.possible else 409, proposals.Sent(result))


@router.get("/objectives.yaml", summary="All objectives as OpenSLO, and what else was applied")
def all_as_yaml(request: HttpRequest) -> HttpResponse:
    return as_file(export_all(), "objectives.yaml")


@router.get("/objectives/{slug}.yaml", summary="An objective as OpenSLO")
def one_as_yaml(request: HttpRequest, slug: str) -> HttpResponse:
    return as_file(export_one(row_of(slug)), f"{slug}.yaml")


def as_file(text: str, name: str) -> HttpResponse:
    headers = {"Content-Disposition": f'inline; filename="{name}"', "Cache-Control": "no-store"}
    return HttpResponse(text, content_type=f"{YAML}; charset=utf-8", headers=headers)


def files(request: HttpRequest) -> dict[str, str]:
    """Texts by name, out of a body of YAML or of JSON. Raises BadParameterError."""
    if not request.body:
        raise BadParameterError("body", "", "is missing", "Send YAML, or JSON with files")
    try:
        text = request.body.decode()
    except UnicodeDecodeError:
        raise BadParameterError("body", "", "is no UTF-8 text", "Send YAML, or JSON with files") from None
    if request.content_type != "application/json":
        return {"body": text}
    try:
        content = json.loads(text)
        texts = content["files"]
    except (ValueError, TypeError, KeyError):
        raise BadParameterError("files", text[:80], "is missing", 'Send {"files": {"slos.yaml": "…"}}') from None
    if not isinstance(texts, dict) or not all(isinstance(file, str) for file in texts.values()):
        raise BadParameterError("files", str(texts)[:80], "is not texts by name", 'Send {"files": {"slos.yaml": "…"}}')
    if len(texts) > MAX_FILES:
        raise BadParameterError("files", f"{len(texts)} files", "are too many", f"Send at most {MAX_FILES} at once")
    return texts
