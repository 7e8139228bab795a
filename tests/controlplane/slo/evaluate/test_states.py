"""The states that a tick writes for the pages."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from controlplane.slo.core.alert import State
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.evaluation import Counted, Evaluation, evaluate
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import WORKBOOK, lengths_s
from controlplane.slo.evaluate.states import FRESH, write
from controlplane.slo.models import ObjectiveState
from controlplane.slo.save import save_objective

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, tzinfo=UTC)
UP = Objective("up", "Up", Availability(), 0.999)


def found(state: State, objective: Objective = UP) -> Evaluation:
    counts = Counts(900 if state == "firing" else 0, 1_000)
    counted = Counted(dict.fromkeys(lengths_s(WORKBOOK), counts), counts, 0)
    why = "the store is away" if state == "unknown" else ""
    return evaluate(objective, {}, counted, int(NOW.timestamp() * 1e9), [], why)


@pytest.fixture(autouse=True)
def _saved() -> None:
    save_objective(UP, who="olga")
    save_objective(replace(UP, slug="down"), who="olga")


def test_a_state_says_since_when_it_is() -> None:
    write([found("quiet")], NOW)
    write([found("quiet")], NOW + timedelta(minutes=1))
    quiet = ObjectiveState.objects.get()
    write([found("firing")], NOW + timedelta(minutes=2))
    firing = ObjectiveState.objects.get()

    assert (quiet.state, quiet.since, quiet.at) == ("quiet", NOW, NOW + timedelta(minutes=1))
    assert (firing.state, firing.severity, firing.since) == ("firing", "page", NOW + timedelta(minutes=2))
    assert firing.document["budget"]["left_share"] < 0


def test_an_unchanged_state_is_written_seldom_and_a_changed_one_at_once() -> None:
    write([found("quiet")], NOW)
    write([found("quiet")], NOW + FRESH / 2)
    assert ObjectiveState.objects.get().at == NOW
    write([found("unknown")], NOW + FRESH / 2)
    assert ObjectiveState.objects.get().document["why"] == "the store is away"


def test_states_that_are_no_longer_evaluated_are_deleted() -> None:
    write([found("quiet"), found("quiet", replace(UP, slug="down"))], NOW)
    write([found("quiet")], NOW)
    assert ObjectiveState.objects.get().key == "up"


def test_an_invalid_row_is_unknown_with_the_reason() -> None:
    write([found("quiet")], NOW, {"down": "target=2 is not between 0 and 1"})
    broken = ObjectiveState.objects.get(objective__slug="down")
    assert (broken.state, broken.document["why"]) == ("unknown", "target=2 is not between 0 and 1")


def test_an_unknown_state_keeps_its_beginning() -> None:
    """Also a row that is no objective, and one that enters planned maintenance."""
    planned = replace(found("unknown").alert, maintenance=True)
    write([found("unknown")], NOW, {"down": "target=2"})
    write([replace(found("unknown"), alert=planned)], NOW + timedelta(minutes=5), {"down": "target=2"})
    assert set(ObjectiveState.objects.values_list("since", flat=True)) == {NOW}
    assert set(ObjectiveState.objects.values_list("at", flat=True)) == {NOW + timedelta(minutes=5)}


def test_a_state_that_the_database_refuses_is_unknown_and_stops_no_other() -> None:
    odd = replace(found("quiet").alert, objective=replace(UP, slug="down"), scope={"tenant": "a\0b"})
    write([replace(found("quiet"), alert=odd), found("firing")], NOW)
    write([replace(found("quiet"), alert=odd), found("firing")], NOW + FRESH)
    assert ObjectiveState.objects.get(key="up").state == "firing"
    other = ObjectiveState.objects.exclude(key="up").get()
    if connection.vendor == "postgresql":
        assert other.state == "unknown"
        assert other.since == NOW
        assert "cannot be written" in other.document["why"]


def test_a_state_of_a_clock_that_was_ahead_is_written_again_at_once() -> None:
    write([found("quiet")], NOW + timedelta(hours=1))
    write([found("quiet")], NOW)
    state = ObjectiveState.objects.get()
    assert (state.at, state.since) == (NOW, NOW)
