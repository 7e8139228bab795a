"""Reads an unsaved objective from the fields of the admin's form. Fields that a URL leaves out are as they are saved."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from django.http import QueryDict

from controlplane.slo.admin import ObjectiveForm
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.windows import BurnWindow
from controlplane.slo.models import StoredObjective
from controlplane.slo.openslo.core import weir

LEFT_OUT = (
    "csrfmiddlewaretoken",
    "enabled",
    "owner",
    "runbook",
    "runbook_text",
    "labels",
    "annotations",
    "description",
)
"""Fields of the form that do not change when it pages."""
PLACEHOLDERS = {"slug": "draft", "name": "Draft"}


class DraftError(ValueError):
    """Permanent. `fields`: what is wrong, by field; under "" what is wrong with the whole."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        super().__init__("; ".join(f"{name}: {' '.join(texts)}" for name, texts in fields.items()))
        self.fields = dict(fields)


def drafted(saved: StoredObjective | None, given: QueryDict) -> Objective:
    """Raises DraftError."""
    data = _data(saved, given)
    row = StoredObjective.objects.get(pk=saved.pk) if saved else StoredObjective()
    form = ObjectiveForm(data, instance=row)
    if not form.is_valid():
        raise DraftError(
            {"" if name == "__all__" else name: [str(text) for text in texts] for name, texts in form.errors.items()}
        )
    draft: StoredObjective = form.instance
    return draft.to_objective()


def differing(saved: StoredObjective | None, given: QueryDict) -> QueryDict:
    """The fields of `given` that differ from what is saved: the shortest URL of the same draft."""
    before, changes = _plain(saved), QueryDict(mutable=True)
    for name in _names(before):
        if name in given and _same(name, given.getlist(name)) != _same(name, before.getlist(name)):
            texts = [_compact(text) for text in given.getlist(name)] if name == "windows" else given.getlist(name)
            changes.setlist(name, texts)
    return changes


def _data(saved: StoredObjective | None, given: QueryDict) -> QueryDict:
    data = _plain(saved)
    for name in _names(data):
        if name in given:
            data.setlist(
                name, [_json(text) for text in given.getlist(name)] if name == "windows" else given.getlist(name)
            )
    for name, text in PLACEHOLDERS.items():
        if not data.get(name):
            data[name] = text
    return data


def _names(data: QueryDict) -> list[str]:
    return [
        name for name in ObjectiveForm().fields if name not in LEFT_OUT and not (name == "slug" and data.get("slug"))
    ]


def _plain(saved: StoredObjective | None) -> QueryDict:
    """The fields of the admin's form as a browser sends them."""
    form, data = ObjectiveForm(instance=saved or StoredObjective()), QueryDict(mutable=True)
    for name in form.fields:
        value = form[name].value()
        if isinstance(value, list | tuple):
            data.setlist(name, [str(each) for each in value])
        elif isinstance(value, bool):
            data.update({name: "on"} if value else {})
        else:
            data[name] = "" if value is None else str(value)
    return data


def _json(text: str) -> str:
    """Windows may be abbreviated: `page 1h/5m 0.02, ticket 3d/6h 0.1`."""
    try:
        return json.dumps([asdict(window) for window in weir.windows_of(text)])
    except ValueError:
        return text


def _compact(text: str) -> str:
    try:
        return weir.windows_text([BurnWindow(**window) for window in json.loads(text)])
    except (ValueError, TypeError):
        return text


def _same(name: str, texts: Iterable[str]) -> object:
    if name == "windows":
        return [_compact(_json(text)) for text in texts]
    return [text.strip() for text in texts]
