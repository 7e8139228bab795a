"""Saving and reading objectives, with a revision for each change and a reason for each refusal."""

from dataclasses import replace
from datetime import datetime

import pytest
from django.core.exceptions import ValidationError

from controlplane.fleet.models import Team
from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.document import objective_from_json, objective_to_json
from controlplane.slo.core.objective import Calendar, Objective, Rolling, Timeslices
from controlplane.slo.core.sli import Availability, Cost, Histogram, Indicator, Latency
from controlplane.slo.core.windows import HOUR_S, BurnWindow
from controlplane.slo.models import StoredObjective
from controlplane.slo.save import save_objective

pytestmark = pytest.mark.django_db

PLAIN = Objective("chat", "Chat answers", Availability(), 0.999)
FULL = Objective(
    slug="premium-ttft",
    name="Premium chat, first token",
    indicator=Latency("ttft", 300.0, "gateway"),
    target=0.95,
    scope={"model": "chat-large", "tier": "premium"},
    split_by=("region",),
    period=Calendar("month", datetime(2026, 1, 1), "Europe/Berlin"),
    method=Timeslices(60, 0.9),
    windows=(BurnWindow("page", HOUR_S, 300, 0.02),),
    minimum=MinimumEvents(20, 5),
    owner="serving",
    runbook="https://runbooks.example/ttft",
    labels={"severity": "high"},
    description="What premium users feel.",
)


@pytest.fixture(autouse=True)
def _team() -> None:
    Team.objects.create(name="serving")


@pytest.mark.parametrize(
    "wanted",
    [
        PLAIN,
        FULL,
        replace(PLAIN, indicator=Cost(0.02), period=Rolling(7 * 86_400)),
        replace(PLAIN, indicator=Histogram("vllm:time_to_first_token_seconds", 0.5, {"model_name": "a"})),
    ],
    ids=lambda wanted: type(wanted.indicator).__name__,
)
def test_a_saved_objective_is_read_unchanged(wanted: Objective) -> None:
    saved = save_objective(wanted, who="olga")

    assert saved.created
    assert StoredObjective.objects.get(slug=wanted.slug).to_objective() == replace(wanted, revision=1)
    assert objective_from_json(objective_to_json(wanted)) == wanted


def test_each_change_is_a_revision_and_saving_the_same_again_is_none() -> None:
    save_objective(FULL, who="olga")
    again = save_objective(FULL, who="tom")
    changed = save_objective(replace(FULL, target=0.99), who="tom")

    assert again.changed == ()
    assert changed.changed == ("target",)
    revisions = list(StoredObjective.objects.get(slug=FULL.slug).revisions.values_list("number", "who"))
    assert revisions == [(2, "tom"), (1, "olga")]


def test_notes_of_other_tools_are_kept_when_the_objective_changes() -> None:
    save_objective(PLAIN, who="olga", annotations={"tool": "x"}, enabled=False)
    save_objective(replace(PLAIN, target=0.99), who="olga")

    row = StoredObjective.objects.get(slug="chat")
    assert (row.annotations, row.enabled) == ({"tool": "x"}, False)


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        (replace(PLAIN, slug="Chat Large"), "slug", "lower-case"),
        (replace(PLAIN, owner="nobody"), "owner", "serving"),
        (replace(PLAIN, period=Rolling(3600)), "period_s", "shorter windows"),
        (replace(PLAIN, method=Timeslices(7)), "slice_s", "60"),
        (replace(PLAIN, windows=()), "windows", "at least one"),
        (replace(PLAIN, period=Calendar("month", datetime(2026, 1, 1), "Mars/Base")), "calendar_zone", "Europe/Berlin"),
        (replace(PLAIN, runbook="no url"), "runbook", "URL"),
        (replace(PLAIN, indicator=Histogram("m", 1.0), scope={"model": "a"}), "scope", "metric_labels"),
    ],
)
def test_a_refusal_names_the_field_and_the_remedy(wrong: Objective, field: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        save_objective(wrong, who="olga")

    assert words in " ".join(refused.value.message_dict[field])
    assert not StoredObjective.objects.exists()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"indicator": {"kind": "magic"}}, "availability"),
        ({"indicator": {"kind": "latency", "measure": "ttft", "treshold_ms": 1}}, "threshold_ms"),
        ({"target": "often"}, "not a number"),
        ({"trget": 1}, "is not a field"),
        ({"period": {"kind": "calendar", "unit": "month", "start": "soon", "zone": "UTC"}}, "2026-01-01T00:00:00"),
        ({"scope": ["a"]}, "by name"),
        ({"indicator": None}, "kind"),
    ],
)
def test_an_invalid_document_is_refused_with_the_remedy(part: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        objective_from_json({**objective_to_json(PLAIN), **part})


def test_every_kind_of_indicator_has_a_name() -> None:
    kinds: list[Indicator] = [Availability(), Cost(1), Histogram("m", 1), Latency("e2e", 1)]
    assert {objective_to_json(replace(PLAIN, indicator=kind))["indicator"]["kind"] for kind in kinds} == {
        "availability",
        "cost",
        "histogram",
        "latency",
    }
