"""The plan by hour as a page: what binds, what is short, and how it answers what cannot be."""

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from django.test import Client

from controlplane.core.formatting import TEXT
from controlplane.fleet.models import Pool, Replica
from controlplane.lane.models import Batch
from controlplane.lane.objects.folder import Folder
from controlplane.planning.inputs import plan_inputs
from controlplane.planning.models import GpuType, PlanSettings, PoolCapacity, ReplicaCapacityEntry
from controlplane.planning.questions import this_hour_s
from forecasting.capacity.replicas import make_plan
from tests.support.lane.stored import begun
from tests.support.planning.fleet import plan_fleet
from tests.support.web.html import shown

get = partial(shown, "/planning/plan")


def test_every_pool_says_what_binds_and_what_it_costs(reader: Client, planned: None, served: object) -> None:
    status, text = get(reader)
    assert status == 200
    for pool in ("chat-large-eu", "chat-large-us", "chat-small-eu", "chat-small-us"):
        assert f">{pool}</a>" in text
    assert "capacity not known 24 h" in text
    assert "room for queueing" in text or "● demand" in text.replace("</span>", "")
    assert "a benchmark run" in text and "USD" in text
    assert 'id="figure"' in text


def test_what_is_not_known_is_said_first_and_is_no_figure(reader: Client, planned: None, served: object) -> None:
    """One of the pools has no known capacity: no total counts it, and it is not "never short"."""
    plain = re.sub(r"<[^>]+>", "", get(reader)[1])
    [unknown] = re.findall(r"not known what a replica of (\S+) carries", plain)
    row = next(row for row in re.findall(r"<tr data-row.*?</tr>", get(reader)[1]) if f">{unknown}</a>" in row)
    assert "○ not known" in row and "never" not in row
    assert "USD" not in row and "GPU-hours" not in row
    alone = re.sub(r"<[^>]+>", "", get(reader, pool=unknown)[1])
    assert "○ 1 of 4 pools cannot be planned" in plain and "○ Nothing can be planned: it is" in alone
    assert "need at most" not in alone
    assert f"--into-fleet {unknown} measures and enters it" in plain and "--into-fleet chat-large-eu" not in plain


def test_work_that_can_wait_is_a_row_and_a_series(reader: Client, planned: None, served: object, home: Path) -> None:
    assert "Work that can wait" not in get(reader)[1]
    Batch.objects.filter(pk=begun(Folder(home / "lane"), 1).pk).update(model="chat-large", total=1_000)
    table = get(reader)[1].partition('aria-label="Work that can wait"')[2]
    assert "chat-large-eu" in table and "lines fit beside the demand" in table
    assert "busy with lines" in table.partition('id="figure"')[2]
    [work] = [each for each in reader.get("/api/v1/planning/plan").json()["work"] if each["pool"] == "chat-large-eu"]
    assert work["is_known"] and len(work["added"]) == 26 and not any(work["added"])


def day(text: str, at: int) -> list[str]:
    """A row of the table by day: day, demand, GPUs, GPU-hours, cost, short."""
    table = text[text.index('aria-label="Days"') :].partition("</table>")[0]
    row = re.findall(r"<tr><th.*?</tr>", table.partition("<tbody>")[2])[at]
    return [
        re.sub(r"<[^>]+>", "", cell).strip().replace("\u202f", " ") for cell in re.findall(r"<t[hd].*?</t[hd]>", row)
    ]


def test_a_coming_day_has_its_gpus_and_its_price(reader: Client, planned: None, served: object) -> None:
    start_s = this_hour_s()
    made = next(each for each in make_plan(plan_inputs(start_s, 168, 0.9)).pools if each.pool == "chat-large-eu")
    first = 24 - start_s // 3600 % 24
    hours = [made.hour(at) for at in range(first, first + 24)]
    name, demand, gpus, gpu_hours, cost, _ = day(get(reader, pool="chat-large-eu", hours="168")[1], 1)
    assert name == f"{datetime.fromtimestamp(hours[0].start_s, UTC):%a %Y-%m-%d}"
    assert demand == TEXT.rate(max(hour.requests_per_s or 0 for hour in hours))
    assert gpus == f"{max(hour.replicas for hour in hours)} × h100"
    assert gpu_hours == TEXT.number(sum(hour.gpu_hours for hour in hours))
    assert cost == TEXT.usd(sum(hour.cost_usd for hour in hours)) != "0.00 USD"


def test_a_day_of_pools_that_lack_a_capacity_or_a_price_says_so(reader: Client, planned: None, served: object) -> None:
    _, _, gpus, gpu_hours, cost, short = day(get(reader, hours="168")[1], 1)
    assert all(cell.startswith("≥ ") for cell in (gpus, gpu_hours, cost)) and "not known" in short
    assert day(get(reader, hours="168", pool="chat-small-us")[1], 1)[2:] == [
        "not known",
        "not known",
        "not known",
        "○ not known",
    ]
    GpuType.objects.update(usd_per_hour=0)
    assert day(get(reader, hours="168")[1], 1)[4] == "no price"
    GpuType.objects.create(name="l40s", usd_per_hour=1)
    PoolCapacity.objects.filter(pool__name="chat-large-us").update(gpu_type=GpuType.objects.get(name="l40s"))
    ReplicaCapacityEntry.objects.filter(pool__pool__name="chat-large-us", gpu_type__name="h100").update(
        gpu_type=GpuType.objects.get(name="l40s")
    )
    text = get(reader, hours="168", region="us", pool=["chat-large-us"])[1]
    assert "USD" in day(text, 1)[4] and "≥" not in day(text, 1)[4]
    both = get(reader, hours="168", pool=["chat-large-us", "chat-large-eu"])[1]
    assert day(both, 1)[4].startswith("≥ ") and "× h100 and" in day(both, 1)[2] and "chat-large-eu has no price" in both


def test_a_pool_shows_the_reason_of_every_hour(reader: Client, planned: None, served: object) -> None:
    status, text = get(reader, pool="chat-large-eu", hours="72")
    assert status == 200
    table = text[text.index("chat-large-eu by hour") :]
    assert len(re.findall(r'<th scope="row">20\d\d-\d\d-\d\d \d\d:00</th>', table)) == 72
    assert "because" in table


def test_too_few_gpus_are_said_first(reader: Client, planned: None, served: object) -> None:
    from controlplane.planning.models import GpuQuota

    GpuQuota.objects.update(gpus=4)
    status, text = get(reader, region="eu")
    assert status == 200
    assert "do not carry the demand: GPU quota" in text


def test_without_a_level_in_the_url_it_is_that_of_the_settings(reader: Client, planned: None, served: object) -> None:
    PlanSettings.objects.create(level=0.95)
    assert "Planned for P95 of the demand" in get(reader)[1]
    assert "Planned for P50 of the demand" in get(reader, q="p50")[1]


def test_pools_without_forecasts_keep_their_warm_floor_and_say_why(reader: Client, served: object, db: None) -> None:
    plan_fleet()
    status, text = get(reader)
    assert status == 200
    assert "There is no forecast of demand yet" in text
    assert "warm floor 24 h" in text
    plain = " ".join(re.sub(r"<[^>]+>", "", text).split())
    assert (
        "○ The demand of the next 24 h is not known: there is no forecast of it. Until then the warm floor is kept, 6 replicas"
        in plain
    )
    for untrue in ("need at most", "never", "Planned for P90"):
        assert untrue not in plain


def test_replicas_that_run_are_not_late(reader: Client, served: object, db: None) -> None:
    plan_fleet()
    pool = Pool.objects.get(name="chat-large-eu")
    for number in range(2):  # the warm floor
        Replica.objects.create(pool=pool, name=f"r{number}", grpc=f"10.0.0.{number}:8001")
    text = get(reader, pool="chat-large-eu")[1]
    warm = text[text.index('aria-label="Warm plan"') :].partition("</table>")[0]
    assert "–: they run" in warm and "late" not in warm
    assert "now: it is late" in get(reader, pool="chat-large-us")[1]
