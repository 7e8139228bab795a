"""Finds writes of the product that send no signals, and so pass the audit by: `QuerySet.update` and bulk writes. What sets a scene for
tests may be `unrecorded`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from django.db.models import QuerySet

from controlplane.audit import audited_models
from controlplane.audit.audited_models import RECORDED
from deploy.local.process import ROOT

WRITES = ("update", "bulk_create", "bulk_update")
OBSERVED = {
    ("accounts.ApiToken", "last_used_at"): "when a token was last used",
    ("delivery.Endpoint", "paused_until"): "how long a destination asked to be left alone",
    ("fleet.Replica", "draining"): "a step of a decision, which has a record of its own",
}
"""What Weir itself notes on rows that people decide about: it needs no entry."""


@contextmanager
def refused() -> Iterator[None]:
    """Within it the product cannot write rows of RECORDED past their signals. Tests may: they set a scene."""
    with pytest.MonkeyPatch.context() as patch:
        for name in WRITES:
            patch.setattr(QuerySet, name, _watched(getattr(QuerySet, name)))
        yield


@contextmanager
def unrecorded() -> Iterator[None]:
    """Within it rows are saved without entries, which take two thirds of the time of a save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audited_models, "_is_recorded", lambda _row: False)
        yield


def _watched(write: Any) -> Any:
    @wraps(write)
    def watched(self: QuerySet[Any], *given: Any, **named: Any) -> Any:
        label = self.model._meta.label
        if (
            label in RECORDED
            and _asks_from_the_product()
            and (write.__name__ != "update" or self.exists())
            and not all((label, field) in OBSERVED for field in named or ("",))
        ):
            raise AssertionError(f"{write.__name__} of {label} has no entry in the audit: save each row")
        return write(self, *given, **named)

    return watched


def _asks_from_the_product() -> bool:
    """Whether the nearest caller that is not Django's own is a module of the product."""
    frame = sys._getframe(2)
    while frame.f_back and "/django/" in frame.f_code.co_filename:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    return path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ("controlplane", "deploy")
