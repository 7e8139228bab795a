"""Keys of the cache that an adversary would want to be the same: no two of them are."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from inference.contract.snapshot import CacheRule, Model, Pool, Route
from inference.core.cache_key import cache_key, tagged
from inference.core.normalise import chat
from inference.core.openai.checks import decode_chat
from inference.core.passing.request import Passed, made
from inference.core.semantic.bucket import Fuzzy, bucket, split
from tests.support.soak import sized

TRIES = sized(8_000, 1_000_000)
_NEAR = 64  # requests about each base, which differ from it in little
PARTS = (
    "a",
    "b",
    "ab",
    "a\0",
    "\0",
    "",
    "a\0b",
    '"',
    "\\",
    "{}",
    "a,b",
    "\u200b",
    "A",
    "1",
    "a\n",
    "null",
    "é",
    "e\u0301",
)
"""What runs into each other where parts are only put one behind the other."""
_TURNS = (None, *((role, text) for role in ("system", "user", "assistant", "tool") for text in PARTS))
_PLACE: dict[str, tuple[Any, ...]] = {
    "tenant": PARTS,
    "tenant_purges": (0, 1, 10),
    "scope": ("tenant", "all"),
    "purges": (0, 1, 11),
    "version_purges": (0, 1, 11),
    "model": PARTS[:4],
    "prompt_version": ("1", "11", "0\0001"),
    "variant": PARTS[:4],
    "model_name": PARTS[:4],
    "model_version": ("1", "11", ""),
    "regions": (None, ("a",), ("a", "b"), ("ab",)),
    "tags": ((), ("a",), ("a", "b"), ("ab",)),
    "tag_purges": (0, 1),
}
_CHAT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("first", "second", "third"), _TURNS),
    "text": ("how long is the river nile", "how long is the river rhine", "how long is the riverrhine"),
    "temperature": (None, 0, 0.0001, 1),
    "seed": (None, 0, 1),
    "max_tokens": (None, 1, 10),
    "stop": (None, *PARTS[:4]),
    "top_p": (None, 0.1, 1),
    "presence_penalty": (None, 0.1, 1),
}
_EMBED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("one", "two", "three"), (*(part for part in PARTS if part), [1], [11], [1, 1])),
    "dimensions": (None, 1, 11, 2),
    "encoding_format": (None, "float", "base64"),
    "truncate_prompt_tokens": (None, 1, 11),
}
Chosen = dict[str, Any]


class Place(NamedTuple):
    """Whose request it is, of which versions, and where it may be answered."""

    model: Model
    pool: Pool
    cached_as: str
    regions: frozenset[str] | None
    tags: bytes


def near(draw: random.Random, of: dict[str, tuple[Any, ...]]) -> Iterator[Chosen]:
    """Choices of which each differs from one before it in little."""
    while True:
        base = {name: draw.choice(values) for name, values in of.items()}
        for _ in range(_NEAR):
            yield {name: it if draw.random() < 0.95 else draw.choice(of[name]) for name, it in base.items()}


def place(chosen: Chosen) -> Place:
    rule = CacheRule(scope=chosen["scope"], purges=chosen["purges"], version_purges=chosen["version_purges"])
    purges, regions = chosen["tenant_purges"], chosen["regions"]
    return Place(
        Model(chosen["model"], (Route("p"),), prompt_version=chosen["prompt_version"], cache=rule),
        Pool("p", chosen["variant"], "r", chosen["model_name"], chosen["model_version"]),
        f"{chosen['tenant']}\0{purges}" if purges else chosen["tenant"],
        None if regions is None else frozenset(regions),
        tagged(chosen["tags"], {"a": chosen["tag_purges"]}),
    )


def meant(chosen: Chosen) -> Chosen:
    """Without what means nothing there: the tenant where answers are shared, and purges of a tag that it has not."""
    without = {"tenant", "tenant_purges"} if chosen["scope"] == "all" else set()
    if "a" not in chosen["tags"]:
        without.add("tag_purges")
    return {name: it for name, it in chosen.items() if name not in without}


def document_of(chosen: Chosen) -> dict[str, Any]:
    given = {name: it for name, it in chosen.items() if it is not None}
    if "text" not in given:
        return {"model": "m", "input": [given.pop(name) for name in ("one", "two", "three")], **given}
    turns = [given.pop(name) for name in ("first", "second", "third") if name in given]
    messages = [{"role": role, "content": text} for role, text in (*turns, ("user", given.pop("text")))]
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            message["tool_call_id"] = f"call-{number}"
    return {"model": "m", "messages": messages, **given}


def canonical(document: dict[str, Any]) -> str:
    """What is unified: white space around what people wrote, a seed at temperature 0."""
    unified = dict(document)
    if unified.get("temperature") == 0:
        unified.pop("seed", None)
    people = ("system", "user")
    unified["messages"] = [
        {**it, "content": it["content"].strip()} if it["role"] in people else it for it in unified["messages"]
    ]
    return repr(sorted(unified.items()))


@pytest.mark.parametrize("kind", ["as it came", "for Triton", "by input", "similar"])
def test_no_two_requests_that_differ_have_one_key(kind: str) -> None:
    """Each try is a key beside all those before it. What is meant says which of them have to be the same."""
    draw = random.Random(kind)
    requests = near(draw, _EMBED if kind == "by input" else _CHAT)
    meanings, keys = dict[bytes, str](), dict[str, bytes]()
    tries = 0
    for where, asked in zip(near(draw, _PLACE), requests, strict=False):
        if tries >= TRIES // 4:
            break
        for meaning, key in keys_of(kind, document_of(asked), place(where)):
            tries += 1
            meaning = f"{meant(where)}{meaning}"
            assert meanings.setdefault(key, meaning) == meaning, "two requests have one key"
            assert keys.setdefault(meaning, key) == key, "one request has two keys"
    assert len(meanings) > tries / 4


def keys_of(kind: str, document: dict[str, Any], there: Place) -> Iterator[tuple[str, bytes]]:
    """What a request means, and its key; of a list of inputs, those of each."""
    if kind == "by input":
        passed = made("/v1/embeddings", "embeddings", document)
        inputs = passed.inputs
        assert inputs is not None
        rest_key = cache_key(Passed(passed.path, passed.operation, b"", inputs.rest), *there)
        for it, digest in zip(document.pop("input"), inputs.digests, strict=True):
            yield f"{sorted(document.items())}{it!r}", rest_key + digest
        return
    passed = made("/v1/chat/completions", "chat", document)
    if kind == "as it came":
        yield canonical(document), cache_key(passed, *there)
    elif kind == "for Triton":
        question = chat(*decode_chat(passed.body), 4096)
        yield repr(question), cache_key(question, *there)
    else:
        parts = split(passed)
        assert isinstance(parts, Fuzzy)
        rest = {**document, "messages": [*document["messages"][:-1], {"role": "user", "content": ""}]}
        yield f"{canonical(rest)}{there.cached_as!r}", bucket(cache_key(parts.rest, *there), b"e", there.cached_as)


def test_a_model_that_is_purged_has_other_keys() -> None:
    """Whatever is purged, nothing of before is met."""
    passed = made("/v1/chat/completions", "chat", document_of({name: values[-1] for name, values in _CHAT.items()}))
    now = place({name: values[1] for name, values in _PLACE.items()})
    purged = [
        now._replace(model=replace(now.model, cache=replace(now.model.cache, purges=2))),
        now._replace(model=replace(now.model, cache=replace(now.model.cache, version_purges=2))),
        now._replace(tags=tagged(("a",), {"a": 2})),
    ]
    assert len({cache_key(passed, *it) for it in (now, *purged)}) == 4
