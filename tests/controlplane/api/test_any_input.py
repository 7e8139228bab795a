"""Whatever is put into the parameters that the API's own document names, it is answered by contract: never a traceback."""

import re
from urllib.parse import quote

from django.contrib.auth.models import User
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.support.soak import sized
from tests.support.web.document import api_document
from tests.support.web.served import Filled

SCHEMA = api_document()
ENDPOINTS = sorted(
    path
    for path, kinds in SCHEMA["paths"].items()
    if "get" in kinds and not path.endswith((".csv", ".parquet", ".yaml"))
)
PLACES = st.sampled_from(["0" * 32, "f" * 32, "zz", "..", "0", "1", "-1", "10" * 12, "chat-large-ttft", "ä", "\x00"])
ODD = st.one_of(
    st.text(max_size=40),
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(str),
    st.sampled_from(["", "now", "now-15m", "now-1h", "NaN", "1e400", "'; DROP TABLE x --", "{x:String}", "\x00", "%", "a=~(", "a=b"]),
    st.datetimes().map(lambda moment: moment.isoformat()),
)  # fmt: skip


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, str, list[tuple[str, str]]]:
    """The endpoint, the path asked for, and the query."""
    path = draw(st.sampled_from(ENDPOINTS))
    known = [one["name"] for one in SCHEMA["paths"][path]["get"].get("parameters", ()) if one["in"] == "query"]
    names = (
        st.one_of(st.sampled_from(known), st.text(min_size=1, max_size=10))
        if known
        else st.text(min_size=1, max_size=5)
    )
    pairs = draw(st.lists(st.tuples(names, ODD), max_size=5))
    return path, re.sub(r"\{\w+\}", lambda _: quote(draw(PLACES), safe=""), path), pairs


def validator(endpoint: str, status: str) -> Draft202012Validator:
    schema = SCHEMA["paths"][endpoint]["get"]["responses"][status]["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": SCHEMA["components"]})


@settings(
    max_examples=sized(40, soak=1000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(question=asked())
def test_every_answer_is_by_contract(
    caller: Client, served: Filled, question: tuple[str, str, list[tuple[str, str]]]
) -> None:
    endpoint, path, pairs = question
    query: dict[str, list[str]] = {}
    for name, value in pairs:
        query.setdefault(name, []).append(value)
    User.objects.filter(username="caller").update(is_superuser=True)
    response = caller.get(path, query)
    assert response.status_code in (200, 404, 409, 422), (response.status_code, response.content[:300])
    body = response.json()
    if response.status_code == 200:
        validator(endpoint, "200").validate(body)
    else:
        assert response["Content-Type"] == "application/problem+json"
        assert body["status"] == response.status_code and body["title"] and body["detail"]
