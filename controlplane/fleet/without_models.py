"""A key that may use certain models alone may use none once these are deleted. Without a model it would be one that may use all, so it is
disabled, in the transaction of the deletion.
"""

from typing import Any

from django.db.models.signals import post_delete, pre_delete

from controlplane.fleet.models import GatewayKey, LLMModel

_KEYS = "_keys_before"


def connect() -> None:
    pre_delete.connect(_note, sender=LLMModel, dispatch_uid="keys before their model goes")
    post_delete.connect(_disable, sender=LLMModel, dispatch_uid="keys after their model is gone")


def _note(sender: type[LLMModel], instance: LLMModel, **_: Any) -> None:
    setattr(instance, _KEYS, list(instance.keys.values_list("pk", flat=True)))


def _disable(sender: type[LLMModel], instance: LLMModel, **_: Any) -> None:
    """Of several models that are deleted together, all are gone by now."""
    for key in GatewayKey.objects.filter(pk__in=getattr(instance, _KEYS, ()), enabled=True, only_models=None):
        key.enabled = False
        key.save(update_fields=["enabled"])
