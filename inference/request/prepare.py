"""Counts a prompt's tokens, and makes what the model's server takes: the text of the prompt, or messages without control
tokens of clients.
"""

from contextlib import suppress

import msgspec

from inference.backends.fleet import PoolState
from inference.backends.port import Query
from inference.contract.snapshot import Model
from inference.core.backend_errors import BackendError
from inference.core.openai import errors
from inference.core.passing.request import Passed
from inference.core.question import Question
from inference.core.routing.need import ANYTHING
from inference.core.tools.forced import forced, is_forced
from inference.core.tools.formats import FORMATS
from inference.tokenizers.model_text import (
    UNCOUNTED,
    MessagesError,
    ModelText,
    Prepared,
    TextFailedError,
    TextMissingError,
    TextUnavailableError,
)

_ESTIMATE_FACTOR = 4
"""By so much the tokens of a prompt can exceed their estimate: a token has at least a byte, and 4 are estimated."""


async def prepare(query: Query, model: Model, text: ModelText, pool: PoolState, timeout_ms: int) -> Prepared:
    """Raises ApiError."""
    if isinstance(query, Passed):
        return await _judged(query, model, text, pool, timeout_ms)
    question, param = query, query.prompt_param
    wants_prompt = any(replica.backend.needs_prompt for replica in pool.replicas)
    wants_ids = any(replica.backend.needs_ids for replica in pool.replicas)
    if wants_prompt and question.tools and question.tool_choice != "none":
        question = _with_tools(question, model, pool)
    try:
        prepared = await text.prepare(
            question,
            wants_prompt=wants_prompt,
            enough=model.max_prompt_tokens,
            timeout_s=timeout_ms / 1000,
            wants_ids=wants_ids,
        )
    except MessagesError as error:
        raise errors.invalid(f"`{param}`: {error}.", param) from None
    except TextUnavailableError as error:
        message = f"The model {model.name!r} cannot be served now: its tokenizer is not in use. Try again in a moment."
        raise errors.unavailable(message, error.retry_after_s, "tokenizer", detail=str(error)) from None
    except TextMissingError:
        raise errors.refused_model(model.name) from None
    except TextFailedError as error:
        raise errors.model_failed(f"its tokenizer failed at this request: {error}") from None
    except TimeoutError:
        raise errors.stage_timeout("tokenizer", timeout_ms) from None
    return _within(prepared, question.max_tokens or 0, model, param)


async def _judged(passed: Passed, model: Model, text: ModelText, pool: PoolState, timeout_ms: int) -> Prepared:
    """What its server templates by itself is counted by the server, with its answer. Before, an estimate has to do, unless it
    leaves open whether the prompt is too long. Raises ApiError.
    """
    prepared = Prepared(passed, "", passed.prompt_tokens, "estimate")
    if not passed.is_one_prompt:
        return prepared
    if prepared.tokens * _ESTIMATE_FACTOR > model.max_prompt_tokens:
        if model.tokenizer == "server":
            prepared = await _counted(prepared, model, pool, timeout_ms)
        elif model.tokenizer != "estimate":
            alone = Question(operation="text_completion", prompt=tuple(passed.texts))
            with suppress(*UNCOUNTED):  # the server itself refuses what is too long
                counted = await text.prepare(
                    alone, wants_prompt=False, enough=model.max_prompt_tokens, timeout_s=timeout_ms / 1000
                )
                prepared = prepared._replace(tokens=counted.tokens, source=counted.source)
    return _within(prepared, passed.max_tokens or 0, model, passed.prompt_param)


def _within(prepared: Prepared, max_tokens: int, model: Model, param: str) -> Prepared:
    """Raises ApiError where the request is longer than its model takes."""
    surely = prepared.tokens // (_ESTIMATE_FACTOR if prepared.source == "estimate" else 1)
    if surely > model.max_prompt_tokens:
        raise errors.context_length(surely, model.max_prompt_tokens, param)
    if prepared.source != "estimate" and 0 < model.max_context_tokens < prepared.tokens + max_tokens:
        raise errors.context_exceeded(prepared.tokens, max_tokens, model.max_context_tokens, param)
    return prepared


def _with_tools(question: Question, model: Model, pool: PoolState) -> Question:
    """For a server that knows no tools: what lets the gateway read calls out of its text. Raises ApiError."""
    if is_forced(question):
        capabilities = pool.capabilities
        if capabilities.parameters.get("response_format", "refused") == "refused":
            raise errors.not_offered("tool_choice", capabilities.server)
        try:
            return forced(question)
        except ValueError as error:
            raise errors.invalid(f"`tool_choice`: {error}.", "tool_choice") from None
    if not model.tool_parser:
        raise errors.unsupported("tools", "its owner has to enter the model's tool parser in the fleet")
    if FORMATS[model.tool_parser].needs_special_tokens and question.skip_special_tokens is None:
        return msgspec.structs.replace(question, skip_special_tokens=False)
    return question


async def _counted(prepared: Prepared, model: Model, pool: PoolState, timeout_ms: int) -> Prepared:
    """With the server's count: a call of its own."""
    replica = pool.choose(ANYTHING, ())
    if replica is None:
        return prepared
    try:
        tokens = await replica.backend.count(prepared.question, timeout_ms / 1000)
    except (BackendError, TimeoutError):
        return prepared  # the server itself refuses what is too long
    return prepared if tokens is None else prepared._replace(tokens=tokens, source="server")
