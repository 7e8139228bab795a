"""The overview's cards of components."""

from django.test import Client

from controlplane.dashboard.views.overview import figures
from controlplane.fleet.core.stack import Row
from tests.support.web.served import Filled


def test_a_rate_that_a_card_begins_with_is_not_listed_again() -> None:
    row = Row(
        "telemetry", "Telemetry", "telemetry", "up", rate_per_s=12.0, figures={"spans_per_s": 12.0, "spool_bytes": 3e6}
    )
    assert [name for name, _ in figures(row)] == ["spool"]


def test_a_table_by_replica_says_which_attempt_counts(reader: Client, served: Filled) -> None:
    said = "counts for the replica of its last attempt"
    assert said in reader.get("/latency", {**served.range, "by": "replica"}).content.decode()
    assert said not in reader.get("/latency", {**served.range, "by": "model"}).content.decode()
