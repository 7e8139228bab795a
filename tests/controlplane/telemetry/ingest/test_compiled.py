"""The caches of compiled code belong to their sources."""

import os
import time
from pathlib import Path

import pytest

from controlplane.telemetry.ingest import compiled, native


def test_a_process_and_its_children_use_one_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = compiled._cache_folder()
    assert folder.parent == tmp_path
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    assert compiled._cache_folder() == folder


def test_other_sources_of_the_kernel_have_another_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "compiled.py"
    kernel = tmp_path / "otlp" / "decode" / "kernel" / "fields.py"
    kernel.parent.mkdir(parents=True)
    monkeypatch.setattr(compiled, "__file__", str(source))
    names = set()
    for text in ("one", "two"):
        source.write_text("")
        kernel.write_text(text)
        names.add(compiled._cache_folder().name)
    assert len(names) == 2


def test_a_build_is_kept_as_long_as_it_is_used(tmp_path: Path) -> None:
    used, unused = tmp_path / "native-used", tmp_path / "native-unused"
    for build in (used, unused):
        build.mkdir()
        (build / "module.so").touch()
    old_s = time.time() - native.KEPT_S - 1
    os.utime(unused, (old_s, old_s))
    native._delete_unused(tmp_path)
    assert used.exists() and not unused.exists()
