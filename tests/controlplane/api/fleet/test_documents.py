"""The fleet as documents over REST: what is read can be written back, unless somebody else changed it since."""

import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from controlplane.api.endpoints import openslo
from controlplane.api.endpoints.fleet import documents
from controlplane.fleet.models import Pool, Team
from tests.support.entered_fleet import entered_fleet

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/fleet/documents/Pool/chat-eu"


def put(client: Client, text: str, **headers: str) -> Any:
    return client.put(URL, text, content_type="application/yaml", headers=headers)


def test_a_document_is_changed_unless_somebody_else_was_faster(owner: Client, home: Path) -> None:
    entered_fleet()
    answer = owner.get(URL)
    text, etag = answer.content.decode(), answer["ETag"]
    assert put(owner, text + "  weight: 70\n", **{"If-Match": etag}).json()["summary"] == "1 changed."
    late = put(owner, text + "  weight: 30\n", **{"If-Match": etag})
    assert (late.status_code, "read it again" in late.json()["detail"]) == (412, True)
    assert Pool.objects.get(name="chat-eu").weight == 70
    other = put(owner, text.replace("chat-eu", "chat-xx", 1))
    assert other.status_code == 409 and "Pool chat-eu and nothing else" in other.json()["problems"][0]["message"]
    wrong = put(owner, text + "  wait: 1\n")
    assert wrong.status_code == 409 and wrong.json()["problems"][0]["line"] == len(text.splitlines()) + 1
    assert owner.get("/api/v1/fleet/documents/Model/org/embed").content.startswith(b"apiVersion: weir/v1\nkind: Model")
    assert owner.get("/api/v1/fleet/documents/Pol/x").status_code == 404


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ('"other", {}', 200), ('{},"other"', 200), ("*", 200), (" * ", 200),
        ('"other", "more"', 412), ("W/{}", 412), ("other", 412), ("", 412),
    ],
)  # fmt: skip
def test_several_etags_may_match_and_a_weak_one_never_does(owner: Client, home: Path, asked: str, status: int) -> None:
    entered_fleet()
    answer = owner.get(URL)
    text, etag = answer.content.decode(), answer["ETag"]
    assert put(owner, text + "  weight: 70\n", **{"If-Match": asked.replace("{}", etag)}).status_code == status
    assert Pool.objects.get(name="chat-eu").weight == (70 if status == 200 else 100)


def test_of_what_is_not_there_no_etag_matches_and_none_is_needed(owner: Client, home: Path) -> None:
    entered_fleet()
    answer = owner.get(URL)
    text, etag = answer.content.decode(), answer["ETag"]
    Pool.objects.filter(name="chat-eu").delete()
    for asked in ("*", etag):
        gone = put(owner, text, **{"If-Match": asked})
        assert (gone.status_code, "there is no Pool 'chat-eu'" in gone.json()["detail"]) == (412, True)
    assert owner.put(URL.replace("Pool", "Pond"), text, headers={"If-Match": "*"}).status_code == 404
    assert put(owner, text).status_code == 200


def test_of_two_who_change_the_same_document_at_once_one_is_told(
    owner: Client, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were done, and the first was lost without a word."""
    entered_fleet()
    answer = owner.get(URL)
    text, etag = answer.content.decode(), answer["ETag"]
    statuses: list[int] = []

    def change(weight: int) -> None:
        statuses.append(put(owner, f"{text}  weight: {weight}\n", **{"If-Match": etag}).status_code)
        connection.close()

    other = Thread(target=change, args=(30,))

    def files(request: Any) -> Any:
        if not other.ident:  # the first has looked, and not written
            other.start()
            other.join(1.0)  # it waits for the first, or is done
        return openslo.files(request)

    monkeypatch.setattr(documents, "files", files)
    change(70)
    other.join()
    assert sorted(statuses) == [200, 412]


def test_files_wait_where_a_team_wants_approval_and_a_revision_comes_back(owner: Client, home: Path) -> None:
    entered_fleet()
    text = owner.get("/api/v1/fleet.yaml?kind=Pool&team=serving").content.decode()
    assert text.count("kind: Pool") == 3
    Team.objects.filter(name="serving").update(requires_approval=True)
    files = json.dumps({"files": {"pools.yaml": text.replace("model_name: m\n", "model_name: n\n")}})

    def sent(query: str) -> Any:
        return owner.post(f"/api/v1/fleet/apply?{query}", files, content_type="application/json")

    assert sent("").status_code == 409, "it was made by hand"
    assert sent("adopt=true&dry_run=true").json()["summary"] == "Would be: 3 changed."
    waits = sent("adopt=true&note=new")
    assert (waits.status_code, waits.json()["applied"]) == (202, False)
    assert set(Pool.objects.values_list("model_name", flat=True)) == {"m"}
    seen = owner.get(f"/api/v1/fleet/proposals/{waits.json()['proposal']}").json()
    assert (seen["state"], seen["approval"], "model_name m → n" in seen["gateways"]) == ("draft", ["serving"], True)
    step = owner.post(f"/api/v1/fleet/proposals/{seen['number']}/activate", "", content_type="application/json")
    assert (
        step.status_code == 409
        and "serving wants another person's approval, and this is draft" in step.json()["detail"]
    )
    Team.objects.filter(name="serving").update(requires_approval=False)
    assert (
        owner.post(f"/api/v1/fleet/proposals/{seen['number']}/activate", "", content_type="application/json").json()[
            "revision"
        ]
        == 2
    )
    back = owner.post("/api/v1/fleet/revisions/1/bring-back", "{}", content_type="application/json")
    assert back.status_code == 201 and set(Pool.objects.values_list("model_name", flat=True)) == {"m", "n"}
    assert (
        owner.post(
            f"/api/v1/fleet/proposals/{back.json()['number']}/activate", "", content_type="application/json"
        ).json()["state"]
        == "active"
    )
    assert set(Pool.objects.values_list("model_name", flat=True)) == {"m"}
    listed = owner.get("/api/v1/fleet/revisions").json()["revisions"]
    assert [(row["number"], row["restores"]) for row in listed] == [(3, 1), (2, None), (1, None)]
    assert len(owner.get("/api/v1/fleet/revisions/2").json()["differences"]) == 3
