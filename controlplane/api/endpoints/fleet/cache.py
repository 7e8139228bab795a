"""`GET cache`: what it answered and saved. `POST cache/purge`: no answer from before is met again."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from ninja import Body, Field, Query, Router, Schema

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.api.filters import RequestFilters, question_of
from controlplane.api.formats import CacheKey, Given, Name, Rounded
from controlplane.fleet.models import CachePurge, LLMModel, Tenant
from controlplane.fleet.purge import purge_answers, purge_tag, purge_version
from controlplane.planning.savings import savings
from controlplane.telemetry.query import answers, cache_figures
from controlplane.telemetry.query.core.errors import BadQuestionError

router = Router(tags=["cache"])


class SumOut(Schema):
    value: Rounded | None = Field(description="Null where it is not known of any request, which is not zero")
    unknown: int = Field(description="Of so many requests it is not known, and `value` is without them")


class SavedOut(Schema):
    """Of the requests of a model that followed one routing rule; what was saved, of those that the cache or another request answered."""

    model: str
    rule: str = Field(description="Empty: none")
    requests: dict[str, int] = Field(description="By outcome: hit, semantic, partial, coalesced, miss, bypass, skipped")
    share: Rounded | None = Field(description="Of them, those that were not sent to a model server")
    ms: SumOut = Field(description="Against answers of about the same length that the same model made")
    prompt_tokens: SumOut
    output_tokens: SumOut
    gpu_s: SumOut = Field(description="By the measured capacity of the pool that would have answered")
    gpu_at_most: bool = Field(
        description="A replica may carry more than it was seen to, so that `gpu_s` is an upper bound"
    )
    usd: SumOut = Field(description="By the prices that hold now")


class CountedOut(Schema):
    model: str
    result: str
    count: int


class WrittenOut(Schema):
    model: str
    rule: str = Field(description="Empty: none")
    size_bytes: int = Field(description="Without the keys of Redis")


class SimilarOut(Schema):
    """How much is known of answers for similar requests. `threshold` is the least similarity that is served; null: nothing is."""

    model: str
    route: str
    words: str = Field(description="Whether its texts are in the `same` words, or in `other` ones")
    judge: str = Field(description="The model that agreed to each pair; empty without one")
    labels: int = Field(description="Compared answers since the evidence began")
    labels_wanted: int = Field(description="The fewest that suffice, where none is wrong")
    wrong: int | None = Field(description="Of them those that were wrong; null where no gateway says it")
    marks: int | None = Field(description="Of these those that people marked")
    threshold: float | None
    broke: bool = Field(description="Answers were seen to have become wrong within the last hour")
    changes: int
    examples: list[str] = Field(description="Ids of the newest requests that were wrong, within that hour")


class CacheStepOut(Schema):
    name: str
    count: int
    p50_ms: Rounded
    p95_ms: Rounded


class CacheOut(Schema):
    saved: list[SavedOut] = Field(description="Those of the most requests first")
    similar: list[SimilarOut] = Field(description="Of all tenants, whatever the filters, at the end of the range")
    lookups: list[CountedOut] = Field(description="What came of look-ups of similar requests, whatever the filters")
    inputs: list[CountedOut] = Field(description="Inputs of lists to embed, whatever the filters")
    written: list[WrittenOut] = Field(
        description="What was written into the exact cache, expired or not, whatever the filters; else not known"
    )
    steps: list[CacheStepOut] = Field(description="What each step of the stage `cache` took, whatever the filters")


@router.get("", response=CacheOut, summary="What the cache answered, and what that saved")
def used(request: HttpRequest, parameters: Query[RequestFilters]) -> dict[str, Any]:
    """Of requests that are stored one by one."""
    question = answers.stored(question_of(request))
    counted = cache_figures.counted(question.range.window)
    return {
        "saved": savings(question),
        "similar": cache_figures.similar(question.range.window),
        "lookups": counted[cache_figures.LOOKUPS],
        "inputs": counted[cache_figures.INPUTS],
        "written": cache_figures.written(question.range.window),
        "steps": cache_figures.steps(question.range.window),
    }


class PurgeIn(Given):
    """A model, with a prompt version or without one, or a tenant, a tag, or a key."""

    model: Name | None = Field(None, description="Its answers for all tenants")
    prompt_version: Name | None = Field(None, description="Of the model: the answers of this version alone")
    tenant: Name | None = Field(None, description="Its answers of all models that do not share them between tenants")
    tag: Name | None = Field(None, description="The answers to requests that name it in `x-weir-cache-tags`")
    key: CacheKey | None = Field(None, description="One answer, by its `x-weir-cache-key`")


class PurgedOut(Given):
    purges: int = Field(description="How often these answers were purged")


@router.post(
    "/purge",
    response=PurgedOut,
    summary="Purge the cached answers of a model, a version, a tenant or a tag, or one answer",
)
def purge(request: HttpRequest, given: Body[PurgeIn]) -> PurgedOut:
    """Every gateway obeys it within a second. Answers that requests in flight write later are not met either."""
    rights.require_anywhere(request.user, EDIT_FLEET)
    what = {name: value for name in ("model", "tenant", "tag", "key") if (value := getattr(given, name)) is not None}
    if len(what) != 1:
        field, value = next(iter(what.items()), ("model", ""))
        wrong = "is given beside another" if what else "is to be given, or else a tenant, a tag or a key"
        raise BadQuestionError(field, value, wrong, "Give one of model, tenant, tag and key")
    ((field, name),) = what.items()
    version = given.prompt_version
    if version is not None and field != "model":
        raise BadQuestionError("prompt_version", version, "is one of a model", "Give its model too")
    if field in ("tag", "key"):
        rights.require(request.user, EDIT_FLEET, CachePurge(tag=name))
        return PurgedOut(purges=_purged(field, name, lambda: purge_tag(name)))
    kind: type[LLMModel] | type[Tenant] = LLMModel if field == "model" else Tenant
    row = kind._default_manager.filter(name=name).first()
    if row is None:
        raise BadQuestionError(field, name, "is not one that is served", "Give its name as the admin has it")
    rights.require(request.user, EDIT_FLEET, row)
    if isinstance(row, LLMModel) and version is not None:
        model = row
        return PurgedOut(purges=_purged("prompt_version", version, lambda: purge_version(model, version)))
    return PurgedOut(purges=purge_answers(row))


def _purged(field: str, value: str, done: Callable[[], int]) -> int:
    try:
        return done()
    except ValidationError as error:
        raise BadQuestionError(field, value, "cannot be purged", " ".join(error.messages)) from None
