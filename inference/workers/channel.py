"""What a worker and the supervisor say to each other, over a socket pair: messages of msgpack after their length."""

import asyncio
import socket
from typing import Literal

import msgspec

from inference.observability.families import Family

_LENGTH_BYTES = 4


class Report(msgspec.Struct, frozen=True, tag="report"):
    """The worker's metrics: a sign of life too."""

    families: list[Family]


class Scrape(msgspec.Struct, frozen=True, tag="scrape"):
    """A worker wants the metrics of all."""

    number: int


class Scraped(msgspec.Struct, frozen=True, tag="scraped"):
    """The metrics of all workers, for the `Scrape` of that number."""

    number: int
    families: list[Family]


class Order(msgspec.Struct, frozen=True, tag="order"):
    """`report`: send a report now. `drain`: end as on SIGTERM. `hurry`: end at once."""

    do: Literal["report", "drain", "hurry"]


Message = Report | Scrape | Scraped | Order
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Channel:
    """One end. Sending never waits: messages are few, and a peer that does not read is ended by the supervisor."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, end: socket.socket) -> "Channel":
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: Message) -> None:
        if not self._writer.is_closing():
            body = _encode(message)
            self._writer.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)

    async def receive(self) -> Message | None:
        """The next message; None when the peer has ended."""
        try:
            size = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
            return _decoder.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return None

    def close(self) -> None:
        self._writer.close()
