"""A call of a model under way."""

import time
from collections.abc import Sequence

from inference.backends.port import Event
from inference.backends.triton import errors
from inference.backends.triton.answer import Answer
from inference.backends.triton.token_ids import TokenTexts
from inference.core.backend_errors import BackendError
from inference.wires.grpc import Call, GrpcError


class TritonStream:
    """Ends with the event that completes the answer, or before it if the model does."""

    __slots__ = ("_answer", "_call", "_failure", "_texts", "awaited_since_s")

    head = None

    def __init__(self, call: Call, answer: Answer, texts: TokenTexts | None = None) -> None:
        self._call = call
        self._answer = answer
        self._texts = texts  # where the model answers with token ids
        self._failure: BackendError | None = None  # after what came before it
        self.awaited_since_s = 0.0

    @property
    def waiting(self) -> bool:
        return self._call.waiting

    async def sent(self) -> None:
        await self._call.sent()

    async def next(self) -> Sequence[Event]:
        answer, events = self._answer, list[Event]()
        if self._failure is not None:
            raise self._failure
        try:
            while not events and not answer.done:
                self.awaited_since_s = time.monotonic()
                messages = await self._call.read_all()
                self.awaited_since_s = 0.0
                if not messages:
                    break
                if self._texts is not None:
                    messages = await self._texts.of(messages)
                answer.read(messages, events)
        except GrpcError as error:
            raise errors.of_status(error.with_traceback(None)) from None  # its frames hold the call, which holds it
        except BackendError as error:
            self._failure = error.with_traceback(None)
            if not events:
                raise
        if answer.cut:
            self._call.cancel()  # a stop word has ended the answer before the server did
        return events

    def cancel(self) -> None:
        """An answer that is done ends by itself: Triton 2.51 can crash where a call begins just after a cancellation."""
        if not self._answer.done:
            self._call.cancel()
