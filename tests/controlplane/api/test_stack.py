"""`GET /api/v1/stack`."""

from django.test import Client
from django.utils import timezone

from controlplane.fleet.models import Observation
from tests.support.web.served import Filled


def rows(client: Client) -> dict[str, dict[str, object]]:
    return {row["component"]: row for row in client.get("/api/v1/stack").json()["rows"]}


def test_what_was_never_observed_is_unknown_and_not_zero(caller: Client, served: Filled) -> None:
    found = rows(caller)
    assert set(found) == {"gateway", "redis", "telemetry", "worker", "controller", "paging"}
    assert found["redis"]["state"] == "unknown"
    assert found["redis"]["rate_per_s"] is None


def test_what_was_just_observed_is_shown_with_its_age(caller: Client, served: Filled) -> None:
    Observation.objects.create(
        component="redis", kind="cache", state="up", figures={"commands_per_s": 12.0}, observed_at=timezone.now()
    )
    found = rows(caller)["redis"]
    assert (found["state"], found["rate_per_s"]) == ("up", 12.0)
    assert isinstance(found["age_s"], float)


def test_the_gateways_latency_is_what_the_ledger_saw(caller: Client, fresh: Filled) -> None:
    assert rows(caller)["gateway"]["p95_ms"] is not None


def test_a_store_that_is_away_leaves_what_was_observed(caller: Client, away: None) -> None:
    Observation.objects.create(component="gateway", kind="gateway", state="up", figures={}, observed_at=timezone.now())
    found = rows(caller)["gateway"]
    assert (found["state"], found["p95_ms"]) == ("up", None)
