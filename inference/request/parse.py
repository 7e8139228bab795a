"""Reads a request's body, and makes a question of it."""

from inference.core import normalise
from inference.core.normalise import Operation, Question
from inference.core.openai import schema
from inference.core.openai.schema import ChatRequest, CompletionRequest
from inference.core.snapshot import Model


def parse(operation: Operation, body: bytes, max_messages: int) -> ChatRequest | CompletionRequest:
    """The body, checked. Raises ApiError."""
    return schema.decode_chat(body, max_messages) if operation == "chat" else schema.decode_completion(body)


def question_of(body: ChatRequest | CompletionRequest, model: Model) -> Question:
    if isinstance(body, ChatRequest):
        return normalise.chat(body, model.max_output_tokens)
    return normalise.completion(body, model.max_output_tokens)
