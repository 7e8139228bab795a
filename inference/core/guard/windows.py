"""Looks through an answer while it comes: what begins in one part and ends in another is seen, because a part waits until it is known that
nothing in it is the beginning of anything.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from inference.core.guard.checking import Checking
from inference.core.guard.patterns import (
    MAX_BLOCK_CHARS,
    MAX_FOUND_CHARS,
    Found,
    end_of_block,
    find,
    is_open_block,
    mask,
    open_chars,
)

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


class Windows:
    """`feed` takes a part and gives those that may be said, in their order; `end` gives the rest."""

    def __init__(self, checking: Checking) -> None:
        self._checking = checking
        self._channels: dict[Hashable, Channel] = {}
        self._waiting: deque[Part] = deque()

    def feed(self, thing: object, said: Iterable[tuple[Hashable, str]]) -> list[Part]:
        """`said` are the texts of the part, by their channels. Raises RefusedTextError."""
        part = Part(thing, [], [])
        for name, text in said:
            channel = self._channels.get(name)
            if channel is None:
                channel = self._channels[name] = Channel()
            start = channel.end
            channel.text += text
            part.texts.append(text)
            part.places.append((channel, start, channel.end))
        for channel in {id(place[0]): place[0] for place in part.places}.values():
            channel.look(self._checking, is_whole=False)
        self._waiting.append(part)
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
