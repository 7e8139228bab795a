"""What is read of a server's stream, however it is written."""

import pytest

from controlplane.lane.core.events import Events

DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a","x":1}\n\n'
END = b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"s","x":1,"output":[]}}\n\n'


def written(*, end: bytes = b"1", line: bytes = b"\n", last: bytes = b"\n\n") -> bytes:
    text = (DELTA + END).replace(b":1", b":" + end).removesuffix(b"\n\n") + last
    return text.replace(b"\n", line)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("stream", "value"),
    [
        (written(), b"1"),
        (written(end=b"NaN"), b"null"),
        (written(end=b"1e400"), b"1e400"),
        (written(end=b"7" * 5_000), b"7" * 5_000),
        (written(end=rb'"\ud800 "'), b'"? "'),
        (written(end=b'"\xff"'), b'"\xef\xbf\xbd"'),
        (written(line=b"\r\n"), b"1"),
        (written(line=b"\r"), b"1"),
        (written(last=b""), b"1"),
        (written(last=b"\r\n"), b"1"),
        (written().replace(b',"x"', b',\ndata: "x"'), b"1"),
    ],
    ids=[
        "plain",
        "NaN",
        "beyond all",
        "long",
        "half a pair",
        "no UTF-8",
        "CRLF",
        "CR",
        "no end",
        "one line end",
        "two lines of data",
    ],
)
def test_an_event_is_read_however_it_is_written(stream: bytes, value: bytes, size: int) -> None:
    events = Events({"id": "l"})
    given = b"".join(events.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + events.end()
    assert given == (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a","x":%s,"sequence_number":2}\n\n'
        % value
    )
    assert events.last == (
        b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"l","x":%s,"output":[]},"sequence_number":3}\n\n'
        % value
    )


def test_a_stream_that_breaks_off_has_no_last_event() -> None:
    events = Events({})
    assert events.feed(END[:-20]) + events.end() == b""
    assert (events.last, events.response) == (b"", None)
