"""`manage.py collect` leaves hashed and compressed files, and does nothing when nothing changed."""

import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings


@pytest.fixture
def source(as_served: None, tmp_path: Path, settings: Settings) -> Path:
    folder = tmp_path / "source"
    (folder / "weir").mkdir(parents=True)
    (folder / "weir" / "page.css").write_text("body { color: black }\n" * 100)
    settings.STATICFILES_DIRS = [folder]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATIC_ROOT = tmp_path / "static"
    finders.get_finder.cache_clear()  # type: ignore[attr-defined]
    return folder


def collected(settings: Settings) -> set[str]:
    return {path.name for path in (Path(settings.STATIC_ROOT) / "weir").iterdir()}


def test_files_are_hashed_and_compressed(source: Path, settings: Settings) -> None:
    call_command("collect")
    hashed = [name for name in collected(settings) if re.fullmatch(r"page\.[0-9a-f]{12}\.css(\.br|\.gz)?", name)]
    assert len(hashed) == 3
    assert (Path(settings.STATIC_ROOT) / "staticfiles.json").is_file()


def test_a_second_run_touches_nothing_and_a_change_is_noticed(source: Path, settings: Settings) -> None:
    call_command("collect")
    manifest = Path(settings.STATIC_ROOT) / "staticfiles.json"
    before = manifest.stat().st_mtime_ns
    call_command("collect")
    assert manifest.stat().st_mtime_ns == before
    (source / "weir" / "page.css").write_text("body { color: white }\n" * 101)
    call_command("collect")
    assert manifest.stat().st_mtime_ns > before


def test_without_a_collection_files_are_served_from_where_they_lie(source: Path, settings: Settings) -> None:
    settings.SERVESTATIC_USE_FINDERS = True
    response = Client().get("/static/weir/page.css")
    assert response.status_code == 200
    assert b"".join(response).startswith(b"body")
