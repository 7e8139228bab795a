"""Who may look at, add, change and delete what the admin has: each model, its inlines and its own URLs; and what an owner may not do to
get more."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from django.contrib import admin
from django.test import Client, RequestFactory
from django.urls import URLPattern

from controlplane.accounts.admin_parts import RuledAdmin, RuledInline
from controlplane.accounts.models import ApiToken, Membership
from controlplane.fleet.models import Fallback, Pool, Team, Variant
from controlplane.lane.models import CallbackSecret
from tests.support.web.two_teams import MINE, PEOPLE, THEIRS, World, taken_back

pytestmark = pytest.mark.django_db


class Row(NamedTuple):
    """Which of the four things those may who may not everything: `owners` of the team of `of`; everybody with a role looks."""

    owners: str = ""
    of: str = ""
    looks: bool = True
    administrator: str = "add change delete"


OWNED = "add change delete"
MODELS = {
    "fleet.llmmodel": Row(OWNED, "model"),
    "fleet.variant": Row(OWNED, "variant"),
    "fleet.pool": Row(OWNED, "pool"),
    "fleet.replica": Row(OWNED, "replica"),
    "fleet.gatewaykey": Row(OWNED, "key"),
    "fleet.timeoutrule": Row(OWNED, "timeout"),
    "fleet.cachepurge": Row("add change", "purge", administrator="add change"),
    "fleet.cluster": Row(), "fleet.workload": Row(), "fleet.region": Row(), "fleet.tenant": Row(of="tenant"), "fleet.tier": Row(),
    "fleet.team": Row(), "fleet.tokenissuer": Row(), "fleet.guardrule": Row(),
    "fleet.stagetimeouts": Row(administrator="add change"),
    "fleet.observation": Row(administrator=""), "fleet.snapshotrevision": Row(administrator=""),
    "lane.tenantlimits": Row(), "lane.callbacksecret": Row(looks=False, administrator="add delete"), "lane.callback": Row(administrator=""),
    "slo.storedobjective": Row(OWNED, "objective"),
    "slo.maintenance": Row(OWNED, "maintenance"),
    "openslo.applieddocument": Row(administrator=""),
    "delivery.destination": Row(OWNED, "destination"),
    "delivery.delivery": Row(of="delivery", administrator=""),
    "delivery.hooksecret": Row(looks=False), "delivery.hookevent": Row(administrator=""),
    "policy.policyrevision": Row("add", "revision", administrator="add"),
    "policy.pause": Row("add", "pause", administrator="add"),
    "policy.override": Row("add", "override", administrator="add"),
    "policy.decisionrecord": Row(administrator=""), "policy.action": Row(administrator=""),
    "planning.plannedevent": Row(OWNED, "event"),
    "planning.poolcapacity": Row(OWNED, "capacity"),
    "planning.gputype": Row(), "planning.regioncalendar": Row(), "planning.plansettings": Row(administrator="add change"),
    "planning.storedforecast": Row(administrator=""), "planning.candidatechange": Row(administrator=""),
    "planning.planjob": Row(administrator=""), "planning.measuredpool": Row(administrator=""),
    "planning.demohistory": Row(administrator=""),
    "auth.user": Row(looks=False), "accounts.membership": Row(looks=False), "accounts.tenantmembership": Row(looks=False),
    "accounts.groupmapping": Row(looks=False),
    "accounts.apitoken": Row(looks=False),
    "accounts.sharedlink": Row(looks=False, administrator="change delete"),
}  # fmt: skip
OF_ITS_OWN = {"policy_policyrevision_step", "auth_user_password_change"}
"""URLs beside those that each model has. The first two ask as the page of policies does; the last what changing the user asks."""
REGISTRY = {model._meta.label_lower: site for model, site in admin.site._registry.items()}


def test_no_model_is_forgotten_and_each_asks_the_rule() -> None:
    assert REGISTRY.keys() == MODELS.keys()
    assert all(isinstance(site, RuledAdmin) for site in REGISTRY.values())


def test_no_url_of_the_admin_is_forgotten() -> None:
    def of(site: Any) -> Iterator[str]:
        usual = {
            f"{site.opts.app_label}_{site.opts.model_name}_{view}"
            for view in ("changelist", "add", "history", "delete", "change")
        }
        yield from ({str(url.name) for url in site.get_urls() if isinstance(url, URLPattern) and url.name} - usual)

    assert {name for site in REGISTRY.values() for name in of(site)} == OF_ITS_OWN


@pytest.mark.parametrize("label", MODELS)
def test_each_may_what_its_role_says_with_its_teams_rows_alone(world: World, label: str) -> None:
    row, site = MODELS[label], REGISTRY[label]
    for person in PEOPLE:
        request = RequestFactory().get("/admin/")
        request.user = world.user(person)
        sees = person == "administrator" or (person not in ("nobody", "tenant") and row.looks)
        assert site.has_view_permission(request) == site.has_module_permission(request) == sees, person
        for team in (MINE, THEIRS):
            thing = world.of[team].get(row.of)
            may = {name for name in ("change", "delete") if getattr(site, f"has_{name}_permission")(request, thing)}
            may |= {"add"} if site.has_add_permission(request) else set()
            given = row.administrator if person == "administrator" else row.owners if person == "owner" else ""
            assert may == {
                each for each in given.split() if each == "add" or team == MINE or person == "administrator"
            }, (person, team)
            for inline in site.get_inline_instances(request, thing):
                assert isinstance(inline, RuledInline)
                changes = inline.has_change_permission(request, thing) or inline.has_add_permission(request, thing)
                assert not changes or "change" in may or (thing is None and "add" in may), (person, team)


@pytest.mark.parametrize("label", MODELS)
def test_each_list_and_each_form_opens_to_an_administrator(world: World, label: str) -> None:
    client, path = world.clients["administrator"], f"/admin/{label.replace('.', '/')}/"
    assert client.get(path).status_code == 200
    for row in REGISTRY[label].model.objects.all()[:1]:
        assert client.get(f"{path}{row.pk}/change/").status_code == 200
    assert client.get(f"{path}add/").status_code == (200 if "add" in MODELS[label].administrator else 403)


@pytest.fixture
def owner(world: World) -> Client:
    return world.clients["owner"]


def form_of(client: Client, path: str) -> dict[str, str]:
    """What a browser would send of the form at this path, unchanged."""
    response = client.get(path)
    form = response.context["adminform"].form
    sent: dict[str, str] = {}
    for part in (form, *(each.formset.management_form for each in response.context["inline_admin_formsets"]), *(
        each for inline in response.context["inline_admin_formsets"] for each in inline.formset.forms
    )):  # fmt: skip
        for bound in part:
            value = bound.value()
            if hasattr(bound.field.widget, "decompress"):
                for number, each in enumerate(bound.field.widget.decompress(value)):
                    sent[f"{bound.html_name}_{number}"] = "" if each is None else str(each)
            elif value is True:
                sent[bound.html_name] = "on"
            elif value is not None and value is not False:
                sent[bound.html_name] = value if isinstance(value, list) else str(value)
    return sent


def post(client: Client, path: str, **values: Any) -> int:
    with taken_back():
        answer = client.post(path, {**form_of(client, path), **values})
        if answer.status_code == 200:
            raise AssertionError(answer.context["errors"])
        return answer.status_code


def test_an_owner_changes_what_is_the_teams(world: World, owner: Client) -> None:
    mine = world.of[MINE]
    assert post(owner, f"/admin/fleet/llmmodel/{mine['model'].pk}/change/", max_prompt_tokens="99") == 302
    assert post(owner, f"/admin/slo/storedobjective/{mine['objective'].pk}/change/", target="0.8") == 302
    assert post(owner, f"/admin/slo/maintenance/{mine['maintenance'].pk}/change/", reason="more patches") == 302
    assert post(owner, f"/admin/fleet/gatewaykey/{mine['key'].pk}/change/", requests_per_minute="9") == 302


MOVES = [
    ("fleet/llmmodel", "model", "team", "team"),
    ("fleet/variant", "variant", "model", "model"),
    ("fleet/pool", "pool", "variant", "variant"),
    ("fleet/replica", "replica", "pool", "pool"),
    ("fleet/gatewaykey", "key", "tenant", "tenant"),
    ("fleet/timeoutrule", "timeout", "model", "model"),
    ("slo/storedobjective", "objective", "owner", "team"),
    ("slo/maintenance", "maintenance", "objectives", "objective"),
    ("delivery/destination", "destination", "team", "team"),
    ("delivery/destination", "destination", "fallback", "destination"),
    ("planning/poolcapacity", "capacity", "pool", "pool"),
    ("planning/plannedevent", "event", "model", "model"),
]
"""The page, what is changed there, by which field, and to what of the other team."""


@pytest.mark.parametrize(("page", "of", "field", "to"), MOVES)
def test_nothing_is_moved_to_another_team_nor_taken_from_it(
    world: World, owner: Client, page: str, of: str, field: str, to: str
) -> None:
    mine, theirs = world.of[MINE], {**world.of[THEIRS], "team": Team.objects.get(name=THEIRS)}
    value = theirs[to].name if of == "event" else str(theirs[to].pk)
    path = f"/admin/{page}/{mine[of].pk}/change/"
    with taken_back():  # a pool has one capacity, and a model one rule of timeouts
        for single in ("capacity", "timeout"):
            type(theirs[single])._default_manager.filter(pk=theirs[single].pk).delete()
        assert post(owner, path, **{field: value}) == 403
    shown = owner.get(f"/admin/{page}/{theirs[of].pk}/change/")
    assert shown.status_code == 200 and "adminform" in shown.context and not shown.context["has_change_permission"]
    assert owner.post(f"/admin/{page}/{theirs[of].pk}/change/", {}).status_code == 403
    assert owner.post(f"/admin/{page}/{theirs[of].pk}/delete/", {"post": "yes"}).status_code == 403
    with taken_back():
        both = {"action": "delete_selected", "_selected_action": [mine[of].pk, theirs[of].pk], "post": "yes"}
        assert owner.post(f"/admin/{page}/", both).status_code == 403
        assert type(theirs[of])._default_manager.filter(pk__in=[mine[of].pk, theirs[of].pk]).count() == 2


@pytest.mark.parametrize(
    ("page", "action", "of"),
    [
        ("fleet/llmmodel", "purge", "model"),
        ("delivery/destination", "send_test_page", "destination"),
        ("delivery/delivery", "send_again", "delivery"),
        ("policy/pause", "end_now", "pause"),
    ],
)
def test_an_action_does_nothing_where_one_of_its_rows_is_another_teams(
    world: World, owner: Client, page: str, action: str, of: str
) -> None:
    def run(*teams: str) -> int:
        with taken_back():
            chosen = [world.of[team][of].pk for team in teams]
            return owner.post(f"/admin/{page}/", {"action": action, "_selected_action": chosen}).status_code

    assert (run(MINE), run(MINE, THEIRS), run(THEIRS)) == (302, 403, 403)


def test_nothing_is_added_to_what_is_another_teams(world: World, owner: Client) -> None:
    """By inlines, and by the small windows that forms open for what they refer to."""
    mine, theirs = world.of[MINE], world.of[THEIRS]
    rows = {"variants-TOTAL_FORMS": "1", "variants-INITIAL_FORMS": "0", "variants-0-name": "stolen"}
    assert owner.post(f"/admin/fleet/llmmodel/{theirs['model'].pk}/change/", rows).status_code == 403
    path = f"/admin/fleet/llmmodel/{mine['model'].pk}/change/"
    fallback = {"fallbacks-TOTAL_FORMS": "2", "fallbacks-1-pool": str(theirs["pool"].pk), "fallbacks-1-position": "2"}
    assert post(owner, path, **fallback) == 403
    for popup in ("", "?_popup=1"):
        added = {"name": "new", "model": str(theirs["model"].pk)}
        assert post(owner, f"/admin/fleet/variant/add/{popup}", **added) == 403
        assert post(owner, f"/admin/fleet/variant/add/{popup}", **{**added, "model": str(mine["model"].pk)}) in (
            200,
            302,
        )
    assert not Variant.objects.filter(name__in=["stolen", "new"]).exists()
    assert Fallback.objects.count() == 2


@pytest.mark.parametrize("field", ["semantic_embedder", "semantic_judge"])
def test_another_teams_model_is_asked_once_its_owner_has_said_so(world: World, owner: Client, field: str) -> None:
    """It costs that team, and sees the texts. Whoever names it may do both; what else the model has stays its own team's."""
    mine, theirs = world.of[MINE]["model"], world.of[THEIRS]["model"]
    path = f"/admin/fleet/llmmodel/{mine.pk}/change/"
    assert post(owner, path, **{field: str(theirs.pk)}) == 403
    with taken_back():
        assert post(world.clients["administrator"], path, **{field: str(theirs.pk)}) == 302
        type(mine).objects.filter(pk=mine.pk).update(**{field: theirs})
        assert post(owner, path, max_prompt_tokens="99") == post(owner, path, **{field: ""}) == 302


def test_secrets_and_clusters_are_not_an_owners_to_name(world: World, owner: Client) -> None:
    pool = world.of[MINE]["pool"]
    with taken_back():
        path = f"/admin/fleet/pool/{pool.pk}/change/"
        sent = {
            **form_of(owner, path),
            "credential": "theirs",
            "workload": "theirs",
            "headers": '{"a": "secret:b"}',
            "weight": "7",
        }
        assert owner.post(path, sent).status_code == 302
        changed = Pool.objects.get(pk=pool.pk)
        assert (changed.weight, changed.credential, changed.workload, changed.headers) == (7, "", "", {})


def test_no_page_that_is_only_looked_at_shows_a_secret(world: World) -> None:
    client = world.clients["administrator"]
    with taken_back():
        row = CallbackSecret(tenant="acme")
        row.secret = "whsec_of_acme"
        row.save()
        shown = client.get(f"/admin/lane/callbacksecret/{row.pk}/change/").content.decode()
    assert "acme" in shown and "whsec" not in shown
    client = world.clients["viewer"]
    for label, of in ((label, row.of) for label, row in MODELS.items() if row.of and row.looks):
        page = client.get(f"/admin/{label.replace('.', '/')}/{world.of[MINE][of].pk}/change/")
        assert page.status_code == 200 and not page.context["has_change_permission"], label
        assert "https://serving.example" not in page.content.decode(), label


@pytest.mark.parametrize("person", ["owner", "approver", "responder"])
def test_nobody_gives_himself_a_role_or_a_token(world: World, person: str) -> None:
    client, me = world.clients[person], world.user(person)
    before = (Membership.objects.count(), ApiToken.objects.count(), Team.objects.get(name=MINE).requires_approval)
    team = Team.objects.get(name=THEIRS).pk
    for path, sent in (
        ("accounts/membership/add/", {"team": team, "user": me.pk, "role": "owner"}),
        (f"accounts/membership/{me.memberships.get().pk}/change/", {"team": team, "user": me.pk, "role": "owner"}),
        ("accounts/apitoken/add/", {"name": "x", "user": world.people["administrator"].pk, "scopes": ["admin"]}),
        (f"auth/user/{me.pk}/change/", {"username": me.username, "is_superuser": "on"}),
        (
            f"auth/user/{world.people['administrator'].pk}/password/",
            {"password1": "correct horse battery", "password2": ""},
        ),
        (f"fleet/team/{Team.objects.get(name=MINE).pk}/change/", {"name": MINE, "memberships-TOTAL_FORMS": "1"}),
        (f"fleet/tenant/{world.of[MINE]['tenant'].pk}/change/", {"name": "mine"}),
    ):
        assert client.post(f"/admin/{path}", sent).status_code == 403, path
    assert (
        Membership.objects.count(),
        ApiToken.objects.count(),
        Team.objects.get(name=MINE).requires_approval,
    ) == before
    assert not world.user(person).is_superuser
