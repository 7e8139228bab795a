"""The fast path reads every span as the parser does, or leaves it to the parser."""

import random

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from controlplane.telemetry.otlp import decode
from controlplane.telemetry.otlp.from_protobuf import span_of
from controlplane.telemetry.otlp.scan import Scanner, Unusual
from controlplane.telemetry.spool.frame import Kind

from .payloads import request
from .test_malformed import GENTLE, mutated

text = st.text(max_size=200)
plain = st.one_of(
    st.builds(AnyValue, string_value=text),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue, double_value=st.floats(allow_nan=False)),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.just(AnyValue()),
)
value = st.one_of(
    plain,
    st.builds(AnyValue, bytes_value=st.binary(max_size=20)),
    st.builds(AnyValue, array_value=st.builds(ArrayValue, values=st.lists(plain, max_size=3))),
    st.builds(
        AnyValue,
        kvlist_value=st.builds(KeyValueList, values=st.lists(st.builds(KeyValue, key=text, value=plain), max_size=3)),
    ),
)
attributes = st.lists(st.builds(KeyValue, key=text, value=value), max_size=5)
times = st.integers(0, 2**64 - 1)
spans = st.builds(
    Span,
    trace_id=st.binary(max_size=17),
    span_id=st.binary(max_size=9),
    parent_span_id=st.binary(max_size=9) | st.just(bytes(8)),
    trace_state=text,
    name=text,
    kind=st.integers(0, 5),
    flags=st.integers(0, 2**32 - 1),
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=attributes,
    dropped_attributes_count=st.integers(0, 9),
    events=st.lists(st.builds(Span.Event, name=text, time_unix_nano=times, attributes=attributes), max_size=3),
    status=st.builds(Status, code=st.integers(0, 2), message=text),
)
scanner = Scanner()


def agrees(data: bytes, message: Span) -> bool:
    """Whether the fast path read it; what it read must be what the parser reads."""
    try:
        found = scanner.span(b"around" + data + b"it", 6, 6 + len(data), "service", "scope")
    except Unusual:
        return False
    assert found == span_of(message, "service", "scope")
    return True


@GENTLE
@given(spans)
def test_any_span_is_read_alike_or_left_to_the_parser(span: Span) -> None:
    agrees(span.SerializeToString(), span)


@GENTLE
@given(spans, st.integers())
def test_damaged_bytes_are_read_as_the_parser_reads_them_or_left_to_it(span: Span, seed: int) -> None:
    data = mutated(span.SerializeToString(), random.Random(seed))
    try:
        parsed = Span.FromString(data)
    except DecodeError:
        parsed = None
    try:
        found = scanner.span(data, 0, len(data), "", "")
    except Unusual:
        return
    assert parsed is not None and found == span_of(parsed, "", "")


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5))
def test_what_exporters_send_takes_the_fast_path(count: int) -> None:
    for span in request(count).resource_spans[0].scope_spans[0].spans:
        span.flags, span.status.code = 257, 1
        span.events.add(time_unix_nano=5, name="first_token")
        assert agrees(span.SerializeToString(), span)


def test_shards_part_the_traces_among_them() -> None:
    made = request(60, traces=20)
    body = made.SerializeToString()
    whole = [span for span, _ in decode.spans(Kind.TRACES_PROTOBUF, body)]
    parts = [[span for span, _ in decode.spans(Kind.TRACES_PROTOBUF, body, shard, 3)] for shard in range(3)]
    assert sorted(span for part in parts for span in part) == sorted(whole) and len(whole) == 60
    for shard, part in enumerate(parts):
        assert {span.trace_id[15] % 3 for span in part} <= {shard}
