"""Requests of all routes, with recorded and generated parameters, odd texts and odd bytes."""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from inference.core.passing.routes import ROUTES
from tests.support.transparent.standin import FAULT, MODEL

TOOL = {"type": "function", "function": {"name": "weather", "description": "a\tb", "strict": True, "parameters": {
    "type": "object", "properties": {"model": {"type": "string"}, "b": {"enum": [1, 2.50]}}, "required": ["model"]}}}  # fmt: skip
IMAGE = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
    "uuid": "u-1",
}
TEXTS = (
    "What is a weir?",
    "  <html>\r\n\t<s>struck</s>  ",
    "[INST] <think> </s> <eos> <bos>",
    "let f <|x|> = <|im_start|>system",
    "\u200b\ufeff\u00a0 a",
    "\U0001f30a\u0000\u2028",
    '"model":"other"}',
    "    indented\n",
    "e\u0301 \u00e9 \uff5c",
    "\r",
    "data: [DONE]\n\n",
    "x" * 3000,
)
PARAMETERS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("temperature", (0, 0.7, 1, 2.0, -0.0, "warm")),
    ("top_p", (0.1, 1, 3)),
    ("seed", (0, 7, -4, 2**63)),
    ("max_tokens", (1, 64, 10**6)),
    ("max_completion_tokens", (5, 99_999)),
    ("n", (1, 2, 3)),
    ("stop", ("", "w", ["a", "\n"], None)),
    ("presence_penalty", (0.5, -3)),
    ("frequency_penalty", (1,)),
    ("logit_bias", ({"42": 100, "7": -1.5}, {})),
    ("logprobs", (True, 2, None)),
    ("top_logprobs", (2, 99)),
    ("user", ("u",)),
    ("metadata", ({"model": "x"},)),
    ("store", (True, False)),
    ("service_tier", ("auto", "flex")),
    ("verbosity", ("low",)),
    ("prompt_cache_key", ("k",)),
    ("safety_identifier", ("s",)),
    ("prediction", ({"type": "content", "content": "a"},)),
    ("reasoning_effort", ("low", "none", "max")),
    ("modalities", (["text"],)),
    ("web_search_options", ({},)),
    ("functions", ([{"name": "f"}],)),
    ("function_call", ("auto", {"name": "f"})),
    ("parallel_tool_calls", (True, False)),
    ("tool_choice", ("auto", "required", "none")),
    ("response_format", ({"type": "json_object"}, {"type": "structural_tag", "structures": [], "triggers": ["<f"]})),
    (
        "stream_options",
        (
            {"include_usage": True},
            {"include_usage": False},
            {"include_usage": True, "continuous_usage_stats": True},
            None,
        ),
    ),
    ("top_k", (-1, 40)),
    ("min_p", (0.1,)),
    ("repetition_penalty", (1.1,)),
    ("length_penalty", (1.0,)),
    ("use_beam_search", (True,)),
    ("min_tokens", (2,)),
    ("stop_token_ids", ([2, 3],)),
    ("bad_words", (["a b"],)),
    ("ignore_eos", (True,)),
    ("skip_special_tokens", (False,)),
    ("spaces_between_special_tokens", (False,)),
    ("truncate_prompt_tokens", (-1, 9)),
    ("allowed_token_ids", ([1, 2],)),
    ("prompt_logprobs", (1,)),
    ("return_token_ids", (True,)),
    ("return_tokens_as_token_ids", (True,)),
    ("cache_salt", ("salt",)),
    ("priority", (3, 9)),
    ("request_id", ("r-1",)),
    ("include_reasoning", (False,)),
    ("thinking_token_budget", (64,)),
    ("documents", ([{"title": "a", "text": "<s>"}],)),
    ("echo", (True,)),
    ("suffix", ("}",)),
    ("best_of", (2,)),
    ("add_generation_prompt", (False,)),
    ("continue_final_message", (True,)),
    ("chat_template", ("{{ x }}",)),
    ("chat_template_kwargs", ({"enable_thinking": False},)),
    ("mm_processor_kwargs", ({"fps": 2},)),
    ("guided_json", ({"type": "object"},)),
    ("guided_regex", ("a+",)),
    ("structured_outputs", ({"choice": ["a", "b"]},)),
    ("logits_processors", (["x.Y"],)),
    ("vllm_xargs", ({"a": 1},)),
    ("kv_transfer_params", ({"do_remote_decode": False},)),
    ("a_parameter_of_tomorrow", ([{"b": [None, 1e-9, "\u00fc"]}],)),
)
"""Values that servers take, and some that they refuse: that is theirs to say."""


class Query(NamedTuple):
    """`by` sends it: the official clients take `fields`, and `post` sends `body` as it is."""

    by: str
    path: str
    fields: dict[str, Any]
    body: bytes = b""
    content_type: str = "application/json"
    streams: bool = False


def requests(seed: int, number: int) -> Iterator[Query]:
    """So many requests, the same for a seed."""
    chance = random.Random(seed)
    for serial in range(number):
        yield _request(chance, serial)


def _request(chance: random.Random, serial: int) -> Query:
    kinds = ("chat", "text", "responses", "messages", "embeddings", "bytes", "beside")
    kind = chance.choices(kinds, (8, 3, 2, 2, 1, 5, 2))[0]
    streams = chance.random() < 0.5
    if kind == "chat":
        fields = {"messages": _messages(chance, serial), **_parameters(chance)} | (
            {"tools": [TOOL]} if chance.random() < 0.3 else {}
        )
        return Query("openai", "/v1/chat/completions", _faulty(chance, fields), streams=streams)
    if kind == "text":
        prompt = chance.choice((_text(chance), [_text(chance), "b"], [1, 2, serial], [[1], [2, 3]]))
        return Query(
            "openai", "/v1/completions", _faulty(chance, {"prompt": prompt, **_parameters(chance)}), streams=streams
        )
    if kind == "responses":
        given = chance.choice(
            (_text(chance), [{"role": "user", "content": [{"type": "input_text", "text": _text(chance)}]}])
        )
        more = chance.choice(
            (
                {},
                {"instructions": "<s>"},
                {"previous_response_id": "resp_1"},
                {"reasoning": {"effort": "low"}, "store": False},
            )
        )
        return Query("openai", "/v1/responses", {"input": given, "user": str(serial), **more}, streams=streams)
    if kind == "messages":
        turns = [
            {
                "role": "user",
                "content": chance.choice(
                    (_text(chance), [{"type": "text", "text": _text(chance), "cache_control": {"type": "ephemeral"}}])
                ),
            }
        ]
        more = chance.choice(
            ({}, {"system": "  <s>\r\n"}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"top_k": 4})
        )
        return Query(
            "anthropic", "/v1/messages", {"messages": turns, "max_tokens": 32 + serial, **more}, streams=streams
        )
    if kind == "embeddings":
        return Query(
            "openai",
            "/v1/embeddings",
            {"input": chance.choice((_text(chance), ["a", "b"], [1, 2])), "dimensions": chance.choice((1, 256))},
        )
    return _beside(chance, serial) if kind == "beside" else _odd_bytes(chance, serial)


def _beside(chance: random.Random, serial: int) -> Query:
    """What servers have beside OpenAI's and Anthropic's API."""
    path = chance.choice(tuple(ROUTES))
    if ROUTES[path].is_form:
        return _form(chance, path)
    texts = [_text(chance) for _ in range(chance.randrange(1, 4))]
    bodies: dict[str, tuple[dict[str, Any], ...]] = {
        "rerank": (
            {"query": texts[0], "documents": texts, "top_n": 2},
            {"query": texts[0], "documents": {"content": [{"type": "text", "text": texts[0]}, IMAGE]}},
        ),
        "score": ({"text_1": texts[0], "text_2": texts}, {"queries": texts, "documents": texts, "priority": 3}),
        "classify": ({"input": texts, "use_activation": False}, {"messages": _messages(chance, serial)}),
        "tokenize": (
            {"prompt": texts[0], "add_special_tokens": False},
            {"messages": _messages(chance, serial), "tools": [TOOL]},
        ),
        "detokenize": ({"tokens": [1, 2, serial]},),
    }
    fields = {"model": MODEL, **chance.choice(bodies[ROUTES[path].operation])}
    if chance.random() < 0.2:
        fields[FAULT] = chance.choice((400, 413, 422))
    return Query("post", path, {}, json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode())


def _form(chance: random.Random, path: str) -> Query:
    """Speech, in which a line may look like a delimiter."""
    boundary = f"--b{chance.randrange(10**9)}"
    speech = chance.randbytes(chance.randrange(20_000)) + chance.choice((b"", b"\r\n--", b"--\r\n", b"\r\n--b\r\n"))
    fields = {"model": MODEL, "prompt": _text(chance), "stream": chance.choice(("true", "false")), "temperature": "0"}
    parts = [f'name="{name}"\r\n\r\n{text}'.encode() for name, text in fields.items()]
    parts += [b'name="timestamp_granularities[]"\r\n\r\n' + each for each in (b"word", b"segment")]
    parts.append(b'name="file"; filename="a\xc3\xbc \\"b.wav"\r\nContent-Type: audio/wav\r\n\r\n' + speech)
    chance.shuffle(parts)
    line = b"--" + boundary.encode()
    body = b"".join(line + b"\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts)
    return Query("post", path, {}, body + line + b"--\r\n", f"multipart/form-data; boundary={boundary}")


def _odd_bytes(chance: random.Random, serial: int) -> Query:
    """JSON that no client library writes, and that servers in Python take."""
    fields: dict[str, Any] = {"model": MODEL, "messages": _messages(chance, serial), **_parameters(chance)}
    fields["stream"] = chance.choice((True, False, None))
    names = list(fields)
    chance.shuffle(names)
    style: dict[str, Any] = chance.choice(
        ({"indent": "\t"}, {"ensure_ascii": False}, {"separators": (" ,\r\n", " :\t")}, {})
    )
    body = json.dumps({name: fields[name] for name in names}, **style)
    trick = chance.randrange(6)
    if trick == 0:
        body = body.replace('"role"', '"r\\u006fle"', 1)
    elif trick == 1:
        body = body[:-1].rstrip() + ', "odd": NaN, "half": "\\ud800", "big": ' + "9" * 40 + "}"
    elif trick == 2:
        body = "\r\n " + body + "\n\n"
    elif trick == 3:
        body = body.rstrip()[:-1] + ', "seed": 1, "seed": 2}'
    elif trick == 4:
        body = body.replace('"model"', '"m\\u006fdel"', 1)
    return Query(
        "post", "/v1/chat/completions", {}, body.encode("utf-8", "surrogatepass"), streams=fields["stream"] is True
    )


def _faulty(chance: random.Random, fields: dict[str, Any]) -> dict[str, Any]:
    drawn = chance.random()
    if drawn < 0.08:
        return fields | {FAULT: chance.choice((400, 413, 422, 429, 409, 418))}
    return fields | {FAULT: chance.choice((500, "stream"))} if drawn < 0.085 else fields


def _text(chance: random.Random) -> str:
    return "".join(chance.choice(TEXTS) for _ in range(chance.randrange(1, 4)))


def _parameters(chance: random.Random) -> dict[str, Any]:
    return {name: chance.choice(values) for name, values in chance.sample(PARAMETERS, chance.randrange(6))}


def _messages(chance: random.Random, serial: int) -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"model": "x" }'}, "index": 0}
    turns: list[dict[str, Any]] = [
        {"role": "system", "content": _text(chance), "name": "n"},
        {
            "role": "user",
            "content": [{"type": "text", "text": _text(chance), "cache_control": {"type": "ephemeral"}}, IMAGE],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call],
            "reasoning_content": " hm\n",
            "thinking_blocks": [{"type": "thinking"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "    first line is indented\r\n"},
        {"role": "assistant", "content": "goes on ", "prefix": True, "refusal": None, "annotations": []},
        {"role": "developer", "content": "", "audio": None},
    ]
    return [*chance.sample(turns, chance.randrange(4)), {"role": "user", "content": f"{_text(chance)} {serial}"}]
