"""The metrics of several processes as one page."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from inference.observability.families import Family, Sample, merge, render

counts = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 10**6), max_size=3)


def report(values: dict[str, int], kind: str = "counter", name: str = "weir_x") -> list[Family]:
    suffix = "_total" if kind == "counter" else ""
    return [Family(name, "Help.", kind, [Sample(f"{name}{suffix}", {"l": key}, n) for key, n in values.items()])]


def values(families: list[Family]) -> dict[str, float]:
    return {sample.labels["l"]: sample.value for family in families for sample in family.samples}


@given(st.lists(counts, min_size=1, max_size=4))
def test_counters_are_added_up_label_by_label(processes: list[dict[str, int]]) -> None:
    sums = {key: sum(each.get(key, 0) for each in processes) for each_of in processes for key in each_of}
    merged = merge(map(report, processes))
    assert values(merged) == sums
    assert values(merge([merged, report({})])) == sums


def test_gauges_are_added_up_unless_all_processes_say_the_same() -> None:
    def of(name: str) -> float:
        return values(merge([report({"a": 1}, "gauge", name), report({"a": 0}, "gauge", name)]))["a"]

    assert of("weir_gateway_requests_in_flight") == 1
    assert of("weir_gateway_replica_up") == 0  # one that cannot reach it counts
    assert of("weir_gateway_policy_stale") == 1


def test_the_newest_exemplar_stays_and_the_page_can_be_read() -> None:
    def at(second: float) -> list[Family]:
        exemplar = ({"trace_id": f"{second:g}"}, 0.1, second)
        bucket = Sample("weir_d_bucket", {"le": "+Inf"}, 1, exemplar)
        return [
            Family(
                "weir_d", "Help.", "histogram", [bucket, Sample("weir_d_count", {}, 1), Sample("weir_d_sum", {}, 0.1)]
            )
        ]

    page, content_type = render(merge([at(1), at(3), at(2)]), b"application/openmetrics-text")
    [family] = text_string_to_metric_families(page.decode())
    bucket, count, total = family.samples
    assert b"openmetrics" in content_type
    assert (bucket.value, count.value) == (3, 3)
    assert abs(total.value - 0.3) < 1e-9
    assert bucket.exemplar
    assert bucket.exemplar.labels == {"trace_id": "3"}
