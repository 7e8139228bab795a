"""Counts what a pool was asked for."""


class PoolTally:
    """What a pool was asked for, and what became of it, since the start: `PoolSignals` says what each number counts. `hedges`
    are attempts beside a slow one, `fallbacks` requests that it got as a fallback of another pool.
    """

    __slots__ = (
        "answered",
        "arrived",
        "fallbacks",
        "hedges",
        "input_tokens",
        "output_tokens",
        "shed",
        "waited_s",
        "waits",
    )

    def __init__(self) -> None:
        self.arrived = self.answered = self.shed = self.input_tokens = self.output_tokens = self.waits = 0
        self.hedges = self.fallbacks = 0
        self.waited_s = 0.0
