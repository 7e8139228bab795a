"""Custom resources on a real API server: what is applied, edited, deleted there is so in Weir, and each object says what became of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from controlplane.core.documents.reading import read
from controlplane.fleet.files.export import export
from controlplane.fleet.models import FleetRevision, Pool, Tenant, Tier
from controlplane.sources.follow import Follower
from deploy.local.process import ROOT
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.proxy import Proxy, used_by
from tests.support.cluster.resources import Resources, defined, following
from tests.support.entered_fleet import emptied, entered_fleet
from tests.support.wait import eventually

KUBERNETES = ROOT / "deploy/kubernetes"
pytestmark = pytest.mark.django_db(transaction=True)

TIER = """\
apiVersion: weir/v1
kind: Tier
metadata:
  name: gold
spec:
  priority: 1
"""


@pytest.fixture
def there(cluster: Namespace) -> Resources:
    defined(cluster)
    return Resources(cluster)


@pytest.fixture
def follower(there: Resources) -> Iterator[Follower]:
    with following(there.namespace) as follower:
        yield follower


Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def until(follower: Follower) -> Until:
    """Let Weir follow until it holds."""

    def wait(holds: Callable[[], bool]) -> None:
        def come() -> bool:
            follower.step(lambda: None)
            return holds()

        eventually(come)

    return wait


def test_a_fleet_comes_into_force_as_objects_is_edited_and_goes(there: Resources, until: Until, home: Path) -> None:
    entered_fleet()
    texts = export()
    emptied()
    objects = []
    for text in texts.values():
        [document], _ = read(text)
        here = document.name.replace("/", "-")
        there.create(text.replace(document.name, here, 1), **({"name": document.name} if here != document.name else {}))
        objects.append((document.kind, here))
    until(lambda: all(there.ready(*each)[0] == "True" for each in objects))
    assert export() == texts
    there.edit("Pool", "chat-eu", {"weight": 7})
    until(lambda: there.ready("Pool", "chat-eu")[0] == "True" and Pool.objects.get(name="chat-eu").weight == 7)
    newest = FleetRevision.objects.first()
    assert newest is not None and newest.author == f"cluster: {there.namespace.name}/pool/chat-eu"
    for each in objects:
        there.delete(*each)
    until(lambda: not any(there.get(*each) for each in objects))
    assert export() == {}


def test_an_object_that_is_wrong_says_where_and_one_that_is_corrected_comes_into_force(
    there: Resources, until: Until
) -> None:
    there.create(TIER)
    until(lambda: there.ready("Tier", "gold")[0] == "True")
    there.edit("Tier", "gold", {"priority": -1})
    until(lambda: there.ready("Tier", "gold")[0] == "False")
    _, reason, message = there.ready("Tier", "gold")
    assert (reason, message) == (
        "Invalid",
        "spec.priority: priority=-1: Ensure this value is greater than or equal to 1.",
    )
    assert Tier.objects.get().priority == 1
    there.edit("Tier", "gold", {"priority": 2})
    until(lambda: there.ready("Tier", "gold")[0] == "True")
    assert Tier.objects.get().priority == 2


def test_what_is_changed_here_is_put_back(there: Resources, until: Until) -> None:
    there.create(TIER)
    until(lambda: there.ready("Tier", "gold")[0] == "True")
    Tier.objects.get().delete()
    until(lambda: Tier.objects.filter(priority=1).exists())
    row = Tier.objects.get()
    row.priority = 9
    row.save()
    until(lambda: Tier.objects.get().priority == 1)


def test_what_is_used_keeps_its_object(there: Resources, until: Until) -> None:
    there.create(TIER)
    until(lambda: there.ready("Tier", "gold")[0] == "True")
    tenant = Tenant.objects.create(name="shop", tier=Tier.objects.get())
    there.delete("Tier", "gold")
    until(lambda: there.ready("Tier", "gold")[1] == "InUse")
    tenant.delete()
    until(lambda: there.get("Tier", "gold") is None)
    assert not Tier.objects.exists()


def test_the_rights_of_the_component_are_enough_and_each_is_used(
    hollow: Namespace, there: Resources, tmp_path: Path
) -> None:
    assert hollow.plane
    for each in yaml.safe_load_all((KUBERNETES / "components/resources/rbac.yaml").read_text()):
        for part in (each["metadata"], *each.get("subjects", ())):
            part["namespace"] = hollow.name
        hollow.create(each)
    account = f"system:serviceaccount:{hollow.name}:weir-controller"
    hollow.plane.write_kubeconfig(hollow.plane.folder / f"{hollow.name}-crd", account, "system:authenticated")
    proxy = Proxy(hollow.plane, f"{hollow.name}-crd")
    there.create(TIER)
    with following(there.namespace, proxy.kubeconfig(tmp_path)) as follower:
        eventually(lambda: (follower.step(lambda: None), there.ready("Tier", "gold")[0] == "True")[1])
        there.delete("Tier", "gold")
        eventually(lambda: (follower.step(lambda: None), there.get("Tier", "gold") is None)[1])
    proxy.close()
    assert {used_by(each)[0] for each in proxy.requests} == {"list", "watch", "patch"}
