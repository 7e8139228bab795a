"""The shape of an error."""

from ninja import Schema


class ProblemOut(Schema):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    value: str | None = None
    remedy: str | None = None
