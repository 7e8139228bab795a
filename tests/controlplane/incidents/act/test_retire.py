"""An incident does not outlive its objective."""

import pytest

from controlplane.fleet.models import Team
from controlplane.incidents.act.actions import RETIRED, retire
from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident
from controlplane.slo.models import StoredObjective
from controlplane.slo.save import save_objective
from tests.support.incidents.alerts import NOW, TTFT, after, alert

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("away")]


def test_an_incident_ends_with_its_objective_and_says_so() -> None:
    Team.objects.create(name=TTFT.owner)
    save_objective(TTFT, who="ada")
    engine.observe([alert()], NOW)
    assert retire(after(1)) == 0
    StoredObjective.objects.update(enabled=False)
    assert retire(after(2)) == 1
    incident = Incident.objects.get()
    assert (incident.status, incident.resolved_by, incident.resolved_at) == ("resolved", "weir", after(2))
    assert incident.entries.filter(kind="resolved", text=RETIRED).exists()
    assert retire(after(3)) == 0


def test_an_objective_that_is_enabled_again_is_told_of_at_once() -> None:
    Team.objects.create(name=TTFT.owner)
    save_objective(TTFT, who="ada")
    engine.observe([alert()], NOW)
    StoredObjective.objects.update(enabled=False)
    retire(after(1))
    StoredObjective.objects.update(enabled=True)
    engine.observe([alert(at=after(2))], after(2))
    assert [one.is_open for one in Incident.objects.order_by("id")] == [False, True]
