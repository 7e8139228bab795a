"""A database of an earlier release keeps its incidents."""

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from controlplane.incidents.models import Incident

BEFORE, AFTER = [("incidents", "0006_components")], [("incidents", "0007_plain_names")]


def migrate(to: list[tuple[str, str]]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate(to)
    return executor.loader.project_state(to).apps


@pytest.mark.django_db(transaction=True)
def test_columns_and_kinds_of_entries_get_their_new_names_and_back() -> None:
    try:
        old = migrate(BEFORE)
        now = timezone.now()
        row = old.get_model("incidents", "Incident").objects.create(
            alert_key="a", notice_key="n", objective="a", group="g", severity="page", opened_at=now, told="page",
            withheld="easing", eased_since=now, gone_since=now, promise={"kind": "latency"},
        )  # fmt: skip
        for kind in ("opened", "told", "held", "eased"):
            row.entries.create(at=now, kind=kind)
        migrate(AFTER)
        incident = Incident.objects.get()
        assert (incident.queued_as, incident.withheld, incident.definition) == (
            "page",
            "downgraded",
            {"kind": "latency"},
        )
        assert incident.downgraded_since == incident.missing_since == now
        assert [entry.kind for entry in incident.entries.all()] == ["opened", "queued", "withheld", "downgraded"]
        again = migrate(BEFORE).get_model("incidents", "Incident").objects.get()
        assert (again.told, again.withheld, again.promise) == ("page", "easing", {"kind": "latency"})
        assert [entry.kind for entry in again.entries.order_by("id")] == ["opened", "told", "held", "eased"]
    finally:
        migrate(AFTER)
