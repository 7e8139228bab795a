"""Forms, which carry speech: what is not changed keeps its bytes."""

import json
from email.parser import BytesParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.openai.errors import ApiError
from inference.core.passing import multipart
from inference.core.passing.request import read_form

BOUNDARY = "x--1"
TYPE = f'multipart/form-data; boundary="{BOUNDARY}"'
LINE = b"--x--1"
names = st.sampled_from(("model", "prompt", "language", "a b"))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)
speech = st.binary(max_size=60) | st.sampled_from((b"", b"\r\n", b"\r\n--x--", b"--x--", b"\r\n-", b"\r"))


def written(fields: dict[str, str], file: bytes, *, preamble: bytes = b"", padding: bytes = b"") -> bytes:
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{text}'.encode() for name, text in fields.items()]
    parts.append(
        b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n' + file
    )
    return preamble + b"".join(LINE + padding + b"\r\n" + part + b"\r\n" for part in parts) + LINE + b"--\r\n"


def fields_of(body: bytes) -> dict[str, bytes]:
    """As Python's library reads it."""
    message = BytesParser().parsebytes(b"Content-Type: " + TYPE.encode() + b"\r\n\r\n" + body)
    return {str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True)
            for part in message.get_payload()}  # fmt: skip


@given(
    st.dictionaries(names, texts),
    speech,
    st.dictionaries(names, st.none() | texts),
    st.sampled_from((b"", b"to be ignored\r\n")),
    st.sampled_from((b"", b" \t")),
)
def test_changed_fields_are_changed_and_all_other_bytes_stay(
    fields: dict[str, str], file: bytes, wanted: dict[str, str | None], preamble: bytes, padding: bytes
) -> None:
    body = written(fields, file, preamble=preamble, padding=padding)
    read = multipart.read(body, TYPE)
    assert multipart.changed(body, read, {}) == body
    assert {part.name: body[part.value : part.end] for part in read.parts} == {
        **{name: text.encode() for name, text in fields.items()},
        "file": file,
    }
    changes = {name: None if value is None else json.dumps(value).encode() for name, value in wanted.items()}
    after = multipart.changed(body, read, changes)
    left = {name: text for name, text in (fields | wanted).items() if text is not None}
    assert {part.name: after[part.value : part.end] for part in multipart.read(after, TYPE).parts} == {
        **{name: text.encode() for name, text in left.items()},
        "file": file,
    }
    assert fields_of(after).keys() == {*left, "file"}


def test_what_the_fields_say_is_read_as_json_would_be() -> None:
    body = written({"model": "m", "stream": "True", "temperature": "0", "prompt": "é"}, b"RIFF")
    passed = read_form("/v1/audio/transcriptions", "transcription", body, TYPE)
    assert (passed.model, passed.streams, passed.deterministic, passed.texts) == ("m", True, True, ("é",))
    assert passed.content_type == TYPE
    other = read_form("/v1/audio/transcriptions", "transcription", body.replace(b"RIFF", b"RIFG"), TYPE)
    assert other.canonical != passed.canonical, "another speech is another question"
    latin, its_like = (
        read_form("/v1/audio/transcriptions", "transcription", body.replace("é".encode(), byte), TYPE)
        for byte in (b"\xe9", b"\xe8")
    )
    assert latin.canonical != its_like.canonical, "what is no UTF-8 differs too"
    without = passed.but({"prompt": None})
    assert b"prompt" not in without.rendered({"model": b'"n"'})
    assert fields_of(without.rendered({"model": b'"n"'}))["model"] == b"n"


@pytest.mark.parametrize(
    ("body", "content_type", "says"),
    [
        (b"{}", "application/json", "is no form"),
        (b"x", "multipart/form-data", "is no form"),
        (b"x", TYPE, "does not have its boundary"),
        (written({}, b"x")[:-20], TYPE, "no end"),
        (LINE + b"\r\nContent-Disposition: form-data\r\n\r\n\r\n" + LINE + b"--", TYPE, "no name"),
        (
            written({"model": "a"}, b"").replace(b'name="file"; filename="a.wav"', b'name="model"'),
            TYPE,
            "`model` twice",
        ),
        (written({str(number): "" for number in range(multipart.MAX_PARTS)}, b""), TYPE, "more than 256 parts"),
        (written({"a": "b"}, b"x"), TYPE, "Missing required parameter: 'model'"),
        (written({}, LINE), TYPE, "begins with its boundary"),
        (LINE + b"\r\n" + b"A: " + b"b" * 9000 + b"\r\n\r\n\r\n" + LINE + b"--", TYPE, "too long"),
    ],
)
def test_a_form_that_cannot_be_read_is_refused_with_the_reason(body: bytes, content_type: str, says: str) -> None:
    with pytest.raises(ApiError, match=says):
        read_form("/v1/audio/transcriptions", "transcription", body, content_type)


@given(st.binary(max_size=200), st.sampled_from((b"", LINE, LINE + b"\r\n")))
def test_any_bytes_are_read_or_refused(body: bytes, start: bytes) -> None:
    whole: Any = start + body
    try:
        read = multipart.read(whole, TYPE)
    except ApiError:
        return
    multipart.document(whole, read)


def test_lists_and_numbers_of_a_form_are_read_and_the_largest_form_is() -> None:
    fields = [
        ("a[]", "1"),
        ("a[]", "2"),
        ("a[]", "3"),
        ("seed", "x"),
        ("temperature", "0.5"),
        ("stream", " on "),
        ("model", "m"),
    ]
    part = b'%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    body = b"".join(part % (LINE, name.encode(), value.encode()) for name, value in fields) + LINE + b"--"
    said = multipart.document(body, multipart.read(body, TYPE))
    expected = {"a[]": ["1", "2", "3"], "seed": "x", "temperature": 0.5, "stream": True, "model": "m"}
    assert said == expected
    most = b"".join(part % (LINE, b"%d" % number, b"") for number in range(256)) + LINE + b"--"
    assert len(multipart.read(b"preamble\r\n" + most, TYPE).parts) == 256
