"""Lists rows for pages and the API: filtered, the newest first, a page at a time."""

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


class Listed(NamedTuple, Generic[Row]):
    rows: list[Row]
    next_before: int | None  # where the next page begins; None on the last page


def newest_first(
    rows: QuerySet[Row], fields: Mapping[str, str], wanted: Mapping[str, Sequence[str]], before: int | None, limit: int
) -> Listed[Row]:
    """Those below the primary key `before`. `wanted` has values by the names of `fields`; several values of one name are alternatives."""
    rows = rows.order_by("-pk")
    for name, field in fields.items():
        if wanted.get(name):
            rows = rows.filter(**{f"{field}__in": wanted[name]})
    if before is not None:
        rows = rows.filter(pk__lt=before)
    shown = list(rows[: limit + 1])
    return Listed(shown[:limit], shown[limit - 1].pk if len(shown) > limit else None)
