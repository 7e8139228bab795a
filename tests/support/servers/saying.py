"""A server with OpenAI's API that says what a test wants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.servers.standins import VLlm


class Server(VLlm):
    """It answers with `text`, cut into `size` characters a chunk, each with its logprobs."""

    logprobs = True

    def __init__(self, text: str, size: int = 5) -> None:
        super().__init__()
        self.model = "m"
        self.tokens = tuple(text[at : at + size] for at in range(0, len(text), size))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Server"]:
        await self.start()
        try:
            yield self
        finally:
            await self.stop()
