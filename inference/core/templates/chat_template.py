"""Renders a model's chat template, which is Jinja, as transformers renders it (`src/transformers/utils/chat_template_utils.py`).

A template comes with a model's files, so it may be wrong or hostile: the work is limited by fuel and the result by its
length. Neither limits the memory that it takes meanwhile, which only a process of its own does
(`inference/tokenizers/worker.py`).
"""

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from minijinja import Environment, TemplateError

from inference.core.templates.control import ControlTokens
from inference.core.templates.errors import ChatTemplateError

FUEL = 5_000_000
"""Instructions of one rendering, some 0.1 s. A chat of 2,000 messages takes about 200,000."""
_ROOM_CHARS = 1 << 20  # that a template may add to what the client sent
_generation = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")  # marks answers for training: transformers' own tag
_escaped = re.compile(r"\\u(fd[de][0-9a-f])")
_PROBE = "weir_probe"


class ChatTemplate:
    """`specials` are texts of tokens by name, such as `bos_token`, which templates read."""

    def __init__(self, source: str, specials: Mapping[str, str], control: ControlTokens) -> None:
        """Raises ChatTemplateError."""
        self.control = control
        self._specials = dict(specials)
        self._environment = Environment(
            templates={"chat": _generation.sub("", source)},
            filters={"tojson": _tojson},
            globals={"raise_exception": _raise, "strftime_now": _strftime_now},
            fuel=FUEL,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            auto_escape_callback=lambda name: False,
            debug=False,
        )
        self.takes_parts = self._reads_parts()
        self.takes_tools = self._reads_tools()

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        *,
        begin_answer: bool,
        end_after: str = "",
        extra: Mapping[str, Any],
    ) -> str:
        """The text of messages, tools and `extra` variables, which are all from the client and have marks in it for `control` to take
        back. `begin_answer` adds the beginning of the assistant's turn. The text ends
        after the last `end_after`, where that is given, for the model to go on with it.

        Raises ChatTemplateError.
        """
        if tools and not self.takes_tools:
            raise ChatTemplateError("the model's chat template has no place for tools")
        mark = self.control.mark_all
        variables = {
            **mark(dict(extra)),
            "messages": mark(messages),
            "tools": mark(tools) or None,
            "documents": None,
            "add_generation_prompt": begin_answer,
            **self._specials,
        }
        text = self._render(variables, _length(messages) + _length(tools))
        if end_after:
            last = self.control.mark(end_after)
            end = text.rfind(last)
            if end < 0:
                raise ChatTemplateError("the model's chat template changes the text that the answer should continue")
            text = text[: end + len(last)]
        return text

    def _render(self, variables: dict[str, Any], sent_chars: int) -> str:
        try:
            text = self._environment.render_template("chat", **variables)
        except (TemplateError, ChatTemplateError) as error:
            raise ChatTemplateError(self.control.unmark(_reason(error))) from None
        if len(text) > 4 * sent_chars + _ROOM_CHARS:
            raise ChatTemplateError(f"the template made {len(text)} characters of {sent_chars}, which is too much")
        return text

    def _reads_parts(self) -> bool:
        """Whether the template lays out a content that is a list of parts, as vLLM's "openai" format
        (`vllm/renderers/hf.py`); others get its texts, joined by line ends. Raises ChatTemplateError if it is no template.
        """
        variables = {"messages": [{"role": "user", "content": [{"type": "text", "text": _PROBE}]}], "tools": None}
        try:
            text = self._environment.render_template("chat", **variables, add_generation_prompt=True, **self._specials)
        except ChatTemplateError:
            return False
        except TemplateError as error:
            if error.kind in ("SyntaxError", "OutOfFuel"):
                raise ChatTemplateError(_reason(error)) from None
            return False
        return _PROBE in text and "'text'" not in text and '"text"' not in text

    def _reads_tools(self) -> bool:
        tool = {"type": "function", "function": {"name": _PROBE, "description": "", "parameters": {}}}
        variables = {"messages": [{"role": "user", "content": "a"}], "tools": [tool]}
        try:
            text = self._environment.render_template("chat", **variables, add_generation_prompt=True, **self._specials)
        except (TemplateError, ChatTemplateError):
            return False
        return _PROBE in text


def _raise(message: str) -> None:
    """The template says that it cannot lay these messages out."""
    raise ChatTemplateError(str(message))


def _reason(error: BaseException) -> str:
    return " ".join(str(error.args[0] if error.args else error).split())[:300]


def _strftime_now(layout: str) -> str:
    return time.strftime(layout, time.localtime())


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """As transformers: without the escapes for HTML that Jinja's own has."""
    text = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=tuple(separators) if separators else None,
        sort_keys=sort_keys,
    )
    return _escaped.sub(lambda match: chr(int(match[1], 16)), text) if ensure_ascii else text


def _length(value: Any) -> int:
    """Characters of all texts in a JSON value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _length(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_length, value))
    return 8
