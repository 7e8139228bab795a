"""How models write calls of functions in their text. The formats have the names of vLLM's tool parsers (`vllm/tool_parsers/`)."""

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from inference.core.events import ToolCallDelta
from inference.core.tools.call_reader import CallReader

Output = tuple[str, tuple[ToolCallDelta, ...]]
"""Text for the client, and deltas of calls."""


class ToolFormat(Protocol):
    """Reads the text of one choice. `calls` counts the calls that were passed on."""

    calls: int

    def feed(self, text: str) -> Output: ...

    def end(self) -> str:
        """What was kept back, where the answer ends inside of what might have become a call."""


class Marked:
    """Calls after a marker. A model may write more text after them, which is passed on too."""

    def __init__(self, begin: str, end: str, new_id: Callable[[], str]) -> None:
        self.calls = 0
        self._begin, self._end = begin, end
        self._new_id = new_id
        self._kept = ""  # text that may belong to the next marker
        self._reader: CallReader | None = None
        self._inside = False

    def feed(self, text: str) -> Output:
        self._kept += text
        shown: list[str] = []
        deltas: list[ToolCallDelta] = []
        while self._step(shown, deltas):
            pass
        return "".join(shown), tuple(deltas)

    def end(self) -> str:
        reader = self._reader
        if reader is not None:
            return "" if reader.begun else self._begin + reader.raw
        kept, self._kept = self._kept, ""
        if self._inside:
            return ""
        return kept.rstrip() if self.calls else kept

    def _step(self, shown: list[str], deltas: list[ToolCallDelta]) -> bool:
        """Deal with some of what is kept. False if more has to come first."""
        if self._reader is not None:
            return self._read(deltas)
        if self._inside:
            return self._between()
        before, marker, after = self._kept.partition(self._begin)
        if marker:
            if before.strip():
                shown.append(before.rstrip())
            self._kept, self._inside = after, True
            return True
        keep = _may_begin(self._kept, self._begin)
        ready, self._kept = self._kept[: len(self._kept) - keep], self._kept[len(self._kept) - keep :]
        if ready:
            shown.append(ready)
        return False

    def _read(self, deltas: list[ToolCallDelta]) -> bool:
        reader = self._reader
        assert reader is not None
        if not self._kept:
            return False
        new, self._kept = reader.feed(self._kept)
        deltas += new
        if not reader.done:
            return False
        self.calls += reader.begun
        self._reader = None
        return True

    def _between(self) -> bool:
        """Inside of a marker, before or after an object."""
        raise NotImplementedError


def _may_begin(text: str, marker: str) -> int:
    """How many characters at the end of `text` may belong to `marker`, white space before it included."""
    for size in range(min(len(marker) - 1, len(text)), 0, -1):
        if text.endswith(marker[:size]):
            break
    else:
        size = 0
    head = text[: len(text) - size]
    return size + len(head) - len(head.rstrip())


class Hermes(Marked):
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, once per call."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__("<tool_call>", "</tool_call>", new_id)

    def _between(self) -> bool:
        kept = self._kept.lstrip()
        if kept.startswith(self._end):
            self._kept, self._inside = kept[len(self._end) :], False
            return True
        if kept.startswith("{"):
            self._kept, self._reader = kept, CallReader(self.calls, self._new_id)
            return True
        if not kept or self._end.startswith(kept):
            return False
        # No object: what comes is left out up to the end of the marker.
        _, marker, after = kept.partition(self._end)
        if marker:
            self._kept, self._inside = after, False
            return True
        self._kept = kept[-len(self._end) :]
        return False


class Mistral(Marked):
    """`[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`; newer models write `[TOOL_CALLS]name[ARGS]{…}`, once per call."""

    _name = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\])?\s*(?=\{)")

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__("[TOOL_CALLS]", "]", new_id)

    def _between(self) -> bool:
        kept = self._kept.lstrip(" \n\t,")
        if kept.startswith(self._begin):
            self._kept = kept[len(self._begin) :]
            return True
        if self._begin.startswith(kept[: len(self._begin)]) and len(kept) > 1:
            return False  # the next marker comes
        if kept.startswith("{"):
            self._kept, self._reader = kept, CallReader(self.calls, self._new_id)
            return True
        if kept.startswith(("[", "]")):
            if len(kept) == 1:
                return False
            self._kept = kept[1:]
            return True
        if name := self._name.match(kept):
            self._kept, self._reader = kept[name.end() :], CallReader(self.calls, self._new_id, name[1])
            return True
        return False


class Llama3Json:
    """An answer that is `{"name": …, "parameters": {…}}`, maybe several separated by `;`, maybe after `<|python_tag|>`."""

    _tag = "<|python_tag|>"

    def __init__(self, new_id: Callable[[], str]) -> None:
        self.calls = 0
        self._new_id = new_id
        self._kept = ""
        self._text_only = False
        self._tagged = False
        self._reader: CallReader | None = None

    def feed(self, text: str) -> Output:
        if self._text_only:
            return text, ()
        self._kept += text
        deltas: list[ToolCallDelta] = []
        while self._kept:
            if self._reader is None:
                kept = self._kept.lstrip(" \n\t;,") if self.calls or self._tagged else self._kept.lstrip()
                if not kept or (self._tag.startswith(kept) and kept != self._tag):
                    break
                if kept.startswith(self._tag):
                    self._kept, self._tagged = kept[len(self._tag) :], True
                    continue
                if not kept.startswith("{"):
                    self._text_only = True
                    shown, self._kept = self._kept if not self.calls else kept, ""
                    return shown, tuple(deltas)
                self._kept = kept if self.calls else self._kept  # it may be no call, and is then passed on as it is
                self._reader = CallReader(self.calls, self._new_id)
            new, self._kept = self._reader.feed(self._kept)
            deltas += new
            if self._reader.done:
                reader, self._reader = self._reader, None
                if not reader.begun:
                    self._text_only = True
                    shown, self._kept = reader.raw + self._kept, ""
                    return shown, tuple(deltas)
                self.calls += 1
        return "", tuple(deltas)

    def end(self) -> str:
        if self._reader is not None:
            return "" if self._reader.begun else self._reader.raw
        return "" if self.calls else self._kept


class Forced:
    """An answer that is an array of `{"name": …, "parameters": {…}}`, by the schema of `inference/core/tools/forced.py`."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self.calls = 0
        self._new_id = new_id
        self._kept = ""
        self._reader: CallReader | None = None

    def feed(self, text: str) -> Output:
        self._kept += text
        deltas: list[ToolCallDelta] = []
        while self._kept:
            if self._reader is None:
                self._kept = self._kept.lstrip(" \n\t\r[,]")
                if not self._kept:
                    break
                self._reader = CallReader(self.calls, self._new_id)
            new, self._kept = self._reader.feed(self._kept)
            deltas += new
            if self._reader.done:
                self.calls += self._reader.begun
                self._reader = None
        return "", tuple(deltas)

    def end(self) -> str:
        return ""


class FormatInfo(NamedTuple):
    """`needs_special_tokens`: the server must not leave special tokens out of its text, because calls begin with some."""

    make: Callable[[Callable[[], str]], ToolFormat]
    needs_special_tokens: bool


FORMATS = {
    "hermes": FormatInfo(Hermes, False),
    "llama3_json": FormatInfo(Llama3Json, False),
    "mistral": FormatInfo(Mistral, True),
    "forced": FormatInfo(Forced, False),
}
