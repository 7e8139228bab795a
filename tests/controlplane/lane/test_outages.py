"""Each line has one result though a lane pauses past its lease, its database ends and comes back, or its disk is full."""

import os
import random
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest
from openai.types import Batch

from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import Stack, a_fleet, a_line, ended, lines_of, start_stack, submit
from tests.support.postgresql import postgresql
from tests.support.start import Start
from tests.support.wait import eventually_async

pytestmark = pytest.mark.processes
PLACES = 8
RESTARTS, OF_EACH = 40, 40  # lines between two
DISK_BYTES, FILE_BYTES = 4 << 20, 300_000


async def has_each_once(stack: Stack, batch: Batch, number: int) -> None:
    async with stack.client(max_retries=20) as client:
        output = await lines_of(client, batch.output_file_id)
    assert batch.status == "completed" and batch.error_file_id is None
    assert [int(it["custom_id"]) for it in output] == list(range(number))
    assert batch.request_counts is not None and batch.request_counts.completed == number
    assert batch.usage is not None and batch.usage.output_tokens == 3 * number


@pytest.mark.soak
async def test_a_lane_that_pauses_past_its_lease_finds_its_lines_run_by_another(start: Start, tmp_path: Path) -> None:
    with ExitStack() as stack:
        model = EchoServer().start()
        stack.callback(model.stop)
        lanes = start_stack(start, tmp_path, a_fleet(model.url), lane_concurrency=str(PLACES), lane_lease_s="2")
        model.hold()
        async with lanes.client(max_retries=20) as client:
            batch = await submit(client, [a_line(f"{it}", f"text {it}") for it in range(PLACES)])
            await eventually_async(lambda: model.running == PLACES)
            os.kill(lanes.lane.pid, signal.SIGSTOP)
            other = lanes.another()
            await eventually_async(lambda: model.asked.total() == 2 * PLACES)
            os.kill(lanes.lane.pid, signal.SIGCONT)
            model.let_go()  # both get answers to the same lines
            batch = await ended(client, batch)
            assert other.alive and lanes.lane.alive
        await has_each_once(lanes, batch, PLACES)


@pytest.mark.soak
async def test_a_database_that_ends_at_once_and_comes_back_loses_nothing(start: Start, tmp_path: Path) -> None:
    draw, number = random.Random(5), RESTARTS * OF_EACH + OF_EACH
    with ExitStack() as stack:
        database = stack.enter_context(postgresql())
        model = EchoServer(delay_s=0.02).start()
        stack.callback(model.stop)
        lanes = start_stack(start, tmp_path, a_fleet(model.url), database_url=database.url, lane_concurrency="4")
        async with lanes.client(max_retries=20) as client:
            batch = await submit(client, [a_line(f"{it}", f"text {it}") for it in range(number)])
            for restart in range(RESTARTS):
                wanted = restart * OF_EACH + draw.randint(1, OF_EACH)
                await eventually_async(lambda wanted=wanted: model.answered.total() >= wanted)
                database.stop()
                with pytest.raises(openai.InternalServerError) as refused:
                    await client.with_options(max_retries=0).batches.retrieve(batch.id)
                assert refused.value.status_code == 503
                database.start()
            batch = await ended(client, batch)
        await has_each_once(lanes, batch, number)


@pytest.mark.soak
async def test_a_full_disk_refuses_files_and_batches_go_on_once_there_is_room(start: Start, tmp_path: Path) -> None:
    """The disk is one of the lane's own, in a namespace where it may mount."""
    objects = tmp_path / "objects"
    objects.mkdir()
    mount = f'mount -t tmpfs -o size={DISK_BYTES} tmpfs {objects} && exec "$@"'
    with ExitStack() as stack:
        model = EchoServer().start()
        stack.callback(model.stop)
        own_disk = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", sys.executable)
        settings = {"lane_objects": str(objects), "lane_concurrency": str(PLACES)}
        lanes = start_stack(start, tmp_path, a_fleet(model.url), python=own_disk, **settings)
        model.hold()
        async with lanes.client(max_retries=0) as client:
            batch = await submit(client, [a_line(f"{it}", f"text {it}") for it in range(PLACES)])
            await eventually_async(lambda: model.running == PLACES)
            files: list[str] = []
            for size in (FILE_BYTES, 4_096):  # until not even a page is left
                with pytest.raises(openai.InternalServerError) as refused:
                    while True:
                        file = ("fill", b"x" * size)
                        files.append((await client.files.create(file=file, purpose="user_data")).id)
                assert refused.value.status_code == 503
                assert "no room for files" in refused.value.message
            model.let_go()
            await eventually_async(lambda: model.answered.total() == PLACES)
            assert (await client.batches.retrieve(batch.id)).status == "in_progress"
            for file_id in files:
                await client.files.delete(file_id)
            batch = await ended(client, batch)
        await has_each_once(lanes, batch, PLACES)
        assert set(model.asked.values()) == {1}, "what could not be written was kept, and not asked for again"
