"""The HTML of an answer as a browser takes it: white space that does not show is no part of it."""

import html
import re
from typing import Any, Protocol

from django.test import Client

_BLOCK = re.compile(
    r" ?(</?(?:body|div|p|ul|ol|li|dl|dt|dd|table|caption|thead|tbody|tr|td|th|section|figure|form|h\d|option)\b[^>]*>) ?"
)


class Answer(Protocol):
    @property
    def content(self) -> bytes: ...


def html_of(answer: Answer) -> str:
    """Each run of white space is one space, and there is none beside the tag of a block."""
    return _BLOCK.sub(r"\1", re.sub(r"[ \t\r\n]+", " ", answer.content.decode()))


def shown(path: str, client: Client, **parameters: Any) -> tuple[int, str]:
    """The status and the HTML of a page."""
    answer = client.get(path, parameters)
    return answer.status_code, " ".join(answer.content.decode().split())


def page_of(reader: Client, path: str, **parameters: Any) -> str:
    """The HTML of a page that is there, with the characters that its entities stand for."""
    answer = reader.get(path, parameters)
    assert answer.status_code == 200, answer.content
    return html.unescape(html_of(answer))


def words_of(page: str) -> str:
    """What a page says: without its tags and scripts. No space stands before a stop, and thin spaces are plain ones."""
    text = re.sub(r"<script.*?</script>|<[^>]+>", " ", page, flags=re.S)
    return re.sub(r" (?=[.,:;])", "", " ".join(html.unescape(text).split()))
