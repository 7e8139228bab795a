"""Finds where a JSON value ends, as its text arrives."""


class JsonEnd:
    """Give it all characters of an object, an array or a text, from the first on."""

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
