"""Reads a model's responses into events: whichever way it sends text, ends, and counts."""

import codecs
from collections.abc import Iterable
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.backends.port import Event, Usage
from inference.backends.triton import errors
from inference.backends.triton.logprobs import convert
from inference.backends.triton.plan import Plan
from inference.backends.triton.stop_words import StopWords
from inference.backends.triton.template import Kept, Template, template_of
from inference.backends.triton.values import Request, max_tokens
from inference.core.backend_errors import FailedError
from inference.core.events import ABORTED

_utf8 = codecs.getincrementaldecoder("utf-8")
_UNFINISHED = (b"", b"None")  # vLLM's backend writes Python's None while a choice goes on
_STOPPED_BY_SERVER = ("cancelled", "timeout")  # finish reasons of TensorRT-LLM's LLM API
_MAX_TEMPLATES = 4  # of one answer: where responses differ in more than their text, none is of use
_BYTES_A_TOKEN = 4  # of text whose tokens nobody has counted


class _Utf8:
    """Decodes a text that comes in parts, of which each but the last may end in the middle of a character."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: codecs.IncrementalDecoder | None = None  # once a part has ended in the middle of a character

    def decode(self, raw: bytes, last: bool = False) -> str:
        if self._parts is None:
            try:
                return raw.decode()
            except UnicodeDecodeError:
                self._parts = _utf8("replace")
        return self._parts.decode(raw, last)


class _Choice:
    __slots__ = ("counted", "decode", "done", "length", "pending", "plain", "so_far", "stop_words", "text")

    def __init__(self, stop_words: tuple[str, ...], so_far: bool | None, *, cuts: bool = False) -> None:
        self.decode = _Utf8().decode
        self.text = ""  # so far, where the server repeats it
        self.length = 0  # characters passed on
        self.counted = 0  # output tokens
        self.pending = 0  # those whose text is kept back
        self.done = False
        self.so_far = so_far
        self.stop_words = StopWords(stop_words) if stop_words else None
        self.plain = so_far is False and not stop_words and not cuts  # what comes is passed on as it is


class _Usual(NamedTuple):
    """What the responses that bring one token's text after the other have in common: also their choice, and the number of tokens,
    -1 if the server does not say it.
    """

    template: Template
    choice: _Choice
    choice_index: int
    tokens: int


class Answer:
    """The answer to one call. `done` is set with its last event; `cut` if a stop word, or the limit on tokens of a model that
    takes none, ended it before the server did.
    """

    __slots__ = (
        "_choices",
        "_cuts_length",
        "_expected",
        "_limit",
        "_plan",
        "_prompt_tokens",
        "_request",
        "_stop_words",
        "_templates",
        "_usual",
        "cut",
        "done",
    )

    def __init__(self, plan: Plan, request: Request) -> None:
        self._plan = plan
        self._request = request
        self._expected = request.question.n if plan.signature.choices else 1
        self._choices: dict[int, _Choice] = {}
        self._prompt_tokens = -1
        self._limit = max_tokens(request)
        self._cuts_length = plan.cuts_length
        self._stop_words = request.question.stop if plan.signature.cuts_stop_words else ()
        self._usual: _Usual | None = None  # once there was a token
        self._templates = _MAX_TEMPLATES  # that may still be made
        self.done = self.cut = False

    def read(self, messages: Iterable[bytes], events: list[Event]) -> None:
        """Append the events of responses, until the answer is done. Raises BackendError."""
        usual = self._usual
        for raw in messages:
            if usual is not None and (text := usual.template.text(raw)) is not None:
                _token(usual.choice, usual.choice_index, usual.tokens, text, events)
                continue
            if not self._choices and self._begins_as_before(raw, events):
                usual = self._usual
                continue
            self._read(raw, events)
            if self.done:
                return
            usual = self._usual

    def _begins_as_before(self, raw: bytes, events: list[Event]) -> bool:
        """Whether the first response is, but for its text, as one of an answer before was."""
        kept, request_id = self._plan.kept, self._request.id
        if kept is None or len(kept.request_id) != len(request_id):
            return False
        template = kept.template.of_request(kept.request_id, request_id)
        text, choice = template.text(raw), self._new_choice()
        if text is None or not choice.plain:
            return False
        self._choices[kept.choice], self._prompt_tokens = choice, kept.prompt_tokens
        self._usual = _Usual(template, choice, kept.choice, kept.tokens)
        _token(choice, kept.choice, kept.tokens, text, events)
        return True

    def _new_choice(self) -> _Choice:
        return _Choice(self._stop_words, self._plan.text_so_far, cuts=self._cuts_length)

    def _read(self, raw: bytes, events: list[Event]) -> None:
        try:
            message = pb.ModelStreamInferResponse.FromString(raw)
        except DecodeError as error:
            raise FailedError("the server sent what is no response of a model", "bad_response", str(error)) from None
        if message.error_message:
            raise errors.of_message(message.error_message)
        response, plan = message.infer_response, self._plan
        contents = list(response.raw_output_contents)
        text = logprobs = None
        reason = b""
        count, prompt_tokens, index, text_at = -1, -1, 0, 0
        for number, (output, content) in enumerate(zip(response.outputs, contents, strict=False)):
            value = plan.outputs.get(output.name)
            if value == "text":
                text, text_at = content[4:], number  # one element: its length, and its bytes
            elif value == "finish_reason":
                reason = content[4:]
            elif value == "output_tokens":
                count = int.from_bytes(content[:4], "little")
            elif value == "prompt_tokens":
                self._prompt_tokens = prompt_tokens = int.from_bytes(content[:4], "little")
            elif value == "logprobs":
                logprobs = content[4:]
            elif value == "sequence" and self._expected > 1:
                index = int.from_bytes(content[:4], "little")
        final = plan.ends_by_final and (
            not plan.model.decoupled or response.parameters["triton_final_response"].bool_param
        )
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = self._new_choice()
        if text is not None and choice.plain and reason in _UNFINISHED and not final and logprobs is None:
            if self._templates:
                self._templates -= 1
                template = template_of(raw, contents, text_at)
                self._usual = None
                if template is not None:
                    self._usual = _Usual(template, choice, index, count)
                    plan.kept = Kept(template, self._request.id, index, count, prompt_tokens)
            _token(choice, index, count, text, events)
            return
        begun = len(events)
        if text is not None and not choice.done:
            self._take(choice, index, text, reason, final, count, logprobs, events)
        if final:
            self._end(events, begun)

    def _take(
        self,
        choice: _Choice,
        index: int,
        raw: bytes,
        reason: bytes,
        final: bool,
        count: int,
        logprobs: bytes | None,
        events: list[Event],
    ) -> None:
        finish_reason = "" if reason in _UNFINISHED else reason.decode("utf-8", "replace")
        if finish_reason in _STOPPED_BY_SERVER:
            finish_reason = ABORTED
        last = bool(finish_reason) or (final and self._expected == 1)
        text = choice.decode(raw, last) if choice.so_far is False else self._news(choice, raw, last)
        if count < 0:
            count = 1 if self._plan.model.decoupled else -(-len(raw) // _BYTES_A_TOKEN)
            count = count if text else 0
        room = self._limit - choice.counted
        if self._cuts_length and count >= room and (count > room or not last):
            # A response is cut where its share of the tokens ends, because nobody knows where each of them does.
            text, count, finish_reason = text[: len(text) * room // count], room, "length"
            self.cut = not last
            last = True
        choice.counted += count
        choice.pending += count
        chances = self._logprobs(choice, logprobs) if logprobs is not None else b""
        if choice.stop_words is not None:
            text = choice.stop_words.add(text, last=last)
            if choice.stop_words.cut:
                finish_reason = "stop"
                self.cut = self.cut or (self._expected == 1 and not last)
        choice.length += len(text)
        if not (text or finish_reason or chances):
            return
        tokens, choice.pending = choice.pending, 0
        choice.done = bool(finish_reason)
        usage = self._usage() if finish_reason else None
        events.append(Event(text, index, finish_reason, logprobs=chances, usage=usage, tokens=tokens))

    def _news(self, choice: _Choice, raw: bytes, last: bool) -> str:
        """The new part of a text that repeats, or may repeat, what was before."""
        text = raw.decode("utf-8", "replace")
        if choice.so_far is None and not text.startswith(choice.text):
            choice.so_far = False
            return text
        whole = text if last else text.rstrip("\ufffd")  # which stands for the beginning of a character
        news = whole[len(choice.text) :]
        if len(whole) > len(choice.text):
            choice.text = whole
        return news

    def _end(self, events: list[Event], begun: int) -> None:
        """The server has ended the answer without reasons: give the choices that have none yet theirs. The events from
        `begun` on are of the same response.
        """
        for index in range(self._expected):
            choice = self._choices.get(index)
            if choice is None:
                choice = self._choices[index] = _Choice((), False)
            if choice.done:
                continue
            choice.done = True
            rest = "" if choice.stop_words is None else choice.stop_words.add("", last=True)
            reason = "length" if choice.counted >= self._limit else "stop"
            if len(events) > begun and events[-1].choice == index:
                last = events.pop()
                event = last._replace(text=last.text + rest, finish_reason=reason, usage=self._usage())
            else:
                event = Event(rest, index, reason, usage=self._usage(), tokens=choice.pending)
            events.append(event)

    def _usage(self) -> Usage | None:
        """With the last choice's reason."""
        if len(self._choices) < self._expected or not all(choice.done for choice in self._choices.values()):
            return None
        self.done = True
        return Usage(self._prompt_tokens, sum(choice.counted for choice in self._choices.values()))

    def _logprobs(self, choice: _Choice, raw: bytes) -> bytes:
        question = self._request.question
        top = question.top_logprobs if question.operation == "chat" else question.logprobs
        return convert(raw, question.operation, top or 0, choice.length)


def _token(choice: _Choice, index: int, count: int, raw: bytes, events: list[Event]) -> None:
    """Append the event of a response that brings text alone, of `count` tokens: -1 if the server has not said."""
    text = choice.decode(raw)
    tokens = count if count >= 0 else 1 if raw else 0
    choice.counted += tokens
    tokens += choice.pending
    if not text:
        choice.pending = tokens
        return
    choice.pending = 0
    choice.length += len(text)
    events.append(Event(text, index) if tokens == 1 else Event(text, index, tokens=tokens))
