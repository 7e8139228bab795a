"""The kinds and states of batches, the states of lines, and what follows from an attempt."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from controlplane.core.backoff import doubled_s

VALIDATING, IN_PROGRESS, FINALIZING, CANCELLING = "validating", "in_progress", "finalizing", "cancelling"
COMPLETED, FAILED, EXPIRED, CANCELLED = "completed", "failed", "expired", "cancelled"
INCOMPLETE = "incomplete"
"""Of a response that was cut off, by its `max_output_tokens` for instance."""
QUEUED = "queued"
"""Of a job that is in progress, and has not begun."""
BATCH, RESPONSE, JOB = "batch", "response", "job"
"""Kinds of batches: one of many lines, out of a file, and those of a single line, which are jobs."""
OPEN = (VALIDATING, IN_PROGRESS, FINALIZING, CANCELLING)
"""A batch in one of these needs its input."""
ENDED = (COMPLETED, FAILED, EXPIRED, CANCELLED)

WAITING, RUNNING, DONE, REFUSED = range(4)
"""Of a line. The last two have a result: in the output file, or in the error file."""

MAX_DEATHS = 3
"""A line that was in flight when so many workers died is given up: it may be what they died of."""
ALONE_FROM = MAX_DEATHS - 1
"""A line with so many deaths runs alone, so that no other is blamed for the last."""

EXPIRED_CODE, CANCELLED_CODE, LOST_CODE, TOO_LONG_CODE, BROKEN_CODE, RESULT_LOST_CODE = (
    "batch_expired",
    "batch_cancelled",
    "worker_lost",
    "answer_too_long",
    "stream_broken",
    "result_lost",
)
MESSAGES = {
    EXPIRED_CODE: "This request could not be executed before the completion window expired.",
    CANCELLED_CODE: "It was cancelled before this request was executed.",
    LOST_CODE: f"{MAX_DEATHS} workers ended while they executed this request, or the last did when a part of its stream was read: "
    "it is not tried again.",
    BROKEN_CODE: "The answer broke off when a part of its stream was read: it is not tried again.",
    RESULT_LOST_CODE: "This request was executed, and its result is no longer stored: send it again.",
    TOO_LONG_CODE: "The answer to this request is longer than what is kept. Limit its output tokens.",
}
RESULT_LOST_AFTER_S = 600.0
"""A result that is not where it was written for so long is lost, such as with a database that was restored. Its input is there, and so the
place for objects."""
LEFT_OVER = {EXPIRED: EXPIRED_CODE, CANCELLED: CANCELLED_CODE, COMPLETED: LOST_CODE}
"""The error of lines without a result, by how their batch ends. A completed one has lines of `LOST_CODE` alone."""


def kind_of_error(state: int, code: str, status: int) -> str:
    """Of a line with a result: empty where it is in the output, else its code, or the status that was answered."""
    return "" if state == DONE else code or str(status)


FIRST_WAIT_S, MAX_WAIT_S = 1.0, 300.0
FINAL_FROM_TRIES = 3
"""A server error that the gateway calls final is believed after so many tries: one may be a server that was about to end."""
_TRANSIENT = (408, 409, 425, 429)
OK, _CLIENT, _SERVER = range(200, 300), 400, 500


class Again(NamedTuple):
    """It is tried again, so many seconds later."""

    wait_s: float


Verdict = Literal["done", "refused"] | Again


def judge(status: int, headers: Mapping[str, str], tries: int, chance: float) -> Verdict:
    """What follows from an answer of the gateway, or from none (status 0), to the try number `tries`. `chance` from 0 to 1 spreads the
    waits of lines that failed together.
    """
    if status in OK:
        return "done"
    if _CLIENT <= status < _SERVER and status not in _TRANSIENT:
        return "refused"
    if status >= _SERVER and headers.get("x-should-retry") == "false" and tries >= FINAL_FROM_TRIES:
        return "refused"
    wait_s = max(doubled_s(FIRST_WAIT_S, tries, MAX_WAIT_S), min(_seconds(headers.get("retry-after", "")), MAX_WAIT_S))
    return Again(wait_s * (0.5 + chance / 2))


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 0.0
