"""Keeps text of clients from becoming control tokens.

A chat template makes text of messages, and a tokenizer then reads control tokens such as `<|im_end|>` out of that text,
wherever they come from (transformers, `src/transformers/tokenization_utils_base.py`; vLLM, `vllm/renderers/hf.py`). So text
of clients is marked before the template sees it: each character that begins or ends a control token is replaced by a
noncharacter of Unicode, which no control token contains. What is a control token after rendering is the template's own.
The marks are then taken back, and where that makes further control tokens, a space after their first character breaks them.
This also holds for what a template joins out of several values, and for keys of objects.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from inference.core.templates.errors import ForgedTokenError

_NONCHARACTERS = [chr(point) for point in range(0xFDD0, 0xFDF0)] + [
    chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
]
_ROUNDS = 8
_GENERIC = r"<(?:\|[^<>|\s]{1,48}\||｜[^<>｜\s]{1,48}｜)>"
_PUBLISHED = """
<s> </s> [INST] [/INST] <<SYS>> <</SYS>> [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS]
[TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CONTENT] [CALL_ID] [ARGS] [THINK] [/THINK] [gMASK] <sop> <bos> <eos>
<start_of_turn> <end_of_turn> <start_of_image> <end_of_image> <think> </think>
<tool_call> </tool_call> <tool_response> </tool_response>
"""


class ControlTokens:
    """The control tokens of a model, by their texts. Those of a single character are not kept apart."""

    def __init__(self, texts: Iterable[str] = (), pattern: str = "") -> None:
        """`pattern` is a regular expression for further texts. Raises ValueError if they begin or end with more different
        characters than there are marks.
        """
        self.texts = sorted({text for text in texts if len(text.strip()) > 1}, key=lambda text: (-len(text), text))
        edges = {edge for text in self.texts for edge in (text[0], text[-1])} | (set("<>") if pattern else set())
        if len(edges) > len(_NONCHARACTERS):
            raise ValueError(
                f"control tokens begin or end with {len(edges)} characters, at most {len(_NONCHARACTERS)} are kept apart"
            )
        alternatives = ([_either(self.texts)] if self.texts else []) + ([pattern] if pattern else [])
        self._pattern = re.compile("|".join(alternatives)) if alternatives else None
        self._firsts = sorted({text[0] for text in self.texts} | ({"<"} if pattern else set()))
        self._marks = list(zip(sorted(edges), _NONCHARACTERS, strict=False))
        self._marked = re.compile(f"[{''.join(mark for _, mark in self._marks)}]") if self._marks else None

    def in_text(self, text: str) -> bool:
        # Most texts have none of the few first characters, which is seen far quicker than by the pattern.
        for first in self._firsts:
            if first in text:
                return self._pattern is not None and self._pattern.search(text) is not None
        return False

    def starts(self, text: str) -> list[int]:
        """Where control tokens begin in `text`, the leftmost and longest first, as tokenizers read them."""
        return [match.start() for match in self._pattern.finditer(text)] if self._pattern is not None else []

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        return (match.span() for match in self._pattern.finditer(text)) if self._pattern is not None else iter(())

    def broken(self, text: str) -> str:
        """`text` with a space after the first character of each control token."""
        for _ in range(_ROUNDS):
            if not self.in_text(text):
                return text
            text = _spaced(text, self.starts(text))
        raise ForgedTokenError(f"the text contains the control token {self._first(text)}: write it otherwise")

    def mark(self, text: str) -> str:
        """`text` with marks in the place of characters that begin or end control tokens."""
        if self._marked is None:
            return text
        if not text.isascii():
            text = self._marked.sub("\ufffd", text)
        for edge, mark in self._marks:
            if edge in text:
                text = text.replace(edge, mark)
        return text

    def mark_all(self, value: Any) -> Any:
        """A JSON value with marks in all its texts, keys of objects included."""
        if isinstance(value, str):
            return self.mark(value)
        if isinstance(value, dict):
            return {self.mark(key): self.mark_all(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mark_all(item) for item in value]
        return value

    def unmark(self, text: str) -> str:
        for edge, mark in self._marks:
            text = text.replace(mark, edge)
        return text

    def settle(self, rendered: str) -> tuple[str, int]:
        """A rendered text without its marks, in which only the template's own control tokens are left; and their number.
        Raises ForgedTokenError.
        """
        own = self.starts(rendered)
        text = self.unmark(rendered)
        if text == rendered:
            return text, len(own)
        for _ in range(_ROUNDS):
            genuine = set(own)
            forged = [start for start in self.starts(text) if start not in genuine]
            if not forged:
                return text, len(own)
            text = _spaced(text, forged)
            own = [start + bisect_left(forged, start) for start in own]
        raise ForgedTokenError(f"the text contains the control token {self._first(text)}: write it otherwise")

    def apart(self, rendered: str) -> list[str]:
        """A rendered text without its marks, cut where a control token that is not the template's own would be read. Its parts, each
        turned into token ids by itself, are the text as the client wrote it. Raises ForgedTokenError.
        """
        genuine, text, cuts = set(self.starts(rendered)), self.unmark(rendered), [0]
        for _ in range(_ROUNDS):
            parts = list(pairwise([*cuts, len(text)]))
            forged = [
                begin + start
                for begin, end in parts
                for start in self.starts(text[begin:end])
                if begin + start not in genuine
            ]
            if not forged:
                return [text[begin:end] for begin, end in parts]
            cuts = sorted({*cuts, *(start + 1 for start in forged)})
        raise ForgedTokenError(f"the text contains the control token {self._first(text)}: write it otherwise")

    def _first(self, text: str) -> str:
        assert self._pattern is not None
        match = self._pattern.search(text)
        return repr(match.group()) if match else ""


def is_control(text: str, special: bool, template: str) -> bool:
    """Whether an added token of a `tokenizer.json` is a control token: it is marked as special, or has the form of one, or
    the chat template writes it. Others, such as Gemma's `<h1>` or runs of spaces, are vocabulary that text may use.
    """
    if len(text.strip()) < 2:
        return False
    if special or re.fullmatch(_GENERIC, text):
        return True
    return not text[0].isalnum() and not text[-1].isalnum() and text in template


def _spaced(text: str, starts: list[int]) -> str:
    cuts = [0, *(start + 1 for start in starts), len(text)]
    return " ".join(text[begin:end] for begin, end in pairwise(cuts))


def _either(texts: Iterable[str]) -> str:
    """A regular expression for the longest of `texts`, as a tree of their characters: 250 reserved tokens of a model begin
    alike, and would be tried one by one.
    """
    root: dict[str, Any] = {}
    for text in texts:
        node = root
        for character in text:
            node = node.setdefault(character, {})
        node[""] = {}

    def branch(node: dict[str, Any]) -> str:
        ways = [re.escape(character) + branch(below) for character, below in sorted(node.items()) if character]
        if not ways:
            return ""
        either = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
        return f"(?:{either})?" if "" in node else either

    return branch(root)


GENERIC = ControlTokens(_PUBLISHED.split(), _GENERIC)
"""For a model whose tokenizer is not known: the control tokens of widely used models, and whatever has their form."""
