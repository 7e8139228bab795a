"""Tells of every change of a table's rows that goes through Django."""

from collections.abc import Callable
from typing import Any

from django.db import models
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete, pre_save

Receiver = Callable[..., Any]


def watch(
    table: type[models.Model],
    name: str,
    *,
    before_save: Receiver,
    saved: Receiver,
    before_delete: Receiver,
    deleted: Receiver,
    linked: Receiver,
) -> None:
    """From now on receivers get the signals of its rows and, as `linked`, of its links to many rows. `name` is who watches: a table is
    watched once for each.
    """
    for signal, receiver in (
        (pre_save, before_save), (post_save, saved), (pre_delete, before_delete), (post_delete, deleted),
    ):  # fmt: skip
        signal.connect(receiver, sender=table, dispatch_uid=f"{name} {receiver.__name__} {table._meta.label}")
    for field in table._meta.many_to_many:
        through = field.remote_field.through
        m2m_changed.connect(linked, sender=through, dispatch_uid=f"{name} {table._meta.label}.{field.name}")
