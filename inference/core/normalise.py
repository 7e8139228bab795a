"""Makes the model's question from a client's request.

The model gets exactly what is hashed, so two requests with one cache key are the same question by construction.
Unified: line ends; white space around a chat message (inside one it may be code, and stays); a list of text parts and
the same text as a string; defaults and their absence; `max_tokens` and `max_completion_tokens`; a seed at temperature
0, where nothing is drawn. Dropped: fields that cannot change the answer (`user`, `metadata`, `stream`, …).
"""

from typing import Literal, NamedTuple

from inference.core.openai.schema import ChatRequest, CompletionRequest, text_of

Operation = Literal["chat", "text_completion"]
NO_SEED = -1
_DEFAULT_TEMPERATURE = 1.0


class Question(NamedTuple):
    """Everything that decides the answer, besides the model itself. `max_tokens` is output tokens; `seed` is -1 for none."""

    operation: Operation
    prompt: str
    max_tokens: int
    temperature: float
    seed: int

    @property
    def deterministic(self) -> bool:
        """Whether the same model gives the same answer again."""
        return self.temperature == 0 or self.seed != NO_SEED


def chat(request: ChatRequest, max_output_tokens: int) -> Question:
    """The messages in the ChatML layout, on which chat models are commonly trained, ending with the start of the
    assistant's turn.
    """
    turns = [
        f"<|im_start|>{message.role}\n{_lines(text_of(message)).strip()}<|im_end|>\n" for message in request.messages
    ]
    return _question("chat", "".join(turns) + "<|im_start|>assistant\n", request, max_output_tokens)


def completion(request: CompletionRequest, max_output_tokens: int) -> Question:
    """The prompt with unified line ends. White space at its end is part of the question."""
    prompt = request.prompt if isinstance(request.prompt, str) else str(request.prompt[0])
    return _question("text_completion", _lines(prompt), request, max_output_tokens)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _question(
    operation: Operation, prompt: str, request: ChatRequest | CompletionRequest, max_output_tokens: int
) -> Question:
    temperature = _DEFAULT_TEMPERATURE if request.temperature is None else abs(request.temperature)  # abs: -0.0 is 0
    seed = NO_SEED if request.seed is None or temperature == 0 else request.seed
    limit = request.output_limit
    return Question(
        operation, prompt, max_output_tokens if limit is None else min(limit, max_output_tokens), temperature, seed
    )
