"""What a warm-up asks of a model server."""

from inference.contract.snapshot import WarmUp
from inference.core.question import Message, Question


def forms(warm_up: WarmUp, *, needs_prompt: bool) -> tuple[Question, ...]:
    """The request in the forms that a server may take, the likeliest first. What a server with OpenAI's API is for is not known
    before it has answered: chats, texts or embeddings. A server that `needs_prompt` gets the text as it is.
    """
    text = Question(operation="text_completion", prompt=(warm_up.prompt,), max_tokens=warm_up.max_tokens)
    if needs_prompt:
        return (text,)
    messages = (Message("user", warm_up.prompt),)
    chat = Question(operation="chat", messages=messages, max_tokens=warm_up.max_tokens)
    return chat, text, Question(operation="embeddings", input=(warm_up.prompt,))
