"""Who may call each operation of the API: every role in the own team and in another's, and every scope of a token."""

import json
from datetime import timedelta
from itertools import product
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from controlplane.accounts.core.scopes import SCOPES
from controlplane.accounts.models import ApiToken
from controlplane.fleet.models import FleetProposal
from controlplane.policy.models import PolicyRevision
from tests.support.past_the_audit import unrecorded
from tests.support.policy.people_and_texts import scaling
from tests.support.slo.openslo_files import slo
from tests.support.web.document import api_document
from tests.support.web.two_teams import DESCRIBED, MINE, PEOPLE, THEIRS, World, taken_back

pytestmark = pytest.mark.django_db

OBJECTIVE = {"slug": "TEAM-new", "name": "One", "target": 0.99, "indicator": {"kind": "availability"}, "owner": "TEAM"}
MAINTENANCE = {
    "name": "night", "start": "2026-11-22T02:00:00", "duration_s": 3600, "reason": "patches", "objectives": ["TEAM-objective"],
}  # fmt: skip
UNTIL = {"ends_at": (timezone.now() + timedelta(days=9)).isoformat(), "reason": "test"}
OPENSLO = slo("TEAM-file").replace("serving", "TEAM")
POLICY = scaling(name="TEAM-new", pool="TEAM-pool")


class Row(NamedTuple):
    """`scopes`, each of which suffices; `roles`, each of which suffices in the team of the object; a body that the document allows.

    `whose`: "team" of the object's team alone; "any" whoever has such a role in any team. `of`: where in `belongings` the path's object is.
    """

    scopes: str
    roles: str
    body: Any = None
    of: str = ""
    whose: str = "team"


RESPONDS, OWNS, EVERY = "responder owner", "owner", "viewer responder owner approver"
WRITES: dict[str, Row] = {
    "POST /openslo/lint": Row("read", EVERY, OPENSLO, whose="any"),
    "POST /openslo/apply": Row("objectives", OWNS, OPENSLO),
    "POST /objectives/preview": Row("read", EVERY, {"objective": OBJECTIVE}, whose="any"),
    "POST /objectives": Row("objectives", OWNS, OBJECTIVE),
    "PUT /objectives/{slug}": Row("objectives", OWNS, {**OBJECTIVE, "slug": "TEAM-objective"}, "objective"),
    "DELETE /objectives/{slug}": Row("objectives", OWNS, None, "objective"),
    "POST /maintenance": Row("objectives", OWNS, MAINTENANCE),
    "PUT /maintenance/{number}": Row("objectives", OWNS, MAINTENANCE, "maintenance"),
    "DELETE /maintenance/{number}": Row("objectives", OWNS, None, "maintenance"),
    "POST /incidents/{number}/acknowledge": Row("respond", RESPONDS, {}, "incident"),
    "POST /incidents/{number}/resolve": Row("respond", RESPONDS, {}, "incident"),
    "POST /incidents/{number}/reopen": Row("respond", RESPONDS, {}, "incident"),
    "POST /incidents/{number}/notes": Row("respond", RESPONDS, {"note": "seen"}, "incident"),
    "POST /incidents/{number}/steps/{step}": Row("respond", RESPONDS, {}, "incident"),
    "POST /silences": Row("respond", RESPONDS, {"matchers": ["owner=TEAM"], **UNTIL}),
    "PATCH /silences/{number}": Row("respond", RESPONDS, {}, "silence"),
    "DELETE /silences/{number}": Row("respond", RESPONDS, None, "silence"),
    "POST /changes": Row(
        "respond fleet", RESPONDS, {"identity": "a/1", "summary": "one", "source": "ci", "team": "TEAM"}
    ),
    "POST /batches/{name}/cancel": Row("fleet", OWNS, None, "batch"),
    "POST /batches/{name}/retry": Row("fleet", OWNS, None, "batch"),
    "PUT /fleet/documents/{kind}/{name}": Row("fleet", OWNS, DESCRIBED, "variant"),
    "POST /fleet/apply": Row("fleet", OWNS, DESCRIBED.replace("TEAM-variant", "TEAM-new")),
    "POST /fleet/revisions/{number}/bring-back": Row("fleet", OWNS, {}, whose="any"),
    "POST /fleet/proposals/{number}/{step}": Row("fleet", "approver", None, "proposal"),
    "POST /cache/purge": Row("fleet", OWNS, {"model": "TEAM-model"}),
    "POST /planning/jobs": Row("plan", OWNS, {"kind": "refresh"}, whose="any"),
    "POST /planning/jobs/{number}/cancel": Row("plan", OWNS, None, "job", "any"),
    "PUT /planning/capacities/{pool}": Row("plan", OWNS, {"requests_per_s": 4, "gpu": "h100", "dry_run": True}),
    "POST /policy-files/check": Row("read", EVERY, POLICY, whose="any"),
    "POST /policy-files/apply": Row("policies", OWNS, POLICY),
    "POST /policies": Row("policies", OWNS, {"text": POLICY}),
    "POST /policies/{name}/roll-back": Row("policies", OWNS, {}, "revision"),
    "POST /policies/{name}/revisions/{number}/preview": Row("policies", OWNS, None, "revision"),
    "POST /policies/{name}/revisions/{number}/{step}": Row("policies", "approver", {}, "revision"),
    "POST /pauses": Row("policies", OWNS, {"scope": "pool", "target": "TEAM-pool", **UNTIL}),
    "DELETE /pauses/{number}": Row("policies", OWNS, None, "pause"),
    "POST /overrides": Row("policies", OWNS, {"pool": "TEAM-pool", "replicas": 2, **UNTIL}),
    "POST /overrides/{number}/approve": Row("policies", "approver", None, "override"),
    "DELETE /overrides/{number}": Row("policies", OWNS, None, "override"),
    "POST /scores": Row(
        "policies scores", OWNS, {"scores": [{"request_id": "0" * 31 + "1", "name": "good", "value": 1}]}, whose="any"
    ),
}
"""Of every operation that is no GET."""
VALUES = {
    "slug": "one",
    "name": "one",
    "number": "1",
    "step": "1",
    "trace_id": "0" * 32,
    "key": "one",
    "kind": "Variant",
    "pool": "TEAM-pool",
}
FOR_ADMINISTRATORS = {"GET /audit"}
"""What neither a role nor `read` covers."""
OPERATIONS = {
    f"{method.upper()} {path.removeprefix('/api/v1')}": operation
    for path, methods in api_document()["paths"].items()
    for method, operation in methods.items()
}
"""As the API's document describes them."""
READS = sorted(name for name in OPERATIONS if name.startswith("GET "))


def test_no_operation_is_forgotten() -> None:
    assert OPERATIONS.keys() - set(READS) == WRITES.keys()


def sent(client: Client, world: World, name: str, team: str, **headers: str) -> tuple[int, str]:
    method, path = name.split()
    row = WRITES.get(name, Row("", ""))
    found = world.of[team].get(row.of)
    values = {**VALUES, "slug": f"{team}-objective", "number": str(found.pk) if found else "1"}
    values["name"] = getattr(found, "name", "one")
    if isinstance(found, FleetProposal):
        values["step"] = "approve"
    if isinstance(found, PolicyRevision):
        values |= {"number": str(found.number), "step": "approve"}
    text = "" if row.body is None else row.body if isinstance(row.body, str) else json.dumps(row.body)
    kind = "application/yaml" if isinstance(row.body, str) else "application/json"
    with taken_back():
        answer = client.generic(
            method,
            f"/api/v1{path.format(**values)}".replace("TEAM", team),
            text.replace("TEAM", team),
            content_type=kind,
            headers=headers,
        )
        assert str(answer.status_code) in OPERATIONS[name]["responses"], "as the document says"
        return answer.status_code, answer.content.decode() if not answer.streaming else ""


def by_token(world: World, name: str, team: str, user: User, *scopes: str) -> tuple[int, str]:
    with taken_back():
        with unrecorded():
            _, token = ApiToken.objects.issue(user, "robot", scopes)  # type: ignore[arg-type]
        return sent(Client(), world, name, team, Authorization=f"Bearer {token}")


@pytest.mark.parametrize("name", WRITES)
def test_a_role_changes_what_is_its_teams_and_nothing_else(world: World, name: str) -> None:
    row = WRITES[name]
    for person, team in product(PEOPLE, (MINE, THEIRS)):
        status, text = sent(world.clients[person], world, name, team)
        allowed = person == "administrator" or (person in row.roles.split() and (team == MINE or row.whose == "any"))
        assert (status in (401, 403)) != allowed, (person, team, status, text)
        assert status not in (404, 422, 500) or (row.whose == "any" and status == 404), (person, team, status, text)
        if not allowed:
            assert "or an administrator" in text, (person, team)


@pytest.mark.parametrize("name", READS)
def test_whoever_has_a_role_reads(world: World, name: str) -> None:
    for person, allowed in {
        "nobody": False,
        "tenant": False,
        "viewer": name not in FOR_ADMINISTRATORS,
        "administrator": True,
    }.items():
        assert (sent(world.clients[person], world, name, MINE)[0] == 403) != allowed, person


@pytest.mark.parametrize("name", WRITES)
def test_a_token_changes_what_its_scope_names_and_nothing_else(world: World, name: str) -> None:
    wanted = WRITES[name].scopes.split()
    for scope in SCOPES:
        status, text = by_token(world, name, MINE, world.user("administrator"), scope)
        if scope in (*wanted, "admin"):
            assert status not in (401, 403, 422), (scope, text)
        else:
            assert (status, "its scopes lack" in text) == (403, True), (scope, text)
            assert all(repr(each) in text for each in wanted), text


@pytest.mark.parametrize("name", READS)
def test_only_a_token_with_the_scope_for_it_reads(world: World, name: str) -> None:
    def status(*scopes: str) -> int:
        return by_token(world, name, MINE, world.user("administrator"), *scopes)[0]

    assert status("respond", "policies") == 403
    assert (status("read") == 403) == (name in FOR_ADMINISTRATORS)
    assert status("admin") != 403


@pytest.mark.parametrize("name", WRITES)
def test_a_scope_gives_no_right_that_its_user_lacks(world: World, name: str) -> None:
    assert by_token(world, name, MINE, world.user("nobody"), "admin")[0] == 403
    if WRITES[name].whose == "team":
        assert by_token(world, name, THEIRS, world.user("owner"), "admin")[0] == 403


def test_a_token_has_what_roles_its_user_has_now(world: World) -> None:
    with taken_back():
        rita = world.user("owner")
        _, token = ApiToken.objects.issue(rita, "robot", ["fleet", "read"])

        def status() -> int:
            return sent(Client(), world, "POST /cache/purge", MINE, Authorization=f"Bearer {token}")[0]

        assert status() == 200
        rita.memberships.all().delete()
        assert status() == 403


@pytest.mark.parametrize("scopes", [[], ["everything"], ["read", "write"]])
def test_what_is_no_scope_is_refused(scopes: list[str]) -> None:
    with pytest.raises(ValidationError, match="scopes"):
        ApiToken.objects.issue(User.objects.create_user("rita"), "robot", scopes)  # type: ignore[arg-type]
