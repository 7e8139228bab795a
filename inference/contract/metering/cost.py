"""What requests cost. A price that nobody entered is unknown, and not 0."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from inference.contract.snapshot import Pool, Price


class Used(NamedTuple):
    """What a request has used. Of the prompt's tokens some are cached ones, and some are audio; -1 where a count is not known."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = -1
    audio_tokens: int = -1
    images: int = 0


def price_at(prices: Iterable[Price], at_ms: int) -> Price | None:
    """The first that holds; None where nobody has entered one."""
    for price in prices:
        if price.from_ms <= at_ms and (not price.until_ms or at_ms < price.until_ms):
            return price
    return None


def price_now(pool: Pool) -> Price | None:
    """Of what the pool serves."""
    return price_at(pool.prices, time.time_ns() // 1_000_000) if pool.prices else None


def is_free(pool: Pool) -> bool:
    """Whether it is known that its work costs nothing."""
    return (price := price_now(pool)) is not None and not most_usd(price, 1)


def most_usd(price: Price | None, tokens: int) -> float:
    """What a request of so many tokens may cost; 0 without a price."""
    return 0.0 if price is None else tokens / 1000 * max(price.usd_per_1k_prompt_tokens, price.usd_per_1k_output_tokens)


def cost_usd(price: Price | None, used: Used) -> float | None:
    """None where it is not known: without a price, or without the counts that it is for."""
    if price is None or used.prompt_tokens < 0 or used.output_tokens < 0:
        return None
    plain = price.usd_per_1k_prompt_tokens
    per_1k = used.prompt_tokens * plain + used.output_tokens * price.usd_per_1k_output_tokens
    for tokens, own in (
        (used.cached_tokens, price.usd_per_1k_cached_tokens),
        (used.audio_tokens, price.usd_per_1k_audio_tokens),
    ):
        if own is not None and tokens > 0:
            per_1k += min(tokens, used.prompt_tokens) * (own - plain)
    return max(0.0, per_1k / 1000) + used.images * (price.usd_per_image or 0.0)
