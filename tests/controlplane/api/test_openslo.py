"""Objectives as code over REST."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import ApiToken
from controlplane.fleet.models import Team
from controlplane.slo.models import StoredObjective
from tests.support.slo.openslo_files import FOREIGN, slo


@pytest.fixture
def ci(db: None) -> Client:
    """A program that may change objectives."""
    Team.objects.create(name="serving")
    _, token = ApiToken.objects.issue(User.objects.create_superuser("ci"), "ci", ["admin"])
    return Client(headers={"authorization": f"Bearer {token}"})


def post(client: Client, path: str, body: Any, content_type: str = "application/yaml") -> tuple[int, Any]:
    response = client.post(f"/api/v1/openslo/{path}", body, content_type=content_type)
    return response.status_code, response.json()


def test_lint_names_line_and_column(caller: Client) -> None:
    status, found = post(caller, "lint", slo().replace("lte", "lt"))
    assert status == 200
    assert (found["documents"], found["errors"]) == (1, 1)
    [problem] = found["problems"]
    assert (problem["source"], problem["line"], problem["column"], problem["rule"]) == ("body", 28, 11, "operator")
    assert "write op: lte" in problem["message"]


def test_several_files_go_as_json(caller: Client) -> None:
    status, found = post(caller, "lint", {"files": {"a.yaml": slo(), "b.yaml": FOREIGN}}, "application/json")
    assert (status, found["documents"], found["warnings"]) == (200, 3, 1)
    assert found["problems"][0]["source"] == "b.yaml"


def test_apply_is_idempotent_and_says_what_it_did(ci: Client) -> None:
    status, found = post(ci, "apply?owner_label=repo&dry_run=true", slo())
    assert (status, found["applied"], found["summary"]) == (200, False, "Would be: 1 created.")
    assert not StoredObjective.objects.exists()
    status, found = post(ci, "apply?owner_label=repo", slo())
    assert (status, found["applied"], found["summary"]) == (200, True, "1 created.")
    status, found = post(ci, "apply?owner_label=repo", slo())
    assert (status, found["summary"]) == (200, "Nothing changed: 1 unchanged.")
    status, found = post(ci, "apply?owner_label=repo&prune=true", FOREIGN)
    assert [step["action"] for step in found["steps"]] == ["create", "create", "prune"]


def test_errors_and_conflicts_change_nothing(ci: Client) -> None:
    status, found = post(ci, "apply", slo().replace("target: 0.95", "target: 1"))
    assert (status, found["applied"], found["problems"][0]["line"]) == (409, False, 30)
    post(ci, "apply?owner_label=one", slo())
    status, found = post(ci, "apply?owner_label=two", slo(value=3))
    assert (status, found["applied"], found["steps"][0]["action"]) == (409, False, "conflict")
    assert StoredObjective.objects.get().threshold_ms == 100


def test_objectives_are_read_as_they_were_applied(ci: Client) -> None:
    post(ci, "apply", slo())
    response = ci.get("/api/v1/objectives/chat-ttft.yaml")
    assert response["Content-Type"].startswith("application/yaml")
    assert response.content.decode() == ci.get("/api/v1/objectives.yaml").content.decode() == slo()
    assert ci.get("/api/v1/objectives/nobody.yaml").status_code == 404


def test_a_body_that_is_not_understood_is_told_by_field(caller: Client) -> None:
    status, found = post(caller, "lint", '{"file": 1}', "application/json")
    assert (status, found["field"]) == (422, "files")
    assert post(caller, "lint", b"\xff")[0] == 422
