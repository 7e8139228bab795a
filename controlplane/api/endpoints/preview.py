"""`POST objectives/preview`: replays an objective that is not saved yet, and returns the pages that it would have sent.

Times are s since the epoch.
"""

import time
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from ninja import Field, Router, Schema

from controlplane.accounts import rights
from controlplane.accounts.core.actions import VIEW
from controlplane.api.endpoints.objectives import NOT_EVALUATED, ObjectiveDifference, ObjectiveDraft
from controlplane.api.formats import TIME, Finite, Given, Instant, Length, Name
from controlplane.slo.core.document import objective_from_json
from controlplane.slo.core.evaluation import elapsed_s
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.period import period_at
from controlplane.slo.core.windows import Severity
from controlplane.slo.models import StoredObjective
from controlplane.slo.models.planned_maintenance import enabled_maintenance
from controlplane.slo.replay.core.variant import ScopedEpisode, Variant
from controlplane.slo.replay.preview import preview
from controlplane.slo.replay.recorded_history import step_of
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import SECOND_NS, parse

router = Router(tags=["objectives"])
MAX_COMPARED = 5
MAX_EPISODES = 1000


class Previewed(Given):
    """Objectives are as `GET objectives/{slug}` shows them; what is left out has its default."""

    objective: ObjectiveDraft
    compare: dict[Name, ObjectiveDifference] = Field(
        {},
        max_length=MAX_COMPARED,
        description="By name: fields that differ, such as `windows`, replayed beside it",
    )
    from_: Instant = Field("now-30d", alias="from", description=TIME)
    to: Instant = Field("now", description=TIME)


class PageOut(Schema):
    opened_s: int
    closed_s: int | None = Field(description="null where it is open at `to_s`")
    long_s: int = Field(
        validation_alias="window.long_s", description="Of the fastest windows that fired at its opening"
    )
    short_s: int = Field(validation_alias="window.short_s")
    rate: float = Field(description="Burn rate over `long_s` at its opening")
    left_share: float = Field(description="Of the budget at its opening")
    lasts_s: Finite = Field(description="Until the budget is used up at that rate; null where it never is")
    exhausted_s: int | None = Field(description="When the budget was used up, at or after its opening; null: never")


class EpisodeOut(Schema):
    """One incident: the time in which any window fires without a break."""

    scope: dict[str, str]
    severity: Severity = Field(validation_alias="episode.severity")
    opened_s: int = Field(validation_alias="episode.opened_s")
    closed_s: int | None = Field(validation_alias="episode.closed_s", description="null where it is open at `to_s`")
    windows: list[int] = Field(validation_alias="episode.windows", description="Positions in the objective's `windows`")
    worst_rate: float = Field(validation_alias="episode.worst_rate", description="Highest burn rate that fired")
    pages: list[PageOut] = Field(validation_alias="episode.pages")


class ScopeOut(Schema):
    """One value of the split."""

    scope: dict[str, str]
    pages: Length = Field(validation_alias="replay.pages")
    tickets: Length = Field(validation_alias="replay.tickets", description="Incidents that never paged")
    left_share: float = Field(validation_alias="replay.left_share", description="Of the budget at `to_s`")
    exhausted_s: int | None = Field(
        validation_alias="replay.exhausted_s", description="When the budget was first used up; null: never"
    )
    warning_s: int | None = Field(
        validation_alias="replay.warning_s",
        description="From the first page until the budget was used up, below 0 where the page came later",
    )


class VariantOut(Schema):
    name: str
    pages: Length
    tickets: Length = Field(description="Incidents that never paged")
    paged_s: int = Field(description="How long pages were open in total")
    bad: int = Field(validation_alias="events.0")
    total: int = Field(validation_alias="events.1")
    splits_left_out: int = Field(validation_alias="left_out", description="Values of the split beyond the most")
    scopes: list[ScopeOut] = Field(validation_alias="by_scope", description="The one with the most pages first")
    episodes: list[EpisodeOut] = Field(description="By time")
    episodes_left_out: int

    @staticmethod
    def resolve_episodes(variant: Variant) -> list[ScopedEpisode]:
        return variant.episodes[:MAX_EPISODES]

    @staticmethod
    def resolve_episodes_left_out(variant: Variant) -> int:
        return max(0, len(variant.episodes) - MAX_EPISODES)


class PreviewOut(Schema):
    from_s: int
    to_s: int
    recorded_from_s: int | None = Field(
        None, description="Before it, there are no requests; null where nothing is recorded"
    )
    history_s: int = Field(..., description="How much of the draft's period at `to` is recorded")
    step_s: int = Field(..., description="Judged once per step")
    variants: list[VariantOut] = Field(description="The draft, then those of `compare`")


@router.post("/objectives/preview", response=PreviewOut, summary="Which pages it would have sent")
def previewed(request: HttpRequest, body: Previewed) -> dict[str, Any]:
    rights.require(request.user, VIEW)
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
