from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from inference.backends.credentials import Credentials
from inference.backends.openai.connector import OpenAIConnector
from inference.backends.openai.link import HttpLink
from inference.backends.openai.model import OpenAIModel
from inference.contract.snapshot import Endpoint, Pool
from tests.support.servers.calls import Connect
from tests.support.servers.metrics_page import MetricsPage
from tests.support.servers.standins import MODEL


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """`connect(url, server="vllm")` gives a model there; more are fields of its pool. Secrets are files of `tmp_path`."""
    links: list[HttpLink] = []

    def begin(url: str, model: str = MODEL, metrics: str = "", **fields: Any) -> OpenAIModel:
        endpoint = Endpoint("r0", url=url, metrics=metrics)
        pool = Pool("pool", "variant", "local", model, "", (endpoint,), protocol="openai", **fields)
        connector = OpenAIConnector(Credentials(tmp_path, {}))
        links.append(connector.connect(pool, endpoint, 1.0))
        return connector.backend(links[-1], pool, endpoint)

    yield begin
    for link in links:
        link.close()


@pytest.fixture
async def page() -> AsyncIterator[MetricsPage]:
    page = await MetricsPage().start()
    yield page
    await page.stop()
