"""What the admins of all rooms share: rows that stay, rows that are made elsewhere, and fields that depend on another one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString


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


class GuidedAdmin(admin.ModelAdmin):
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


class KeptAdmin(admin.ModelAdmin):
    """Rows stay as they are."""

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


class ReadOnlyAdmin(KeptAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


class ShownInline(admin.TabularInline):
    """Rows that are made elsewhere."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False
