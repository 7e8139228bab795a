"""How busy a replica is, and how fast, as one of several gateways knows it."""

from inference.contract.server_metrics import ServerLoad

SAID_WITHIN_S = 2.0
"""A server's page shows an answer at most so much later."""


class Rate:
    """Seconds per unit of work: the sum of the times over the sum of the units, where what is older counts less."""

    __slots__ = ("at_s", "seconds", "units")
    KEPT = 0.9  # of the sums, at each observation

    def __init__(self) -> None:
        self.seconds = self.units = 0.0
        self.at_s = 0.0  # of the last observation

    def observe(self, seconds: float, units: float, now_s: float) -> None:
        self.seconds = self.KEPT * self.seconds + seconds
        self.units = self.KEPT * self.units + units
        self.at_s = now_s


class ReplicaLoad:
    """The load of a replica. `own` counts this gateway's calls in flight, `pending` those of them without a token yet, and
    `pending_tokens` the prompt tokens of these that are probably not in the replica's KV cache. `answered_s` is when an answer was
    there last, which need not have come token by token.
    """

    __slots__ = (
        "_own_at",
        "_page_s",
        "_pending_at",
        "answered_s",
        "first",
        "own",
        "pending",
        "pending_tokens",
        "signals",
        "token",
    )

    def __init__(self) -> None:
        self.answered_s = 0.0
        self.own = self.pending = 0
        self.pending_tokens = 0.0
        self.signals: ServerLoad | None = None
        self._own_at = self._pending_at = 0
        self._page_s = 0.0  # when what the server says now was read first
        self.first = Rate()  # until the first token, per prompt token to compute
        self.token = Rate()  # between tokens, per sequence in the batch

    def sampled(self, signals: ServerLoad, own: int, pending: int) -> None:
        """The server has said how busy it is. `own` and `pending` are what they were when it was asked.

        A page that is the same to the letter, though an answer has begun or ended since, is an old one: somebody keeps it, or counting has
        stopped. What was known before gets older then.
        """
        if self.signals is None or signals.page != self.signals.page:
            self._page_s = signals.at_s
        elif signals.page and max(self.first.at_s, self.answered_s) > self._page_s + SAID_WITHIN_S:
            return
        self.signals, self._own_at, self._pending_at = signals, own, pending

    def others(self, since_s: float) -> float | None:
        """Requests at the replica that are not this gateway's. None if the server has not reported since `since_s`: its
        load is unknown then, and not 0.
        """
        signals = self.signals
        if signals is None or signals.at_s < since_s or not signals.known:
            return None
        return max(0.0, (signals.waiting or 0.0) + (signals.running or 0.0) - self._own_at)

    def others_waiting(self, since_s: float) -> float | None:
        """Those of `others` that the replica has not begun."""
        signals = self.signals
        if signals is None or signals.at_s < since_s or signals.waiting is None:
            return None
        return max(0.0, signals.waiting - self._pending_at)
