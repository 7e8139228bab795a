"""What the gateway and the worker process of a tokenizer send each other: messages of msgpack, each after its length."""

import struct
from typing import Literal

import msgspec

from inference.core.question import Question

LENGTH = struct.Struct("<I")


class Count(msgspec.Struct, array_like=True, tag=True):
    """A question to count, with the text of its prompt if `wants_prompt`, and its token ids if `wants_ids`. Counting may stop past
    `enough` tokens; then there are no ids.
    """

    question: Question
    template: Literal["auto", "chatml"]
    wants_prompt: bool
    enough: int
    wants_ids: bool = False


class Decode(msgspec.Struct, array_like=True, tag=True):
    """Token ids of an answer, whose text is wanted from the id at `start` on. Those before it are there because the text of a token can
    depend on them.
    """

    ids: list[int]
    start: int
    skip_special_tokens: bool = True


Job = Count | Decode


class Result(msgspec.Struct, array_like=True):
    """`exact`: whether the tokens are those that the model gets; of a text, whether it ends with a whole character. `error` is for the
    client.
    """

    tokens: int = -1
    prompt: str = ""
    exact: bool = False
    error: str = ""
    ids: list[int] = []


class Loaded(msgspec.Struct, array_like=True):
    """The first message of a worker. `control` are the texts of control tokens. `error` says why it cannot serve, and the
    worker then ends; `files`: because of the files of the folder.
    """

    control: list[str] = []
    error: str = ""
    files: bool = False


def frame(message: msgspec.Struct) -> bytes:
    raw = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(raw)) + raw
