"""A batch as large as batches may be passes through gateway and lane in parts."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controlplane.lane.core.lines import MAX_INPUT_BYTES, MAX_REQUESTS
from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import a_fleet, a_line, ended, jsonl, start_stack
from tests.support.start import Start

MAX_GROWTH_BYTES = 120 << 20
pytestmark = [pytest.mark.processes, pytest.mark.soak]


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


def _lines() -> Iterator[bytes]:
    filler = "x" * (MAX_INPUT_BYTES // MAX_REQUESTS - 200)
    for number in range(MAX_REQUESTS):
        yield jsonl([a_line(f"{number}", f"text {number}", user=filler)])


async def test_a_batch_of_50000_lines_and_200_mb_takes_little_memory(start: Start, tmp_path: Path) -> None:
    model = EchoServer().start()
    try:
        stack = start_stack(start, tmp_path, a_fleet(model.url), lane_concurrency="32")
        pids = (stack.gateway.process.pid, stack.lane.pid)
        before = [psutil.Process(pid).memory_info().rss for pid in pids]
        path = tmp_path / "in.jsonl"
        with path.open("wb") as out:
            out.writelines(_lines())
        assert 0.9 * MAX_INPUT_BYTES < path.stat().st_size <= MAX_INPUT_BYTES
        async with stack.client() as client:
            file = await client.files.create(file=path, purpose="batch")
            batch = await client.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
            batch = await ended(client, batch)
            async with client.files.with_streaming_response.content(batch.output_file_id or "") as content:
                size = sum([len(part) async for part in content.iter_bytes()])
            assert size == (await client.files.retrieve(batch.output_file_id or "")).bytes
        growth = [_peak_bytes(pid) - was for pid, was in zip(pids, before, strict=True)]
    finally:
        model.stop()
    assert (batch.status, batch.request_counts.completed) == ("completed", MAX_REQUESTS)
    assert max(growth) < MAX_GROWTH_BYTES, growth
