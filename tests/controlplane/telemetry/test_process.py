"""How the telemetry process handles faults of store, disk, Redis and ports, and how it ends."""

import asyncio
import re
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from controlplane.telemetry.core.query_types import Window
from tests.support.telemetry.otlp_payloads import request
from tests.support.telemetry.process import Run, Running, has_row
from tests.support.wait import eventually


def test_a_child_that_dies_is_started_again_and_said_so(restarted: Running) -> None:
    before = restarted.metric("weir_ingest_child_restarts_total")
    died = restarted.log.read_text().count("child.died")
    restarted.child("ingest.pipeline").kill()
    body = request(3).SerializeToString()
    assert restarted.post(body)[0] == 200
    eventually(partial(has_row, restarted, body), "rows come again")
    assert restarted.metric("weir_ingest_child_restarts_total") == before + 1
    assert restarted.log.read_text().count("child.died") == died + 1


def test_a_store_that_is_away_is_said_and_survived(restarted: Running) -> None:
    telemetry = restarted
    lost, returned = (telemetry.log.read_text().count(f"store.{how}") for how in ("lost", "returned"))
    telemetry.kill_child("store")
    bodies = [request(5).SerializeToString() for _ in range(20)]
    assert [telemetry.post(body)[0] for body in bodies] == [200] * 20

    def missed() -> bool:
        telemetry.kill_child("store")  # one that came back before anybody missed it
        return telemetry.readiness()["store"] == "away"

    eventually(missed, "it says that the store is away")
    assert telemetry.get("/readyz")[0] == 200 and telemetry.metric("weir_store_reachable") == 0
    assert telemetry.metric("weir_ingest_behind_seconds") > 0
    eventually(lambda: telemetry.readiness()["store"] == "ok", "it says that the store is back")
    eventually(lambda: all(has_row(telemetry, body) for body in bodies), "all requests have their rows")
    log = telemetry.log.read_text()
    assert log.count("store.lost") == lost + 1 and log.count("store.returned") > returned


def test_it_scrapes_its_own_store(telemetry: Running) -> None:
    def seen() -> bool:
        with telemetry.store() as store:
            now_ns = time.time_ns()
            states = store.scrapes.targets(Window(now_ns - 10**12, now_ns))
        return [(one.job, one.up) for one in states] == [("store", True)]

    eventually(seen, "the store's page was read, and its samples stored")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 MiB, half of which the store leaves free."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system of its own needs root: run this test in a container")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_store_whose_disk_is_full_loses_nothing(small_disk: Path, run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home-0"
    home.mkdir()
    (home / "store").symlink_to(small_disk)
    telemetry = run().ready()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(2**16))
    bodies = [request(200).SerializeToString() for _ in range(20)]
    assert [telemetry.post(body)[0] for body in bodies] == [200] * 20
    eventually(lambda: "NOT_ENOUGH_SPACE" in telemetry.log.read_text(), "it says that there is no room")
    filler.unlink()
    eventually(lambda: all(has_row(telemetry, body) for body in bodies), "all that was taken has rows")


def test_a_store_whose_disk_became_read_only_loses_nothing(small_disk: Path, run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home-0"
    home.mkdir()
    (home / "store").symlink_to(small_disk)
    telemetry = run().ready()
    subprocess.run(["mount", "--bind", small_disk, small_disk], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", small_disk], check=True)
    bodies = [request(200).SerializeToString() for _ in range(20)]
    assert [telemetry.post(body)[0] for body in bodies] == [200] * 20
    try:
        eventually(lambda: bool(re.search("(store.lost|_refused).*", telemetry.log.read_text())), "it says so")
    finally:
        subprocess.run(["umount", small_disk], check=True)
    eventually(lambda: all(has_row(telemetry, body) for body in bodies), "all that was taken has rows", within_s=60)
    assert re.search("store.lost.*Read-only file system", telemetry.log.read_text())
    assert not (home / "spool" / "refused.jsonl").exists()


def test_two_on_one_home_or_one_port_get_one_clear_sentence(guarded: Running, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"another telemetry process uses .*WEIR_HOME"):
        Running(guarded.home).start()
    for name, port in (("otlp_http_port", guarded.http_port), ("otlp_grpc_port", guarded.grpc_port)):
        with pytest.raises(AssertionError, match=f"WEIR_{name.upper()}={port} .* cannot be bound"):
            Running(tmp_path / name, **{name: port}).start()


def test_open_pages_are_told_that_there_is_something_new(restarted: Running, redis_url: str) -> None:
    from channels_redis.pubsub import RedisPubSubChannelLayer

    async def told() -> dict[str, object]:
        layer = RedisPubSubChannelLayer(hosts=[redis_url], prefix="weir")
        channel = await layer.new_channel()
        await layer.group_add("live", channel)
        sent = await asyncio.to_thread(restarted.post, request(4, traces=2).SerializeToString())
        assert sent[0] == 200
        async with asyncio.timeout(120):
            message: dict[str, object] = await layer.receive(channel)
        await layer.flush()
        return message

    message = asyncio.run(told())
    assert (message["type"], message["requests"]) == ("live.changed", 2)
    assert isinstance(message["newest_ns"], int) and message["newest_ns"] > 10**18
