"""Whether a replica can be reached, how often its calls failed lately, and whether it is busy."""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Health:
    """The health of a replica. It starts `unknown`; a call that cannot reach it makes it `down`, and only a probe makes it
    `up` again. Times are seconds on any monotonic clock.

    A call that fails in another way adds health debt, which counts like requests at the replica. Without it, a replica
    that fails fast would always have the fewest and get all requests. Each failure doubles the debt and adds one, each
    answer takes 30 % off, and it halves every 5 s: a replica that fails every call is tried about once in 5 s while
    others serve.

    A debt of 30 ejects the replica: five failures in a row (Envoy's `consecutive_5xx`), or for a while more than a third
    of the calls. The ejection lasts as in Envoy (api/envoy/config/cluster/v3/outlier_detection.proto): 30 s times the
    number of ejections, at most 300 s, and the number falls by one for each 10 s without. After it the replica is on
    trial: it gets one call at a time until one is answered, which ends that, or fails, which ejects it again.

    A server that says that it is busy is not broken. It is passed over for 100 ms, doubling to 2 s, while others are not.
    After each pause it is tried with one call, and gets its share again once a call is answered.
    """

    FIRST_PROBE_S = 0.1
    SLOWEST_PROBE_S = 2.0
    SLOW_PROBES = 3  # in a row without an answer: then it is down
    DEBT_HALVES_S = 5.0
    MAX_DEBT = 1024.0  # requests; forgotten after 55 s at most
    EJECTING_DEBT = 30.0  # after five failures it is 31, less what has faded meanwhile
    EJECTION_S, MAX_EJECTION_S, EJECTION_FORGOTTEN_S = 30.0, 300.0, 10.0
    FIRST_BUSY_S, MAX_BUSY_S = 0.1, 2.0

    state: str = "unknown"
    failures: int = 0
    slow: int = 0
    ejected_until_s: float = 0.0
    _debt: float = 0.0
    _debt_at_s: float = 0.0
    _ejected: bool = False  # and not answered since
    _ejections: int = 0
    _returned_s: float = 0.0
    _busy: int = 0  # answers in a row
    _busy_until_s: float = 0.0
    _trying: bool = False  # a call was sent after a pause, and none was answered since

    # Probes ---------------------------------------------------------------------------------------

    def failed(self) -> None:
        self.state = "down"
        self.failures += 1

    def answered(self) -> None:
        self.state = "up"
        self.failures = self.slow = 0

    def delayed(self) -> None:
        """A probe was not answered in time."""
        self.slow += 1
        if self.slow >= self.SLOW_PROBES:
            self.failed()

    def next_probe_s(self, interval_s: float) -> float:
        """The time until the next probe: 100 ms after a failure, doubling to 2 s; `interval_s` while it is up."""
        if self.state == "up" and not self.slow:
            return interval_s
        return min(self.SLOWEST_PROBE_S, self.FIRST_PROBE_S * 2.0 ** max(0, self.failures - 1))

    # Calls ----------------------------------------------------------------------------------------

    def call_failed(self, now_s: float) -> bool:
        """Returns whether this ejects it."""
        self._debt, self._debt_at_s = min(self.MAX_DEBT, 2 * self.debt(now_s) + 1), now_s
        if self.ejected(now_s) or (self._debt < self.EJECTING_DEBT and not self._ejected):
            return False
        if not self._ejected:
            self._ejections = max(0, self._ejections - int((now_s - self._returned_s) / self.EJECTION_FORGOTTEN_S))
        self._ejections += 1
        self._ejected = True
        self.ejected_until_s = now_s + min(self.MAX_EJECTION_S, self.EJECTION_S * self._ejections)
        return True

    def call_answered(self, now_s: float) -> bool:
        """Returns whether this ends its trial."""
        self._busy = 0
        if self._trying:
            self._trying, self._busy_until_s = False, 0.0
        if self._debt:
            self._debt, self._debt_at_s = 0.7 * self.debt(now_s), now_s
        if not self._ejected or self.ejected(now_s):
            return False
        self._ejected, self._returned_s, self._debt = False, now_s, 0.0
        return True

    def call_busy(self, now_s: float) -> None:
        """The server had no room for a call."""
        if not self.busy(now_s):  # several at once count as one
            self._pause(now_s)

    def call_sent(self, now_s: float) -> None:
        """A call is sent to it. After a pause this is the only one until it is answered, or the next pause is over."""
        if self._busy and not self.busy(now_s):
            self._trying = True
            self._pause(now_s)

    def _pause(self, now_s: float) -> None:
        self._busy_until_s = now_s + min(self.MAX_BUSY_S, self.FIRST_BUSY_S * 2.0**self._busy)
        self._busy += 1

    def debt(self, now_s: float) -> float:
        """The health debt, in requests."""
        if not self._debt:
            return 0.0
        left: float = self._debt * 0.5 ** ((now_s - self._debt_at_s) / self.DEBT_HALVES_S)
        if left < 0.5:
            self._debt = left = 0.0
        return left

    def ejected(self, now_s: float) -> bool:
        return self._ejected and now_s < self.ejected_until_s

    def on_trial(self, now_s: float) -> bool:
        return self._ejected and now_s >= self.ejected_until_s

    def busy(self, now_s: float) -> bool:
        return now_s < self._busy_until_s
