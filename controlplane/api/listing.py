"""Lists of rows by falling number, and the parameters that page through them."""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from ninja import Field, Schema

from controlplane.api.formats import Number

Row = TypeVar("Row", bound=Model)


class ListParameters(Schema):
    limit: int = Field(100, ge=1, le=500)
    before: Number | None = Field(None, description="Only those of a lower number: `next_before` of the page before")


def newest_first(query: QuerySet[Row], parameters: ListParameters, name: str) -> dict[str, Any]:
    """The query's rows by falling number, as `name`, and the number before which the next page begins; None on the last page."""
    query = query.order_by("-pk")
    if parameters.before is not None:
        query = query.filter(pk__lt=parameters.before)
    rows = list(query[: parameters.limit + 1])
    shown = rows[: parameters.limit]
    return {name: shown, "next_before": shown[-1].pk if len(rows) > len(shown) else None}
