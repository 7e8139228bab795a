"""Whether a replica can be reached, how often its calls failed lately, and whether it is busy."""

from dataclasses import dataclass

from inference.contract.failure_rules import EJECTION, Ejection


@dataclass(slots=True, eq=False)
class Health:
    """The health of a replica, by evidence and not by single events. Times are seconds on any monotonic clock.

    It starts `unknown`. Probes and connections that fail are counted together: `rule.probes` of them in a row make it `down`, the
    first one already where it was never up. What was under way together when one failed is one piece of evidence. A probe
    that is answered makes it `up`. A call that is answered while it is down (a trial, see `candidates.usable`) makes it
    `unknown` again: it is used, after those that are up.

    A call that fails, or whose connection is lost, counts for ejection: `rule.failures` in a row, or `rule.failure_percent` of at
    least `rule.min_calls` calls, which halve in weight every 5 s. The ejection lasts as in Envoy
    (api/envoy/config/cluster/v3/outlier_detection.proto): `rule.base_s` times the number of ejections, at most 300 s, and the
    number falls by one for each 10 s without. After it the replica is on trial: it gets one call at a time until one is
    answered, which ends that, or fails, which ejects it again.

    Such calls also add health debt, which counts like requests at the replica. Without it, a replica that fails fast would always
    have the fewest and get all requests. Each failure doubles the debt and adds one, each answer takes 30 % off, and it
    halves every 5 s: a replica that fails every call is tried about once in 5 s while others serve.

    A server that says that it is busy is not broken. It is passed over for as long as it says, or else for 100 ms, doubling to 2 s,
    while others are not. After each pause it is tried with one call, and gets its share again once a call is answered.
    """

    FIRST_PROBE_S = 0.1
    SLOWEST_PROBE_S = 2.0
    HALVES_S = 5.0
    MAX_DEBT = 1024.0  # requests; forgotten after 55 s at most
    MAX_EJECTION_S, EJECTION_FORGOTTEN_S = 300.0, 10.0
    FIRST_BUSY_S, MAX_BUSY_S = 0.1, 2.0

    rule: Ejection = EJECTION
    state: str = "unknown"
    failures: int = 0  # probes and connections in a row
    unfit: bool = False  # by its own words, so that no call need find out
    ejected_until_s: float = 0.0
    _failed_s: float = float("-inf")  # the last of those
    _lost_s: float = float("-inf")  # when a call's connection was lost last
    _in_a_row: int = 0  # calls that failed
    _calls: float = 0.0  # of the last seconds
    _failed_calls: float = 0.0
    _counted_s: float = 0.0
    _debt: float = 0.0
    _debt_at_s: float = 0.0
    _ejected: bool = False  # and not answered since
    _ejections: int = 0
    _returned_s: float = 0.0
    _busy: int = 0  # answers in a row
    _busy_until_s: float = 0.0
    _trying: bool = False  # a call was sent after a pause, and none was answered since

    # Probes and connections -------------------------------------------------------------------------

    def failed(self, began_s: float, now_s: float, *, unfit: bool = False) -> None:
        """A probe failed or was not answered in time, or a connection could not be made. It began at `began_s`. `unfit`: the server
        itself says that it does not serve this.
        """
        if began_s < self._failed_s:
            return
        self._failed_s, self.unfit = now_s, unfit
        self.failures += 1
        if self.state != "up" or self.failures >= self.rule.probes:
            self.state = "down"

    def answered(self) -> None:
        """A probe was answered as it should be."""
        self.state, self.failures, self.unfit = "up", 0, False

    def answered_busy(self) -> None:
        """A probe was answered by a server that has no time for it. It lives, and whether it is ready is not known."""
        self.failures = 0
        if self.state == "down":
            self.state = "unknown"

    def next_probe_s(self, interval_s: float) -> float:
        """The time until the next probe: 100 ms after a failure, doubling to 2 s once it is down; else `interval_s`."""
        if not self.failures:
            return interval_s
        return min(self.SLOWEST_PROBE_S, self.FIRST_PROBE_S * 2.0 ** min(10, max(0, self.failures - self.rule.probes)))

    # Calls ----------------------------------------------------------------------------------------

    def call_failed(self, now_s: float) -> bool:
        """Returns whether this ejects it."""
        self._debt, self._debt_at_s = min(self.MAX_DEBT, 2 * self.debt(now_s) + 1), now_s
        self._count(now_s)
        self._failed_calls += 1
        self._in_a_row += 1
        if self.ejected(now_s) or not (self._ejected or self._is_outlier()):
            return False
        if not self._ejected:
            self._ejections = max(0, self._ejections - int((now_s - self._returned_s) / self.EJECTION_FORGOTTEN_S))
        self._ejections += 1
        self._ejected = True
        self.ejected_until_s = now_s + min(self.MAX_EJECTION_S, self.rule.base_s * self._ejections)
        return True

    def call_lost(self, began_s: float, now_s: float) -> bool:
        """The connection was lost while it had a call, which had begun at `began_s`. Calls that are lost together are one failure.
        Returns whether this ejects it.
        """
        if began_s < self._lost_s:
            return False
        self._lost_s = now_s
        return self.call_failed(now_s)

    def call_answered(self, now_s: float) -> bool:
        """Returns whether this ends its trial."""
        self._busy = self._in_a_row = 0
        self._count(now_s)
        if self.state == "down":
            self.state = "unknown"
        if self._trying:
            self._trying, self._busy_until_s = False, 0.0
        self._debt, self._debt_at_s = 0.7 * self.debt(now_s), now_s
        if not self._ejected or self.ejected(now_s):
            return False
        self._ejected, self._returned_s, self._debt = False, now_s, 0.0
        self._calls = self._failed_calls = 0.0
        return True

    def call_busy(self, now_s: float, wait_s: float = 0.0) -> None:
        """The server had no room for a call. `wait_s` is how long it wants to be left alone; 0 where it does not say."""
        if wait_s:
            self._busy_until_s = max(self._busy_until_s, now_s + wait_s)
            self._busy += 1
        elif not self.busy(now_s):  # several at once count as one
            self._pause(now_s)

    def call_sent(self, now_s: float) -> None:
        """A call is sent to it. After a pause this is the only one until it is answered, or the next pause is over."""
        if self._busy and not self.busy(now_s):
            self._trying = True
            self._pause(now_s)

    def _is_outlier(self) -> bool:
        rule = self.rule
        if rule.failures and self._in_a_row >= rule.failures:
            return True
        return bool(rule.failure_percent) and (
            self._calls >= rule.min_calls and 100 * self._failed_calls >= rule.failure_percent * self._calls
        )

    def _count(self, now_s: float) -> None:
        """Another call has ended."""
        kept = 0.5 ** ((now_s - self._counted_s) / self.HALVES_S)
        self._calls, self._failed_calls, self._counted_s = self._calls * kept + 1, self._failed_calls * kept, now_s

    def _pause(self, now_s: float) -> None:
        self._busy_until_s = now_s + min(self.MAX_BUSY_S, self.FIRST_BUSY_S * 2.0 ** min(self._busy, 10))
        self._busy += 1

    def debt(self, now_s: float) -> float:
        """The health debt, in requests."""
        if not self._debt:
            return 0.0
        left: float = self._debt * 0.5 ** ((now_s - self._debt_at_s) / self.HALVES_S)
        if left < 0.5:
            self._debt = left = 0.0
        return left

    def ejected(self, now_s: float) -> bool:
        return self._ejected and now_s < self.ejected_until_s

    def on_trial(self, now_s: float) -> bool:
        return self._ejected and now_s >= self.ejected_until_s

    def busy(self, now_s: float) -> bool:
        return now_s < self._busy_until_s
