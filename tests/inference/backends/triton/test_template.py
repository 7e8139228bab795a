"""A response that is like one before it but for its text is read without protobuf, and as protobuf reads it."""

from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.backends.triton.template import Template, template_of

OUTPUTS = ("text", "finish_reason", "output_tokens")


def response(text: bytes, count: int = 1, reason: bytes = b"", number: str = "7") -> bytes:
    message = pb.ModelStreamInferResponse()
    inner = message.infer_response
    inner.model_name, inner.model_version, inner.id = "chat", "1", number
    inner.parameters["triton_final_response"].bool_param = False
    for name in OUTPUTS:
        inner.outputs.add(name=name, datatype="BYTES", shape=[1])
    inner.raw_output_contents.extend(
        [
            len(text).to_bytes(4, "little") + text,
            len(reason).to_bytes(4, "little") + reason,
            count.to_bytes(4, "little"),
        ]
    )
    return bytes(message.SerializeToString())


def contents(raw: bytes) -> list[bytes]:
    return list(pb.ModelStreamInferResponse.FromString(raw).infer_response.raw_output_contents)


def made(raw: bytes, text_at: int = 0) -> Template:
    template = template_of(raw, contents(raw), text_at)
    assert template is not None
    return template


@given(st.binary(max_size=40), st.one_of(st.binary(max_size=40), st.integers(100, 20_000).map(bytes)))
def test_the_text_is_the_one_that_protobuf_reads(first: bytes, then: bytes) -> None:
    template = made(response(first))
    for text in (first, then, b"", first):
        assert template.text(response(text)) == text


@given(st.binary(max_size=20), st.sampled_from([{"count": 2}, {"reason": b"stop"}, {"number": "8"}, {"number": "77"}]))
def test_a_response_that_differs_in_more_is_not_read(text: bytes, other: dict[str, object]) -> None:
    template = made(response(b"token"))
    assert template.text(response(text, **other)) is None  # type: ignore[arg-type]


@given(st.binary(max_size=300))
def test_bytes_that_are_no_response_are_not_read(raw: bytes) -> None:
    template = made(response(b"token"))
    known = template.text(raw)
    assert known is None or contents(raw)[0][4:] == known


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_response_with_a_changed_byte_is_read_as_protobuf_would_or_not_at_all(place: int, change: int) -> None:
    raw = bytearray(response(b"some text of a token"))
    template = made(bytes(raw))
    raw[place % len(raw)] ^= change
    text = template.text(bytes(raw))
    if text is not None:
        assert contents(bytes(raw))[0][4:] == text


def test_contents_that_do_not_come_last_have_no_template() -> None:
    inner = pb.ModelStreamInferResponse.FromString(response(b"token")).infer_response
    number, inner.id = inner.id, ""
    body = inner.SerializeToString() + b"\x1a" + bytes((len(number),)) + number.encode()
    raw = b"\x12" + bytes((len(body) & 0x7F | 0x80, len(body) >> 7)) + body
    assert contents(raw)[0][4:] == b"token"
    assert template_of(raw, contents(raw), 0) is None


def test_the_text_may_be_any_of_the_contents() -> None:
    raw = response(b"token", reason=b"some")
    assert made(raw, 1).text(response(b"token", reason=b"other")) == b"other"
