"""What an API token may be used for: its scopes narrow the rights of its user, and never widen them."""

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

Scope = Literal["read", "respond", "objectives", "policies", "plan", "fleet", "scores", "admin"]


class Covered(NamedTuple):
    """`what` in words, and the rights: Django's permissions, or all of an app by its label."""

    what: str
    rights: frozenset[str]


SCOPES: Mapping[str, Covered] = {
    "read": Covered("read what the API and /metrics show, but for the audit", frozenset()),
    "respond": Covered(
        "acknowledge, resolve and annotate incidents, silence, record changes", frozenset({"incidents", "delivery"})
    ),
    "objectives": Covered("edit objectives and maintenance windows", frozenset({"slo"})),
    "policies": Covered("propose, approve, activate, pause and override policies", frozenset({"policy"})),
    "plan": Covered("start and cancel jobs of the plan", frozenset({"planning"})),
    "fleet": Covered(
        "cancel and retry batches, purge cached answers, record changes of what is served",
        frozenset({"fleet", "lane", "incidents.add_changerecord"}),
    ),
    "scores": Covered("send scores of answers", frozenset({"policy.score_answers"})),
    "admin": Covered("whatever its user may do", frozenset()),
}
EVERYDAY: tuple[Scope, ...] = ("read", "respond", "objectives", "policies", "plan", "fleet", "scores")
READ: Scope = "read"
ADMIN: Scope = "admin"


def covers(scopes: Collection[str], right: str) -> bool:
    """Whether a token with these scopes may use a right of its user: READ, or a permission such as `slo.add_objective`."""
    return ADMIN in scopes or bool(scopes_for(right) & set(scopes))


def scopes_for(right: str) -> set[str]:
    """The scopes that cover a right, `admin` aside."""
    app = right.partition(".")[0]
    return {name for name, covered in SCOPES.items() if name == right or {app, right} & covered.rights}


def unknown(scopes: Collection[str]) -> list[str]:
    return sorted(set(scopes) - SCOPES.keys())
