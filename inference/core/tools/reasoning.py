"""Tells a model's reasoning from its answer, where it writes `<think>reasoning</think>answer`."""

_BEGIN, _END = "<think>", "</think>"


class Think:
    """Reads the text of one choice. `inside`: the prompt already ends with `<think>`, as with DeepSeek-R1."""

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
