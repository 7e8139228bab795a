"""What is handed on keeps its bytes."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.plan import Step
from inference.core.backend_errors import FailedError
from inference.core.events import Handed, WholeAnswer
from inference.core.openai import errors
from inference.core.openai.errors import ApiError, invalid
from inference.core.passing import json_members, media, parts
from inference.core.passing.answers import ChoicesReader
from inference.core.passing.blocks import Blocks
from inference.core.passing.request import Passed, made, read
from inference.core.passing.routes import ROUTES
from inference.core.passing.writer import PassWriter, error_body

texts = st.text(max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=6)
written = st.sampled_from(
    [{}, {"indent": 1}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"separators": (" , ", " : ")}]
)


@given(objects, written, st.dictionaries(texts, st.none() | values, max_size=4))
def test_changed_members_are_changed_and_all_other_bytes_stay(
    document: dict[str, Any], style: dict[str, Any], wanted: dict[str, Any]
) -> None:
    body = json.dumps(document, **style).encode("utf-8", "surrogatepass")
    changes = {name: None if value is None else json.dumps(value).encode() for name, value in wanted.items()}
    after = json_members.changed(body, changes)
    expected = {name: value for name, value in document.items() if changes.get(name, b"") is not None}
    expected |= {name: value for name, value in wanted.items() if value is not None}
    assert json.loads(after) == expected
    kept = {m.name: body[m.start : m.end] for m in json_members.members(body) if m.name not in changes}
    assert {m.name: after[m.start : m.end] for m in json_members.members(after) if m.name not in changes} == kept
    assert json_members.changed(body, {}) == body
    added = {name: value for name, value in changes.items() if value is not None and name not in document}
    if document and added:
        assert json_members.extended(body, added) == json_members.changed(body, added)


def test_every_member_of_a_name_is_changed_however_it_is_written() -> None:
    """A server that takes the first of two would else get another model than the one that was looked for."""
    body = rb'{"mod\u0065l":"a", "x": "\"model\":\"a\"", "model":"a"}'
    assert json_members.changed(body, {"model": b'"b"'}) == rb'{"mod\u0065l":"b", "x": "\"model\":\"a\"", "model":"b"}'
    twice = b'{"a": {"x":"}]", "y":[{}]}, "a" : [1,"]",[2]] , "a": -1.5e3, "a":"\\"", "a": true}'
    assert json_members.changed(twice, {"a": b"0", "b": None}) == b'{"a": 0, "a" : 0 , "a": 0, "a":0, "a": 0}'
    assert json_members.changed(twice, {"a": None, "b": b"1"}) == b'{"b":1}'
    assert json_members.changed(b'{"n":12,"n":1,"a":2}', {"a": b"3"}) == b'{"n":12,"n":1,"a":3}'
    assert json_members.changed(b'{ "a":1, "b":2 , "c":3 }', {"a": None, "d": b"4"}) == b'{ "b":2 , "c":3,"d":4 }'


def test_the_model_s_name_is_replaced_where_it_stands_and_nowhere_else() -> None:
    body = rb'{"metadata":{"model":"a"},"text":"\"model\":\"a\"","model":"a"}'
    assert json_members.with_value(body, ("model",), b'"a"', b'"b"') == body[:-4] + b'"b"}'
    assert json_members.with_value(body, ("metadata", "model"), b'"z"', b'"b"') == body
    assert json_members.with_value(body, ("nothing", "model"), b'"a"', b'"b"') == body


@given(
    st.lists(
        st.sampled_from(
            [
                b"data: {}\n\n",
                b": x\n\n",
                b"event: a\r\ndata: b\r\n\r\n",
                b"data:c\ndata: d\n\n",
                b"data: e\r\n\n",
                b"data: f\n\r\n",
            ]
        )
    ),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_blocks_are_the_stream_however_it_is_cut(stream: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(stream)
    reader, places = Blocks(), sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    found = [block for start, end in itertools.pairwise(places) for block in reader.feed(whole[start:end])]
    assert [block.raw for block in found] == stream
    assert not reader.last()


def test_an_error_without_data_says_what_its_comments_say() -> None:
    error, plain, lines = Blocks().feed(b"event: error\n: a\n:b\n\n: c\n\ndata: d\nevent: x\ndata:e\n\n")
    assert (error.data, error.name, plain.data, plain.name) == (b"a b", "error", b"", "")
    assert (lines.data, lines.name) == (b"d\ne", "x")
    longest = Blocks()
    assert longest.feed(b"x" * (8 << 20)) == [] and not longest.is_empty
    with pytest.raises(FailedError, match="longer than 8388608 bytes"):
        longest.feed(b"x")


IMAGE = {"type": "image_url", "image_url": {"url": "data:" + "A" * 4000}}
SPACED = {"messages": [{"role": "user", "content": " a\r\nb "}]}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"temperature": 0}, {"temperature": -0.0, "seed": 4}, True),
        ({"temperature": 1, "seed": 1}, {"temperature": 1, "seed": 2}, False),
        ({"user": "a"}, {"user": "b", "top_p": None}, True),
        ({"anything": [1, 2]}, {"anything": [2, 1]}, False),
        (SPACED, {"messages": [{"content": [{"type": "text", "text": "a\nb"}], "role": "user"}]}, True),
        ({"messages": [{"role": "tool", "content": "  a"}]}, {"messages": [{"role": "tool", "content": "a"}]}, False),
        ({"tools": [{"b": 1, "a": 2}]}, {"tools": [{"a": 2, "b": 1}]}, False),
        ({"stream": True}, {}, False),
        ({"messages": [{"role": "user", "content": "a"}]},
         {"messages": [{"role": "user", "content": [{"type": "other", "text": "a"}]}]}, False),
        ({"messages": [{"role": "user", "content": "a "}], "continue_final_message": True},
         {"messages": [{"role": "user", "content": "a"}], "continue_final_message": True}, False),
    ],
)  # fmt: skip
def test_what_is_hashed_tells_apart_what_may_be_answered_otherwise(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    def key(document: dict[str, Any]) -> bytes:
        return read("/v1/chat/completions", "chat", json.dumps({"model": "m", **document}).encode()).canonical

    assert (key(one) == key(other)) == same


def _with_result(result: str) -> bytes:
    turns = [{"role": "user", "content": "u"}, {"role": "tool", "tool_call_id": "1", "content": result}]
    return made("/v1/chat/completions", "chat", {"model": "m", "messages": turns}).canonical


@pytest.mark.parametrize(
    ("one_result", "other", "same"),
    [
        ('{"a": 1, "b": [1.50, "x y"]}', '{"b":[1.50,"x y"],\n"a":1}', True),
        ('{"a": 1}', '{"a": 1.0}', False),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": "x y"}', '{"a": "x  y"}', False),
        ("[1, 2]", "[2, 1]", False),
        ('[["a", 1]]', '[{"a": 1}]', False),
        ('{"a": 1, "a": 2}', '{"a": 2}', False),
        ('{"a": 1, "a": 2}', '{"a":1,"a":2}', False),
        ("{no JSON}", "{no  JSON}", False),
        ("[1]".ljust(65_536), "[1]", True),
        ("[1]".ljust(65_537), "[1]", False),
    ],
)
def test_a_tools_result_in_json_is_known_by_what_it_says(one_result: str, other: str, same: bool) -> None:
    assert (_with_result(one_result) == _with_result(other)) == same


@pytest.mark.parametrize("odd", [r'"\ud800"', "NaN", "1" * 400, r'{"\udfff": 1}'])
def test_what_servers_in_python_take_is_handed_on_and_has_a_key(odd: str) -> None:
    body = f'{{"model": "m", "x": {odd}}}'.encode()
    request = read("/v1/completions", "text_completion", body)
    assert request.rendered({}) == body
    assert request.canonical != read("/v1/chat/completions", "chat", body).canonical


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"a": 1}',
        b'{"model": 1}',
        rb'{"model": "\ud800"}',
        b"\xff",
        '{"model": "m"}'.encode("utf-16"),
    ],
)
def test_a_body_that_names_no_model_is_a_400(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        read("/v1/chat/completions", "chat", body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/x"}},
        {"type": "input_image", "image_url": "https://localhost/a"},
        {"type": "video_url", "video_url": {"url": "file:///etc/passwd"}},
        {"type": "image", "source": {"type": "url", "url": "http://10.0.0.1/"}},
        {"type": "tool_result", "content": [{"type": "image", "source": {"type": "url", "url": "https://10.0.0.1/"}}]},
    ],
)
def test_a_server_is_not_sent_to_fetch_from_its_own_network(part: dict[str, Any]) -> None:
    for body in ({"messages": [{"role": "user", "content": [part]}]}, {"input": [{"role": "user", "content": [part]}]}):
        sent = json.dumps({"model": "m", **body})
        for text in (sent, sent.replace("url", "\\u0075rl")):
            with pytest.raises(ApiError, match="public host"):
                read("/v1/chat/completions", "chat", text.encode())
    harmless = {"type": "image_url", "image_url": {"url": "data:video/mp4;base64,AA"}, "url": "http://10.0.0.1"}
    sent = json.dumps({"model": "m", "messages": [{"role": "user", "content": [harmless]}]})
    assert read("/v1/chat/completions", "chat", sent.encode()).rendered({}) == sent.encode()


def _nested(part: dict[str, Any], lists: int) -> Any:
    value: Any = part
    for _ in range(lists):
        value = [value]
    return value


def test_images_are_looked_for_eight_levels_deep() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    found = [media.images(_nested(image, levels)) for levels in (0, 1, 8, 9)]
    urls = [media.remote({"messages": _nested(image, levels)}, ("messages",)) for levels in (0, 1, 8, 9)]
    assert found == [len(each) for each in urls] == [1, 1, 1, 0]
    assert media.images([{"role": "user", "content": [image, image, {"type": "text"}]}, "x"]) == 2


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (invalid("so", "n"), "invalid_request_error"),
        (errors.no_such_model("m"), "not_found_error"),
        (errors.unavailable("so", 1.0, "model"), "overloaded_error"),
        (errors.internal("r"), "api_error"),
    ],
)
def test_an_error_has_anthropics_type_where_its_clients_ask(error: ApiError, kind: str) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        said = json.loads(error_body(path, error))["error"]
        assert said == json.loads(error.body())["error"] | {"type": kind}
    assert error_body("/v1/chat/completions", error) == error.body()


@pytest.mark.parametrize("path", ROUTES)
def test_an_error_in_a_stream_has_the_shape_of_its_url(path: str) -> None:
    raw = PassWriter(path).error(invalid("so", "n"))
    name, _, data = raw.rpartition(b"data: ")
    body = json.loads(data)
    assert name == (b"event: error\n" if path in ("/v1/responses", "/v1/messages") else b"")
    assert body.get("type") == ("error" if name else None)
    assert body["error"]["message"] == "so" and raw.endswith(b"\n\n")
    assert (body.get("message"), body.get("sequence_number")) == (
        ("so", 0) if path == "/v1/responses" else (None, None)
    )


def test_an_answer_that_a_step_has_cut_says_so_where_it_ends() -> None:
    writer = PassWriter("/v1/completions")
    answers = [WholeAnswer((), 1, 1, handed=Handed((), b'{"a":{}}', reason)) for reason in ("length", "stop")]
    assert [writer.whole(answer) for answer in answers] == [b'{"a":{}}'] * 2
    assert (writer.first(1), writer.end(answers[0]), writer.replay(answers[0])) == (b"", b"", b'{"a":{}}')
    step = Step("short", (b"", b""), (), 5, False, False, False, 0.0, "p")
    writer.cut_at(step, can_continue=False)
    cut, whole = (json.loads(writer.whole(answer)) for answer in answers)
    assert cut == {"a": {}, "weir": {"degraded": "short", "max_output_tokens": 5, "continue": {"append": "prompt"}}}
    assert whole == {"a": {}}


def test_a_ranking_does_not_send_a_server_into_its_own_network_either() -> None:
    document = {"content": [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/"}}]}
    with pytest.raises(ApiError, match="public host"):
        read("/rerank", "rerank", json.dumps({"model": "m", "query": "a", "documents": document}).encode())


def test_every_character_counts_where_tokens_are_asked_for() -> None:
    def key(content: str) -> bytes:
        turns = [{"role": "user", "content": content}]
        return made("/tokenize", "tokenize", {"model": "m", "messages": turns}).canonical

    assert len({key("a"), key("a "), key("a\r\n"), key("a\n")}) == 4


def test_a_limit_keeps_the_name_that_the_client_gave_it() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        query = made("/v1/chat/completions", "chat", {"model": "m", name: 9})
        assert json.loads(query.at_most(5).rendered({})) == {"model": "m", name: 5}
        assert query.at_most(5).max_tokens == 5
        assert query.at_most(10).rendered({}) == query.body
        assert query.canonical != query.at_most(5).canonical


@given(st.lists(texts, min_size=1, max_size=20), written)
def test_chunks_that_are_only_compared_say_what_read_ones_say(words: list[str], style: dict[str, Any]) -> None:
    def block(word: str, **more: Any) -> bytes:
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None} | more
        return b"data: " + json.dumps({"id": "x", "choices": [choice]}, **style).replace("\n", "").encode() + b"\n\n"

    one, stream = ChoicesReader(1), [*map(block, words), block("", finish_reason="stop"), b"data: [DONE]\n\n"]
    apart = [ChoicesReader(1).see(each) for each in Blocks().feed(b"".join(stream))]
    assert [one.see(each) for each in Blocks().feed(b"".join(stream))] == apart
    assert (one.whole, one.settled, one.ended) == (True, True, True)


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ({"messages": [{"content": "\u00fc" * 10}, {"content": [{"type": "text", "text": "x" * 20}, IMAGE]}]}, 10),
        ({"prompt": [[1, 2, 3], "x" * 8]}, 5),
        ({"input": "x" * 40}, 10),
        ({"system": [{"type": "text", "text": "x" * 8}], "messages": [{"content": 4}, None]}, 2),
    ],
)  # fmt: skip
def test_a_prompt_is_measured_without_its_tokenizer(query: dict[str, Any], tokens: int) -> None:
    assert made("/v1/chat/completions", "chat", {"model": "m", **query}).prompt_tokens == tokens


@pytest.mark.parametrize(
    ("path", "query", "tokens"),
    [
        ("/v1/rerank", {"query": "x" * 4, "documents": ["x" * 8, {"text": "x" * 12}], "top_n": 3}, 6),
        ("/score", {"text_1": "x" * 4, "text_2": ["x" * 4, "x" * 4]}, 3),
        ("/classify", {"input": [[1, 2], [3]]}, 3),
        ("/tokenize", {"prompt": "x" * 40}, 0),  # no model reads it
        ("/detokenize", {"tokens": [1, 2, 3]}, 0),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "x" * 40}]}, 0),
        ("/v1/responses/input_tokens", {"input": "x" * 40}, 0),
    ],
)
def test_only_what_the_model_reads_is_measured(path: str, query: dict[str, Any], tokens: int) -> None:
    assert made(path, ROUTES[path].operation, {"model": "m", **query}).prompt_tokens == tokens


def read_or_none(read: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return read(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


@given(values, written, st.none() | st.integers(0, 200))
def test_a_body_that_is_read_in_steps_says_the_same(value: Any, style: dict[str, Any], cut: int | None) -> None:
    body = json.dumps({"model": "m", "x": value}, **style).encode("utf-8", "surrogatepass")[:cut]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_PART_BYTES", 4)
        assert read_or_none(parts.decode, body) == read_or_none(msgspec.json.decode, body)


def test_what_is_known_of_a_long_request_stays_known_when_its_body_is_let_go() -> None:
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "\u00e9" * 40_000}, IMAGE]},
        {"role": "tool", "content": " a"},
    ]
    fields = {"messages": turns, "tools": [{"b": 1}], "n": 2, "max_tokens": 7, "stream": True, "temperature": 0}
    document = {"model": "m", **fields, "stream_options": {"include_usage": True}}

    def known(query: Passed) -> list[Any]:
        facts = [query.texts, query.prompt_tokens, query.images, query.choices, query.head, query.prompt_digest]
        return [*facts, query.canonical, query.max_tokens, query.deterministic, query.prompt_param]

    whole, long = (read("/v1/chat/completions", "chat", json.dumps(document).encode()) for _ in range(2))
    long.read_through()
    assert long.document["messages"] is None
    assert long.document["stream_options"]
    assert known(long) == known(whole)
    assert known(long)[1:4] == [20_000, 1, 2]
    changes = {"model": b'"other"', "tools": None, "new": b"1"}
    assert long.at_most(5).rendered(changes) == whole.at_most(5).rendered(changes)
    assert long.at_most(5).canonical == whole.at_most(5).canonical != whole.canonical
    assert long.as_it_stands(["tools", "n"]) == {"tools": msgspec.Raw(b'[{"b": 1}]'), "n": msgspec.Raw(b"2")}
    other = dict(reversed(document.items())) | {"user": "b"}
    assert read("/v1/chat/completions", "chat", json.dumps(other).encode()).canonical == whole.canonical
    other = document | {"seed": 3, "temperature": 1}
    assert read("/v1/chat/completions", "chat", json.dumps(other).encode()).canonical != whole.canonical
