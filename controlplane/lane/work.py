"""What the lane has to do, for plans."""

from datetime import datetime, timedelta

from django.db.models import F, Sum
from django.db.models.functions import TruncMinute
from django.utils import timezone

from controlplane.lane.core import states
from controlplane.lane.core.jobs import SOONEST
from controlplane.lane.models import Batch
from forecasting.capacity.assumptions import TokenMix
from forecasting.capacity.deadlines import OpenWork

_MEASURED = timedelta(days=7)
"""Tokens of a line are those of a model's lines in so long."""


def open_work() -> list[OpenWork]:
    """Lines that nobody waits for, by model and minute of their deadline."""
    mixes = token_mixes(timezone.now())
    rows = Batch.objects.filter(status=states.IN_PROGRESS).exclude(completion_window=SOONEST)
    by_minute = rows.annotate(minute=TruncMinute("expires_at")).values_list("model", "minute")
    open_lines = by_minute.annotate(left=Sum(F("total") - F("completed") - F("failed"))).order_by("minute", "model")
    return [
        OpenWork(model, lines, minute.timestamp(), mixes.get(model)) for model, minute, lines in open_lines if lines
    ]


def token_mixes(now: datetime) -> dict[str, TokenMix]:
    """By model the mean tokens of lines that were answered; models whose answers have none are left out."""
    rows = Batch.objects.filter(created_at__gte=now - _MEASURED, completed__gt=0).values_list("model")
    sums = rows.annotate(done=Sum("completed"), given=Sum("input_tokens"), made=Sum("output_tokens")).order_by()
    return {model: TokenMix(given / lines, made / lines) for model, lines, given, made in sums if given and made}
