"""`POST cache/purge`: no answer from before is met again."""

from collections.abc import Callable

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from ninja import Body, Field, Router

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.api.formats import Given, Name
from controlplane.fleet.models import CachePurge, LLMModel, Tenant
from controlplane.fleet.purge import purge_answers, purge_tag, purge_version
from controlplane.telemetry.query.core.errors import BadQuestionError

router = Router(tags=["cache"])


class PurgeIn(Given):
    """A model, with a prompt version or without one, or a tenant, or a tag."""

    model: Name | None = Field(None, description="Its answers for all tenants")
    prompt_version: Name | None = Field(None, description="Of the model: the answers of this version alone")
    tenant: Name | None = Field(None, description="Its answers of all models that do not share them between tenants")
    tag: Name | None = Field(None, description="The answers to requests that name it in `x-weir-cache-tags`")


class PurgedOut(Given):
    purges: int = Field(description="How often these answers were purged")


@router.post("/purge", response=PurgedOut, summary="Purge the cached answers of a model, a version, a tenant or a tag")
def purge(request: HttpRequest, given: Body[PurgeIn]) -> PurgedOut:
    """Every gateway obeys it within a second. Answers that requests in flight write later are not met either."""
    rights.require_anywhere(request.user, EDIT_FLEET)
    what = {name: value for name in ("model", "tenant", "tag") if (value := getattr(given, name)) is not None}
    if len(what) != 1:
        raise BadQuestionError(
            "model", given.model or "", "is to be given, or else a tenant or a tag", "Give one of them"
        )
    ((field, name),) = what.items()
    version = given.prompt_version
    if version is not None and field != "model":
        raise BadQuestionError("prompt_version", version, "is one of a model", "Give its model too")
    if field == "tag":
        rights.require(request.user, EDIT_FLEET, CachePurge(tag=name))
        return PurgedOut(purges=_purged("tag", name, lambda: purge_tag(name)))
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
