"""A client that asks the same again, and sees what the cache does."""

import secrets
from typing import Any

import openai

from tests.support.wait import eventually_async


class Bed:
    """A gateway whose model answers each request with another text."""

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self.client = client
        self.text = secrets.token_hex(8)

    async def ask(self, control: str = "", **headers: str) -> tuple[str, str, str]:
        """The cache's outcome, the text, and its age."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        raw = await self.client.chat.completions.with_raw_response.create(
            model="m",
            temperature=0,
            messages=[{"role": "user", "content": self.text}],
            extra_headers=named | ({"Cache-Control": control} if control else {}),
        )
        text = raw.parse().choices[0].message.content or ""
        return raw.headers["x-weir-cache"], text, raw.headers.get("age", "")


async def up(client: openai.AsyncOpenAI) -> bool:
    page: Any = await client.with_options(base_url=str(client.base_url).removesuffix("v1/")).get(
        "/readyz", cast_to=object
    )
    return str(page["cache"]) == "up"


async def stored(bed: Bed, text: str) -> None:
    """Wait until this is the answer that is stored."""

    async def is_it() -> bool:
        try:
            return (await bed.ask("max-age=1000000, only-if-cached"))[1] == text
        except openai.APIStatusError:
            return False

    await eventually_async(is_it)
