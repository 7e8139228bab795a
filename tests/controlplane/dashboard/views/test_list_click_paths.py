"""On the lists of objectives and incidents too: a click changes what it is about alone, and the list is of the filters it shows."""

import html
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from controlplane.fleet.models import Team
from controlplane.incidents.attribution.core.alert_record import burning, definition
from controlplane.incidents.models import Incident
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.models import ObjectiveState, StoredObjective
from controlplane.slo.save import save_objective
from tests.support.incidents.alerts import TTFT, UP, alert
from tests.support.slo.ticks import ticked
from tests.support.soak import sized
from tests.support.web.html import html_of
from tests.support.web.page_model import Click, Screen
from tests.support.web.people import on_call

pytestmark = pytest.mark.django_db
CLICKS = 4
ON_A_PAGE = 100
LIFTS = re.compile(r"clear filters|Lift the filters|show all")
OWNERS, MODELS = ("serving", "search & rank"), ("chat-large", "chat-small", "embed")
Rows = Mapping[str, Mapping[str, str]]
"""What each row is listed by, by the number it has on the screen, in the order of the list."""


def filled_objectives() -> Rows:
    """In every state, of every model, of a team or of none."""
    teams = [None, *(Team.objects.get_or_create(name=name)[0] for name in OWNERS)]
    at, rows = timezone.now(), {}
    states = ("firing", "quiet", "unknown", "disabled")
    for number in range(24):
        state, model, team = states[number % 4], MODELS[number % 3], teams[number // 4 % 3]
        slug = f"fast-{number}"
        save_objective(Objective(slug, f"Fast {number}", Latency("e2e", 1.0), 0.9, {"model": model}), who="olga")
        stored = StoredObjective.objects.filter(slug=slug)
        stored.update(owner=team, enabled=state != "disabled")
        if state in ("firing", "quiet"):
            ObjectiveState.objects.create(
                objective=stored.get(), key=f"{slug}/model={model}", scope={"model": model}, at=at, since=at, state=state,
                severity="page" if state == "firing" else "", document={"total": 10, "sli": 0.95, "budget": {"left_share": 0.5}},
            )  # fmt: skip
        key = f"{slug}model{model}" if state in ("firing", "quiet") else slug
        rows[key] = {"owner": team.name if team else "", "model": model, "state": state}
    return rows


def filled_incidents() -> Rows:
    """More than a page of those that are over, of every owner, severity, objective and component."""
    now, rows = timezone.now(), {}
    for number in range(150):
        status = ("resolved", "resolved", "resolved", "open", "acknowledged")[number % 5]
        row = {
            "severity": ("page", "ticket")[number % 2],
            "owner": ("", *OWNERS)[number % 3],
            "objective": ("", "fast", "up")[number % 3],
            "component": "" if number % 3 else "pool:chat-large",
        }
        opened = alert(TTFT if number % 3 == 1 else UP)
        model = MODELS[number % 3]
        stored = Incident.objects.create(
            alert_key=f"key{number}", notice_key=f"notice{number}", status=status, scope={"model": model}, group=f"{model} {row['owner']}",
            objective_name="Fast", opened_at=now - timedelta(minutes=number), burning=burning(opened) if number % 3 else {},
            definition=definition(opened.objective) if number % 3 else {"of": "pool"}, **row,
        )  # fmt: skip
        rows[str(stored.pk)] = {**row, "model": model, "status": "resolved" if status == "resolved" else "open"}
    return rows


def judged_now() -> None:
    """However slow the machine is: what was judged a while ago is unknown."""
    at = timezone.now()
    ticked(at)
    ObjectiveState.objects.update(at=at)


LISTS: Mapping[str, tuple[Callable[[], Rows], Mapping[str, tuple[str, ...]]]] = {
    "/objectives": (
        filled_objectives,
        {"owner": OWNERS, "model": MODELS, "state": ("firing", "unknown", "quiet", "disabled"), "compare": ("yesterday", "last-week")},
    ),
    "/incidents": (
        filled_incidents,
        {
            "status": ("resolved", "all"), "owner": OWNERS, "severity": ("page", "ticket"), "objective": ("fast", "up"),
            "component": ("pool:chat-large",), "model": MODELS,
        },
    ),
}  # fmt: skip
"""What is in each list, and what its URL can say."""


def asked(url: str) -> dict[str, str]:
    return {
        name: value for name, value in parse_qsl(urlsplit(url).query) if value and (name, value) != ("status", "open")
    }


def listed(rows: Rows, url: str) -> list[str]:
    """The rows that a URL asks for."""
    wanted = {name: value for name, value in asked(url).items() if name not in ("compare", "page")}
    if urlsplit(url).path == "/incidents":
        wanted = {"status": "open"} | wanted
    if wanted.get("status") == "all":
        del wanted["status"]
    return [key for key, row in rows.items() if all(row[name] == value for name, value in wanted.items())]


def look(screen: Screen, url: str, rows: Rows) -> None:
    """The filters that are shown are those of the URL, and the rows those of the filters."""
    shown = {name: value for name, value in (*screen.chosen(), *screen.hidden()) if value}
    assert shown == {name: value for name, value in asked(url).items() if name != "page"}, url
    expected = listed(rows, url)
    assert_summary(screen, url, rows)
    if screen.path == "/incidents":
        first = (int(asked(url).get("page", "1")) - 1) * ON_A_PAGE
        expected = expected[first : first + ON_A_PAGE]
    assert sorted(re.findall(r'<tr data-row id="row-([^"]*)"', screen.main)) == sorted(expected), url


def assert_summary(screen: Screen, url: str, rows: Rows) -> None:
    """The sentence counts what its filters let through; that of incidents what is open, whatever the list shows."""
    summary = screen.words('aria-label="Summary"', "</section>")
    if screen.path == "/incidents":
        pattern, name, value = r"(\d+) open pages?", "severity", "page"
        filters = {name: value for name, value in asked(url).items() if name not in ("status", "page")}
        url = f"/incidents?{urlencode(filters)}"
    else:
        pattern, name, value = r"▲ (\d+) of \d+ objectives? burn", "state", "firing"
    found = re.search(pattern, summary)
    assert (int(found[1]) if found else 0) == sum(rows[key][name] == value for key in listed(rows, url)), (url, summary)


def clicks_of(screen: Screen, url: str) -> list[Click]:
    clicks = [*(click for click in Screen(screen.path, screen.main).links([screen.path])), *screen.choices()]
    for click in clicks:
        before, after = asked(url), asked(click.url)
        if not LIFTS.search(click.says):
            changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} - {"page"}
            assert len(changed) <= 1, (url, click)
            assert changed == set() or "page" not in after, (url, click)
    return clicks


@pytest.mark.parametrize("path", LISTS)
def test_a_random_path_of_clicks_lists_what_its_filters_say(reader: Client, away: None, path: str) -> None:
    fill, names = LISTS[path]
    rows = fill()
    fresh = Client()
    fresh.force_login(on_call("another"))

    @settings(max_examples=sized(10, soak=500), suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(
        st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in names.items()}),
        st.lists(st.integers(0, 999), min_size=CLICKS, max_size=CLICKS),
    )
    def walk(begin: dict[str, str], numbers: list[int]) -> None:
        url = f"{path}?{urlencode(begin)}"
        for number in numbers:
            judged_now()
            response = reader.get(url)
            assert response.status_code == 200, url
            screen = Screen(path, html_of(response))
            look(screen, url, rows)
            clicks = clicks_of(screen, url)
            url = html.unescape(clicks[number % len(clicks)].url)
        judged_now()
        look(Screen(path, html_of(fresh.get(url))), url, rows)

    walk()
