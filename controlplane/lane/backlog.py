"""What the lane has to do, for plans, and what plans say of it: when work will be done, and what cannot be done in time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

import structlog
from django.db.models import F, Sum
from django.db.models.functions import TruncMinute
from django.utils import timezone

from controlplane.lane.core import states
from controlplane.lane.core.jobs import SOONEST
from controlplane.lane.models import Batch
from controlplane.planning.open_work import planned_work
from forecasting.calendar import time_text
from forecasting.capacity.assumptions import HOUR_S, TokenMix
from forecasting.capacity.deadlines import WORK_HOURS, OpenWork, WorkPlan

log = structlog.get_logger(__name__)

PLANNED_EVERY_S = 10.0
"""Plans are made anew at most so often for work that was asked about before."""
_MAX_KEPT = 1_000
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
    """By model the mean tokens of lines whose answers say them; batches, and so models, of which none does are left out."""
    rows = Batch.objects.filter(
        created_at__gte=now - _MEASURED, completed__gt=F("uncounted"), input_tokens__gt=0
    ).values_list("model")
    sums = rows.annotate(
        done=Sum(F("completed") - F("uncounted")), given=Sum("input_tokens"), made=Sum("output_tokens")
    ).order_by()
    return {model: TokenMix(given / lines, made / lines) for model, lines, given, made in sums if given and made}


class TooLateError(Exception):
    """Retryable, later: by the plan it cannot be done within its window. `end_s` is when it could be done at the earliest, None where that
    lies beyond the plan.
    """

    code = "would_end_too_late"

    def __init__(self, lines: int, due_s: float, end_s: float | None, now_s: float) -> None:
        self.end_s = end_s
        self.retry_after_s = max(1, round((now_s + WORK_HOURS * HOUR_S if end_s is None else end_s) - due_s))
        when = f"at {time_text(end_s)} at the earliest" if end_s is not None else f"not within {WORK_HOURS} hours"
        number = "1 line" if lines == 1 else f"{lines:,} lines"
        super().__init__(
            f"By the plan of the fleet's capacity {number} more would be done {when}, and the window ends at {time_text(due_s)}. "
            f"Try again in {self.retry_after_s} s, or leave less."
        )


class Estimates:
    """When work will be done by the plan, epochs; None where that is not known. Each question is answered anew at most every
    PLANNED_EVERY_S, so that many jobs of a kind need one plan. For any thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[object, _Answer] = {}

    def end_s(self, batch: Batch) -> float | None:
        """Of a batch or job: by its own rate once it has one."""
        by_rate = batch.ends_at(timezone.now())
        if by_rate is not None:
            return by_rate.timestamp()
        if batch.status != states.IN_PROGRESS or batch.completion_window == SOONEST:
            return None
        ends = self._once((), _open_ends)
        due_s = batch.expires_at.replace(second=0, microsecond=0).timestamp()
        return ends.get((batch.model, due_s)) if isinstance(ends, dict) else None

    def admit(self, model: str, lines: int, window_s: float) -> float | None:
        """When so many lines more would be done. Raises TooLateError where that is surely too late."""
        verdict = self._once((model, lines, window_s), lambda: _verdict(model, lines, window_s))
        if isinstance(verdict, TooLateError):
            raise verdict
        return verdict if isinstance(verdict, float) else None

    def _once(self, key: object, find: Callable[[], object]) -> object:
        with self._lock:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            answer = self._kept.setdefault(key, _Answer())
        with answer.lock:
            if time.monotonic() - answer.at_s >= PLANNED_EVERY_S:
                answer.known, answer.at_s = find(), time.monotonic()
            return answer.known


@dataclass(slots=True)
class _Answer:
    """Who asks the same while it is worked out waits for it, and nobody else does."""

    lock: Lock = field(default_factory=Lock)
    at_s: float = float("-inf")
    known: object = None


def _open_ends() -> dict[tuple[str, float], float | None]:
    works = open_work()
    plans = _plans(works)
    return {(work.model, work.due_s): _end_s(plans, work.model, at) for at, work in enumerate(works)}


def _verdict(model: str, lines: int, window_s: float) -> float | TooLateError | None:
    now_s = time.time()
    works = open_work()
    new = OpenWork(model, lines, now_s + window_s, token_mixes(timezone.now()).get(model))
    plans = _plans([*works, new])
    own = [plan for plan in plans if plan.model == model]
    late = any(plan.late[-1] for plan in own)
    if not late or not all(plan.is_known and plan.is_sure for plan in own):
        return _end_s(plans, model, len(works))
    longer = OpenWork(model, lines, now_s + WORK_HOURS * HOUR_S, new.mix)
    return TooLateError(lines, new.due_s, _end_s(_plans([*works, longer]), model, len(works)), now_s)


def _plans(works: Sequence[OpenWork]) -> tuple[WorkPlan, ...]:
    try:
        return planned_work(works)
    except ValueError as error:
        log.warning("lane.not_planned", reason=str(error))
        return ()


def _end_s(plans: Sequence[WorkPlan], model: str, at: int) -> float | None:
    ends = [plan.ends_s[at] for plan in plans if plan.model == model]
    known = [end_s for end_s in ends if end_s is not None]
    return max(known) if ends and len(known) == len(ends) else None
