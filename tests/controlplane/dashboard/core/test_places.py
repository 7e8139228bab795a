"""Ctrl+K: places by any of their names, the likeliest first."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.dashboard.core.places import KINDS, MAX_PLACES, Place, places_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.save import save_objective
from tests.support.web.html import html_of
from tests.support.web.served import Filled

PLACES = [
    Place("Latency", "page", "/latency", "ttft slow"),
    Place("chat-small", "objective", "/objectives/chat-small", "chat-small ttft"),
    Place("chat-small", "model", "/latency?model=chat-small"),
    Place("chat-small-local", "pool", "/latency?pool=chat-small-local"),
    Place("vllm:time_to_first_token_seconds", "metric", "/signals?metric=vllm:time_to_first_token_seconds"),
    Place("Paging: Destinations", "setting", "/admin/destinations", "admin edit"),
]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("chat-small", ["model", "objective", "pool"]),
        ("Chat small", ["model", "objective", "pool"]),
        ("ttft", ["page", "objective", "metric"]),
        ("time to first token", ["page", "objective", "metric"]),
        ("destin", ["setting"]),
        ("small pool", ["pool"]),
        ("nothing of the kind", []),
    ],
)
def test_a_few_letters_find_a_place_by_any_of_its_names(text: str, kinds: list[str]) -> None:
    assert [place.kind for place in places_of(text, PLACES)] == kinds


def test_without_letters_pages_come_first_and_there_are_not_too_many() -> None:
    shown = places_of("", [Place(f"m{n}", "model", "/") for n in range(30)] + PLACES)
    assert len(shown) == MAX_PLACES
    assert shown[0].kind == "page"
    assert all(place.kind in KINDS for place in PLACES)


def test_objectives_models_and_settings_are_found_and_a_model_keeps_the_other_filters(
    reader: Client, served: Filled, django_user_model: type[User]
) -> None:
    save_objective(
        Objective("chat-small", "chat-small", Latency("ttft", 300), 0.95, scope={"model": "chat-small"}), who="t"
    )
    query = {"text": "chat-small", "from": "now-1h", "to": "now", "tenant": "support", "model": "other"}
    shown = html_of(reader.get("/quick", query))
    model, objective = shown.index("/latency?from=now-1h"), shown.index("/objectives/chat-small")
    assert model < objective
    assert "model=chat-small&amp;tenant=support" in shown
    assert "/objectives/chat-small" in html_of(reader.get("/quick", {"text": "time to first token"}))
    staff = Client()
    staff.force_login(django_user_model.objects.create_superuser("boss"))
    for text, by_all in (("destinations", True), ("memberships", False)):
        assert "/admin/" in html_of(staff.get("/quick", {"text": text}))
        assert ("/admin/" in html_of(reader.get("/quick", {"text": text}))) is by_all
