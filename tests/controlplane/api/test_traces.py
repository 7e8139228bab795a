"""`GET /api/v1/traces/{trace_id}`."""

from django.test import Client

from tests.support.web.served import Filled


def test_a_trace_has_its_spans_and_the_ledger_of_its_request(caller: Client, served: Filled) -> None:
    row = max(served.rows, key=lambda row: row.span_count)
    found = caller.get(f"/api/v1/traces/{row.trace_id.upper()}").json()
    assert len(found["spans"]) == row.span_count
    [request] = found["requests"]
    assert (request["e2e_ns"], request["stages"]) == (row.e2e_ns, row.stages)
    assert sum(part["end_ns"] - part["start_ns"] for part in request["segments"]) == row.e2e_ns
    assert {part["span_id"] for part in request["segments"]} == set(request["critical_path"])
    assert {span["span_id"] for span in found["spans"]} >= set(request["critical_path"])


def test_an_unknown_trace_is_a_404_that_says_what_may_be(caller: Client, served: Filled) -> None:
    response = caller.get(f"/api/v1/traces/{'0' * 31}1")
    assert response.status_code == 404
    assert "WEIR_RETENTION_DAYS" in response.json()["detail"]
