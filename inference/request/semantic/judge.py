"""Asks a model of the fleet whether one answer is right for two texts that differ in words of which the verifier knows nothing.

No text is stored, so those that may be asked about are in this process's memory alone: a candidate whose text another gateway has seen, or
this one too long ago, cannot be judged, and is none.
"""

import asyncio
from collections import OrderedDict
from typing import Literal

from inference.core.semantic.verdict import agrees, question
from inference.observability.metrics import Metrics
from inference.observability.span_export import SpanExport
from inference.observability.spans import Trace
from inference.request import own_requests
from inference.snapshot.serving import Caller, Serving

PATH = "/v1/chat/completions"
MAX_TEXTS = 4096  # of 2 KiB at most

Judged = Literal["same", "judge", "judge_failed", "judge_no_text"]
"""`judge`: it says that they are different, or what it says is no verdict."""


class Judge:
    def __init__(self, export: SpanExport, metrics: Metrics) -> None:
        self._export, self._metrics = export, metrics
        self._texts: OrderedDict[bytes, str] = OrderedDict()

    def remember(self, bucket: bytes, key: bytes, text: str) -> None:
        """The text of an answer that others may get."""
        self._texts[bucket + key] = text
        self._texts.move_to_end(bucket + key)
        while len(self._texts) > MAX_TEXTS:
            self._texts.popitem(last=False)

    async def verdict(
        self,
        serving: Serving,
        caller: Caller,
        model: own_requests.Helper,
        text: str,
        candidate: bytes,
        trace: Trace,
        timeout_s: float,
    ) -> Judged:
        """`candidate` is the bucket and key of the text to compare with."""
        other = self._texts.get(candidate)
        if other is None:
            return "judge_no_text"
        document = question(other, text)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await own_requests.send(
                    serving, caller, model, PATH, document, trace, self._export, self._metrics
                )
        except TimeoutError:
            return "judge_failed"
        if answer is None:
            return "judge_failed"
        return "same" if agrees(answer) else "judge"
