import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.backend_errors import FailedError
from inference.core.servers import sse
from inference.core.servers.sse import SseEvent, SseReader


def test_events_are_split_and_comments_left_out() -> None:
    reader = SseReader()
    assert reader.feed(b': alive\n\ndata: {"a":1}\n\nda') == [SseEvent(b'{"a":1}')]
    assert reader.feed(b"ta:[DONE]\n\n") == [SseEvent(b"[DONE]")]


def test_an_error_event_may_have_its_text_in_a_comment() -> None:
    assert SseReader().feed(b"event: error\n: the worker left\n\n") == [SseEvent(b"the worker left", "error")]
    assert SseReader().feed(b'event: error\ndata: {"message":"m"}\n\n') == [SseEvent(b'{"message":"m"}', "error")]


def test_several_lines_of_data_are_one_event() -> None:
    assert SseReader().feed(b"id: 1\ndata: a\ndata: b\n\n") == [SseEvent(b"a\nb")]


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    reader = SseReader()
    reader.feed(b"data: " + b"x" * 90)
    with pytest.raises(FailedError, match="100 bytes"):
        reader.feed(b"x" * 10)


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1), max_size=5),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 200), max_size=6),
)
def test_where_the_stream_is_cut_does_not_matter(texts: list[str], line_end: bytes, cuts: list[int]) -> None:
    stream = b"".join(b"data: %b%b%b" % (text.encode(), line_end, line_end) for text in texts) + b": end\n\n"
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = SseReader()
    events = [event for start, end in itertools.pairwise(places) for event in reader.feed(stream[start:end])]
    assert [event.data.decode() for event in events] == texts
