import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pytest_django import Settings

from controlplane.config.secrets import new_secret, read_or_make_secret, read_secret, write_secret
from controlplane.core import keyring
from controlplane.core.encryption import SealError


def test_a_secret_is_made_once_and_then_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret-key"
    made = read_or_make_secret(path)
    assert len(made) >= 43  # 256 bits in base 64
    assert read_or_make_secret(path) == made
    assert path.stat().st_mode & 0o777 == 0o600


def test_whoever_starts_at_the_same_moment_gets_the_same_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", iter(range(1000, 2000)).__next__)  # as separate processes
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: read_or_make_secret(tmp_path / "new" / "secret-key"), range(40)))
    assert len(set(made)) == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["secret-key"]


def test_an_empty_file_is_said_and_not_used(tmp_path: Path) -> None:
    (tmp_path / "secret-key").touch()
    with pytest.raises(OSError, match="remove it"):
        read_or_make_secret(tmp_path / "secret-key")


def test_a_disk_that_takes_no_key_is_said_and_nothing_is_left_there(tmp_path: Path, settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"home": tmp_path, "encryption_keys": ""})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(SealError) as raised:
            keyring.to_seal(lambda: False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "encryption-keys cannot be written (File too large): make room there" in str(raised.value)
    assert list(tmp_path.iterdir()) == []
    assert keyring.to_seal(lambda: False)


def test_replacing_a_secret_closes_a_file_that_was_open_to_all(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    write_secret(path, "new")
    assert (read_secret(path), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_no_two_secrets_are_alike() -> None:
    assert len({new_secret("weir_") for _ in range(100)}) == 100
