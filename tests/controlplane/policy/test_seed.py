"""The policies that `make run` comes with."""

from pathlib import Path

import msgspec
import pytest

from controlplane.fleet.models import LLMModel, Team
from controlplane.management.bootstrap import bootstrap
from controlplane.policy import seed
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from deploy.local.parts import POLICIES
from tests.support.fleet import fleet

pytestmark = pytest.mark.django_db

TEXTS = {path.name: path.read_text() for path in sorted(POLICIES.glob("*.yaml"))}


@pytest.fixture
def demo_fleet(tmp_path: Path) -> None:
    """What the policies name."""
    document = fleet()
    text = msgspec.json.encode(document).decode()
    document["models"].append(msgspec.json.decode(text.replace("large", "small"))["models"][0])
    (tmp_path / "fleet.json").write_bytes(msgspec.json.encode(document))
    bootstrap(tmp_path, tmp_path / "fleet.json")


def states() -> dict[str, str]:
    return dict(PolicyRevision.objects.values_list("name", "state"))


def test_they_come_into_force_and_say_so(demo_fleet: None) -> None:
    done = seed.create_missing(TEXTS)
    assert states() == dict.fromkeys(("chat-large-ladder", "chat-large-replicas", "chat-small-replicas"), "active")
    assert done[0] == "made policy chat-large-ladder, which is in force"
    assert set(PolicyRevision.objects.values_list("author", "source")) == {("set-up", "bootstrap")}


def test_what_an_owner_did_to_them_stays(demo_fleet: None) -> None:
    seed.create_missing(TEXTS)
    steps.retire(PolicyRevision.objects.get(name="chat-large-ladder"), "olga")
    assert seed.create_missing(TEXTS) == []
    assert states()["chat-large-ladder"] == "retired"


def test_in_another_fleet_there_are_none() -> None:
    assert seed.create_missing(TEXTS) == []
    assert not PolicyRevision.objects.exists()


def test_a_team_that_wants_approval_is_asked_first(demo_fleet: None) -> None:
    team = Team.objects.create(name="careful", requires_approval=True)
    LLMModel.objects.filter(name="chat-large").update(team=team)
    assert any("is not in force" in line for line in seed.create_missing(TEXTS))
    assert states() == {"chat-large-ladder": "draft", "chat-large-replicas": "draft", "chat-small-replicas": "active"}


def test_a_text_that_is_no_policy_is_named_with_its_place() -> None:
    with pytest.raises(seed.PoliciesError, match=r"mine\.yaml:1:1: apiVersion is missing"):
        seed.create_missing({"mine.yaml": "kind: Wish\n"})
