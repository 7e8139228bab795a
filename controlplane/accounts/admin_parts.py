"""What the admins of all rooms share: who may what, rows that stay, rows that are made elsewhere, and fields that depend on another one."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from controlplane.accounts import rights
from controlplane.accounts.core.actions import ADMINISTER, VIEW
from controlplane.accounts.core.rule import Action

elsewhere: list[Callable[[object], str]] = []
"""What says why a row is changed elsewhere, as a sentence; empty: it is not. Rooms add theirs."""


def _elsewhere(row: object) -> str:
    return next(filter(None, (why(row) for why in elsewhere)), "")


def _require_here(row: object) -> None:
    if why := _elsewhere(row):
        raise PermissionDenied(why)


class Suggesting(forms.TextInput):
    """A text that offers what exists, and takes what does not exist yet."""

    def __init__(self, values: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self.values = values

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        offered = f"{name}-offered"
        options = format_html_join("", '<option value="{}"></option>', ((each,) for each in self.values()))
        field = super().render(name, value, {**(attrs or {}), "list": offered}, renderer)
        return format_html('{}<datalist id="{}">{}</datalist>', field, offered, options)


class AsRead:
    """A form that is refused once where somebody has changed the row, or one of `rows`, since its page was opened. What was typed stays
    in it.
    """

    rows: Callable[[], Iterable[Model]]
    instance: Any
    data: Any
    fields: Any
    _meta: Any
    add_error: Callable[[str | None, str], None]
    _meets: bool = False

    @property
    def as_read(self) -> str:
        """What the page was made of: by field a digest, which says nothing of a secret."""
        given = self.data.get("as-read", "")
        return (
            str(given)
            if given and not self._meets
            else json.dumps({name: now for name, (now, _) in self._now().items()})
        )

    def clean(self) -> Any:
        cleaned: Any = super().clean()  # type: ignore[misc]
        try:
            read = dict(json.loads(self.data.get("as-read", "{}")))
        except ValueError:
            read = {}
        now = self._now()
        others = [words() for name, (digest, words) in now.items() if read.get(name, digest) != digest]
        others += [f"{name.rpartition('-')[0]} that is gone" for name in read if "-" in name and name not in now]
        self._meets = bool(others)
        if others:
            self.add_error(
                None,
                f"Somebody has changed this since you opened it: {', '.join(others)}. Nothing was saved, and what you typed is kept here. "
                "Open the page in another tab to see theirs; saving again puts yours in its place.",
            )
        return cleaned

    def _now(self) -> dict[str, tuple[str, Callable[[], str]]]:
        """The digest of each field, and of each of `rows`, with its name in words."""
        row = self.instance._meta.default_manager.filter(pk=self.instance.pk).first()
        shown = {*self.fields, *(self._meta.exclude or ())}
        own = [field for field in (_entered(row) if row else ()) if field.name in shown]
        now: dict[str, tuple[str, Callable[[], str]]] = {
            field.name: (_digest(field.value_from_object(row)), partial(str, field.verbose_name)) for field in own
        }
        for each in self.rows():
            what = str(each._meta.verbose_name)
            values = [field.value_from_object(each) for field in _entered(each)]
            now[f"{what}-{each.pk}"] = (_digest(values), partial("{} {}".format, what, each))
        return now


def _entered(row: Model) -> list[Any]:
    return [field for field in row._meta.concrete_fields if field.editable]


def _digest(value: object) -> str:
    return salted_hmac("as-read", repr(value), algorithm="sha256").hexdigest()[:16]


class RuledAdmin(admin.ModelAdmin):
    """Asks the rule (`controlplane.accounts.rights`) in the place of Django's permissions, also of single rows: a row is changed by who may
    change it as it is and as it will be, so that nobody takes it from another team or gives it away.

    `edits`: what adding, changing and deleting ask for; `sees`: what looking asks for; `acts`: what other actions ask for, by name.
    """

    edits: Action = ADMINISTER
    sees: Action = VIEW
    acts: Mapping[str, Action] = {}

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return rights.may(request.user, self.sees)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return rights.may_anywhere(request.user, self.edits)

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return _may(request, self.edits, obj)

    has_delete_permission = has_change_permission

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        rows = partial(self._rows_of, request, obj)
        return type(form)(form.__name__, (AsRead, form), {"rows": staticmethod(rows)}) if change else form

    def _rows_of(self, request: HttpRequest, obj: Any) -> Iterator[Model]:
        """The rows of a row that its page changes with it."""
        for formset, inline in self.get_formsets_with_inlines(request, obj):
            if not isinstance(inline, ShownInline):
                yield from inline.get_queryset(request).filter(**{formset.fk.name: obj})

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        row = super().save_form(request, form, change)
        rights.require(request.user, self.edits, self.owned_after(row, form))
        _require_here(row)
        return row

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id)) if request.method == "GET" else None
        if row is not None and (why := _elsewhere(row)):
            self.message_user(request, why, messages.WARNING)
        return super().change_view(request, object_id, form_url, extra_context)

    def owned_after(self, row: Any, form: Any) -> object:
        """Whose the row will be, with what the form has and the row has not yet."""
        return row

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        for each in formset.forms:
            if each.has_changed() and each not in formset.deleted_forms:
                setattr(each.instance, formset.fk.name, formset.instance)
                rights.require(request.user, self.edits, each.instance)
                _require_here(each.instance)
        super().save_formset(request, form, formset, change)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Each is refused as a whole where it is not allowed with one of the rows. Django asks of each row that it deletes by itself."""
        given: dict[str, Any] = super().get_actions(request)
        return {
            name: (act if act is delete_selected else self._of_each(act, self.acts.get(name, self.edits)), name, said)
            for name, (act, _, said) in given.items()
        }

    @staticmethod
    def _of_each(act: Any, action: Action) -> Any:
        @wraps(act)
        def acts(model_admin: Any, request: HttpRequest, queryset: Any) -> Any:
            for row in queryset:
                rights.require(request.user, action, row)
                _require_here(row)
            return act(model_admin, request, queryset)

        return acts


def _may(request: HttpRequest, action: Action, obj: object) -> bool:
    if obj is None:
        return rights.may_anywhere(request.user, action)
    return rights.may(request.user, action, obj) and not _elsewhere(obj)


class IssuedAdmin(RuledAdmin):
    """Secrets that are shown once: when they are made, and when they are rotated."""

    actions = ["rotate"]

    @admin.action(description="Rotate: a new one beside it, which ends within a day", permissions=["add"])
    def rotate(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self._show(request, *row.rotate())

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        text = "" if change else obj.renew()
        super().save_model(request, obj, form, change)
        if text:
            self._show(request, obj, text)

    def _show(self, request: HttpRequest, row: Any, text: str) -> None:
        what = row._meta.verbose_name
        self.message_user(request, f"Copy the {what} {row.name} now, it is not shown again: {text}", messages.WARNING)


class RuledInline(admin.TabularInline):
    """Rows of a row: whoever may change that may change them."""

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return bool(self._parent.has_view_permission(request, obj))

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return bool(self._parent.has_change_permission(request, obj))

    has_change_permission = has_delete_permission = has_add_permission

    @property
    def _parent(self) -> Any:
        return self.admin_site._registry[self.parent_model]


class GuidedAdmin(RuledAdmin):
    """`shown_when`: fields that say something only for some values of others: `{"kubeconfig": "kind=kubernetes"}`.

    A condition is `field=value`, or `field` alone for any value; several, parted by spaces, hold together. Where it does not
    hold, the page hides the field (`weir/admin.js`); what it has is kept.
    """

    shown_when: Mapping[str, str] = {}

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        for name, condition in self.shown_when.items():
            if name in form.base_fields:
                widget: Any = form.base_fields[name].widget
                getattr(widget, "widget", widget).attrs["data-shown-when"] = condition
        return form


class KeptAdmin(RuledAdmin):
    """Rows stay as they are."""

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    has_delete_permission = has_change_permission


class ReadOnlyAdmin(KeptAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


class ShownInline(RuledInline):
    """Rows that are made elsewhere."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False
