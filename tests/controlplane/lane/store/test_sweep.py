"""What lies where the lane keeps its bytes, and is not the lane's, keeps it from sweeping nothing."""

from pathlib import Path

import pytest

from controlplane.lane.objects import folder
from controlplane.lane.objects.folder import Folder
from controlplane.lane.objects.port import new_key
from controlplane.lane.store import files

pytestmark = pytest.mark.django_db


def test_what_nfs_has_left_is_left_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "GRACE_S", -1.0)
    objects, key = Folder(home / "lane"), new_key()
    for name in (f"files/{key}", "files/.nfs0001", "segments/.nfs0002"):
        (home / "lane" / name).write_bytes(b"x")
    (home / "lane/segments/7").mkdir()
    files.sweep(objects)
    left = sorted(it.name for it in (home / "lane").rglob("*") if it.name not in ("files", "segments"))
    assert left == [".nfs0001", ".nfs0002"]
