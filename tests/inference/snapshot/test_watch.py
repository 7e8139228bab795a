"""Whatever arrives, a gateway that runs goes on with the last document that can be obeyed, also after a restart."""

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference.app import Gateway
from inference.backends.triton import connector
from inference.config import Config
from inference.contract import snapshot as policy
from inference.contract import snapshot_file
from inference.contract.rules import Degradation, Overlay, RouteRule
from inference.contract.snapshot import Endpoint
from inference.snapshot import snapshot_watch
from inference.wires.grpc import Channel
from tests.support.gateway.documents import random_documents
from tests.support.gateway.process import SMALL, a_snapshot

GIVEN = a_snapshot("127.0.0.1:9", endpoints_version=5)
STEP = Degradation(SMALL, "standard", 1, "short", max_output_tokens=8)


def config(folder: Path, **settings: Any) -> Config:
    return Config(home=folder, redis_url="", **settings)


async def test_the_last_good_document_survives_a_restart_without_any(tmp_path: Path) -> None:
    snapshot_file.write(tmp_path / "snapshot.json", GIVEN)
    first = Gateway(config(tmp_path))
    first.start()
    (tmp_path / "snapshot.json").write_bytes(b"{")
    await first.close()
    for path in (tmp_path / "snapshot.json", tmp_path / "away" / "snapshot.json"):
        again = Gateway(config(tmp_path, snapshot_path=path, snapshot_cache=tmp_path / "snapshot.kept.json"))
        again.start()
        assert (again.watch.version, again.watch.endpoints_version) == (GIVEN.version, 5)
        assert again.watch.error
        assert again.serving is not None
        await again.close()


async def test_a_folder_may_hold_the_file_as_a_mounted_config_map_does(tmp_path: Path) -> None:
    for name, version in (("..one", 1), ("..two", 2)):
        (tmp_path / name).mkdir()
        snapshot_file.write(tmp_path / name / "snapshot.json", msgspec.structs.replace(GIVEN, version=version))
    (tmp_path / "mounted").mkdir()
    link = tmp_path / "mounted" / "..data"
    link.symlink_to(tmp_path / "..one")
    (tmp_path / "mounted" / "snapshot.json").symlink_to(Path("..data") / "snapshot.json")
    gateway = Gateway(config(tmp_path, snapshot_path=tmp_path / "mounted"))
    gateway.start()
    assert gateway.watch.version == 1
    link.unlink()
    link.symlink_to(tmp_path / "..two")
    gateway.source.begin()
    assert gateway.watch.version == 2
    await gateway.close()


async def test_what_the_first_triton_needs_is_imported_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = list[Any]()
    monkeypatch.setattr(connector, "load", lambda: events.append(threading.current_thread()))
    watch = snapshot_watch.SnapshotWatch(None, lambda checked: events.append(checked.snapshot.version) or (), False)
    hosted = msgspec.structs.replace(GIVEN.pools[0], protocol="openai", endpoints=(Endpoint("r", url="http://a/v1"),))
    for version, pools in ((1, (hosted,)), (2, GIVEN.pools), (3, GIVEN.pools)):
        await watch.take(policy.encode(msgspec.structs.replace(GIVEN, version=version, pools=pools)))
    first, imported, *rest = events
    assert (first, rest) == (1, [2, 3])
    assert imported is not threading.current_thread()


async def test_an_overlay_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 1_800_000_000_000
    monkeypatch.setattr(snapshot_watch, "unix_ms", lambda: now_ms)
    overlay = Overlay(7, "d1", now_ms + 1000, degradation=(STEP,))
    gateway = Gateway(config(tmp_path))
    gateway.start()
    text = policy.encode(msgspec.structs.replace(GIVEN, overlay=overlay))
    assert gateway.watch.offer(text)

    def steps() -> list[str]:
        assert gateway.serving is not None
        plans = gateway.serving.models[SMALL].plans
        step = (plans.only or plans.choose("standard", "", "", lambda: 0)).step
        return [step.name] if step else []

    gateway.watch.expire()
    assert (steps(), gateway.watch.overlay_version) == (["short"], 7)
    now_ms += 1000
    gateway.watch.expire()
    assert (steps(), gateway.watch.overlay_version, gateway.watch.version) == ([], 0, GIVEN.version)
    assert gateway.watch.offer(policy.encode(msgspec.structs.replace(GIVEN, version=2, overlay=overlay)))
    assert (steps(), gateway.watch.version) == ([], 2), "one that comes too late is not obeyed at all"
    await gateway.close()


async def test_an_older_document_never_replaces_a_newer_one(tmp_path: Path) -> None:
    """As where two web processes answer in turn, and the database of one is away. A new leader, or a database that was set back,
    begins with lower versions, and is obeyed all the same.
    """
    gateway = Gateway(config(tmp_path))
    gateway.start()

    def offered(version: int, overlay: int, written_ms: int) -> tuple[bool, int, int]:
        document = msgspec.structs.replace(
            GIVEN, version=version, overlay=Overlay(overlay, "d", 2**52, degradation=(STEP,)), written_ms=written_ms
        )
        obeyed = gateway.watch.offer(policy.encode(document))
        return obeyed, gateway.watch.version, gateway.watch.overlay_version

    assert offered(5, 9, 2_000) == (True, 5, 9)
    assert offered(4, 12, 1_000) == (False, 5, 9)
    assert offered(5, 8, 1_999) == (False, 5, 9)
    assert "it is older than the document in force, by 0.001 s" in gateway.watch.error
    assert offered(1, 1, 2_001) == (True, 1, 1)
    assert (gateway.watch.error, offered(2, 2, 0)) == ("", (True, 2, 2)), "one that somebody writes by hand"
    await gateway.close()


async def test_a_draining_replica_stays_the_same_replica(tmp_path: Path) -> None:
    gateway = Gateway(config(tmp_path))
    gateway.start()
    two = a_snapshot("127.0.0.1:9", "127.0.0.1:10")
    gateway.watch.offer(policy.encode(two))
    before = gateway.fleet.pools[SMALL].replicas
    leaving = msgspec.structs.replace(two.pools[0].endpoints[0], draining=True)
    pool = msgspec.structs.replace(two.pools[0], endpoints=(leaving, two.pools[0].endpoints[1]))
    after = msgspec.structs.replace(two, pools=(pool, two.pools[1]), endpoints_version=1)
    gateway.watch.offer(policy.encode(after))
    assert gateway.fleet.pools[SMALL].replicas == before
    assert [replica.leaving for replica in before] == [True, False]
    gateway.watch.offer(policy.encode(msgspec.structs.replace(two, endpoints_version=2)))
    assert [replica.leaving for replica in before] == [False, False], "a drain that is taken back"
    await gateway.close()


async def test_who_comes_late_to_a_pool_of_an_older_snapshot_closes_no_link_of_the_newest(tmp_path: Path) -> None:
    """A comparison of similar answers, a refresh or a fallback holds a pool that was chosen before a new snapshot."""
    gateway = Gateway(config(tmp_path))
    gateway.start()
    gateway.watch.offer(policy.encode(GIVEN))
    chosen = gateway.fleet.pools[SMALL]
    gateway.watch.offer(policy.encode(msgspec.structs.replace(GIVEN, endpoints_version=6)))
    for _ in range(2):
        chosen.hold()
        chosen.release()
    link = chosen.replicas[0].backend.link
    assert isinstance(link, Channel)
    assert not link._closed
    assert gateway.watch.offer(policy.encode(msgspec.structs.replace(GIVEN, endpoints_version=7))), gateway.watch.error
    gateway.watch.offer(policy.encode(a_snapshot("127.0.0.1:10", endpoints_version=8)))
    assert link._closed, "no pool has the replica any more"
    await gateway.close()


async def test_a_thousand_random_documents_never_stop_a_gateway(tmp_path: Path) -> None:
    """Some are obeyed and most are not. After each of them there is one in force, and the next good one is obeyed."""
    full = msgspec.structs.replace(
        GIVEN,
        rules=(RouteRule("p/r", SMALL, tiers=("standard",), min_prompt_tokens=3),),
        overlay=Overlay(7, "d1", 2**52, degradation=(STEP,), canary={SMALL: {SMALL: 100}}),
    )
    text = policy.encode(full)
    gateway = Gateway(config(tmp_path))
    gateway.start()
    assert gateway.watch.offer(text)
    obeyed = 0
    for raw in random_documents(text, 1000, seed=13):
        obeyed += gateway.watch.offer(raw, keep=False)
        assert gateway.serving is not None
        for _, _, plans, *_ in gateway.serving.models.values():
            assert (plans.only or plans.choose("standard", "alice", "", lambda: 5)).routes
    assert 10 < obeyed < 990
    assert gateway.watch.offer(policy.encode(msgspec.structs.replace(full, version=77)))
    assert (gateway.watch.version, gateway.watch.error) == (77, "")
    await gateway.close()
