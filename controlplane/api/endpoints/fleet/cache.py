"""`POST cache/purge`: no answer from before is met again."""

from django.http import HttpRequest
from ninja import Body, Field, Router

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.api.formats import Given, Name
from controlplane.fleet.models import LLMModel, Tenant
from controlplane.fleet.purge import purge_answers
from controlplane.telemetry.query.core.errors import BadQuestionError

router = Router(tags=["cache"])


class PurgeIn(Given):
    """One of both."""

    model: Name | None = Field(None, description="Its answers for all tenants")
    tenant: Name | None = Field(None, description="Its answers of all models that do not share them between tenants")


class PurgedOut(Given):
    purges: int = Field(description="How often its answers were purged")


@router.post("/purge", response=PurgedOut, summary="Purge the cached answers of a model or a tenant")
def purge(request: HttpRequest, given: Body[PurgeIn]) -> PurgedOut:
    """Every gateway obeys it within a second. Answers that requests in flight write later are not met either."""
    kind: type[LLMModel] | type[Tenant] = Tenant if given.model is None else LLMModel
    rights.require_anywhere(request.user, EDIT_FLEET)
    if (given.model is None) == (given.tenant is None):
        raise BadQuestionError("model", given.model or "", "is to be given, or else a tenant", "Give one of both")
    row = kind._default_manager.filter(name=given.model or given.tenant).first()
    if row is None:
        field = "tenant" if given.model is None else "model"
        raise BadQuestionError(
            field, given.model or given.tenant or "", "is not one that is served", "Give its name as the admin has it"
        )
    rights.require(request.user, EDIT_FLEET, row)
    return PurgedOut(purges=purge_answers(row))
