"""What a tenant's people see of it: latency by stage, failures, what it cost, keys, batches and jobs. All of it is of this tenant alone."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime

from controlplane.accounts.core.rule import Owned
from controlplane.fleet.models import GatewayKey, Tenant
from controlplane.fleet.spent import spent_usd
from controlplane.lane import report as lane_report
from controlplane.telemetry.core.query_types import Failure, LatencyPoint, LatencyReport, ModelCost, Totals
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.store.read.rollups import RolledOrUnread
from inference.contract.metering.spending import KEY_ATTRIBUTE, Budget, key_name

MAX_KEYS = 50
MAX_BATCHES = 20
MAX_TEXTS = 10


@dataclass(frozen=True, slots=True)
class KeyStanding:
    """`spent_usd`: None where it has no budget, or nobody knows. `used_ns`: when its newest request of the range ended, if any."""

    key: GatewayKey
    spent_usd: dict[Budget, float] | None
    used_ns: int | None

    @property
    def models(self) -> list[str]:
        return [model.name for model in self.key.only_models.all()]


@dataclass(frozen=True, slots=True)
class Figures:
    """`costs` and `used_ns` are of the requests that are stored one by one: as far back as these go. `points` are of steps of `step_ns`.
    `texts` are the newest requests with hashes of their texts; None where the tenant does not ask for these.
    """

    question: Question
    report: LatencyReport
    points: Sequence[LatencyPoint]
    step_ns: int
    failures: Sequence[Failure]
    costs: Sequence[ModelCost]
    keys: Sequence[KeyStanding]
    keys_left_out: int
    batches: Sequence[lane_report.Standing]
    jobs: lane_report.JobsOfTenant | None
    texts: Sequence[LedgerRow] | None


def owned(name: str) -> Owned:
    """Whose figures they are."""
    return Owned(tenant=name)


def figures(name: str, wanted: Question, now: datetime, *, over_time: bool = False) -> Figures:
    """Of `wanted` the range counts; without `over_time` there are no points. Raises the errors of the store."""
    question = answers.rounded(Question(wanted.range, {"tenant": (name,)}))
    stored = answers.stored(question)
    every = GatewayKey.objects.filter(tenant__name=name)
    keys = list(every.prefetch_related("only_models").select_related("tenant")[:MAX_KEYS])
    step_ns = answers.step_ns(question)
    rolled: RolledOrUnread = answers.rolled(question, step_ns) if over_time else "unread"
    measured = answers.submit_query(answers.report, question, rolled)
    series = answers.submit_query(answers.series, question, step_ns, rolled) if over_time else None
    failed = answers.submit_query(answers.failures, stored)
    cost = answers.submit_query(answers.costs, stored)
    audits = Tenant.objects.filter(name=name, audits_texts=True).exists()
    newest = answers.submit_query(answers.requests, stored, "newest", MAX_TEXTS) if audits else None
    used = [answers.submit_query(answers.totals, _of_key(stored, key)) for key in keys]
    batches, _ = lane_report.listed({"tenant": [name]}, None, MAX_BATCHES, now)
    return Figures(
        question,
        measured.result(),
        series.result() if series is not None else [],
        step_ns,
        failed.result(),
        cost.result(),
        _standings(keys, used),
        every.count() - len(keys),
        batches,
        next(iter(lane_report.jobs([name])), None),
        None if newest is None else [row for row in newest.result().rows if row.prompt_hash],
    )


def _of_key(question: Question, key: GatewayKey) -> Question:
    return question.with_filter("attribute", f"{KEY_ATTRIBUTE}={key_name(key.sha256)}")


def _standings(keys: Sequence[GatewayKey], used: Sequence[Future[Totals]]) -> list[KeyStanding]:
    counted = [key for key in keys if key.usd_per_day or key.usd_per_month]
    spent = dict(zip(counted, spent_usd(counted), strict=True)) if counted else {}
    return [KeyStanding(key, spent.get(key), totals.result().newest_ns) for key, totals in zip(keys, used, strict=True)]
