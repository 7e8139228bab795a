"""The HTML of an answer as a browser takes it: white space that does not show is no part of it."""

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
