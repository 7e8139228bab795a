"""What a source manages is changed there: forms and REST refuse it and say who owns it, and what differs since is shown."""

from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from controlplane.fleet.files import revisions
from controlplane.fleet.files.proposals import bring_back
from controlplane.fleet.models import Pool, Replica
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from controlplane.policy.revisions.read import PolicyTextError
from tests.support.commands import said
from tests.support.entered_fleet import entered_fleet
from tests.support.policy.people_and_texts import scaling
from tests.support.web.html import html_of

pytestmark = pytest.mark.django_db(transaction=True)
SENTENCE = "Pool chat-eu is managed by git: change it there, or take it over with `./weir apply --adopt`"


@pytest.fixture
def repository(home: Path, tmp_path: Path) -> Path:
    """Files of the pool `chat-eu` and of a policy about it, which are in force and manage both."""
    entered_fleet()
    said("weir", "export", "--to", str(tmp_path))
    for file in tmp_path.iterdir():
        if file.stem != "pool-chat-eu":
            file.unlink()
    (tmp_path / "scaling.yaml").write_text(scaling())
    applied(tmp_path, "--adopt")
    return tmp_path


def applied(folder: Path, *options: str) -> str:
    return said("weir", "apply", str(folder), "--managed-by", "git", *options)


def test_forms_show_what_is_managed_and_do_not_change_it(owner: Client, repository: Path) -> None:
    pool = Pool.objects.get(name="chat-eu")
    page = html_of(owner.get(f"/admin/fleet/pool/{pool.pk}/change/"))
    assert SENTENCE in page and 'name="_save"' not in page
    assert owner.post(f"/admin/fleet/pool/{pool.pk}/change/", {"weight": 1}).status_code == 403
    assert owner.post(f"/admin/fleet/pool/{pool.pk}/delete/", {"post": "yes"}).status_code == 403
    replica = Replica.objects.filter(pool=pool).first()
    assert replica is not None
    assert owner.post(f"/admin/fleet/replica/{replica.pk}/change/", {"name": "x"}).status_code == 403
    other = Pool.objects.get(name="chat-us")
    assert 'name="_save"' in html_of(owner.get(f"/admin/fleet/pool/{other.pk}/change/"))


def test_rest_the_way_back_and_other_files_refuse_it(admin_client: Client, repository: Path) -> None:
    text = (repository / "pool-chat-eu.yaml").read_text()
    answer = admin_client.put(
        "/api/v1/fleet/documents/Pool/chat-eu",
        text.replace("spec:\n", "spec:\n  weight: 3\n"),
        content_type="application/yaml",
    )
    assert answer.status_code == 409
    assert SENTENCE.removeprefix("Pool chat-eu ") in answer.json()["steps"][0]["note"]
    same = admin_client.put("/api/v1/fleet/documents/Pool/chat-eu", text, content_type="application/yaml")
    assert same.status_code == 200
    pool = Pool.objects.get(name="chat-eu")
    pool.weight = 7
    pool.save()
    with pytest.raises(ValidationError, match="Pool chat-eu is managed by git"):
        bring_back(2, who="ann")
    with pytest.raises(PolicyTextError, match="policy chat-replicas is managed by git"):
        steps.propose(scaling(most=5), who="ann", source="admin")
    api = admin_client.post("/api/v1/fleet/apply?managed_by=git", text, content_type="application/yaml")
    assert api.status_code == 200 and Pool.objects.get(name="chat-eu").weight == 100


def test_what_differs_is_shown_until_it_is_put_back_or_written_there(admin_client: Client, repository: Path) -> None:
    pool = Pool.objects.get(name="chat-eu")
    assert "managed elsewhere" not in html_of(admin_client.get("/changes"))
    pool.weight = 7
    pool.save()
    page = html_of(admin_client.get("/changes"))
    assert "Changed here, managed elsewhere" in page and "Pool chat-eu: weight: 100 → 7, by a process" in page
    assert "weight: 7 → 100" in applied(repository)
    assert not revisions.drifts().exists()
    pool.save()
    file = repository / "pool-chat-eu.yaml"
    file.write_text(file.read_text().replace("spec:\n", "spec:\n  weight: 7\n"))
    assert revisions.drifts().count() == 1
    applied(repository)
    assert not revisions.drifts().exists()
    assert PolicyRevision.objects.get().label == "managed by git"
