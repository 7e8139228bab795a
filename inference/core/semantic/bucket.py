"""Which requests may answer for each other: those that are equal in all but the text of their last message.

The rest of a request is hashed exactly as for the exact cache, so whatever keeps two answers apart there keeps them apart here.
"""

import unicodedata
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from inference.core.passing.request import Passed
from inference.core.question import Question
from inference.core.semantic import words
from inference.core.semantic.features import content_words

Query = Question | Passed

_CHATS = ("/v1/chat/completions",)
_MIN_CONTENT_WORDS = 3
_MAX_TEXT_BYTES = 2048  # about 512 tokens
_INVISIBLE = frozenset(("Cf", "Cc", "Co", "Cn", "Cs"))


class Fuzzy(NamedTuple):
    """The text of the last message, and the request without it."""

    text: str
    rest: Query


def split(query: Query, timely: bool = False) -> Fuzzy | str:
    """The request in its two parts; where it may not be answered for another, the reason. `timely` lets texts pass whose answer depends on
    when, or by whom, it was asked.
    """
    if query.operation != "chat":
        return "operation"
    if isinstance(query, Passed):
        return _split_passed(query, timely)
    if query.n > 1 or query.logprobs:
        return "choices"
    last = query.messages[-1] if query.messages else None
    if last is None or last.role != "user":
        return "last_message"
    if not isinstance(last.content, str):
        return "images"
    blank = msgspec.structs.replace(last, content="")
    return _judged(last.content, msgspec.structs.replace(query, messages=(*query.messages[:-1], blank)), timely)


def _split_passed(passed: Passed, timely: bool) -> Fuzzy | str:
    document = passed.document
    messages = document.get("messages")
    if passed.path not in _CHATS or "messages" in passed.changes:
        return "operation"
    if passed.choices > 1 or document.get("logprobs"):
        return "choices"
    last: Any = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(last, dict) or last.get("role") != "user":
        return "last_message"
    content = last.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        content = content[0].get("text") if content[0].keys() == {"type", "text"} else content
    if not isinstance(content, str):
        return "images"
    assert isinstance(messages, list)
    rest = {**document, "messages": [*messages[:-1], {**last, "content": ""}]}
    without = Passed(passed.path, passed.operation, passed.body, rest, passed.content_type, passed.changes)
    return _judged(content, without, timely)


def _judged(text: str, rest: Query, timely: bool) -> Fuzzy | str:
    text = text.strip()
    if not text:
        return "empty"
    if len(text.encode("utf-8", "replace")) > _MAX_TEXT_BYTES:
        return "long"
    if any(unicodedata.category(sign) in _INVISIBLE for sign in text if not sign.isspace() and not sign.isalnum()):
        return "characters"
    if words.DEIXIS.search(text):
        return "deixis"
    if not timely and words.TIMELY.search(text):
        return "time"
    if content_words(text) < _MIN_CONTENT_WORDS:
        return "few_words"
    return Fuzzy(text, rest)


def bucket(rest_key: bytes, embedder: bytes, tenant: str) -> bytes:
    """32 bytes. `rest_key` is the key of the exact cache of the request without its text, and `embedder` what vectors are made by; both
    have one length each. `tenant` is whose requests alone may answer for each other; empty where the rule lets tenants share.
    """
    return blake2b(rest_key + embedder + tenant.encode(), digest_size=32, person=b"weir-semantic").digest()
