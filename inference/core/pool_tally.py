"""Counts what a pool was asked for."""

from dataclasses import dataclass


@dataclass(slots=True)
class PoolTally:
    """What a pool was asked for, and what became of it, since the start: `PoolSignals` says what each number counts. `hedges`
    are attempts beside a slow one, `fallbacks` requests that it got as a fallback of another pool.
    """

    arrived: int = 0
    lines: int = 0
    lines_in_flight: int = 0
    answered: int = 0
    shed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    waits: int = 0
    hedges: int = 0
    fallbacks: int = 0
    waited_s: float = 0.0
