"""Whether a replica has yet to answer warm-up requests before it gets those of users."""


class Warming:
    """The warm-up of one replica. Without `begin` there is none. Times are seconds on any monotonic clock.

    `missing` is how many warm-up requests it has yet to answer. While `kept_back` it gets a user's request only where no other
    replica can have it. Its time begins when it first comes up, so that loading the model does not use it up.
    """

    __slots__ = ("answered", "began_s", "given_up", "kept_back", "missing", "until_s")
    AWAY_S = 10.0
    """After so long without being ready a replica is cold again: its server has probably been started anew."""

    def __init__(self) -> None:
        self.missing = self.answered = 0
        self.kept_back = False
        self.began_s = self.until_s = 0.0  # 0 before it came up
        self.given_up = ""  # why it is used although it is not warm

    def begin(self, requests: int, *, kept_back: bool) -> None:
        """It is new, or was away for long. `kept_back` where another replica is warm, so that users need not meet a cold one."""
        self.missing, self.answered, self.given_up = requests, 0, ""
        self.kept_back = kept_back and requests > 0
        self.began_s = self.until_s = 0.0

    def came_up(self, now_s: float, within_s: float) -> None:
        if not self.until_s:
            self.began_s, self.until_s = now_s, now_s + within_s

    def request_answered(self) -> bool:
        """Returns whether it was the last one."""
        self.answered += 1
        self.missing = max(0, self.missing - 1)
        if not self.missing:
            self.kept_back = False
        return not self.missing

    def give_up(self, reason: str) -> None:
        """It gets requests all the same. An empty reason where nobody wants the warm-up any more."""
        self.missing, self.kept_back, self.given_up = 0, False, reason
