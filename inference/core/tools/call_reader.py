"""Reads calls of functions that a model writes as JSON objects with `name`, and `arguments` or `parameters`."""

import re
from collections.abc import Callable

import msgspec

from inference.core.events import ToolCallDelta

_head = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')


class _JsonEnd:
    """Finds where a JSON value ends, as its text arrives. Give it all characters of an object, an array or a text, from the first on."""

    __slots__ = ("_depth", "_escaped", "_in_text", "done")

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = self._escaped = False
        self.done = False

    def feed(self, text: str, start: int = 0) -> int:
        """Where the value ends in `text`, which is read from `start`; -1 if it goes on."""
        for index in range(start, len(text)):
            character = text[index]
            if self._in_text:
                if self._escaped:
                    self._escaped = False
                elif character == "\\":
                    self._escaped = True
                elif character == '"':
                    self._in_text = False
                    self.done = not self._depth
            elif character == '"':
                self._in_text = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                self.done = self._depth <= 0
            if self.done:
                return index + 1
        return -1


class CallReader:
    """One call. Its arguments are passed on as they come where the object begins with the name, else once it is whole."""

    def __init__(self, index: int, new_id: Callable[[], str], name: str = "") -> None:
        """With a `name`, the object that comes is the arguments."""
        self.raw = ""  # what was read
        self.begun = False  # a part of it was passed on
        self._index = index
        self._new_id = new_id
        self._name = name
        self._whole, self._arguments = _JsonEnd(), _JsonEnd()
        self._passed = 0  # characters of `raw` that were dealt with

    @property
    def done(self) -> bool:
        return self._whole.done

    def feed(self, text: str) -> tuple[list[ToolCallDelta], str]:
        """The deltas of `text`, and what follows the call in it."""
        end = self._whole.feed(text)
        self.raw += text if end < 0 else text[:end]
        rest = "" if end < 0 else text[end:]
        deltas = []
        if not self.begun:
            if self._name:
                deltas.append(self._begin(self._name))
            elif head := _head.match(self.raw):
                deltas.append(self._begin(head[1]))
                self._passed = head.end()
        if self.begun and not self._arguments.done:
            stop = self._arguments.feed(self.raw, self._passed)
            arguments = self.raw[self._passed : stop if stop >= 0 else None]
            self._passed = len(self.raw)
            if arguments:
                deltas.append(ToolCallDelta(self._index, arguments=arguments))
        elif not self.begun and self.done:
            deltas += self._whole_call()
        return deltas, rest

    def _begin(self, name: str) -> ToolCallDelta:
        self.begun = True
        return ToolCallDelta(self._index, self._new_id(), name)

    def _whole_call(self) -> list[ToolCallDelta]:
        """Also arguments that come before the name, or as a text of JSON. Empty if it is no call."""
        try:
            call = msgspec.json.decode(self.raw)
        except msgspec.DecodeError:
            return []
        name = call.get("name") if isinstance(call, dict) else None
        if not isinstance(name, str) or not name:
            return []
        arguments = call.get("arguments", call.get("parameters", {}))
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        return [self._begin(name), ToolCallDelta(self._index, arguments=text)]
