"""What API tokens may do: each operation of the API with each scope, by a user who may do everything."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client

from controlplane.accounts.core.scopes import SCOPES, covers
from controlplane.accounts.models import ApiToken
from tests.support.web.document import api_document

LATER = "2100-01-01T00:00:00Z"
OBJECTIVE = {"slug": "one", "name": "One", "target": 0.99, "indicator": {"kind": "availability"}}
MAINTENANCE = {"name": "night", "start": "2026-11-22T02:00:00", "duration_s": 3600, "reason": "patches"}
YAML = "apiVersion: openslo/v1\n"
WRITES: dict[str, tuple[str, Any]] = {
    "POST /openslo/lint": ("read", YAML),
    "POST /openslo/apply": ("objectives", YAML),
    "POST /objectives/preview": ("read", {"objective": OBJECTIVE}),
    "POST /objectives": ("objectives", OBJECTIVE),
    "PUT /objectives/{slug}": ("objectives", OBJECTIVE),
    "DELETE /objectives/{slug}": ("objectives", None),
    "POST /maintenance": ("objectives", MAINTENANCE),
    "PUT /maintenance/{number}": ("objectives", MAINTENANCE),
    "DELETE /maintenance/{number}": ("objectives", None),
    "POST /incidents/{number}/acknowledge": ("respond", {}),
    "POST /incidents/{number}/resolve": ("respond", {}),
    "POST /incidents/{number}/reopen": ("respond", {}),
    "POST /incidents/{number}/notes": ("respond", {"note": "seen"}),
    "POST /incidents/{number}/steps/{step}": ("respond", {}),
    "POST /silences": ("respond", {"matchers": ["model=x"], "ends_at": LATER, "reason": "test"}),
    "PATCH /silences/{number}": ("respond", {}),
    "DELETE /silences/{number}": ("respond", None),
    "POST /changes": ("respond fleet", {"identity": "a/1", "summary": "one", "source": "ci"}),
    "POST /batches/{name}/cancel": ("fleet", None),
    "POST /batches/{name}/retry": ("fleet", None),
    "POST /cache/purge": ("fleet", {"model": "chat"}),
    "POST /planning/jobs": ("plan", {"kind": "refresh"}),
    "POST /planning/jobs/{number}/cancel": ("plan", None),
    "PUT /planning/capacities/{pool}": ("plan", {"requests_per_s": 4}),
    "POST /policy-files/check": ("read", YAML),
    "POST /policy-files/apply": ("policies", YAML),
    "POST /policies": ("policies", {"text": "name: x"}),
    "POST /policies/{name}/roll-back": ("policies", {}),
    "POST /policies/{name}/revisions/{number}/preview": ("policies", None),
    "POST /policies/{name}/revisions/{number}/{step}": ("policies", {}),
    "POST /pauses": ("policies", {"scope": "all", "ends_at": LATER, "reason": "test"}),
    "DELETE /pauses/{number}": ("policies", None),
    "POST /overrides": ("policies", {"ends_at": LATER, "reason": "test"}),
    "DELETE /overrides/{number}": ("policies", None),
    "POST /scores": ("policies scores", {"scores": [{"request_id": "0" * 31 + "1", "name": "good", "value": 1}]}),
}
"""Of every operation that is no GET: the scopes, each of which suffices, and a body that the document allows."""
VALUES = {"slug": "one", "name": "one", "number": "1", "step": "1", "trace_id": "0" * 32, "key": "one", "pool": "one"}
FOR_ADMIN = {"GET /audit"}
"""What `read` does not cover."""
OPERATIONS = {
    f"{method.upper()} {path.removeprefix('/api/v1')}"
    for path, methods in api_document()["paths"].items()
    for method in methods
}


def call(name: str, *scopes: str) -> tuple[int, str]:
    method, path = name.split()
    path = path.replace("revisions/{number}/{step}", "revisions/1/approve").format(**VALUES)
    body = WRITES[name][1] if name in WRITES else None
    user, _ = User.objects.get_or_create(username="ada", is_superuser=True)
    _, token = ApiToken.objects.issue(user, "robot", scopes)  # type: ignore[arg-type]
    kind = "application/yaml" if isinstance(body, str) else "application/json"
    text = body if isinstance(body, str) else json.dumps(body) if body is not None else ""
    answer = Client().generic(
        method, f"/api/v1{path}", text, content_type=kind, headers={"Authorization": f"Bearer {token}"}
    )
    return answer.status_code, answer.content.decode() if not answer.streaming else ""


def test_no_operation_is_forgotten() -> None:
    assert {name for name in OPERATIONS if not name.startswith("GET ")} == WRITES.keys()


@pytest.mark.django_db
@pytest.mark.parametrize("name", WRITES)
def test_a_token_changes_what_its_scope_names_and_nothing_else(name: str, away: None) -> None:
    wanted = WRITES[name][0].split()
    for scope in SCOPES:
        status, text = call(name, scope)
        if scope in (*wanted, "admin"):
            assert status not in (401, 403, 422), (scope, text)
        else:
            assert (status, "its scopes lack" in text) == (403, True), (scope, text)
            assert all(repr(each) in text for each in wanted), text


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(name for name in OPERATIONS if name.startswith("GET ")))
def test_only_a_token_with_the_scope_for_it_reads(name: str, away: None) -> None:
    assert call(name, "respond", "policies")[0] == 403
    assert (call(name, "read")[0] == 403) == (name in FOR_ADMIN)
    assert call(name, "admin")[0] != 403


@pytest.mark.django_db
def test_a_scope_gives_no_right_that_its_user_lacks() -> None:
    _, token = ApiToken.objects.issue(User.objects.create_user("rita"), "robot", ["respond", "admin"])
    answer = Client().post(
        "/api/v1/silences",
        WRITES["POST /silences"][1],
        "application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 403
    assert "an owner or responder of any team, or an administrator" in answer.json()["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize("scopes", [[], ["everything"], ["read", "write"]])
def test_what_is_no_scope_is_refused(scopes: list[str]) -> None:
    with pytest.raises(ValidationError, match="scopes"):
        ApiToken.objects.issue(User.objects.create_user("rita"), "robot", scopes)  # type: ignore[arg-type]


def test_a_scope_covers_no_right_of_an_app_that_begins_alike() -> None:
    assert covers(["plan"], "planning.add_planjob") and not covers(["plan"], "planningx.add_planjob")
    assert not covers(["scores"], "policy.propose_policyrevision")
    assert not covers([], "read")
