"""Policy snapshots as nobody should write them."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from inference.contract import snapshot
from inference.contract.snapshot import Snapshot


def changed(given: Snapshot, change: Callable[[Any], None]) -> bytes:
    """The document of `given` after `change`, which finds the endpoints of each pool in the pool."""
    document: dict[str, Any] = json.loads(snapshot.encode(given))
    endpoints = document["endpoints"]["pools"]
    for pool in document["pools"]:
        pool["endpoints"] = endpoints[pool["name"]]
    change(document)
    for pool in document.get("pools", ()):
        endpoints[pool.get("name")] = pool.pop("endpoints")
    return json.dumps(document).encode()


def random_documents(text: bytes, number: int, seed: int) -> Iterator[bytes]:
    """Bytes of all kinds, of which most are the document `text` with some of its parts changed."""
    chance = random.Random(seed)
    whole = json.loads(text)
    for kind in range(number):
        if kind % 10 == 0:
            yield chance.randbytes(chance.randrange(200))
        elif kind % 10 == 1:
            at = chance.randrange(len(text))
            yield text[:at] + chance.randbytes(3) + text[at + chance.randrange(9) :]
        elif kind % 10 == 2:
            yield b'{"a":' * chance.randrange(1, 20_000) + b"1"
        else:
            yield json.dumps(_mutated(chance, whole)).encode()


def _mutated(chance: random.Random, value: Any, depth: int = 0) -> Any:
    """The JSON value with some parts replaced, doubled or removed."""
    odd: list[Any] = [None, -1, 2**70, 1e300, "", "\ud83d\ude00", [], {}, True, [[[]]], {"name": "x"}]
    if chance.random() < 0.04:
        return chance.choice(odd)
    if isinstance(value, dict):
        items = [(name, _mutated(chance, part, depth + 1)) for name, part in value.items() if chance.random() > 0.02]
        if chance.random() < 0.05:
            items.append((f"new_{depth}", chance.choice(odd)))
        return dict(items)
    if isinstance(value, list):
        parts = [_mutated(chance, part, depth + 1) for part in value if chance.random() > 0.03]
        return parts + parts[:1] if chance.random() < 0.03 else parts
    return value
