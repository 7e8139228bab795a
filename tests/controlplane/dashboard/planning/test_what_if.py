"""What-ifs as a page: scenarios in the URL, side by side, and the form that adds one."""

import re
from functools import partial
from urllib.parse import parse_qs, urlsplit

from django.test import Client

from controlplane.planning.models import GpuType, ReplicaCapacityEntry
from tests.support.web.html import shown

get = partial(shown, "/planning/what-if")


def test_the_usual_scenarios_stand_side_by_side_and_an_empty_one_means_none(
    reader: Client, planned: None, served: object
) -> None:
    status, text = get(reader)
    assert status == 200
    for name in ("as forecast", "peak × 2", "outputs +30 %", "hit rate -10 points"):
        assert f'<th scope="col">{name}</th>' in text
    assert "would take" in text
    status, text = get(reader, scenario="")
    assert status == 200
    assert text.count('<th scope="col">') == 1


def test_pools_whose_capacity_is_not_known_are_not_compared(reader: Client, planned: None, served: object) -> None:
    ReplicaCapacityEntry.objects.all().delete()
    status, text = get(reader)
    assert status == 200
    assert "Not comparable:</strong> what a replica carries is not known of " in text
    assert "No scenario takes more" not in text


def test_the_url_holds_every_scenario_and_one_without_a_plan_says_why(
    reader: Client, planned: None, served: object
) -> None:
    status, text = get(reader, scenario=["lost=us", "gpu=a100;peak=1.5"], hours="24")
    assert status == 200
    assert '<th scope="col">us lost</th>' in text
    assert '<th scope="col">peak × 1.5, on a100</th>' in text
    assert '<th scope="col">outputs +30 %</th>' not in text
    status, text = get(reader, scenario=["lost=moon", "peak=2"])
    assert status == 200
    assert "use a region that has a pool, eu, us" in text
    assert '<th scope="col">peak × 2</th>' in text


def test_a_gpu_without_a_price_is_not_free(reader: Client, planned: None, served: object) -> None:
    def costs() -> list[str]:
        text = get(reader, scenario="gpu=l40s")[1]
        row = re.search(r'<th scope="row">cost</th>(.*?)</tr>', text, re.DOTALL)
        return re.findall(r"<td><strong>(.*?)</strong>(.*?)</td>", row[1], re.DOTALL) if row else []

    GpuType.objects.create(name="l40s", usd_per_hour=0)
    [as_forecast, other] = costs()
    assert "USD" in as_forecast[0] and other == ("no price", "")
    GpuType.objects.filter(name="l40s").update(usd_per_hour=1)
    assert costs()[1][0].endswith("USD")


def test_the_form_becomes_one_more_scenario_and_adds_nothing_without_changes(
    reader: Client, planned: None, served: object
) -> None:
    response = reader.get(
        "/planning/what-if",
        {
            "hours": "24",
            "scenario": "peak=2",
            "outputs_percent": "30",
            "hit_rate": "-10",
            "lost": "us",
            "launch_model": "chat-large",
            "launch_rps": "50",
            "launch_date": "2026-12-03",
        },
    )
    assert response.status_code == 302
    query = parse_qs(urlsplit(response["Location"]).query)
    assert query["scenario"] == ["peak=2", "outputs=1.3;hit_rate=-10;lost=us;launch=chat-large:50:2026-12-03"]
    response = reader.get("/planning/what-if", {"scenario": "peak=2", "launch_model": "chat-large"})
    assert parse_qs(urlsplit(response["Location"]).query)["scenario"] == ["peak=2"]
