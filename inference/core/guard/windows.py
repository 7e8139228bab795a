"""Looks through an answer while it comes: what begins in one part and ends in another is seen, because a part waits until it is known that
nothing in it is the beginning of anything.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from inference.core.guard.checking import Checking
from inference.core.guard.patterns import (
    MAX_BLOCK_CHARS,
    MAX_FOUND_CHARS,
    MIN_FOUND_CHARS,
    Found,
    end_of_block,
    find,
    is_open_block,
    mask,
    open_chars,
)

T = TypeVar("T")
MAX_WAIT_CHARS = 2 * MAX_FOUND_CHARS
"""After so many of other texts a part waits no longer for its own to go on."""
_GOES_ON = 1 << 60
_TAIL_CHARS = 64


@dataclass(slots=True, eq=False)
class Channel:
    """One text that comes in parts. Places are counted from its beginning."""

    text: str = ""  # from `start` on
    start: int = 0
    known: int = 0  # up to here all is found
    masks: list[Found] = field(default_factory=list)
    tail: str = ""  # of a private key that is masked and goes on: its last mask has no end yet

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def look(self, checking: Checking, *, is_whole: bool) -> None:
        """Find what is there. Raises RefusedTextError."""
        if self.tail and not self._has_ended():
            return
        upto = len(self.text) - (0 if is_whole else min(open_chars(self.text), MAX_FOUND_CHARS))
        for match in find(self.text, checking.patterns):
            if match.start >= upto:
                break
            upto = max(upto, match.end)
            if checking.is_masked(match.pattern):
                self.masks.append(Found(self.start + match.start, self.start + match.end, match.pattern))
                if match.pattern == "key" and not is_whole and is_open_block(self.text, match):
                    self.masks[-1] = self.masks[-1]._replace(end=_GOES_ON)
                    upto, self.tail = len(self.text), self.text
                    break
        self.known = self.start + upto
        self.text, self.start = self.text[upto:], self.known

    def _has_ended(self) -> bool:
        """Whether the private key that goes on ends in what has come since, or is too long for one."""
        has, mask = self.tail + self.text, self.masks[-1]
        end = end_of_block(has, 0)
        cut = len(self.text) if end < 0 else end - len(self.tail)
        self.known = self.start = self.start + cut
        self.text, self.tail = self.text[cut:], has[-_TAIL_CHARS:]
        if end < 0 and self.start - mask.start < MAX_BLOCK_CHARS:
            return False
        self.masks[-1], self.tail = mask._replace(end=self.start), ""
        return True


@dataclass(slots=True, eq=False)
class Part:
    """A part of the answer with the texts that it brings, each of its channel. `texts` become what may be said."""

    thing: object
    texts: list[str]
    places: list[tuple[Channel, int, int]]
    fed: int  # characters of all channels before it
    is_changed: bool = False

    @property
    def is_known(self) -> bool:
        return all(end <= channel.known for channel, _, end in self.places)

    def mask(self) -> None:
        for number, (channel, start, end) in enumerate(self.places):
            out, at, text = list[str](), start, self.texts[number]
            while channel.masks and channel.masks[0].end <= start:
                channel.masks.pop(0)
            for match in channel.masks:
                if match.start < end and start < match.end:
                    begin = max(match.start, start)
                    out += [text[at - start : begin - start], mask(match.pattern) if match.start >= start else ""]
                    at = min(match.end, end)
                    self.is_changed = True
            if at > start:
                self.texts[number] = "".join((*out, text[at - start :]))


class Plain(Generic[T]):
    """Events of one text, in which nothing is found: they wait as in `Windows`, for less."""

    __slots__ = ("_end", "_ends", "_open", "_patterns", "is_word", "waiting")

    def __init__(self, checking: Checking) -> None:
        self._patterns = checking.patterns
        self.waiting: list[T] = []
        self._ends: list[int] = []
        self._end = 0
        self._open = ""  # of the text, what may go on
        self.is_word = True  # what is open has letters alone, and too few to be anything

    def word(self, thing: T, letters: str) -> list[T]:
        """Those that may be said where a blank and the next word have come, as most are. For `is_word` alone."""
        known, self.waiting, self._ends = self.waiting, [thing], [self._end]
        self._open, self.is_word = letters, len(letters) < MIN_FOUND_CHARS
        return known

    def feed(self, things: Sequence[T], texts: Sequence[str], *, is_last: bool = False) -> list[T] | None:
        """Those that may be said, of what comes at once; None where something is found, and all that wait are for `Windows`."""
        said = "".join(texts)
        if self.is_word and said[:1] == " " and len(things) == 1 and said.replace(" ", "").isalpha():
            *before, letters = said.split(" ")
            if max(map(len, before)) < MIN_FOUND_CHARS:
                return self.word(things[0], letters)
        text = self._open + said
        if find(text, self._patterns):
            return None
        if is_last or not text:
            return [*self.take(), *things]
        self.waiting += things
        for each in texts:
            self._end += len(each)
            self._ends.append(self._end)
        self._open = text = text[len(text) - min(open_chars(text), MAX_FOUND_CHARS) :]
        self.is_word = len(text) < MIN_FOUND_CHARS and (not text or text.isalpha())
        count = bisect_right(self._ends, self._end - len(text))
        known, self.waiting, self._ends = self.waiting[:count], self.waiting[count:], self._ends[count:]
        return known

    def end(self) -> list[T] | None:
        """The text has ended: as `feed`."""
        return None if find(self._open, self._patterns) else self.take()

    def take(self) -> list[T]:
        """Those that wait, which it forgets."""
        waiting, self.waiting, self._ends = self.waiting, [], []
        self._open, self.is_word = "", True
        return waiting


class Windows:
    """`feed` takes a part and gives those that may be said, in their order; `end` gives the rest."""

    def __init__(self, checking: Checking) -> None:
        self._checking = checking
        self._channels: dict[Hashable, Channel] = {}
        self._waiting: deque[Part] = deque()
        self._fed = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and no private key goes on."""
        return not self._waiting and not any(channel.tail for channel in self._channels.values())

    def feed(self, thing: object, said: Iterable[tuple[Hashable, str]]) -> list[Part]:
        """`said` are the texts of the part, by their channels. Raises RefusedTextError."""
        part = Part(thing, [], [], self._fed)
        for name, text in said:
            channel = self._channels.get(name)
            if channel is None:
                channel = self._channels[name] = Channel()
            start = channel.end
            channel.text += text
            self._fed += len(text)
            part.texts.append(text)
            part.places.append((channel, start, channel.end))
        for channel in {id(place[0]): place[0] for place in part.places}.values():
            channel.look(self._checking, is_whole=False)
        self._waiting.append(part)
        first = self._waiting[0]
        if first.fed + MAX_WAIT_CHARS < self._fed:
            for (
                place
            ) in first.places:  # they do not go on, and others do: they have ended, as reasoning does before the answer
                place[0].look(self._checking, is_whole=True)
        return self._known()

    def end(self, choice: int | None = None) -> list[Part]:
        """The texts have ended, or those of a choice have, with which the names of their channels begin. Raises RefusedTextError."""
        for name, channel in self._channels.items():
            if choice is None or (isinstance(name, tuple) and name[0] == choice):
                channel.look(self._checking, is_whole=True)
        return self._known()

    def _known(self) -> list[Part]:
        out = []
        while self._waiting and self._waiting[0].is_known:
            out.append(self._waiting.popleft())
            out[-1].mask()
        return out
