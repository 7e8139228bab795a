"""Sends a benchmark's requests to a replica, and measures them."""

import asyncio
import random
import secrets
from collections.abc import Callable

import msgspec

from inference.backends.port import Backend, CallInfo, Query
from inference.benchmark.prompts import Prompts
from inference.contract.benchmark_messages import Alone, Ended, Load, Pulse, Ready, Report, Sample, Setup
from inference.contract.errors import PermanentError
from inference.core.backend_errors import BackendError, BusyError, FailedError, InvalidError, RefusedError
from inference.core.events import ABORTED, Usage
from inference.core.passing.passed import Passed, made
from inference.core.question import Question
from inference.observability.spans import OwnCall, now_ns

PULSE_S = 0.2
_PROBE_S = 10.0
_TRIES = 3
"""Of a request whose connection the server closed before it began, as it may do with one that was idle."""
_PRIORITY = 2  # after users' requests of the first priority
_ALIKE = {"model": "", "stream": True, "ignore_eos": True}  # the server's own name of the model comes in its place


class CannotMeasureError(PermanentError):
    """The replica failed, or is for something else. The text says what."""


class Sender:
    """Loads one after the other. `report` gets what is to be known of them, `record` each request once it has ended."""

    def __init__(
        self,
        setup: Setup,
        backend: Backend,
        report: Callable[[Report], None],
        record: Callable[[OwnCall], None] = lambda _: None,
    ) -> None:
        self._setup, self._backend, self._report, self._record = setup, backend, report, record
        self._prompts = Prompts(setup.lengths)
        self._forms = [_chat, _text] if backend.passes else []
        self._places = asyncio.Semaphore(setup.slots) if setup.slots else None
        self._samples: dict[int, Sample] = {}
        self._ended: list[Sample] = []
        self._failure: CannotMeasureError | None = None
        self._began_s = 0.0

    async def ready(self) -> None:
        """Look at the replica, and report what it is. Raises CannotMeasureError."""
        try:
            is_ready = await self._backend.ready(_PROBE_S)
            detected = await self._backend.detect(_PROBE_S)
        except TimeoutError:
            raise CannotMeasureError(f"The replica has not answered within {_PROBE_S:g} s.") from None
        except BackendError as error:
            raise CannotMeasureError(f"The replica does not answer: {error}") from None
        if not is_ready or detected.misfit:
            raise CannotMeasureError(f"The replica is not ready: {detected.misfit or 'its model is not loaded'}")
        self._report(Ready(detected.kind, detected.version))

    async def run(self, command: Alone | Load, stopped: asyncio.Event) -> None:
        """One load to its end. Raises CannotMeasureError as soon as the replica fails."""
        self._samples, self._ended, self._began_s = {}, [], _now_s()
        pulses = asyncio.create_task(self._pulse())
        work = asyncio.create_task(self._alone(command) if isinstance(command, Alone) else self._load(command))
        ends = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait((work, ends, pulses), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, ends, pulses):
                task.cancel()
            await asyncio.gather(work, ends, pulses, return_exceptions=True)
        if self._failure is not None:
            raise self._failure
        if not work.cancelled() and (error := work.exception()) is not None:
            raise error
        self._tell(everything=True)
        self._report(Ended())

    async def _alone(self, command: Alone) -> None:
        for number in range(command.requests):
            await self._request(number)
            if self._failure is not None:
                return

    async def _load(self, command: Load) -> None:
        arrivals = random.Random(secrets.randbits(64))  # noqa: S311  (no secret)
        due_s = self._began_s
        requests: set[asyncio.Task[None]] = set()
        try:
            for number in range(command.requests):
                due_s += arrivals.expovariate(command.requests_per_s)
                await asyncio.sleep(due_s - _now_s())
                self._samples[number] = Sample(number, due_s - self._began_s)
                task = asyncio.create_task(self._request(number))
                requests.add(task)
                task.add_done_callback(requests.discard)
            if requests:
                await asyncio.wait(requests, timeout=command.grace_s)
        finally:
            left = list(requests)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _pulse(self) -> None:
        while self._failure is None:
            await asyncio.sleep(PULSE_S)
            self._tell()

    def _tell(self, *, everything: bool = False) -> None:
        ended, self._ended = self._ended, []
        left = tuple(self._samples.values())
        self._report(Pulse(_now_s() - self._began_s, (*ended, *left) if everything else tuple(ended), left))

    async def _request(self, number: int) -> None:
        self._samples.setdefault(number, Sample(number, self._at_s()))
        try:
            if self._places is None:
                await self._sent(number)
            else:
                async with self._places:
                    await self._sent(number)
        except CannotMeasureError as error:
            self._failure = self._failure or error

    async def _sent(self, number: int) -> None:
        prompt, words, outputs = self._prompts.next()
        self._change(number, sent_s=self._at_s())
        for left in reversed(range(_TRIES)):
            try:
                async with asyncio.timeout(self._setup.timeout_s):
                    usage = await self._answer(number, prompt, words, outputs)
            except TimeoutError:
                raise CannotMeasureError(
                    f"The replica has not answered a request within {self._setup.timeout_s:g} s."
                ) from None
            except InvalidError as error:
                if len(self._forms) > 1 and number == 0:
                    del self._forms[0]
                    continue
                raise CannotMeasureError(f"The replica does not take the requests: {error.message}") from None
            except RefusedError as error:
                if left:
                    continue
                self._change(number, busy=error.message)
            except BusyError as error:
                self._change(number, busy=error.message)
            except BackendError as error:
                raise CannotMeasureError(f"The replica failed: {error}") from None
            else:
                self._prompts.learn(words, usage.prompt_tokens)
                self._change(number, input_tokens=usage.prompt_tokens, output_tokens=usage.output_tokens)
            break
        self._change(number, ended_s=self._at_s())
        self._ended.append(self._samples.pop(number))

    async def _answer(self, number: int, prompt: str, words: int, outputs: int) -> Usage:
        """The counts of a whole answer. Raises BackendError."""
        pool = self._setup.pool
        own = OwnCall("benchmark", pool.name, pool.endpoints[0].replica)
        try:
            return await self._call(number, prompt, words, outputs, own)
        except BackendError as error:
            error.quote()  # the prompt is made up
            raise
        finally:
            own.end_ns = now_ns()
            self._record(own)

    async def _call(self, number: int, prompt: str, words: int, outputs: int, own: OwnCall) -> Usage:
        query = self._query(prompt, max(1, outputs))
        call = CallInfo(
            words,
            outputs,
            _PRIORITY,
            own.traceparent,
            own.trace_id.hex(),
            _now_s() + self._setup.timeout_s,
            prompt,
        )
        stream = await self._backend.generate(query, call)
        finished, tokens, usage = self._backend.passes, 0, None
        try:
            while not (finished and usage and not self._backend.passes) and (events := await stream.next()):
                for event in events:
                    if event.text or event.raw:
                        tokens += event.tokens
                        if tokens and self._samples[number].first_s is None:
                            self._change(number, first_s=self._at_s())
                    if event.finish_reason == ABORTED:
                        raise FailedError("it ended a request before its answer was complete", ABORTED)
                    finished |= bool(event.finish_reason)
                    usage = event.usage or usage
            if not finished:
                raise FailedError("it ended an answer without saying why", "no_finish_reason")
        except BaseException:
            stream.cancel()
            raise
        given = usage or Usage()
        return given._replace(output_tokens=given.output_tokens if given.output_tokens >= 0 else tokens)

    def _query(self, prompt: str, outputs: int) -> Query:
        """The server must not end its answer earlier than wanted, where it can be kept from that."""
        if self._forms:
            return self._forms[0](prompt, outputs)
        question = Question(operation="text_completion", prompt=(prompt,), max_tokens=outputs)
        offered = self._backend.capabilities.parameters.get("ignore_eos")
        return (
            msgspec.structs.replace(question, ignore_eos=True) if offered in ("forwarded", "translated") else question
        )

    def _change(self, number: int, **changes: float | str | None) -> None:
        self._samples[number] = msgspec.structs.replace(self._samples[number], **changes)

    def _at_s(self) -> float:
        return _now_s() - self._began_s


def _chat(prompt: str, outputs: int) -> Passed:
    return made(
        "/v1/chat/completions",
        "chat",
        _ALIKE | {"messages": [{"role": "user", "content": prompt}], "max_tokens": outputs},
    )


def _text(prompt: str, outputs: int) -> Passed:
    return made("/v1/completions", "text_completion", _ALIKE | {"prompt": prompt, "max_tokens": outputs})


def _now_s() -> float:
    return asyncio.get_running_loop().time()
