"""What an application does before it calls a model is part of the request, where its spans say so."""

import pytest

from controlplane.telemetry.core.spans import CLIENT, SERVER, AttrValue, Span
from controlplane.telemetry.ledger import close
from tests.support.telemetry.ledger_traces import gateway, gateway_trace, span, spent

RETRIEVER: dict[str, AttrValue] = {"openinference.span.kind": "RETRIEVER"}
RERANKER: dict[str, AttrValue] = {"openinference.span.kind": "RERANKER"}


def asked(**more: AttrValue) -> tuple[Span, list[Span]]:
    """A question: 100 of the application, documents for 250, their order for 100, and a call of 1,020 around 1,000 of the gateway."""
    app = span("POST /ask", 500, 2100, kind=SERVER, http__request__method="POST", url__path="/ask", **more)
    retrieval = span("retrieve", 600, 850, app, also=RETRIEVER)
    return app, [
        app,
        retrieval,
        span("SELECT documents", 650, 800, retrieval, kind=CLIENT, db__system__name="postgresql"),
        span("rerank", 850, 950, app, also=RERANKER),
    ]


def test_documents_and_their_order_are_stages_of_the_question() -> None:
    app, before = asked()
    call = span("POST", 990, 2010, app, kind=CLIENT)
    spans = [*before, call, *gateway_trace(1000, call)]
    (row,) = close(spans)
    assert row.request_id == spans[5].span_id.hex(), "it stays the gateway's request"
    assert (row.start_ns, row.end_ns, row.e2e_ns) == (500, 2010, 1510)
    assert spent(row) == {
        "retrieval": 250,  # what it asks a database is its own
        "rerank": 100,
        "network": 20,
        "gateway": 30,
        "cache": 20,
        "tokenizer": 40,
        "queue": 100,
        "model": 770,
        "egress": 30,
        "unattributed": 150,  # 100 and 40 of the application, 10 of the gateway
    }
    assert (row.ttft_ns, row.model, row.operation) == (400, "chat", "chat")


@pytest.mark.parametrize(
    ("attributes", "stage"),
    [
        ({"gen_ai.operation.name": "retrieval"}, "retrieval"),
        ({"weir.stage": "retrieval"}, "retrieval"),
        ({"weir.stage": "rerank"}, "rerank"),
        (RETRIEVER, "retrieval"),
        (RERANKER, "rerank"),
    ],
)
def test_each_convention_is_read(attributes: dict[str, AttrValue], stage: str) -> None:
    app = span("answer", 0, 2000)
    (row,) = close([app, span("work", 100, 900, app, also=attributes), *gateway_trace(1000, app)])
    assert (row.stages[stage], row.e2e_ns) == (800, 2000)


def test_a_call_for_embeddings_is_a_request_and_within_the_retrieval_of_the_other() -> None:
    app = span("answer", 0, 2000)
    retrieval = span("retrieve", 100, 900, app, also=RETRIEVER)
    embedding = gateway("embeddings", 200, 700, retrieval, kind=SERVER, weir__request=True, weir__model="embed")
    rows = close([app, retrieval, embedding, *gateway_trace(1000, app)])
    assert [(row.model, row.e2e_ns, row.stages["retrieval"]) for row in rows] == [
        ("embed", 500, 0),
        ("chat", 2000, 800),
    ]


@pytest.mark.parametrize(
    "also",
    [
        pytest.param(lambda app: gateway_trace(3000, app), id="it made another request"),
        pytest.param(lambda app: [span("step", 10, 90, app)], id="nothing was retrieved"),
        pytest.param(lambda app: [span("retrieve", 2100, 2200, app, also=RETRIEVER)], id="afterwards"),
    ],
)
def test_an_application_of_which_that_cannot_be_said_belongs_to_no_request(also: object) -> None:
    assert callable(also)
    app = span("answer", 0, 5000)
    first = close([app, *gateway_trace(1000, app), *also(app)])[0]
    assert (first.start_ns, first.e2e_ns, first.stages["retrieval"]) == (1000, 1000, 0)


@pytest.mark.parametrize(("above", "retrieval"), [(1, 300), (8, 300), (9, 0)])
def test_documents_are_looked_for_eight_spans_above(above: int, retrieval: int) -> None:
    app = span("answer", 0, 5000)
    steps = [app]
    for _ in range(above - 1):
        steps.append(span("step", 1000, 5000, steps[-1]))
    (row,) = close([*steps, span("retrieve", 100, 400, app, also=RETRIEVER), *gateway_trace(1000, steps[-1])])
    assert row.stages["retrieval"] == retrieval


def test_of_two_questions_each_has_its_own_documents() -> None:
    root = span("agent", 0, 9000)
    spans = [root]
    for at in (0, 4000):
        app = span("answer", at, at + 2100, root)
        spans += [app, span("retrieve", at + 100, at + 400, app, also=RETRIEVER), *gateway_trace(at + 1000, app)]
    assert [(row.start_ns, row.stages["retrieval"]) for row in close(spans)] == [(0, 300), (4000, 300)]
