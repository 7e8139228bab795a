"""An answer that goes through the rules of its tenant while it comes."""

from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from inference.backends.port import Event, Stream
from inference.contract.lenient import UNREADABLE, read_leniently
from inference.core.events import Head
from inference.core.guard import texts
from inference.core.guard.checking import Checking, RefusedTextError, is_clean
from inference.core.guard.patterns import find
from inference.core.guard.rules import Checks
from inference.core.guard.windows import Part, Plain, Windows
from inference.core.openai.errors import ApiError
from inference.core.passing.blocks import Block, Blocks, blocks_of
from inference.core.passing.texts import written

Moderate = Callable[[str], Awaitable[None]]
_WINDOW_CHARS = 2_000  # of text that a moderation gets at once, while that waits
_string = msgspec.json.Decoder(str).decode
_reason = attrgetter("finish_reason")
_OVERLAP_CHARS = 200  # of the text before, which it gets once more
_TEXT_ALONE = Event()[3:6]  # reasoning, tool calls and logprobs of an event that says nothing but text


class _Seen(NamedTuple):
    """An event of a stream that is handed on, and the parts of texts that it brings."""

    block: Block
    document: dict[str, Any] | None
    leaves: list[texts.Leaf]
    is_changed: bool


class GuardedStream:
    """Gets what `stream` has brought. `moderations` raise ApiError; `refused` makes one, of what was refused and by which rule."""

    _said = ""
    is_done = _has_begun = False
    _goes_on = False  # nothing waits but in `_plain`, and an event has come that brings a part of its text alone
    _has_all = False  # nobody reads on to the end where the counts have come
    _windows: Windows | None = None  # once something has gone there
    _channel: object = None  # of what is in `_plain`
    _before = _after = _before_word = b""  # what stands around the text of such an event
    _word = slice(0)  # where such an event has its next word

    def __init__(
        self,
        stream: Stream,
        checking: Checking,
        moderations: Sequence[Moderate],
        refused: Callable[[str, str], ApiError],
    ) -> None:
        self._stream = stream
        self._checking, self._moderations, self._refused = checking, moderations, refused
        self._kept: list[Event] = []  # until a moderation has seen them

    def _begin(self) -> None:
        """An answer that comes whole needs none of this."""
        self._has_begun = True
        self._blocks = Blocks()
        self._plain = Plain[Event](self._checking)

    def word(self, events: Sequence[Event]) -> Sequence[Event]:
        """What may be said where they are nothing but the next word of a stream, as nearly always: it is not decoded, and nothing waits.
        Else nothing: then they are for `said_of`.
        """
        if self._goes_on and len(events) == 1:
            raw, plain = events[0].raw, self._plain
            if plain.is_word and plain.waiting and raw.startswith(self._before_word) and raw.endswith(self._after):
                word = raw[self._word]
                if word.isalpha():
                    return plain.word(events[0], word.decode())
        return ()

    async def said_of(self, events: Sequence[Event]) -> Sequence[Event]:
        """What may be said of them, or else of what comes after them; none at the end. Raises BackendError, ApiError."""
        while not self.is_done:
            self.is_done = not events
            try:
                out = self._look(events)
            except RefusedTextError as error:
                raise self._refused("answer", error.rule) from None
            if self._moderations:
                out = await self._moderated(out)
            if out:
                return out
            if not self.is_done:
                events = await self._stream.next()
        return ()

    def _look(self, events: Sequence[Event]) -> list[Event]:
        head, out = self._stream.head, list[Event]()
        if head is not None and not self._has_begun and _is_encoded(head):
            self._checking.unreadable(self._checking.checks)
        if head is not None and not head.streams:
            return [*map(self._whole, events)]
        if not self._has_begun:
            self._begin()
        if head is None:
            if (said := _said(events)) is not None:
                out = self._say(events, said, is_last=any(map(_reason, events)))
            else:
                out = self._in_windows(*self._plain.take(), *events)
        else:
            for event in events:
                out += self._handed(event)
        if self.is_done:
            known = self._plain.end()
            out += self._in_windows(*self._plain.take()) if known is None else known
            if last := self._blocks.last():
                out += self._in_windows(*[Event(tokens=0, raw=block.raw) for block in last])
            if self._windows is not None:
                out += map(self._said_by, self._windows.end())
        return out

    def _handed(self, event: Event) -> list[Event]:
        """Of a stream that is handed on. One that differs from the event before in its text alone is not decoded."""
        raw, before, after = event.raw, self._before, self._after
        if self._goes_on and raw.startswith(before) and raw.endswith(after):
            try:  # several of them may have come at once
                return self._say(
                    [event], [_string(b'"%b"' % raw[len(before) : -len(after)].replace(after + before, b""))]
                )
            except UNREADABLE:
                pass
        blocks, out = self._blocks.feed(raw), list[Event]()
        for block in blocks:
            text = self._text(block) if self._nothing_waits else None
            part = (
                event
                if block.raw == raw
                else event._replace(raw=block.raw, tokens=event.tokens if block is blocks[0] else 0)
            )
            out += self._say([part], None if text is None else [text])
        self._goes_on = bool(self._before) and self._blocks.is_empty and self._nothing_waits
        return out

    @property
    def _nothing_waits(self) -> bool:
        """Whether nothing waits in windows, nor has to."""
        return not self._moderations and (self._windows is None or self._windows.is_idle)

    def _say(self, events: Sequence[Event], said: list[str] | None, *, is_last: bool = False) -> list[Event]:
        """`said` is what each of them says, where they say nothing else of which anything could be found."""
        known = self._plain.feed(events, said, is_last=is_last) if said is not None and self._nothing_waits else None
        if known is None:
            self._goes_on = False
            return self._in_windows(*self._plain.take(), *events)
        return known

    def _text(self, block: Block) -> str | None:
        """The part of a text that an event brings, where it brings nothing else of which anything is found; empty where it brings none."""
        document = _decoded(block.data)
        if document is None:
            return ""
        leaves = texts.parts(document)
        if len(leaves) > 1:
            return None
        text = ""
        for channel, of, name in leaves:
            if self._plain.waiting and channel != self._channel:
                return None
            self._channel, text, of[name] = channel, of[name], ""
        checking = self._checking
        if not is_clean(block.data, checking.checks) and any(
            find(it, checking.patterns) for it in texts.texts(document)
        ):
            return None
        if text:
            said = text.encode("utf-8", "replace")
            before, _, after = block.raw.partition(b'"%b"' % said)
            once = after and block.raw.count(said) == 1
            self._before, self._after = (before + b'"', b'"' + after) if once else (b"", b"")
            self._before_word = self._before + b" "
            self._word = slice(len(self._before_word), -len(self._after))
        return text

    def _in_windows(self, *events: Event) -> list[Event]:
        """The same for events of any kind."""
        out, windows = list[Event](), self._windows
        if windows is None:
            windows = self._windows = Windows(self._checking)
        for event in events:
            if self._stream.head is None:
                known = windows.feed(event, _of_event(event))
                if event.finish_reason:
                    known += windows.end(event.choice)
                self._has_all = self._has_all or event.usage is not None
            else:
                blocks = [self._read(block) for block in blocks_of(event.raw)]
                said = [(leaf[0], leaf[1][leaf[2]]) for seen in blocks for leaf in seen.leaves]
                known = windows.feed((event, blocks), said)
            out += map(self._said_by, known)
        return out

    def _read(self, block: Block) -> _Seen:
        """What is no part of a text, but all of one, is looked through at once."""
        document = _decoded(block.data)
        if document is None:
            return _Seen(block, None, [], False)
        leaves = texts.parts(document)
        parts = [of[name] for _, of, name in leaves]
        for _, of, name in leaves:
            of[name] = ""
        changed = self._checking.document(document)
        is_changed = changed is not document
        if is_changed:
            document, leaves = changed, texts.parts(changed)
        for (_, of, name), part in zip(leaves, parts, strict=True):
            of[name] = part
        if self._moderations:
            self._said += "".join(each for each in texts.texts(document) if not leaves)
        return _Seen(block, document, leaves, is_changed)

    def _said_by(self, part: Part) -> Event:
        """The event, with what may be said."""
        if self._moderations:
            self._said += "".join(part.texts)
        if isinstance(part.thing, Event):
            return _with_texts(part.thing, part.texts) if part.is_changed else part.thing
        event, blocks = part.thing  # type: ignore[misc]
        given = iter(part.texts)
        raw = b"".join([_rendered(seen, [next(given) for _ in seen.leaves]) for seen in blocks])  # type: ignore[has-type]
        return event._replace(raw=raw)  # type: ignore[has-type,no-any-return]

    def _whole(self, event: Event) -> Event:
        if not self._moderations and is_clean(event.raw, self._checking.checks):
            return event
        try:
            document = _read(event.raw)
        except ValueError:
            document = event.raw.decode("utf-8", "replace")  # speech as plain text
        changed = self._checking.document(document)
        if self._moderations:
            self._said += "\n".join(texts.texts(changed))
        if changed is document:
            return event
        return event._replace(raw=changed.encode() if isinstance(changed, str) else written(changed))

    async def _moderated(self, events: list[Event]) -> list[Event]:
        self._kept += events
        if len(self._said) < _WINDOW_CHARS and not (self.is_done or self._has_all):
            return []
        if self._said:
            for moderate in self._moderations:
                await moderate(self._said)
            self._said = self._said[-_OVERLAP_CHARS:] if not self.is_done else ""
        out, self._kept = self._kept, []
        return out


def whole_is_clean(head: Head | None, events: Sequence[Event], choices: int, checks: Checks) -> bool:
    """Whether these are all events of an answer of so many choices, and pass as they are, as most do."""
    if head is not None:
        return not head.streams and is_clean(b"".join([it.raw for it in events]), checks) and not _is_encoded(head)
    if choices != 1 or checks.moderations or not events or events[-1].usage is None or not events[-1].finish_reason:
        return False
    said = _said(events)
    return said is not None and not find("".join(said), checks.patterns)


def _said(events: Sequence[Event]) -> list[str] | None:
    """The text of each; None where one says something else, or in another choice than the first."""
    said = [event[0] for event in events if not event[1] and event[3:6] == _TEXT_ALONE]
    return said if len(said) == len(events) else None


def _is_encoded(head: Head) -> bool:
    """Whether its server has compressed the answer, though nobody asked for that."""
    return dict(head.headers).get(b"content-encoding", b"identity").lower() != b"identity"


def _decoded(data: bytes) -> dict[str, Any] | None:
    if data.lstrip()[:1] != b"{":
        return None
    try:
        document = _read(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _read(data: bytes) -> Any:
    """Raises ValueError."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return read_leniently(data)


def _of_event(event: Event) -> list[tuple[object, str]]:
    said: list[tuple[object, str]] = []
    if event.text:
        said.append(((event.choice, "text"), event.text))
    if event.reasoning:
        said.append(((event.choice, "reasoning"), event.reasoning))
    said += [((event.choice, call.number), call.arguments) for call in event.tool_calls]
    return said


def _with_texts(event: Event, given: list[str]) -> Event:
    left = iter(given)
    text = next(left) if event.text else ""
    reasoning = next(left) if event.reasoning else ""
    calls = tuple(call._replace(arguments=next(left)) for call in event.tool_calls)
    return event._replace(text=text, reasoning=reasoning, tool_calls=calls, logprobs=b"")


def _rendered(seen: _Seen, given: list[str]) -> bytes:
    block, document, leaves = seen.block, seen.document, seen.leaves
    if not seen.is_changed and all(of[name] == text for (_, of, name), text in zip(leaves, given, strict=True)):
        return block.raw
    if document is None:
        document = _read(block.data)
        leaves = texts.parts(document)
    for (_, of, name), text in zip(leaves, given, strict=True):
        of[name] = text
    texts.without_tokens(document)
    begin = f"event: {block.name}\n".encode() if block.name else b""
    return begin + b"data: " + written(document) + b"\n\n"
