"""Makes events with tool calls and reasoning of a plain text's events."""

from collections.abc import Callable

from inference.core.events import Event, ToolCallDelta
from inference.core.tools.formats import FORMATS, ToolFormat

_BEGIN, _END = "<think>", "</think>"


class Think:
    """Tells the reasoning of one choice from its answer, where it writes `<think>reasoning</think>answer`. `inside`: the prompt ends
    with `<think>` already, as with DeepSeek-R1.
    """

    def __init__(self, inside: bool) -> None:
        self._kept = ""
        self._state = "start" if not inside else "inside"

    def feed(self, text: str) -> tuple[str, str]:
        """Reasoning, and text of the answer."""
        if self._state == "after":
            return "", text
        self._kept += text
        if self._state == "start":
            kept = self._kept.lstrip()
            if kept.startswith(_BEGIN):
                self._state, self._kept = "inside", kept[len(_BEGIN) :]
            elif _BEGIN.startswith(kept):
                return "", ""
            else:
                self._state = "after"
                shown, self._kept = self._kept, ""
                return "", shown
        if self._state == "gap":
            return "", self._after_gap()
        reasoning, end, rest = self._kept.partition(_END)
        if end:
            self._state, self._kept = "gap", rest
            return reasoning, self._after_gap()
        keep = next((size for size in range(len(_END) - 1, 0, -1) if self._kept.endswith(_END[:size])), 0)
        ready, self._kept = self._kept[: len(self._kept) - keep], self._kept[len(self._kept) - keep :]
        return ready, ""

    def end(self) -> tuple[str, str]:
        """What was kept back."""
        kept, self._kept = self._kept, ""
        return (kept, "") if self._state == "inside" else ("", "" if self._state == "gap" else kept)

    def _after_gap(self) -> str:
        """The answer without the line ends before it."""
        text = self._kept.lstrip("\n")
        self._kept = ""
        if text:
            self._state = "after"
        return text


class _Choice:
    def __init__(self, think: Think | None, tools: ToolFormat | None) -> None:
        self._think = think
        self._tools = tools
        self.tokens = 0  # of events that gave nothing to pass on yet

    def feed(self, text: str) -> tuple[str, str, tuple[ToolCallDelta, ...]]:
        """Text, reasoning and calls."""
        reasoning = ""
        if self._think is not None:
            reasoning, text = self._think.feed(text)
        if self._tools is None or not text:
            return text, reasoning, ()
        text, deltas = self._tools.feed(text)
        return text, reasoning, deltas

    def end(self) -> tuple[str, str, tuple[ToolCallDelta, ...]]:
        reasoning = text = ""
        if self._think is not None:
            reasoning, text = self._think.end()
        if self._tools is None:
            return text, reasoning, ()
        shown, deltas = self._tools.feed(text)
        return shown + self._tools.end(), reasoning, deltas

    @property
    def called(self) -> bool:
        return self._tools is not None and self._tools.calls > 0


class AnswerParser:
    """`tool_parser` is one of `FORMATS` or empty, `reasoning_parser` is "think" or empty. `prompt` is what the model got.
    `parallel`: whether an answer may have several calls; else the first is passed on.
    """

    def __init__(
        self,
        tool_parser: str,
        reasoning_parser: str,
        prompt: str,
        new_id: Callable[[], str],
        *,
        parallel: bool = True,
    ) -> None:
        self._parallel = parallel
        self._tool_parser = tool_parser
        self._reasons = reasoning_parser == "think"
        self._inside = prompt.rstrip().endswith(_BEGIN)
        self._new_id = new_id
        self._choices: dict[int, _Choice] = {}

    def parse(self, event: Event) -> Event | None:
        """The event with what it means; None if it only becomes clear with what comes. An end of a choice always gives
        an event, whose finish reason is "tool_calls" instead of "stop" where it has some.
        """
        state = self._choices.get(event.choice)
        if state is None:
            state = self._choices[event.choice] = _Choice(
                Think(self._inside) if self._reasons else None,
                FORMATS[self._tool_parser].make(self._new_id) if self._tool_parser else None,
            )
        text, reasoning, deltas = state.feed(event.text) if event.text else ("", "", ())
        finish_reason = event.finish_reason
        if finish_reason:
            last_text, last_reasoning, last = state.end()
            text, reasoning, deltas = text + last_text, reasoning + last_reasoning, (*deltas, *last)
            if state.called and finish_reason == "stop":
                finish_reason = "tool_calls"
        if not self._parallel:
            deltas = tuple(delta for delta in deltas if not delta.number)
        tokens = event.tokens + state.tokens
        if not (text or reasoning or deltas or finish_reason or event.usage or event.logprobs):
            state.tokens = tokens
            return None
        state.tokens = 0
        return event._replace(
            text=text,
            reasoning=event.reasoning + reasoning,
            tool_calls=(*event.tool_calls, *deltas),
            finish_reason=finish_reason,
            tokens=tokens,
        )
