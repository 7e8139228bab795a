"""`GET /api/v1/explain`: the larger model's queue grows in the served traffic, and that is what it must say."""

import numpy as np
import pytest
from django.test import Client

from controlplane.telemetry.store.read import sample
from controlplane.telemetry.store.tiers import SAMPLED
from tests.support.web.api import get
from tests.support.web.served import Filled


def test_it_names_the_model_and_the_stage_that_make_the_slow_ones_slow(caller: Client, served: Filled) -> None:
    found = get(caller, "explain", **served.range)
    first = found["findings"][0]
    assert (first["dimension"], first["value"], first["stage"]) == ("model", "chat-large", "queue")
    assert found["nothing"] is None
    assert found["stages"][0]["stage"] == "queue"
    assert {"dimension": "pool", "value": "chat-large-local"} in first["same_as"]
    assert [each["share"] for each in found["findings"]] == sorted(
        (each["share"] for each in found["findings"]), reverse=True
    )


def test_by_default_the_slow_are_those_above_p95_and_counts_are_exact(caller: Client, served: Filled) -> None:
    found = get(caller, "explain", **served.range)
    bound = found["region"]["e2e_from_ms"]
    slow = [row for row in served.answered if row.e2e_ns / 1e6 >= bound]
    assert (found["chosen"], found["rest"]) == (len(slow), len(served.answered) - len(slow))
    assert 0.03 < found["chosen"] / len(served.answered) <= 0.05
    first = found["findings"][0]
    assert first["chosen"] == sum(row.model == "chat-large" for row in slow)
    assert set(first["trace_ids"]) <= {row.trace_id for row in slow if row.model == "chat-large"} != set()


def test_of_many_requests_it_says_of_which_sample_its_figures_are(
    caller: Client, served: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = get(caller, "explain", **served.range, above="p50")
    assert (whole["one_in"], whole["causes_one_in"]) == (1, 1)
    monkeypatch.setattr(sample, "MAX_READ", len(served.rows) // 4)
    found = get(caller, "explain", **served.range, above="p50")
    assert (found["one_in"], found["causes_one_in"]) == (SAMPLED, SAMPLED)
    assert 0 < found["chosen"] + found["rest"] < len(served.answered) / 4
    assert found["stages"][0]["stage"] == whole["stages"][0]["stage"]


def test_its_means_and_stages_are_those_of_the_rows(caller: Client, served: Filled) -> None:
    found = get(caller, "explain", **served.range, slower_than_ms=1000)
    slow = [row for row in served.answered if row.e2e_ns >= 10**9]
    rest = [row for row in served.answered if row.e2e_ns < 10**9]
    assert found["chosen"] == len(slow) > 0
    difference = float(np.mean([row.e2e_ns for row in slow]) - np.mean([row.e2e_ns for row in rest])) / 1e6
    assert found["difference_ms"] == pytest.approx(difference)
    assert sum(stage["ms"] for stage in found["stages"]) == pytest.approx(difference)
    assert sum(stage["share"] for stage in found["stages"]) == pytest.approx(1, abs=1e-4)


def test_a_region_of_the_chart_is_compared_with_all_the_rest(caller: Client, served: Filled) -> None:
    middle = (served.from_ns + served.to_ns) // 2
    region = {"region_from": middle, "region_to": served.to_ns, "e2e_from_ms": 500, "e2e_to_ms": 5000}
    found = get(caller, "explain", **served.range, **region)
    inside = [row for row in served.answered if row.entry_start_ns >= middle and 500e6 <= row.e2e_ns < 5000e6]
    assert (found["chosen"], found["rest"]) == (len(inside), len(served.answered) - len(inside))
    assert found["region"] == {"e2e_from_ms": 500, "e2e_to_ms": 5000, "from_ns": middle, "to_ns": served.to_ns}


def test_filters_narrow_both_sides(caller: Client, served: Filled) -> None:
    found = get(caller, "explain", **served.range, model="chat-small")
    assert found["chosen"] + found["rest"] == len(served.of(model="chat-small", status="ok"))
    assert len(get(caller, "explain", **served.range, limit=1)["findings"]) == 1
