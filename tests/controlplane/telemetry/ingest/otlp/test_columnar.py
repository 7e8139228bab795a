"""The fast path reads every span as the parser does, or leaves it to the parser."""

import random
import tracemalloc
from uuid import uuid4

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from controlplane.telemetry.ingest.otlp.decode import export_request, groups, scan
from controlplane.telemetry.ingest.otlp.decode.columnar import Listed, Scanned
from controlplane.telemetry.ingest.otlp.decode.export_request import MalformedError, span_of
from controlplane.telemetry.ingest.otlp.decode.groups import group
from controlplane.telemetry.ingest.otlp.decode.span_faults import UNREADABLE, fault
from controlplane.telemetry.store.write.arrow_columns import span_table, table_spans
from tests.support.telemetry.mutation import GENTLE, mutated
from tests.support.telemetry.otlp_payloads import pair, request, spans_in

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
    trace_id=st.binary(max_size=17) | st.binary(min_size=16, max_size=16),
    span_id=st.binary(max_size=9) | st.binary(min_size=8, max_size=8),
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
    links=st.lists(
        st.builds(
            Span.Link,
            trace_id=st.binary(max_size=17) | st.binary(min_size=16, max_size=16),
            span_id=st.binary(min_size=8, max_size=8),
            trace_state=text,
            attributes=attributes,
            flags=st.integers(0, 2**32 - 1),
        ),
        max_size=2,
    ),
)
COMMON = group({"service.name": "checkout", "k8s.pod.name": "checkout-1"}, "tests")


def around(data: bytes) -> bytes:
    """A request with this one span in it."""
    resource = Resource(
        attributes=[pair("service.name", "checkout"), pair("k8s.pod.name", "checkout-1")]
    ).SerializeToString()
    scope = InstrumentationScope(name="tests").SerializeToString()
    held = field(1, scope) + field(2, data)
    return field(1, field(1, resource) + field(2, held))


def field(number: int, data: bytes) -> bytes:
    size, length = len(data), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + data


def by_hand(body: bytes) -> Scanned | None:
    layout = scan.layout_of(body)
    if layout is None:
        return None
    return scan.scan(body, layout, 0, layout.places.shape[1], [COMMON])


def agrees(data: bytes, message: Span | None) -> bool:
    """Whether the fast path read the body. Its result must be the parser's."""
    body = around(data)
    found = by_hand(body)
    if found is None:
        return False
    rejected = export_request.check(body)
    if message is None:
        assert rejected == {UNREADABLE: 1}
        return False
    parsed = span_of(message, COMMON)
    reason = fault(parsed.trace_id, parsed.span_id, parsed.parent_id, parsed.start_ns, parsed.end_ns)
    assert rejected == ({reason: 1} if reason else {})
    expected = [] if reason else [parsed._replace(end_ns=max(parsed.start_ns, parsed.end_ns))]
    assert repr([span for part in found.parts() for span in found.of(part)]) == repr(expected)
    assert repr(table_spans(found.table())) == repr(table_spans(span_table(expected)))
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
        agrees(data, parsed)
    except MalformedError:
        assert parsed is None


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5))
def test_what_exporters_send_takes_the_fast_path(count: int) -> None:
    for span in request(count).resource_spans[0].scope_spans[0].spans:
        span.flags, span.status.code, span.status.message = 257, 2, "näh"
        span.attributes.extend(
            [pair("one", 1), pair("ten", 1024), pair("half", 0.5), pair("yes", True), pair("ä", "ö")]
        )
        span.events.add(time_unix_nano=5, name="first_token", attributes=[pair("n", 7)])
        span.events.add(time_unix_nano=6, name="second")
        assert agrees(span.SerializeToString(), span)


def test_what_the_kernel_leaves_is_read_by_the_parser_and_everything_else_is_not() -> None:
    made = request(6000, traces=60)
    made.resource_spans[0].scope_spans[0].spans[5000].attributes.extend([pair("twice", 1), pair("twice", 2)])
    body = made.SerializeToString()
    parts = list(export_request.read(body))
    assert {type(part) for part in parts} == {Scanned, Listed}
    expected = sorted(span.span_id for span in made.resource_spans[0].scope_spans[0].spans)
    assert sorted(span.span_id for span in spans_in(body)) == expected


def test_spans_of_many_resources_and_scopes_keep_theirs() -> None:
    made = request(4)
    made.MergeFrom(request(3))
    made.resource_spans[1].resource.attributes[0].value.string_value = "other"
    second = made.resource_spans[1].scope_spans.add()
    second.scope.name = "library"
    second.spans.add().CopyFrom(made.resource_spans[0].scope_spans[0].spans[0])
    found = sorted((span.service, span.scope) for span in spans_in(made.SerializeToString()))
    assert found == [("checkout", "tests")] * 4 + [("other", "library")] + [("other", "tests")] * 3


@pytest.mark.parametrize("kind", ["kernel", "parser"])
def test_a_resource_is_read_once_however_many_scopes_it_has(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    really = groups.json_text  # type: ignore[attr-defined]
    monkeypatch.setattr(groups, "json_text", lambda resource: read.append(resource) or really(resource))
    made = request(1)
    resource = made.resource_spans[0]
    resource.resource.attributes.append(pair("run", uuid4().hex))  # which no cache knows
    for number in range(99):
        scope = resource.scope_spans.add()
        scope.CopyFrom(resource.scope_spans[0])
        scope.scope.name = str(number)
    body = made.SerializeToString() + (field(7, b"") if kind == "parser" else b"")
    export_request.check(body)
    assert len(read) == 1


def test_large_resources_and_scopes_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            made = request(1)
            made.resource_spans[0].resource.attributes.append(pair("large", str(number) * 2**19))
            made.resource_spans[0].scope_spans[0].scope.name = str(number) * 2**19
            export_request.check(made.SerializeToString())
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 4 * 2**20


def test_what_is_read_at_once_has_only_its_own_scopes() -> None:
    made = request(1)
    resource = made.resource_spans[0]
    span = resource.scope_spans[0].spans[0]
    for number in range(1, 5000):
        scope = resource.scope_spans.add()
        scope.scope.name = str(number)
        scope.spans.add().CopyFrom(span)
        scope.spans[0].span_id = number.to_bytes(8, "big")
    parts = list(export_request.read(made.SerializeToString()))
    assert len(parts) > 1 and all(isinstance(part, Scanned) and len(part._groups) == len(part) for part in parts)
    spans = [span for part in parts for own in part.parts() for span in part.of(own)]
    stored = [span for part in parts for span in table_spans(part.table())]
    for read in (spans, stored):
        assert sorted(span.scope for span in read) == sorted(["tests", *map(str, range(1, 5000))])
        assert {span.scope for span in read if span.span_id == (7).to_bytes(8, "big")} == {"7"}


def test_shards_part_the_traces_among_them() -> None:
    body = request(60, traces=20).SerializeToString()
    whole = spans_in(body)
    parts = [spans_in(body, shard=shard, shards=3) for shard in range(3)]
    assert sorted(span for part in parts for span in part) == sorted(whole) and len(whole) == 60
    for shard, part in enumerate(parts):
        assert {span.trace_id[15] % 3 for span in part} <= {shard}
