"""Which replica has seen the beginning of a prompt before, and so may have it in its KV cache.

The algorithm is llm-d's approximate prefix cache (llm-d/llm-d-router, requestcontrol/dataproducer/approximateprefix and
prefixhash/hashing.go): a prompt is cut into blocks of 64 tokens, each block's hash covers the one before, and each
replica has an LRU of the hashes of what was sent to it. As with llm-d's `estimate` tokenizer, 4 bytes count as a token,
so no prompt has to be tokenized for it.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

BLOCK_TOKENS = 64
BYTES_PER_TOKEN = 4
MAX_TOKENS = 131_072
"""What comes after them is not compared."""
BLOCKS_PER_REPLICA = 31_250
HOME_TOKENS = 256

_BLOCK_BYTES = BLOCK_TOKENS * BYTES_PER_TOKEN


class Prompt(NamedTuple):
    """A prompt as routing compares it. `blocks` are the hashes of its blocks, of which the last may be short. `home` is the
    same number in all gateways for prompts with the same first 256 tokens, and 0 for an empty prompt.
    """

    blocks: tuple[int, ...] = ()
    home: int = 0


def read_prompt(model: str, tenant: str, parts: Iterable[bytes]) -> Prompt:
    """Hash a prompt. Those of other models or tenants have nothing in common, as with llm-d's model and `cache_salt`.

    llm-d hashes with xxhash64. The blocks' hashes here are Python's own, as wide, keyed per process, and a third of a
    microsecond each: they never leave the process.
    """
    data = b"".join(parts)[: MAX_TOKENS * BYTES_PER_TOKEN]
    if not data:
        return Prompt()
    link = hash((model, tenant))
    hashes = []
    for start in range(0, len(data), _BLOCK_BYTES):
        link = hash((data[start : start + _BLOCK_BYTES], link))
        hashes.append(link)
    return Prompt(tuple(hashes), stable_hash(model.encode(), tenant.encode(), data[: HOME_TOKENS * BYTES_PER_TOKEN]))


def stable_hash(*parts: bytes) -> int:
    """A hash that all gateways agree on; never 0."""
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(digest.digest(), "little") or 1


class PrefixLru:
    """The blocks that were sent to a replica last."""

    __slots__ = ("_blocks", "_most")

    def __init__(self, most_blocks: int = BLOCKS_PER_REPLICA) -> None:
        self._most = most_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def matched(self, hashes: Sequence[int]) -> int:
        """How many of the first blocks it has, without a gap."""
        blocks, number = self._blocks, 0
        for block in hashes:
            if block not in blocks:
                break
            number += 1
        return number

    def add(self, hashes: Sequence[int]) -> None:
        """A prompt was sent to it. Its last blocks count as the oldest, so that they are dropped before its first."""
        blocks = self._blocks
        for block in reversed(hashes):
            blocks[block] = None
            blocks.move_to_end(block)
        while len(blocks) > self._most:
            blocks.popitem(last=False)

    def clear(self) -> None:
        """The server has started anew."""
        self._blocks.clear()
