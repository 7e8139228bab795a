"""Lists of rows by falling number, the parameters that page through them, and one row of those."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from ninja import Field, Schema

from controlplane.api.formats import Number
from controlplane.core import listing
from controlplane.core.listing import Row


class ListParameters(Schema):
    limit: int = Field(100, ge=1, le=500)
    before: Number | None = Field(None, description="Only those of a lower number: `next_before` of the page before")


def newest_first(query: QuerySet[Any], parameters: ListParameters, name: str) -> dict[str, Any]:
    """The query's rows by falling number, as `name`, and the number before which the next page begins; None on the last page."""
    page = listing.newest_first(query, {}, {}, parameters.before, parameters.limit)
    return {name: page.rows, "next_before": page.next_before}


def only(rows: QuerySet[Row], otherwise: str) -> Row:
    """The query's first row. Raises Http404, which says `otherwise`."""
    row = rows.first()
    if row is None:
        raise Http404(otherwise)
    return row
