"""The ChatML layout, on which chat models are commonly trained."""

from collections.abc import Iterable

from inference.core.question import Message


def render(messages: Iterable[Message]) -> str:
    """The messages as text, ending with the start of the assistant's turn. Only text is laid out."""
    turns = [f"<|im_start|>{message.role}\n{text_of(message)}<|im_end|>\n" for message in messages]
    return "".join(turns) + "<|im_start|>assistant\n"


def text_of(message: Message) -> str:
    """The text of a message, without its images."""
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text or "" for part in content)
