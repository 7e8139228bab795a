"""The page that takes OpenSLO by hand: problems by line beside the text, the plan, and applying it."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from controlplane.fleet.models import Team
from controlplane.slo.models import StoredObjective
from tests.support.slo.openslo_files import FOREIGN, slo
from tests.support.web.html import html_of
from tests.support.web.served import Filled

PATH = "/objectives/import"


@pytest.fixture(autouse=True)
def serving(db: None) -> None:
    Team.objects.create(name="serving")


def sent(client: Client, text: str = "", do: str = "check", **more: object) -> str:
    response = client.post(PATH, {"text": text, "do": do, "label": "", **more})
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_what_is_wrong_stands_beside_its_line(owner: Client) -> None:
    page = sent(owner, slo().replace("target: 0.95", "target: 95"))
    assert "✕ 1 error, no warnings." in page
    assert '<a href="#line-30">line 30</a>' in page
    assert '<tr id="line-30" class="error">' in page
    assert "spec.objectives[0].target=95 is not below 1" in page
    assert 'value="apply"' not in page


def test_checking_shows_the_plan_and_changes_nothing(owner: Client) -> None:
    page = sent(owner, slo())
    assert "Would be: 1 created." in page
    assert 'value="apply"' in page
    assert not StoredObjective.objects.exists()


def test_applying_does_what_the_plan_said(owner: Client) -> None:
    page = sent(owner, slo(), do="apply", label="by-hand")
    assert "✓ Applied.</strong> 1 created." in page
    assert StoredObjective.objects.get().annotations["weir.slo/managed-by"] == "by-hand"
    page = sent(owner, slo(value=300), label="by-hand")
    assert "<code>indicator.threshold_ms: 100.0 → 300.0</code>" in page


def test_files_may_be_sent_instead_of_text(owner: Client) -> None:
    files = [SimpleUploadedFile("a.yaml", slo().encode()), SimpleUploadedFile("b.yaml", FOREIGN.encode())]
    page = sent(owner, files=files)
    assert "Would be: 3 created." in page
    assert "Promised to premium customers" in page


def test_a_file_that_is_no_text_is_said_so(owner: Client) -> None:
    assert "a.yaml is no UTF-8 text" in sent(owner, files=[SimpleUploadedFile("a.yaml", b"\xff\xfe")])


def test_who_may_not_change_objectives_may_check_them(teammate: Client) -> None:
    page = sent(teammate, slo())
    assert "Would be: 1 created." in page
    assert 'value="apply"' not in page
    assert teammate.post(PATH, {"text": slo(), "do": "apply"}).status_code == 403
    assert not StoredObjective.objects.exists()


def test_the_page_itself_has_nothing_to_say_yet(teammate: Client) -> None:
    assert "Objectives as code" in teammate.get(PATH).content.decode()


def test_html_in_a_document_stays_text(owner: Client) -> None:
    assert "<script>alert" not in sent(owner, "kind: <script>alert(1)</script>")


def test_the_admin_says_where_an_objective_comes_from(owner: Client) -> None:
    sent(owner, slo(), do="apply", label="slos-repo")
    row = StoredObjective.objects.get()
    page = html_of(owner.get(f"/admin/slo/storedobjective/{row.pk}/change/"))
    assert "Managed as code: it comes from page, applied with the owner label “slos-repo”" in page


def test_the_objectives_pages_lead_here_and_say_where_one_comes_from(owner: Client, served: Filled) -> None:
    sent(owner, slo(), do="apply", label="slos-repo")
    assert 'href="/objectives/import"' in owner.get("/objectives").content.decode()
    page = owner.get("/objectives/chat-ttft").content.decode()
    assert "page, owner label slos-repo" in page
    assert 'href="/objectives/preview?saved=chat-ttft"' in page
    assert 'href="/api/v1/objectives/chat-ttft.yaml"' in page
