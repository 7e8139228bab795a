"""The kinds of documents, each a table with the tables that belong to its rows; their forms come from the columns."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from functools import cache
from typing import Any, Literal

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models.fields import NOT_PROVIDED

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.accounts.core.rule import Action
from controlplane.accounts.rights import Guard
from controlplane.core.acting import acts
from controlplane.fleet.core.forms import REQUIRED, Column, Entries, Part, Type, Values, in_order, written
from controlplane.fleet.models import (
    AllowedRegion,
    Cluster,
    Fallback,
    GuardRule,
    LLMModel,
    Pool,
    Price,
    Region,
    Replica,
    StageTimeouts,
    Team,
    Tenant,
    Tier,
    TimeoutRule,
    TokenIssuer,
    Variant,
    Workload,
)

Key = tuple[str, str]
"""Kind and name."""
ALL = "all"
"""The name of what there is one of."""
ADMINISTRATORS = (
    "cluster", "workload", "credential", "headers", "proxy", "tls_ca", "tls_server_name", "tls_certificate",
)  # fmt: skip
"""Of a pool: secrets, and what runs in clusters, are administrators' to name. An owner could name those of another team."""


@dataclass(frozen=True)
class Belongings:
    """Rows of `table` that belong to a row by `parent`; only those with these columns. `hidden` columns say whose they are. `kept` as in
    `forms.Entries`.
    """

    table: type[models.Model]
    parent: str
    key: tuple[str, ...] = ()
    single: bool = False
    names: str = ""
    only: Mapping[str, Any] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    edits: Action = EDIT_FLEET
    kept: bool = False

    @property
    def columns(self) -> dict[str, Column]:
        return columns_of(self.table, (self.parent, *self.hidden))

    def rows(self, of: Iterable[models.Model] | None = None) -> "models.QuerySet[Any]":
        """Of these rows, or all; in the order in which they were made."""
        rows = self.table._default_manager.filter(**{f"{self.parent}__isnull": False}, **self.only).order_by("pk")
        if of is not None:
            rows = rows.filter(**{f"{self.parent}__in": list(of)})
        return rows.select_related(*references(self.table))


@dataclass(frozen=True)
class Kind:
    """`administrators`: fields and lists that an owner may not change. `returns`: what of it comes back with an earlier revision: `missing`
    ones are made, and others stay as they are, because more than what is served hangs on them; what lets callers in never does.
    `named`: the column that is the document's name; empty: there is one row. `edits`: what changing it asks for. `saved` is called with a
    row that was changed, once all is valid. `kept`: why a row stays where its file is gone; empty: it goes.
    """

    name: str
    table: type[models.Model]
    lists: Mapping[str, Belongings] = field(default_factory=dict)
    administrators: tuple[str, ...] = ()
    returns: Literal["all", "missing", "never"] = "all"
    named: str = "name"
    edits: Action = EDIT_FLEET
    saved: Callable[[Any], object] = lambda row: row
    kept: Callable[[Any], str] = lambda row: ""

    @property
    def is_single(self) -> bool:
        return not self.named

    @property
    def part(self) -> Part:
        return _part(self.name)

    @property
    def is_of_another(self) -> bool:
        """Whether its name is that of the row that it belongs to."""
        return bool(self.named) and isinstance(self.table._meta.get_field(self.named), models.ForeignKey)

    def name_of(self, row: models.Model) -> str:
        if self.is_single:
            return ALL
        value = getattr(row, self.named)
        return str(value.name if self.is_of_another else value)

    def find(self, name: str) -> models.Model | None:
        return self.rows([name]).first()

    def why_kept(self, name: str) -> str:
        """Why the row of this name stays where its file is gone; empty: it goes."""
        row = self.find(name)
        return self.kept(row) if row else ""

    def rows(self, names: Collection[str] | None = None) -> "models.QuerySet[Any]":
        """The rows of these documents, or all, with the rows that they name."""
        rows: models.QuerySet[Any] = self.table._default_manager.select_related(*references(self.table))
        if names is None:
            return rows
        if self.is_single:
            return rows if ALL in names else rows.none()
        return rows.filter(**{f"{self.named}__name__in" if self.is_of_another else f"{self.named}__in": names})

    def new(self, name: str) -> models.Model:
        return self.table() if self.is_single or self.is_of_another else self.table(**{self.named: name})


_PRICES = ("model", "variant", "pool")


def _prices(of: str) -> Belongings:
    return Belongings(Price, of, hidden=tuple(name for name in _PRICES if name != of))


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("Team", Team, returns="missing"),
        Kind("Region", Region, returns="missing"),
        Kind(
            "Cluster",
            Cluster,
            {"workloads": Belongings(Workload, "cluster", ("name",), only={"pool": None}, hidden=("pool",))},
            returns="missing",
        ),
        Kind("StageTimeouts", StageTimeouts, named=""),
        Kind(
            "Tier",
            Tier,
            {"timeouts": Belongings(TimeoutRule, "tier", single=True, only={"model": None}, hidden=("model",))},
        ),
        Kind(
            "Tenant",
            Tenant,
            {"regions": Belongings(AllowedRegion, "tenant", ("region",), names="region", hidden=("model",))},
        ),
        Kind("GuardRule", GuardRule),
        Kind("TokenIssuer", TokenIssuer, returns="never"),
        Kind(
            "Model",
            LLMModel,
            {
                "fallbacks": Belongings(Fallback, "model", ("pool",)),
                "regions": Belongings(AllowedRegion, "model", ("region",), names="region", hidden=("tenant",)),
                "prices": _prices("model"),
                "timeouts": Belongings(TimeoutRule, "model", ("tier",)),
            },
        ),
        Kind("Variant", Variant, {"prices": _prices("variant")}),
        Kind(
            "Pool",
            Pool,
            {
                "replicas": Belongings(Replica, "pool", ("name",), only={"managed_by": Replica.ManagedBy.OWNER}),
                "prices": _prices("pool"),
                "rendered_as": Belongings(Workload, "pool", single=True, hidden=("cluster", "name")),
            },
            (*ADMINISTRATORS, "rendered_as"),
        ),
    )
}
"""In the order in which they are made: each names only rows of kinds before it, but for lists, and models that embed for others. Rooms
above the fleet add theirs with `add`.
"""


def authored(row: Any) -> None:
    """Its author is who made it."""
    if not row.author:
        row.author = acts() or "files"
        row.save(update_fields=["author"])


def named(table: type[models.Model]) -> str:
    """The column by which documents name rows of a table."""
    return next((kind.named for kind in KINDS.values() if kind.table is table), "name")


def add(*kinds: Kind) -> None:
    """Kinds of another room. Call it when the app is ready."""
    KINDS.update({kind.name: kind for kind in kinds})


def guard(user: AbstractBaseUser | AnonymousUser, action: Action) -> Guard:
    """As `rights.guard`; changing a row asks for what its kind or list asks for."""
    parts: list[Kind | Belongings] = [
        *KINDS.values(),
        *(each for kind in KINDS.values() for each in kind.lists.values()),
    ]
    edits: dict[type, Action] = {}
    for part in parts:
        edits.setdefault(part.table, part.edits)
    return lambda thing: rights.require(user, edits.get(type(thing), action) if action == EDIT_FLEET else action, thing)


_TYPES: "tuple[tuple[type[models.Field[Any, Any]], Type], ...]" = (
    (models.BooleanField, "true or false"), (models.FloatField, "number"), (models.IntegerField, "whole number"),
    (models.DateTimeField, "moment"), (models.JSONField, "value"), (models.ForeignKey, "name"),
)  # fmt: skip


@cache
def columns_of(table: type[models.Model], without: tuple[str, ...] = ()) -> dict[str, Column]:
    """What people enter."""
    entered = (*table._meta.concrete_fields, *table._meta.many_to_many)
    fields = (each for each in entered if each.editable and not each.primary_key)
    return {each.name: _column(each) for each in fields if each.name not in without}


def _column(of: "models.Field[Any, Any]") -> Column:
    default: Any = REQUIRED
    if isinstance(of, models.ManyToManyField):
        return Column("list of names", [])
    if of.default is not NOT_PROVIDED:
        default = of.get_default()
        default = getattr(default, "value", default)
    elif of.null:
        default = None
    elif of.blank:
        default = ""
    return Column(next((name for kind, name in _TYPES if isinstance(of, kind)), "text"), default, of.null)


@cache
def references(table: type[models.Model]) -> tuple[str, ...]:
    return tuple(each.name for each in table._meta.concrete_fields if isinstance(each, models.ForeignKey))


@cache
def _part(name: str) -> Part:
    kind = KINDS[name]
    lists = {
        field: Entries(Part(each.columns), each.key, each.single, each.names, each.kept)
        for field, each in kind.lists.items()
    }
    return Part(columns_of(kind.table, (kind.named,)), lists)


def values_of(row: models.Model, columns: Mapping[str, Column]) -> Values:
    return {name: _plain(getattr(row, name), column) for name, column in columns.items()}


def _plain(value: Any, column: Column) -> Any:
    if value is None or column.type == "value":
        return value
    if column.type == "name":
        return str(getattr(value, named(type(value))))
    if column.type == "list of names":
        return sorted(str(getattr(each, named(value.model))) for each in value.all())
    if column.type == "moment":
        return value.astimezone(UTC).isoformat()
    return float(value) if column.type == "number" else getattr(value, "value", value)


def read_kind(kind: Kind, rows: Iterable[models.Model]) -> Iterator[tuple[models.Model, Values]]:
    """Rows with the values of their documents, in a query for each list."""
    given = list(rows)
    listed: dict[str, dict[Any, list[Values]]] = {name: {} for name in kind.lists}
    for name, belongings in kind.lists.items():
        for each in belongings.rows(given):
            of = getattr(each, f"{belongings.parent}_id")
            listed[name].setdefault(of, []).append(values_of(each, belongings.columns))
    part = kind.part
    for row in given:
        lists = {name: in_order(listed[name].get(row.pk, []), entries) for name, entries in part.lists.items()}
        yield row, {**values_of(row, part.columns), **lists}


def stored(keys: Iterable[Key] | None = None) -> dict[Key, Values]:
    """The fleet as people entered it: of these documents, those that there are, or all. In a query for each kind and each of its lists."""
    names_of: dict[str, list[str]] = {}
    for of, name in keys or ():
        names_of.setdefault(of, []).append(name)
    return {
        (kind.name, kind.name_of(row)): values
        for kind in KINDS.values()
        if keys is None or kind.name in names_of
        for row, values in read_kind(
            kind,
            kind.rows(names_of.get(kind.name)).prefetch_related(*(each.name for each in kind.table._meta.many_to_many)),
        )
    }


def texts_of(keys: Collection[Key]) -> dict[Key, str]:
    """What these documents are now; empty where there is none."""
    now = stored(keys)
    return {key: text_of(key, now[key], whole=True) if key in now else "" for key in keys}


def text_of(key: Key, values: Values, *, whole: bool = False) -> str:
    return written(*key, KINDS[key[0]].part, values, whole=whole)


def roots_of(row: models.Model) -> Iterator[tuple[Kind, models.Model]]:
    """The row, or the one that it belongs to, with its kind."""
    for kind in KINDS.values():
        if isinstance(row, kind.table):
            yield kind, row
        for each in kind.lists.values():
            if isinstance(row, each.table) and all(getattr(row, name) == value for name, value in each.only.items()):
                of = getattr(row, each.parent)
                if of is not None:
                    yield kind, of
