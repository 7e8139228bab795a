"""What the gateway and the worker process of a tokenizer send each other: messages of msgpack, each after its length."""

import struct
from typing import Literal

import msgspec

from inference.core.question import Question

LENGTH = struct.Struct("<I")


class Job(msgspec.Struct, array_like=True):
    """A question to count, and the text of its prompt if `wants_prompt`. Counting may stop past `enough` tokens."""

    question: Question
    template: Literal["auto", "chatml"]
    wants_prompt: bool
    enough: int


class Result(msgspec.Struct, array_like=True):
    """`exact`: whether the tokens are those that the model gets. `error` is for the client."""

    tokens: int = -1
    prompt: str = ""
    exact: bool = False
    error: str = ""


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
