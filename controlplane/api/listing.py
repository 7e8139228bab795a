"""Pages of rows by falling number."""

from typing import TypeVar

from django.db.models import Model, QuerySet

MOST = 500
"""How many rows a page has at most."""

Row = TypeVar("Row", bound=Model)


def newest_first(query: QuerySet[Row], before: int | None, limit: int) -> tuple[list[Row], int | None]:
    """Rows of a query by falling number, and the number before which the next page begins; None on the last page."""
    if before is not None:
        query = query.filter(pk__lt=before)
    rows = list(query[: limit + 1])
    return rows[:limit], rows[limit - 1].pk if len(rows) > limit else None
