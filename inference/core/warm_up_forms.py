"""What a warm-up asks of a model server."""

from inference.contract.snapshot import WarmUp
from inference.core.passing.request import Passed, made
from inference.core.question import Question


def forms(warm_up: WarmUp, *, passes: bool) -> tuple[Question | Passed, ...]:
    """The request in the forms that a server may take, the likeliest first. What a server with OpenAI's API is for is not known
    before it has answered: chats, texts or embeddings. Each gets its own name of the model. Another server gets the text as it
    is.
    """
    if not passes:
        return (
            Question(operation="text_completion", prompt=(warm_up.prompt,), max_tokens=warm_up.max_tokens),
            Question(operation="embeddings", input=(warm_up.prompt,)),
        )
    limited = {"model": "", "max_tokens": warm_up.max_tokens, "stream": True}
    messages = [{"role": "user", "content": warm_up.prompt}]
    return (
        made("/v1/chat/completions", "chat", {**limited, "messages": messages}),
        made("/v1/completions", "text_completion", {**limited, "prompt": warm_up.prompt}),
        made("/v1/embeddings", "embeddings", {"model": "", "input": [warm_up.prompt]}),
    )
