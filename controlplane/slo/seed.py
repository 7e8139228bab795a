"""Creates the first objectives of a fleet, for each of its models but those that make vectors for others."""

from django.db import transaction

from controlplane.core.formatting import TEXT
from controlplane.fleet.inventory import embedders
from controlplane.fleet.models import LLMModel
from controlplane.fleet.seed import first_team
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability, Indicator, Latency
from controlplane.slo.models import StoredObjective
from controlplane.slo.save import save_objective

WHO = "set-up"
TTFT_MS, E2E_MS = 1_000.0, 10_000.0
"""Lenient enough to hold on a laptop. Owners should set their own."""


@transaction.atomic
def make_first_objectives() -> list[str]:
    """Create them, unless there is any objective. Returns a line for each."""
    named = LLMModel.objects.filter(enabled=True).exclude(pk__in=embedders())
    models = list(named.values_list("name", flat=True))
    if StoredObjective.objects.exists() or not models:
        return []
    team = first_team()
    return [
        f"made objective {save_objective(objective, who=WHO).row.slug}" for objective in defaults(models, team.name)
    ]


def defaults(models: list[str], owner: str) -> list[Objective]:
    objectives: list[Objective] = []
    for model in models:
        slug = "".join(letter if letter.isalnum() or letter in ".-_" else "-" for letter in model.lower()).strip(".-_")
        first: tuple[tuple[str, str, Indicator, float], ...] = (
            ("availability", "answers", Availability(), 0.995),
            ("ttft", f"begins to answer within {TEXT.threshold_ms(TTFT_MS)}", Latency("ttft", TTFT_MS), 0.95),
            ("e2e", f"answers within {TEXT.threshold_ms(E2E_MS)}", Latency("e2e", E2E_MS), 0.95),
        )
        objectives += [
            Objective(f"{slug}-{name}", f"{model} {says}", indicator, target, {"model": model}, owner=owner)
            for name, says, indicator, target in first
        ]
    queue, says = Latency("queue", 500.0), "No pool lets requests wait longer than 500 ms"
    return [*objectives, Objective("queue-by-pool", says, queue, 0.99, split_by=("pool",), owner=owner)]
