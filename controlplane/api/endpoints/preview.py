"""`POST objectives/preview`: replays an objective that is not saved yet, and returns the pages that it would have sent."""

import time
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from ninja import Router

from controlplane.accounts import groups
from controlplane.api.schemas import preview as schemas
from controlplane.api.schemas.objectives import NOT_EVALUATED
from controlplane.slo.core.document import objective_from_json
from controlplane.slo.core.evaluation import elapsed_s
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.period import period_at
from controlplane.slo.models import StoredObjective
from controlplane.slo.models.planned_maintenance import enabled_maintenance
from controlplane.slo.replay.preview import preview
from controlplane.slo.replay.recorded import step_of
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import SECOND_NS, parse

router = Router(tags=["objectives"])


@router.post("/objectives/preview", response=schemas.PreviewOut, summary="Which pages it would have sent")
def previewed(request: HttpRequest, body: schemas.Previewed) -> dict[str, Any]:
    groups.require_reading(request.user)
    time_range = parse(body.from_, body.to, time.time_ns())
    draft = body.objective.model_dump(exclude_none=True, exclude=set(NOT_EVALUATED))
    others = {name: other.model_dump(exclude_none=True) for name, other in body.compare.items()}
    drafts = {"draft": draft} | {name: {**draft, **other} for name, other in others.items()}
    objectives = {
        name: valid(document, "" if name == "draft" else f"compare.{name}.") for name, document in drafts.items()
    }
    from_s, to_s = time_range.window.from_ns // SECOND_NS, time_range.window.to_ns // SECOND_NS
    try:
        variants = preview(answers.store(), objectives, enabled_maintenance(), from_s, to_s)
    except ValueError as error:
        raise refused(str(error), "") from None
    recorded_s = min(
        (variant.recorded_from_s for variant in variants if variant.recorded_from_s is not None), default=None
    )
    period = period_at(objectives["draft"].period, to_s * SECOND_NS)
    return {
        "from_s": from_s,
        "to_s": to_s,
        "recorded_from_s": recorded_s,
        "history_s": 0 if recorded_s is None else elapsed_s(period, to_s * SECOND_NS, recorded_s),
        "step_s": step_of(objectives["draft"]),
        "variants": variants,
    }


def valid(document: dict[str, Any], prefix: str) -> Objective:
    """As saving it would check it. Raises BadQuestionError, by field."""
    try:
        objective = objective_from_json({"slug": "draft", "name": "Draft", **document})
        row = StoredObjective()
        row.take(objective)
        row.clean_fields()
        row.clean()
    except ValidationError as error:
        fields = error.error_dict if hasattr(error, "error_dict") else {"": error.error_list}
        field, errors = next(iter(fields.items()))
        text = " ".join(errors[0].messages)
        if "=" in text:
            raise refused(text, prefix) from None
        raise BadQuestionError(prefix + field, str(document.get(field, ""))[:80], text, "Correct it") from None
    except (ValueError, TypeError) as error:
        raise refused(str(error), prefix) from None
    return objective


def refused(text: str, prefix: str) -> BadQuestionError:
    """From a message such as `target=1.2 is not between 0 and 1: use 0.999`."""
    field, _, rest = text.partition("=")
    what, _, remedy = rest.partition(": ")
    value, _, reason = what.partition(" ")
    known = field.replace(".", "").replace("_", "").isalnum() and rest
    if not known:
        return BadQuestionError(prefix + "objective", "", text, "Correct it")
    return BadQuestionError(prefix + field, value.strip("'"), reason, remedy[:1].upper() + remedy[1:] or "Correct it")
