"""A page read as a person reads it, with everything known, and with little."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.incidents.attribution.core import alert_record
from controlplane.incidents.notify.core import page_text
from controlplane.slo.core.sli import Availability, Cost, Latency
from tests.support.incidents.alerts import NOW, TTFT, UP, alert

AT = int(NOW.timestamp()) * 10**9
MINUTE = 60 * 10**9


def segment(dimension: str, value: str, bad: float, rest: float) -> dict[str, Any]:
    return {"dimension": dimension, "value": value, "chosen_share": bad, "rest_share": rest}


ATTRIBUTION: dict[str, Any] = {
    "from_ns": AT - 60 * MINUTE,
    "to_ns": AT,
    "since_ns": AT - 15 * MINUTE,
    "value": 142.3,
    "bad": 310,
    "total": 2040,
    "stages": [{"stage": "queue", "share": 0.68, "ns": 3e7}, {"stage": "model", "share": 0.27, "ns": 1e7}],
    "segments": [segment("pool", "chat-large", 0.97, 0.5), segment("prompt_bucket", "4096-8191", 0.81, 0.2)],
    "traces": ["a" * 32],
    "causes": [],
}
FACTS = page_text.Facts(
    name=TTFT.name,
    definition=alert_record.definition(TTFT),
    scope={"model": "chat", "tier": "premium"},
    burning=alert_record.burning(alert()),
    attribution=ATTRIBUTION,
    changes=[{"summary": "policy revision 14", "at_ns": AT - 16 * MINUTE, "link": "", "identity": "p/14"}],
    resolves="resolves once no window has burned too fast for 2 min",
    owner="serving",
    runbook="https://runbooks.example.com/chat-ttft",
)


def test_the_page_says_stage_segment_since_when_owner_and_runbook() -> None:
    assert page_text.summary(FACTS) == (
        "premium chat TTFT p95 is 142 ms against 100 ms; 68 % of the burn is queue time on prompts of 4-8k tokens in pool "
        "chat-large, since policy revision 14 (02:14 UTC); 31 % of the budget left, used up in 2 h; owner: serving; "
        "https://runbooks.example.com/chat-ttft"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"changes": []}, "in pool chat-large, since 02:15 UTC;"),
        ({"changes": [{"summary": "deployment of gateway 2.1", "at_ns": AT - 35 * MINUTE}]},
         "since 02:15 UTC, after deployment of gateway 2.1 (01:55 UTC);"),
        ({"segments": []}, "68 % of the burn is queue time, since"),
        ({"segments": [segment("tier", "batch", 0.3, 0.1)]}, "68 % of the burn is queue time, since"),
        ({"segments": [segment("pool", "", 1.0, 0.0)]}, "68 % of the burn is queue time of requests whose pool is not known, since"),
        (
            {"segments": [segment("prompt_bucket", "", 1.0, 0.0), segment("pool", "", 1.0, 0.0)]},
            "68 % of the burn is queue time of requests whose prompt length and pool are not known, since",
        ),
        ({"stages": [{"stage": "queue", "share": 0.15}]}, "no single stage stands out on prompts"),
        ({"since_ns": None},
         "in pool chat-large, since when is not known, the last change before was policy revision 14 (02:14 UTC); 31 %"),
        ({"since_ns": None, "changes": []}, "in pool chat-large; 31 %"),
        ({"value": None}, "TTFT p95 burns its budget 18 times too fast over 1 h and 5 min;"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_left_out_and_nothing_else(change: dict[str, Any], expected: str) -> None:
    changes = change.pop("changes", FACTS.changes)
    assert expected in page_text.summary(replace(FACTS, changes=changes, attribution={**ATTRIBUTION, **change}))


def test_without_the_store_it_says_so() -> None:
    bare = replace(FACTS, attribution=None, changes=(), missing="the store does not answer", owner="", runbook="")
    assert page_text.summary(bare) == (
        "premium chat TTFT p95 burns its budget 18 times too fast over 1 h and 5 min; stage and segment not known (the store "
        "does not answer); 31 % of the budget left, used up in 2 h; no owner; no runbook"
    )


@pytest.mark.parametrize(
    ("indicator", "value", "expected"),
    [
        (
            Availability(),
            0.9312,
            "premium chat availability is 93.1 % against 95 %; 68 % of the failures are in queue on",
        ),
        (Cost(0.002), 0.0035, "premium chat cost per 1,000 tokens p95 is 0.0035 USD against 0.002 USD; on prompts"),
        (Latency("itl", 40), 51.0, "premium chat ITL p95 is 51.0 ms against 40 ms;"),
        (Latency("queue", 1500), 61_000.0, "premium chat queue time p95 is 61.0 s against 1.5 s;"),
    ],
)
def test_each_kind_of_objective_in_its_unit(indicator: Any, value: float, expected: str) -> None:
    definition = alert_record.definition(replace(TTFT, indicator=indicator))
    assert expected in page_text.summary(
        replace(FACTS, definition=definition, attribution={**ATTRIBUTION, "value": value})
    )


@pytest.mark.parametrize(
    ("state", "resolves", "expected"),
    [
        ("firing", "later", "TTFT p95 was 142 ms against 100 ms at opening, 180 ms at worst, 81.6 ms now; 68 %"),
        ("quiet", "", "was 142 ms against 100 ms at opening, 180 ms at worst, 81.6 ms when it was resolved; 68 %"),
        (
            "unknown",
            "",
            "was 142 ms against 100 ms at opening, 180 ms at worst, 81.6 ms when it was last measured; 68 %",
        ),
        (
            "unknown",
            "later",
            "was 142 ms against 100 ms at opening, 180 ms at worst, 81.6 ms when it was last measured; what it is now is not known;",
        ),
    ],
)
def test_the_title_keeps_the_value_at_opening_and_the_worst(state: str, resolves: str, expected: str) -> None:
    burning = {**FACTS.burning, "state": state, "value": 81.6, "worst": 180.0}
    said = page_text.summary(replace(FACTS, burning=burning, resolves=resolves))
    assert expected in said
    assert "is 81.6 ms against" not in said


def test_an_incident_of_errors_names_the_error_first() -> None:
    definition = alert_record.definition(replace(TTFT, indicator=Availability()))
    errors = [{"error_type": "queue_full", "http_status": 503, "stage": "queue", "requests": 82, "tenant": "acme"}]
    attribution = {**ATTRIBUTION, "value": 0.9312, "bad": 100, "errors": errors, "segments": []}
    facts = replace(FACTS, definition=definition, attribution=attribution)
    said = "is 93.1 % against 95 %; 82 % of the failures are 503 queue_full in queue for tenant acme, since"
    assert said in page_text.summary(facts)
    assert page_text.details(facts)["errors"] == ["503 queue_full in queue for tenant acme: 82"]


def test_99_95_is_not_rounded_to_a_target_that_nobody_promised() -> None:
    definition = alert_record.definition(replace(UP, target=0.9995))
    facts = replace(FACTS, definition=definition, attribution={**ATTRIBUTION, "value": 0.99})
    assert "is 99 % against 99.95 %" in page_text.summary(facts)


def test_a_spent_budget_is_said_to_be_gone() -> None:
    assert page_text.budget({"left_share": -0.12, "lasts_s": 0.0}) == "the budget is used up (112 % spent)"
    assert page_text.budget({"left_share": -999.0, "lasts_s": 0.0}) == "the budget is used up (1 000 times spent)"
    assert page_text.budget({"left_share": 0.5, "lasts_s": None}) == "50 % of the budget left"
    measured = "50 % of the budget left, as far as measured: 10 min of the period are not"
    assert page_text.budget({"left_share": 0.5, "unmeasured_s": 600}) == measured


def test_a_scope_of_everything_but_a_model_is_put_in_words() -> None:
    scope = {"pool": "p1", "region": "eu", "tenant": "acme", "prompt_bucket": "131072+"}
    expected = "all traffic TTFT p95 in pool p1 in eu for tenant acme on prompts of 128k+ tokens"
    assert page_text.subject(replace(FACTS, scope=scope)) == expected


def test_the_summary_fits_into_a_page_whatever_the_names() -> None:
    long = replace(FACTS, runbook="https://x.example/" + "r" * 3000)
    assert len(page_text.summary(long)) == page_text.MAX_SUMMARY_CHARS
    assert page_text.summary(long).startswith("premium chat TTFT p95 is 142 ms against 100 ms")


def test_the_details_name_each_thing() -> None:
    details = page_text.details(FACTS)
    assert details["stages"] == ["queue 68 %", "model 27 %"]
    assert details["segments"][0] == "pool chat-large: 97 % of the bad requests, 50 % of the others"
    assert details["changed before"] == ["policy revision 14 at 2026-11-21 02:14 UTC"]
    assert details["bad requests"] == "310 of 2,040"
    assert "known causes" not in details, "what is empty is left out"


def test_only_addresses_become_links() -> None:
    found = page_text.links("https://weir/incidents/1", replace(FACTS, runbook="ask Tom"), "https://weir/latency", [])
    assert [link.text for link in found] == ["Incident", "Latency at that time"]


def test_requests_that_met_no_replica_are_said_to_have_met_none() -> None:
    found = {**ATTRIBUTION, "segments": [segment("replica", "", 1.0, 0.0)]}
    assert "of requests that no replica took" in page_text.blame(replace(FACTS, attribution=found))
    error = {"http_status": 429, "error_type": "queue_full", "stage": "queue", "tenant": "", "requests": 7}
    said = page_text.blame(replace(FACTS, attribution={**found, "errors": [error], "bad": 7}))
    assert said.startswith("100 % of the failures are 429 queue_full in queue, since"), "the stage says it"


def test_a_component_that_is_down_comes_before_the_stages() -> None:
    burning = {**FACTS.burning, "down": ["pool chat-large has 0 of 2 replicas up since 02:20:05 UTC"]}
    assert page_text.blame(replace(FACTS, burning=burning)).startswith(
        "pool chat-large has 0 of 2 replicas up since 02:20:05 UTC; 68 % of the burn is queue time"
    )
