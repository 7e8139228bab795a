"""Heads over HTTP/2. `tests/inference/wires/http/test_http2_conformance.py` has what makes a request malformed."""

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from inference.core.http2_heads import NO_TABLE, RequestHead, field, read_request, status_field
from inference.core.openai.errors import ApiError

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/v1/models?limit=2"), (b":authority", b"x:1")]
NAMES = st.sampled_from([b"content-type", b"retry-after", b"date", b"allow", b"x-weir-cache", b"X-Weir-Rule"])


@given(st.integers(200, 599), st.lists(st.tuples(NAMES, st.binary(max_size=400))))
def test_answers_are_read_as_they_are_written(status: int, fields: list[tuple[bytes, bytes]]) -> None:
    decoder = Decoder(max_header_list_size=1 << 20)
    decoder.decode(NO_TABLE)
    block = status_field(status) + b"".join(field(name, value) for name, value in fields)
    expected = [(b":status", b"%d" % status), *((name.lower(), value) for name, value in fields)]
    assert [tuple(it) for it in decoder.decode(block, raw=True)] == expected
    assert not decoder.header_table.dynamic_entries


def test_a_request_is_read() -> None:
    head = read_request([*GET, (b"content-length", b"12"), (b"x-a", b"b")])
    size = sum(len(name) + len(value) + 32 for name, value in GET) + 14 + 2 + 32 + 3 + 1 + 32
    assert head == RequestHead("GET", "/v1/models", {b"content-length": b"12", b"x-a": b"b"}, 12, size)
    assert read_request(GET).length == -1


FIELDS = st.lists(
    st.one_of(
        st.sampled_from([*GET, (b"host", b"x:1"), (b"te", b"trailers"), (b"content-length", b"3")]),
        st.tuples(st.binary(max_size=8), st.binary(max_size=8)),
    ),
    max_size=12,
)


@given(FIELDS)
def test_whatever_comes_is_read_or_refused(fields: list[tuple[bytes, bytes]]) -> None:
    try:
        head = read_request(fields)
    except ApiError as error:
        assert error.status in (400, 405, 431)
        return
    assert head.path[0] in "/*"
    assert dict(fields)[b":method"].decode() == head.method
    assert not any(b"\n" in value or b"\0" in value for value in head.headers.values())


@pytest.mark.parametrize("name", [b":path", b"x-a"])
def test_a_refusal_names_what_is_wrong(name: bytes) -> None:
    with pytest.raises(ApiError, match=r"400") as refused:
        read_request([*GET, (name, b" a")])
    assert name.decode() in refused.value.message
