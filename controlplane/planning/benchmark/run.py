"""Measures what a replica carries, as a job: raises the load until the objective is lost, and enters the capacity."""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog
from django.utils import timezone

from controlplane.accounts.rights import Guard, unguarded
from controlplane.fleet.models import Pool
from controlplane.planning import jobs
from controlplane.planning.benchmark.replica import Replica
from controlplane.planning.benchmark.wanted import Wanted, request_of, users_traffic, wanted_of
from controlplane.planning.core import judging
from controlplane.planning.core.judging import StepFigures
from controlplane.planning.entered import enter_benchmark
from controlplane.planning.jobs import OPEN, JobRefusedError, Progress
from controlplane.planning.models import PlanJob
from controlplane.telemetry.store import StoreError, StoreUnavailableError
from forecasting.capacity.benchmark import Conclusion, conclusion, is_quick, next_rate, step_length, steps_left
from inference.contract.benchmark_messages import Alone, Load, Sample, Setup

log = structlog.get_logger(__name__)

KIND = "benchmark"
ALONE, WARM = 6, 3
"""Requests that are sent one after the other at first, and how many of them only warm the replica up."""
TIMEOUT_S = 120.0
MAX_GRACE_S = 60.0


class BenchmarkFailedError(ValueError):
    """Nothing could be measured. Permanent: the message says why."""


def start(given: Mapping[str, Any], author: str, guard: Guard = unguarded) -> PlanJob:
    """Queue a benchmark. `guard` is asked of the pool. Raises JobRefusedError where it cannot be measured, or must not be just now."""
    wanted: dict[str, Any] = msgspec.to_builtins(request_of(given))
    guard(Pool.objects.filter(name=wanted["pool"]).first())
    other = PlanJob.objects.filter(kind=KIND, state__in=OPEN, cancel_requested=False).first()
    if other is not None:
        if other.request == wanted:
            return other
        raise JobRefusedError(
            f"Job {other.pk} measures a replica of pool {other.request['pool']!r}: wait for its end, or cancel it"
        )
    wanted_of(wanted)
    return jobs.start(KIND, wanted, author)


@jobs.kind(KIND)
def benchmark(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Measure the replica, and enter what it carries. Steps that a worker which ended has left are not repeated."""
    steps = [StepFigures(**row) for row in progress.job.result.get("steps", ())]
    wanted = wanted_of(request)
    run = _Run(wanted, progress, steps)
    result = run.conclude(run.is_complete())
    if result.requests_per_s is None:
        raise BenchmarkFailedError(result.reason)
    note = enter(wanted, result, steps, progress.job.author)
    return run.kept() | {"requests_per_s": result.requests_per_s, "lower_bound": result.lower_bound, "note": note}


class _Run:
    def __init__(self, wanted: Wanted, progress: Progress, steps: list[StepFigures]) -> None:
        self._wanted, self._progress, self._steps = wanted, progress, steps
        self._target = max(criterion.target for criterion in wanted.criteria)
        self._threshold_s = max((c.threshold_s for c in wanted.criteria if c.measure != "itl"), default=0.0)
        self._ends_s = time.monotonic() + wanted.request.limit_s - sum(step.took_s for step in steps)
        self._note = "looks at the replica"
        self._kind = ""

    def kept(self) -> dict[str, Any]:
        """What readers of the job see while it runs."""
        return {
            "replica": self._wanted.endpoint.replica,
            "server": self._kind,
            "objective": "; ".join(map(str, self._wanted.criteria)),
            "steps": [dataclasses.asdict(step) for step in self._steps],
        }

    def is_complete(self) -> bool:
        """Run steps until the search or the time ends; whether the search did."""
        wanted = self._wanted
        setup = Setup(wanted.pool, wanted.lengths, wanted.slots, min(TIMEOUT_S, float(wanted.request.limit_s)))
        self._progress.keep(self.kept())
        with Replica(setup, self._poll) as replica:
            self._kind = replica.kind
            alone_s = self._alone(replica)
            first_rps = max(1.0, wanted.slots / 2) / alone_s
            grace_s = min(MAX_GRACE_S, max(self._threshold_s, 3 * alone_s))
            while (rate := next_rate([step.to_step() for step in self._steps], self._first(first_rps))) is not None:
                self._make_way()
                if not self._step(replica, rate, grace_s):
                    return False
        return True

    def _make_way(self) -> None:
        """Users' requests may reach the replica after the start. Where the ledger does not answer, the answer of the start holds."""
        if self._wanted.request.despite_traffic:
            return
        with contextlib.suppress(StoreUnavailableError, StoreError):
            if traffic := users_traffic(self._wanted.pool.name, self._wanted.endpoint.replica):
                raise BenchmarkFailedError(
                    f"replica={self._wanted.endpoint.replica!r}: {traffic}, so the benchmark has ended and nothing is entered. "
                    "Choose a replica without traffic, or confirm it: despite_traffic"
                )

    def conclude(self, complete: bool) -> Conclusion:
        result = conclusion([step.to_step() for step in self._steps], self._target, complete)
        if not complete and result.requests_per_s is None:
            limit = f"The limit of {self._wanted.request.limit_s} s has ended the benchmark."
            return dataclasses.replace(result, reason=f"{limit} {result.reason} Give it a longer limit_s")
        return result

    def _first(self, first_rps: float) -> float:
        """The first load: of a benchmark that is taken up again, the one with which it began."""
        return self._steps[0].requests_per_s if self._steps else first_rps

    def _alone(self, replica: Replica) -> float:
        """How long a request takes that is alone at the replica, s."""
        self._note = "sends requests one after the other"
        samples, now_s, cut = replica.run(Alone(ALONE), lambda *_: time.monotonic() > self._ends_s)
        if cut:
            raise BenchmarkFailedError(
                f"The limit of {self._wanted.request.limit_s} s has ended the benchmark before {ALONE} requests were answered."
            )
        judged = [sample for sample in samples if sample.number >= WARM]
        if fault := judging.alone_fault(judged, self._wanted.criteria, now_s):
            raise BenchmarkFailedError(fault)
        took_s = sorted(s.ended_s - s.sent_s for s in judged if s.ended_s is not None and s.sent_s is not None)
        return max(1e-3, took_s[len(took_s) // 2])

    def _step(self, replica: Replica, rate: float, grace_s: float) -> bool:
        """Measure one load; False where the time does not suffice for it."""
        length = step_length(rate, self._target, self._threshold_s, is_quick([s.to_step() for s in self._steps], rate))
        if time.monotonic() + length.expected_s(rate) > self._ends_s:
            return False
        criteria, late = self._wanted.criteria, False

        def is_over(samples: Sequence[Sample], now_s: float) -> bool:
            nonlocal late
            late = time.monotonic() > self._ends_s
            answered = sum(sample.ended_s is not None for sample in samples)
            self._note = f"{rate:.3g} requests/s: {answered} of {length.warm_in + length.judged} requests answered"
            return late or judging.is_lost(samples, criteria, length, now_s)

        load = Load(rate, length.warm_in + length.judged, grace_s)
        samples, now_s, cut = replica.run(load, is_over)
        if cut and late and not judging.is_lost(samples, criteria, length, now_s):
            return False
        figures = judging.figures(rate, samples, criteria, length, now_s, cut)
        self._steps.append(figures)
        log.info("benchmark.step_ended", pool=self._wanted.pool.name, rps=rate, share=figures.share, kept=figures.kept)
        self._progress.keep(self.kept())
        return True

    def _poll(self) -> None:
        done = len(self._steps)
        self._progress.report(done, done + steps_left([step.to_step() for step in self._steps]), self._note)


def enter(wanted: Wanted, result: Conclusion, steps: Sequence[StepFigures], author: str) -> str:
    """Make it the pool's capacity by a benchmark on that GPU type. Returns the entry's note."""
    best = [step for step in steps if step.kept and step.requests_per_s == result.requests_per_s][-1]
    sent = sum(step.sent for step in steps)
    by = f" by {author}" if author else ""
    beside = " Users sent requests to the replica, too." if wanted.users_traffic else ""
    note = (
        f"{timezone.now():%Y-%m-%d %H:%M} UTC{by}: {sent} requests to {wanted.endpoint.replica}, "
        f"{'; '.join(map(str, wanted.criteria))}. {result.reason}{beside}"
    )[:300]
    inputs, outputs = (sum(each) / len(wanted.lengths) for each in zip(*wanted.lengths, strict=True))
    enter_benchmark(
        wanted.row,
        wanted.gpu,
        requests_per_s=best.requests_per_s,
        input_tokens=round(best.input_tokens or inputs, 1),  # as wanted, where the server does not count
        output_tokens=round(best.output_tokens or outputs, 1),
        batching_factor=round(best.batch, 2) or None,
        slots=wanted.slots or None,
        lower_bound=result.lower_bound,
        note=note,
    )
    return note
