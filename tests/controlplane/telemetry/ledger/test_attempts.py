"""The time of every attempt is booked to its replica. Where a server's spans are missing, the row is marked as unmeasured."""

from collections.abc import Sequence

import pytest

from controlplane.telemetry.core.spans import CLIENT, SERVER, AttrValue, Event, Span
from controlplane.telemetry.ledger import close
from controlplane.telemetry.ledger.row import Attempt
from tests.support.telemetry.ledger_traces import assert_closes, gateway, gateway_trace, span, spent

ERROR = 2


def attempt(
    root: Span,
    number: int,
    start: int,
    end: int,
    replica: str,
    error: str = "",
    *,
    retried: bool = False,
    status: int = ERROR,
) -> Span:
    said: dict[str, AttrValue] = {"weir.replica": replica, "weir.pool": "chat-small/eu", "weir.attempt": number}
    if error:
        said["error.type"] = error
    if retried:
        said["weir.retried"] = True
    events = [] if error else [("first_token", start + 100)]
    made = gateway("model.infer", start, end, root, kind=CLIENT, stage="model", events=events, also=said)
    return made._replace(status_code=status if error else 0)


def tried_twice(**root: AttrValue) -> list[Span]:
    """A first attempt that lasted 600 and failed, and a second that answered within 200."""
    top, *rest = gateway_trace(root={"weir__replica": "two", "weir__ttft_ns": 900, **root})
    others = [one for one in rest if one.name != "model.infer"]
    return [
        top,
        *others,
        attempt(top, 1, 1200, 1770, "one", "unavailable", retried=True),
        attempt(top, 2, 1770, 1970, "two"),
    ]


def triton(parent: Span, start: int, end: int) -> list[Span]:
    request = span("InferRequest", start, end, parent, kind=SERVER, scope="triton-server", service="triton")
    model = span(
        "chat", start, end, request, kind=SERVER, scope="triton-server", service="triton",
        events=[("QUEUE_START", start)], triton__model_name="chat",
    )  # fmt: skip
    compute = span("compute", start + 20, end, model, kind=SERVER, scope="triton-server", service="triton")
    return [request, model, compute]


def test_an_attempt_that_failed_is_booked_on_the_replica_that_spent_it() -> None:
    (row,) = close(list(reversed(tried_twice())))
    assert row.attempts == (
        Attempt("chat-small/eu", "one", "error", "unavailable", retried=True, ns=570, model_ns=570),
        Attempt("chat-small/eu", "two", "ok", "", retried=False, ns=200, model_ns=200),
    )
    assert (row.replica, row.stages["model"], row.retried_ns) == ("two", 770, 570)
    assert (row.prefill_ns, row.decode_ns) == (100, 100), "a retry is neither"
    assert_closes([row])


def test_of_an_attempt_counts_what_lies_within_its_request() -> None:
    caller = span("POST", 900, 1410, kind=CLIENT, status=ERROR)
    top, *rest = tried_twice()
    (row,) = close([caller, top._replace(parent_id=caller.span_id), *rest])
    assert [(one.ns, one.model_ns) for one in row.attempts] == [(210, 210), (0, 0)]


def test_an_attempt_that_says_neither_its_pool_nor_why_it_failed() -> None:
    top = gateway("chat chat", 0, 100, kind=SERVER, weir__request=True, weir__pool="chat/eu")
    failed = gateway("model.infer", 10, 90, top, kind=CLIENT, stage="model", weir__replica="one")
    (row,) = close([top, failed._replace(status_code=ERROR)])
    assert row.attempts == (Attempt("chat/eu", "one", "error", "error", retried=False, ns=80, model_ns=80),)


def test_a_hedge_that_was_slower_is_booked_and_takes_none_of_the_request_s_time() -> None:
    top, *rest = gateway_trace(root={"weir__replica": "one", "weir__ttft_ns": 900})
    others = [each for each in rest if each.name != "model.infer"]
    first, hedge = (
        attempt(top, 1, 1200, 1970, "one"),
        attempt(top, 2, 1400, 1900, "two", "overtaken", status=0)._replace(events=(Event(1500, "first_token"),)),
    )
    (row,) = close([top, *others, first, hedge, *triton(first, 1210, 1960)])
    assert row.attempts == (
        Attempt("chat-small/eu", "one", "ok", "", retried=False, ns=770, model_ns=row.stages["model"]),
        Attempt("chat-small/eu", "two", "cancelled", "", retried=False, ns=500, model_ns=0),
    )
    assert not row.unmeasured
    assert row.prefill_ns == 1300 - 1230, "from its start to the first of the first tokens"
    (alone,) = close([top, *others, first, *triton(first, 1210, 1960)])
    assert row.stages == alone.stages
    assert_closes([row])


def test_an_attempt_beside_a_look_up_that_was_a_hit_takes_none_of_the_request_s_time() -> None:
    top = gateway("chat chat", 0, 60, kind=SERVER, weir__request=True, weir__cache__outcome="semantic")
    look_up = gateway("cache.embed", 5, 50, top, kind=CLIENT, stage="cache")
    begun = attempt(top, 1, 6, 52, "one", "overtaken", status=0)
    begun = begun._replace(attributes={**begun.attributes, "weir.beside": True})
    (row,) = close([top, look_up, begun, *triton(begun, 10, 51)])
    assert spent(row) == {"cache": 45, "unattributed": 15}
    assert row.attempts == (Attempt("chat-small/eu", "one", "cancelled", "", retried=False, ns=46, model_ns=0),)
    assert_closes([row])


def test_an_attempt_that_nobody_waited_for_says_nothing_of_its_replica() -> None:
    top = gateway("chat chat", 0, 100, kind=SERVER, weir__request=True, weir__status="cancelled")
    (row,) = close([top, attempt(top, 1, 10, 100, "one", "client_disconnected", status=0)])
    assert [(one.outcome, one.error_type) for one in row.attempts] == [("cancelled", "")]


def test_a_coalesced_request_books_no_attempt_because_they_are_another_request_s() -> None:
    (row,) = close(tried_twice(weir__cache__outcome="coalesced"))
    assert row.attempts == close(gateway_trace())[0].attempts == (), "nor does one whose calls name no replica"
    assert_closes([row])


@pytest.mark.parametrize(
    "drop", [(), ("InferRequest", "chat", "compute"), ("chat", "compute"), ("InferRequest", "chat")]
)
def test_where_the_servers_spans_are_missing_its_queue_is_not_known(drop: Sequence[str]) -> None:
    spans = tried_twice()
    served = [one for one in triton(spans[-1], 1780, 1960) if one.name not in drop]
    (row,) = close([*spans, *served])
    assert row.unmeasured is bool(drop)
    assert spent(row)["queue"] == (100 if drop else 120)
    if not drop:
        assert ([one.model_ns for one in row.attempts], row.stages["model"]) == ([570, 160], 730)
    assert_closes([row])


def test_a_hit_lacks_nothing() -> None:
    top = gateway("chat chat", 0, 60, kind=SERVER, weir__request=True, weir__cache__outcome="hit")
    (row,) = close([top, gateway("cache.lookup", 0, 50, top, kind=CLIENT, stage="cache")])
    assert not row.unmeasured


def test_a_client_whose_server_sends_no_spans_does_not_know_the_queue() -> None:
    (row,) = close([span("chat x", 0, 100, kind=CLIENT, gen_ai__operation__name="chat", gen_ai__request__model="x")])
    assert row.unmeasured
    assert spent(row) == {"model": 100}
