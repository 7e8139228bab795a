"""Ends a text before the first of its stop words."""


class StopWords:
    """`add` takes a stream's texts and gives what can be passed on: text that may be the start of a stop word is kept back
    until it is known. After a stop word `cut` is set, and nothing more comes.
    """

    __slots__ = ("_kept", "_words", "cut")

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = tuple(word for word in words if word)
        self._kept = ""
        self.cut = False

    def add(self, text: str, *, last: bool = False) -> str:
        """Text to pass on; with the last text, all that is left."""
        if self.cut:
            return ""
        text = self._kept + text
        # The word that is complete first counts, as if the text came character by character.
        ends = [(at + len(word), at) for word in self._words if (at := text.find(word)) >= 0]
        if ends:
            self.cut, self._kept = True, ""
            return text[: min(ends)[1]]
        keep = 0 if last else max((_overlap(text, word) for word in self._words), default=0)
        self._kept = text[len(text) - keep :] if keep else ""
        return text[: len(text) - keep]


def _overlap(text: str, word: str) -> int:
    """Characters at the end of `text` that `word` begins with."""
    for size in range(min(len(word) - 1, len(text)), 0, -1):
        if text.endswith(word[:size]):
            return size
    return 0
