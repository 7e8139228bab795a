from pathlib import Path

import pytest

from forecasting.simulate import compiled


def test_machine_code_is_kept_where_the_settings_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert Path(compiled._cache_folder()).parent == tmp_path


def test_where_nothing_can_be_kept_each_process_compiles_for_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert compiled._cache_folder() == ""
    monkeypatch.setattr(compiled, "_FOLDER", "")

    def doubled(value: int) -> int:
        return 2 * value

    assert compiled.compiled(doubled)(21) == 42
