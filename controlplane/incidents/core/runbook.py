"""A runbook's Markdown as HTML, and its steps, which a responder ticks off.

Items of lists are steps; in a text without lists, each heading with what follows it is one. Raw HTML is shown as text, a link whose
scheme is none of LINKS too, and there are no images.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

LINKS = re.compile(r"https?://|mailto:|/(?!/)|#", re.IGNORECASE)
BOX = re.compile(r"^\[[ xX]\] ")
"""Of a list of tasks as other tools write it: who ticked what is kept with the incident."""


@dataclass(frozen=True, slots=True)
class Block:
    """`number`: of a step, from 1; 0 where it is text between steps. `words`: a step's first line, without Markdown."""

    html: str
    number: int = 0
    words: str = ""


def blocks(text: str) -> list[Block]:
    """The whole runbook, in its order."""
    tokens = _parsed(text)
    is_list = any(token.type.endswith("_list_open") and not token.level for token in tokens)
    begins = "list_item_open" if is_list else "heading_open"
    made: list[Block] = []
    for part in _items(tokens) if is_list else _sections(tokens):
        is_step = part[0].type == begins
        inside = part[1:-1] if is_step and is_list else part
        number = sum(block.number > 0 for block in made) + 1 if is_step else 0
        made.append(
            Block(_MARKDOWN.renderer.render(inside, _MARKDOWN.options, {}), number, _words(inside) if is_step else "")
        )
    return made


def steps(text: str) -> list[Block]:
    return [block for block in blocks(text) if block.number]


def _parsed(text: str) -> list[Token]:
    tokens = _MARKDOWN.parse(text)
    for at, token in enumerate(tokens):
        if token.type.startswith("heading"):
            token.tag = "h3"  # below the heading of its panel, whatever the text begins with
        if token.children and tokens[at - 2].type == "list_item_open":
            token.children[0].content = BOX.sub("", token.children[0].content)
        for child in token.children or []:
            if child.type == "link_open":
                child.attrSet("rel", "noreferrer")
    return tokens


def _items(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Items of the outer lists, each by itself, and what stands between lists."""
    part: list[Token] = []
    for token in tokens:
        if token.type == "list_item_open" and token.level == 1:
            part = []
        elif token.level == 0 and token.type.endswith("_list_open"):
            if part:
                yield part
            part = []
            continue
        elif token.level == 0 and token.type.endswith("_list_close"):
            part = []
            continue
        part.append(token)
        if token.type == "list_item_close" and token.level == 1:
            yield part
            part = []
    if part:
        yield part


def _sections(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
        if token.type == "heading_open" and token.level == 0 and part:
            yield part
            part = []
        part.append(token)
    if part:
        yield part


def _words(tokens: Sequence[Token]) -> str:
    first = next((token for token in tokens if token.type == "inline"), None)
    if first is None:
        return " ".join(token.content.strip() for token in tokens if token.content)
    return " ".join(
        "".join(child.content or " " * (child.type == "softbreak") for child in first.children or []).split()
    )


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
_MARKDOWN.validateLink = lambda url: bool(LINKS.match(url))  # type: ignore[method-assign]
