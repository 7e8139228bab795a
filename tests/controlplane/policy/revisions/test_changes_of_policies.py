"""What comes into force, or goes out of it, is recorded as a change, which charts, incidents and destinations have."""

import pytest
from django.core.exceptions import ValidationError

from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Endpoint
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from controlplane.policy.seed import create_missing
from tests.support.policy.people_and_texts import ladder, scaling, small_fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fleet() -> None:
    small_fleet()


def proposed(text: str, note: str = "") -> PolicyRevision:
    return steps.propose(text, who="ann", source="admin", note=note).revision


def recorded() -> list[tuple[str, dict[str, str], str]]:
    return [(each.summary, each.scope, each.team) for each in ChangeRecord.objects.order_by("pk")]


def test_coming_into_force_is_a_change_and_so_are_roll_back_and_retirement() -> None:
    steps.activate(proposed(scaling(4), "Room for four"), "oto")
    steps.activate(proposed(scaling(6)), "oto", "For the launch")
    steps.roll_back("chat-replicas", "oto")
    steps.retire(PolicyRevision.objects.get(state="active"), "oto")
    scope = {"model": "chat", "pool": "chat-eu"}
    assert recorded() == [
        ("policy chat-replicas, revision 1 (Scaling): in force by oto: Room for four", scope, "serving"),
        ("policy chat-replicas, revision 2 (Scaling): in force by oto: For the launch", scope, "serving"),
        ("policy chat-replicas, revision 3 (Scaling): in force by oto: Rolls back to revision 1", scope, "serving"),
        ("policy chat-replicas, revision 3 (Scaling): taken out of force by oto", scope, "serving"),
    ]


def test_destinations_are_notified_of_it() -> None:
    endpoint = Endpoint.objects.create(kind="webhook", url="https://hooks.example.com/", secret="x" * 32)
    Destination.objects.create(name="hooks", kind="webhook", endpoint=endpoint)
    steps.activate(proposed(ladder()), "oto")
    [notice] = Delivery.objects.filter(action="change").values_list("notice", flat=True)
    assert notice["summary"] == "policy chat-ladder, revision 1 (Degradation): in force by oto"


def test_what_decides_nothing_is_no_change() -> None:
    row = proposed(scaling(4))
    steps.shadow(row, "ann")
    steps.retire(row, "ann")
    PolicyRevision.objects.filter(pk=row.pk).update(state="active")
    with pytest.raises(ValidationError):
        steps.activate(proposed(scaling(4, name="another")), "oto")
    assert recorded() == []


def test_what_a_set_up_comes_with_is_no_change() -> None:
    create_missing({"policies.yaml": scaling(4)})
    assert PolicyRevision.objects.get().state == "active"
    assert recorded() == []


def test_going_back_to_what_a_set_up_came_with_is_a_change_and_so_is_its_retirement() -> None:
    create_missing({"policies.yaml": scaling(4)})
    steps.activate(proposed(scaling(6)), "oto")
    steps.roll_back("chat-replicas", "oto")
    create_missing({"ladder.yaml": ladder()})
    steps.retire(PolicyRevision.objects.get(name="chat-ladder"), "oto")
    assert [summary for summary, _, _ in recorded()] == [
        "policy chat-replicas, revision 2 (Scaling): in force by oto",
        "policy chat-replicas, revision 3 (Scaling): in force by oto: Rolls back to revision 1",
        "policy chat-ladder, revision 1 (Degradation): taken out of force by oto",
    ]
