"""Measures what a replica of a pool carries, and enters it as the pool's capacity by a benchmark run."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.planning.benchmark import run
from controlplane.planning.benchmark.wanted import LIMIT_S, TARGET
from controlplane.planning.core.judging import StepFigures
from controlplane.planning.jobs import JobRefusedError, cancel
from controlplane.planning.management.follow import ended
from controlplane.planning.models import PlanJob

FIELDS = ("replica", "gpu", "input_tokens", "output_tokens", "ttft_ms", "e2e_ms", "target", "slots", "limit_s")


class Command(BaseCommand):
    help = (
        "Send requests to a replica at rising rates until the latency objective is no longer kept. The worker of the running Weir does "
        "it; Ctrl-C cancels it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("pool")
        parser.add_argument("--replica", help="By default the pool's first.")
        parser.add_argument("--gpu", help="The replica's GPU type; by default the pool's.")
        parser.add_argument(
            "--input-tokens", type=float, help="Of each request; by default the mix that the ledger measured."
        )
        parser.add_argument("--output-tokens", type=float)
        parser.add_argument("--ttft-ms", type=float, help="By default the pool's latency objectives count.")
        parser.add_argument("--e2e-ms", type=float)
        parser.add_argument(
            "--target", type=float, help=f"Share of requests within the thresholds; by default {TARGET:g}."
        )
        parser.add_argument(
            "--slots", type=int, help="Requests at the replica at a time; by default as gateways send it."
        )
        parser.add_argument("--limit-s", type=int, help=f"It never takes longer; by default {LIMIT_S} s.")
        parser.add_argument(
            "--despite-traffic", action="store_true", help="Also where users send it requests just now."
        )

    def handle(self, **options: Any) -> None:
        given = {name: options[name] for name in ("pool", *FIELDS) if options[name] is not None}
        try:
            job = run.start(given | {"despite_traffic": options["despite_traffic"]}, "manage.py")
        except JobRefusedError as error:
            raise CommandError(str(error)) from error
        try:
            ended(job, self.stdout, _progress)
        except KeyboardInterrupt:
            cancel(job)
            raise CommandError(f"job {job.pk} was cancelled") from None
        finally:
            self._write_steps(job)
        self.stdout.write(job.result["note"])

    def _write_steps(self, job: PlanJob) -> None:
        for step in (StepFigures(**row) for row in job.result.get("steps", ())):
            p95_ms = "–" if step.p95_e2e_s is None else f"{step.p95_e2e_s * 1000:.0f} ms"
            kept = "kept" if step.kept else "lost"
            self.stdout.write(
                f"{step.requests_per_s:.3g} requests/s: {kept}, {step.share:.1%} of {step.judged} good, E2E p95 {p95_ms}"
            )


def _progress(job: PlanJob) -> str:
    """What it does now, without the counts, which change all the time."""
    return job.note.partition(":")[0]
