"""Carries out the steps of an apply, row by row, inside the caller's transaction."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import models, transaction

from controlplane.accounts.core.rule import Owned
from controlplane.accounts.rights import Guard
from controlplane.core.documents.plan import PlanStep
from controlplane.core.documents.problem import Mark, Problem, shown
from controlplane.core.formatting import TEXT
from controlplane.fleet.core import forms
from controlplane.fleet.core.forms import Values
from controlplane.fleet.files.kinds import KINDS, Belongings, Key, Kind, named, read_kind, values_of
from controlplane.fleet.files.reading import Wanted

FleetStep = PlanStep[Key]


def whole(message: str) -> Problem:
    """About what is in no line of a file."""
    return Problem("files", Mark(1, 1), "error", "refused", "", message)


class _RefusedError(Exception):
    """A row that cannot be so; `path` is in its document."""

    def __init__(self, path: forms.Path, message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass
class Work:
    """Carries steps out, inside a transaction: makes rows, then what refers to rows, removes what goes, and checks all at the end, so that
    files may be in any order, and what takes the place of something else finds it free.
    """

    wanted: Collection[Wanted]
    guard: Guard
    problems: list[Problem] = field(default_factory=list)
    rows: dict[Key, models.Model] = field(default_factory=dict)
    entries: list[tuple[Wanted, models.Model, forms.Path]] = field(default_factory=list)

    def carried_out(self, steps: Collection[FleetStep]) -> list[FleetStep]:
        """The steps, with what else goes with a row that is removed."""
        order = list(KINDS)
        doing = {step.key for step in steps if step.action in ("create", "change")}
        each_of = [each for each in self.wanted if each.key in doing]
        each_of.sort(key=lambda each: order.index(each.key[0]))
        self._each(self._make, each_of)
        self._each(self._connect, each_of)
        leaving = [step for step in steps if step.action == "prune"]
        notes = self._remove(sorted(leaving, key=lambda step: -order.index(step.kind)))
        self._each(self._check_names, self.wanted if leaving else ())
        self._each(self._check, each_of)
        return [replace(step, note=notes.get(step.key, step.note)) for step in steps]

    def _each(self, act: Callable[[Wanted], None], wanted: Iterable[Wanted]) -> None:
        if self.problems:
            return
        for each in wanted:
            try:
                act(each)
            except _RefusedError as refused:
                self.problems.append(each.problem(refused.path, str(refused), "refused"))

    def _make(self, each: Wanted) -> None:
        """The row with its columns, but for what comes later."""
        kind = KINDS[each.key[0]]
        row = kind.find(each.key[1])
        before = next(read_kind(kind, [row]))[1] if row else forms.usual(kind.part)
        if row is not None:
            self.guard(row)
        else:
            row = kind.new(each.key[1])
        for name in kind.administrators:
            if before[name] != each.values[name]:
                self.guard(Owned())
        columns = {name: column for name, column in kind.part.columns.items() if not _is_later(kind, name)}
        _set(row, columns, each.values, ("spec",))
        if kind.is_of_another:
            setattr(row, kind.named, _named(kind.table, kind.named, each.key[1], ("metadata", "name")))
        elif not kind.is_single:
            _cleaned(row, kind.named, each.key[1], ("metadata", "name"))
        if not kind.table._meta.many_to_many:
            self.guard(row)
        if row.pk is None or values_of(row, columns) != {name: before[name] for name in columns}:
            _save(row, ("spec",))
        self.rows[each.key] = row

    def _check_names(self, each: Wanted) -> None:
        """What its lists name has not been removed."""
        table = KINDS[each.key[0]].table
        for column in table._meta.many_to_many:
            for name in each.values.get(column.name, ()):
                _named(table, column.name, name, ("spec", column.name))

    def _connect(self, each: Wanted) -> None:
        kind, row = KINDS[each.key[0]], self.rows[each.key]
        later = {name: column for name, column in kind.part.columns.items() if _is_later(kind, name)}
        if values_of(row, later) != {name: each.values[name] for name in later}:
            _set(row, later, each.values, ("spec",))
            _save(row, ("spec",))
        if later:  # what it names may say whose it is
            self.guard(row)
        for name, belongings in kind.lists.items():
            if name in each.values:
                self._list(each, row, belongings, each.values[name], ("spec", name))

    def _list(self, each: Wanted, row: models.Model, of: Belongings, wanted: list[Values], path: forms.Path) -> None:
        """Entries with a key are changed in place. Without one, all are made anew in their order where any differs."""
        have = [(entry, values_of(entry, of.columns)) for entry in of.rows([row])]
        keyed = bool(of.key) or of.single
        if not keyed and [values for _, values in have] == wanted:
            return
        known = {_key(values, of): (entry, values) for entry, values in have} if keyed else {}
        stay = {_key(values, of) for values in wanted} if keyed else set()
        for entry, values in have:
            if not keyed or _key(values, of) not in stay:
                self.guard(entry)
                entry.delete()
        for values in wanted:
            entry, before = known.get(_key(values, of), (None, None))
            if before == values:
                continue
            if entry is None:
                entry = of.table(**{of.parent: row}, **of.only)
            else:
                self.guard(entry)
            _set(entry, of.columns, values, path)
            self.guard(entry)
            _save(entry, path)
            self.entries.append((each, entry, path))

    def _check(self, each: Wanted) -> None:
        row = self.rows[each.key]
        _clean(row, ("spec",))
        KINDS[each.key[0]].saved(row)
        for of, entry, path in self.entries:
            if of is each:
                _clean(entry, path)

    def _remove(self, steps: list[FleetStep]) -> dict[Key, str]:
        """Again and again, because one may be kept by another one that goes too."""
        notes: dict[Key, str] = {}
        if self.problems:
            return notes
        kept: dict[Key, str] = {}
        while len(notes) < len(steps):
            left = [step for step in steps if step.key not in notes]
            for step in left:
                row = KINDS[step.kind].find(step.name)
                if row is None:
                    notes[step.key] = "goes with what it belongs to"
                    continue
                self.guard(row)
                try:
                    notes[step.key] = _deleted(row, KINDS[step.kind])
                except models.ProtectedError as error:
                    users = sorted({str(each) for each in error.protected_objects})
                    kept[step.key] = (
                        f"{step.kind} {step.name} is used by {', '.join(users[:3])}: change or remove that too"
                    )
            if len(left) == sum(step.key not in notes for step in steps):
                messages = [kept[step.key] for step in left]
                self.problems += [whole(message) for message in messages]
                break
        return notes


def _is_later(kind: Kind, name: str) -> bool:
    """Whether a column names rows of its own kind, which may not be there yet, or is a list, which wants a row that is saved."""
    column = kind.table._meta.get_field(name)
    return column.related_model is kind.table or bool(column.many_to_many)


def _key(values: Values, of: Belongings) -> tuple[Any, ...]:
    return tuple(values[name] for name in of.key)


def _set(row: models.Model, columns: Mapping[str, forms.Column], values: Values, path: forms.Path) -> None:
    for name, column in columns.items():
        value = values[name]
        if column.type == "list of names":
            getattr(row, name).set([_named(type(row), name, each, (*path, name)) for each in value])
        elif column.type == "name" and value is not None:
            setattr(row, name, _named(type(row), name, value, (*path, name)))
        else:
            _cleaned(row, name, value, (*path, name))


def _named(table: type[models.Model], name: str, value: str, path: forms.Path) -> models.Model:
    others: Any = table._meta.get_field(name).related_model
    other: models.Model | None = others._default_manager.filter(**{named(others): value}).first()
    if other is None:
        noun = others._meta.verbose_name
        raise _RefusedError(path, f"{name}={shown(value)} is no {noun}: choose another, or apply it too")
    return other


def _cleaned(row: models.Model, name: str, value: Any, path: forms.Path) -> None:
    column: Any = row._meta.get_field(name)
    try:
        # An empty value of what may be empty is taken as it is, as forms do.
        setattr(row, name, value if column.blank and value in column.empty_values else column.clean(value, row))
    except ValidationError as error:
        raise _RefusedError(path, f"{name}={shown(value)}: {' '.join(error.messages)}") from None


def _save(row: models.Model, path: forms.Path) -> None:
    try:
        row.validate_constraints()
    except ValidationError as error:
        raise _RefusedError(path, " ".join(error.messages)) from None
    row.save()


def _clean(row: models.Model, path: forms.Path) -> None:
    try:
        row.clean()
    except ValidationError as error:
        by_field = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        name, messages = next(iter(by_field.items()))
        said = f"{name}: " if name and name != "__all__" else ""
        raise _RefusedError((*path, name) if said else path, said + " ".join(messages)) from None


def _deleted(row: models.Model, kind: Kind) -> str:
    """Delete a row, and say what else goes with it, which no document has. What merely names it is saved without it, so that each change
    of a row is seen. Raises ProtectedError.
    """
    with transaction.atomic():
        for belongings in kind.lists.values():
            for entry in belongings.rows([row]):
                entry.delete()
        for relation in row._meta.related_objects:
            if relation.on_delete is models.SET_NULL:
                for other in relation.related_model._default_manager.filter(**{relation.field.name: row}):
                    setattr(other, relation.field.name, None)
                    other.save()
        counts = row.delete()[1]
    own = {row._meta.label, *(each.table._meta.label for each in kind.lists.values())}
    others = {model._meta.label: model._meta for model in apps.get_models()}
    said = [
        TEXT.counted(count, str(others[label].verbose_name))
        for label, count in sorted(counts.items())
        if count and label in others and label not in own
    ]
    return f"also deletes {', '.join(said)}" if said else ""
