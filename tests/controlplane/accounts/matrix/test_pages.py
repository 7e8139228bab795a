"""Who may open each page, and do what its forms do: every URL outside the admin and the API, the socket, and every command."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from asgiref.sync import async_to_sync
from django.core.management import get_commands
from django.core.signals import request_finished, request_started
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse

from controlplane.asgi import BESIDE_DJANGO
from controlplane.dashboard.fragments import LoggedOutError, fragment
from controlplane.dashboard.routing import websocket_urlpatterns
from tests.support.web.two_teams import MINE, PEOPLE, THEIRS, World, taken_back

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[4]
ALL, RESPONDS, OWNS = "viewer responder owner approver", "responder owner", "owner"


class Form(NamedTuple):
    """As `Row` of the operations: what is sent, and of which object the URL is."""

    roles: str
    data: dict[str, str]
    of: str = ""
    whose: str = "team"


FORMS = {
    "incident-acknowledge": Form(RESPONDS, {}, "incident"),
    "incident-resolve": Form(RESPONDS, {"confirmed": "1"}, "incident"),
    "incident-reopen": Form(RESPONDS, {}, "incident"),
    "incident-note": Form(RESPONDS, {"note": "seen"}, "incident"),
    "incident-step": Form(RESPONDS, {"number": "1"}, "incident"),
    "silences": Form(RESPONDS, {"owner": "TEAM", "length": "1h", "reason": "test"}),
    "silence-end": Form(RESPONDS, {}, "silence"),
    "planning-jobs-start": Form(OWNS, {"kind": "refresh"}, whose="any"),
    "planning-job-cancel": Form(OWNS, {}, "job", "any"),
    "policy-step": Form("approver", {}, "revision"),
    "fleet-bring-back": Form(OWNS, {}, whose="any"),
    "fleet-proposal-step": Form("approver", {}, "proposal"),
    "pauses": Form(OWNS, {"what": "pause", "scope": "pool", "target": "TEAM-pool", "length": "1h", "reason": "test"}),
    "override-approve": Form("approver", {}, "override"),
    "pause-end": Form(OWNS, {}, "pause"),
    "batch-cancel": Form(OWNS, {}, "batch"),
    "batch-retry": Form(OWNS, {}, "batch"),
    "save-view": Form(ALL, {"name": "now", "next": "/latency", "team": "TEAM"}),
    "remove-view": Form(ALL, {}, whose="any"),
    "share": Form(ALL, {"next": "/latency", "length": "1h"}, whose="any"),
    "zone": Form(f"{ALL} tenant", {"zone": "UTC"}, whose="any"),
    "decision-replay": Form(ALL, {}, whose="any"),
}
READ = {
    "overview", "begin", "latency", "latency-explain", "latency-table", "map", "cache", "causes", "requests", "signals", "trace",
    "objectives", "objective-preview", "objective", "objective-burned", "incidents", "review", "review-markdown", "incident",
    "incident-markdown", "planning", "planning-plan", "planning-what-if", "planning-worksheet", "planning-jobs",
    "policies", "policy", "decisions", "decision", "fleet-changes", "fleet-change", "fleet-proposal",
    "deliveries", "batches", "quick", "live", "metrics",
}  # fmt: skip
"""Whoever has a role in any team."""
OF_TENANTS = {"tenant", "tenants"}
"""The people of tenants read them too: their own."""
WITH_A_FORM = {"silences", "pauses"}
"""Pages that are read, and have a form that is sent to themselves."""
ADMINISTRATORS = {"audit", "connections"}
OWN_LOGIN = {
    "mfa_index", "usersessions_list", "account_change_password", "account_set_password", "account_reauthenticate", "mfa_reauthenticate",
    "mfa_reauthenticate_webauthn", "mfa_activate_totp", "mfa_deactivate_totp", "mfa_add_webauthn", "mfa_remove_webauthn",
    "mfa_view_recovery_codes", "mfa_generate_recovery_codes",
}  # fmt: skip
"""What a person does with his own log-in: whoever has a role. No URL has a place for another person."""
WITHOUT_A_LOGIN = {
    "account_login", "account_logout", "openid_connect_login", "openid_connect_callback", "openid_connect_ended",
    "saml_login", "saml_acs", "saml_finish_acs", "saml_metadata", "saml_sls",
    "socialaccount_login_cancelled", "account_inactive", "mfa_authenticate", "mfa_login_webauthn", "account_reset_password",
    "account_reset_password_done", "account_reset_password_from_key", "account_reset_password_from_key_done",
    "healthz", "readyz", "pagerduty-hook", "shared",
}  # fmt: skip
"""`tests/controlplane/accounts/test_every_page_wants_a_login.py`"""
COMMANDS = {
    "audit", "bootstrap", "collect", "demo_history", "erase_tenant", "leader", "openslo", "policy", "purge_cache", "seal_secrets", "stack",
    "weir",
}  # fmt: skip
"""Whoever runs them has the database and its secrets, and is an administrator by that: none asks the rule."""
VALUES = {
    "number": "1", "name": "one", "slug": "one", "trace_id": "0" * 32, "key": "one", "step": "approve", "what": "pause", "text": "x",
    "pk": "1",
}  # fmt: skip


def named() -> dict[str, list[str]]:
    """The parameters of each URL outside the admin and the API."""
    places = [get_resolver(), *(each for each in get_resolver().url_patterns if str(each.pattern) == "")]
    patterns = [each for place in places for each in place.url_patterns if isinstance(each, URLPattern) and each.name]
    return {str(each.name): list(each.pattern.converters) for each in patterns}


def send(client: Client, world: World, name: str, team: str) -> tuple[int, str]:
    form = FORMS.get(name)
    found = world.of[team].get(form.of) if form else None
    values = {**VALUES, "slug": f"{team}-objective", "number": str(found.pk if found else 1)}
    values["name"] = getattr(found, "name", "one")
    if name == "policy-step" and found:
        values["number"] = str(found.number)
    path = reverse(name, kwargs={each: values[each] for each in named()[name]})
    with taken_back():
        if form is None:
            answer = client.get(path)
        else:
            answer = client.post(path, {field: value.replace("TEAM", team) for field, value in form.data.items()})
        return answer.status_code, "" if answer.streaming else answer.content.decode()


def test_no_url_is_forgotten() -> None:
    assert named().keys() == FORMS.keys() | READ | OF_TENANTS | ADMINISTRATORS | WITHOUT_A_LOGIN | OWN_LOGIN


def test_no_command_is_forgotten() -> None:
    assert {name for name, app in get_commands().items() if app.startswith("controlplane")} == COMMANDS


def test_no_socket_and_no_place_beside_django_is_forgotten() -> None:
    assert [str(each.pattern) for each in websocket_urlpatterns] == ["live"]
    assert BESIDE_DJANGO.keys() == {
        "/internal/snapshot",
        "/internal/scrape-targets",
    }  # tokens of their own, and nobody's role


def test_nothing_but_the_rule_is_asked() -> None:
    asks = re.compile(r"has_perms?\(|is_staff|is_superuser|permission_required|user_passes_test|\bperms\.")
    folders = ((ROOT / "controlplane", "*.py"), (ROOT / "templates", "*.html"))
    files = [path for folder, pattern in folders for path in folder.rglob(pattern)]
    found = {str(path.relative_to(ROOT)) for path in files if asks.search(path.read_text())}
    assert len(files) > 500 and found == {"controlplane/accounts/admin.py", "controlplane/accounts/rights.py"}


@pytest.mark.parametrize("name", FORMS)
def test_a_role_does_what_is_its_teams_and_nothing_else(world: World, name: str) -> None:
    form = FORMS[name]
    for person in PEOPLE:
        client = world.clients[person]
        for team in (MINE, THEIRS):
            status, text = send(client, world, name, team)
            allowed = person == "administrator" or (
                person in form.roles.split() and (team == MINE or form.whose == "any")
            )
            assert (status in (401, 403)) != allowed, (person, team, status, text)
            assert form.of == "" or status != 404, (person, team)
            if not allowed:
                assert "or an administrator" in text


@pytest.mark.parametrize("name", sorted(READ | ADMINISTRATORS | WITH_A_FORM | OWN_LOGIN))
def test_whoever_has_a_role_reads(world: World, name: str) -> None:
    for person in PEOPLE:
        allowed = person == "administrator" or (person != "nobody" and name not in ADMINISTRATORS)
        if person == "tenant" and name == "overview":
            assert world.clients[person].get("/")["Location"] == "/tenants"
            continue
        allowed = name in OWN_LOGIN if person == "tenant" else allowed
        path = reverse(name, kwargs={each: VALUES[each] for each in named()[name]})
        assert (world.clients[person].get(path).status_code == 403) != allowed, person


def test_the_people_of_a_tenant_see_it_and_no_other(world: World) -> None:
    for person in PEOPLE:
        client, reads = world.clients[person], person not in ("nobody", "tenant")
        for team in (MINE, THEIRS):
            allowed = reads or (person == "tenant" and team == MINE)
            for path in (f"/tenants/{team}-tenant", f"/api/v1/tenants/{team}-tenant"):
                answer = client.get(path)
                assert answer.status_code == (503 if allowed else 403), (person, path)  # no store answers
                assert allowed or "or an administrator" in answer.content.decode()
        for path in ("/tenants/none", "/api/v1/tenants/none"):
            assert client.get(path).status_code == (404 if reads else 403), (person, path)
        assert client.get("/tenants").status_code == {"nobody": 403, "tenant": 302}.get(person, 200)


@pytest.mark.parametrize(
    ("person", "allowed"), [("nobody", False), ("tenant", False), ("viewer", True), ("administrator", True)]
)
def test_the_socket_renews_what_its_reader_may_read(
    world: World, person: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for signal in (request_started, request_finished):  # it would close the connection whose transaction this is
        monkeypatch.setattr(signal, "receivers", [])
        signal.sender_receivers_cache.clear()
    cookies = world.clients[person].cookies.items()
    cookie = "; ".join(f"{name}={value.value}" for name, value in cookies)
    socket = {"headers": [(b"host", b"testserver"), (b"cookie", cookie.encode())], "client": ("127.0.0.1", 1)}
    if allowed:
        assert "Silences" in async_to_sync(fragment)(socket, "/silences")
    else:
        with pytest.raises(LoggedOutError):
            async_to_sync(fragment)(socket, "/silences")
