"""Reads YAML files from folders and lists."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from controlplane.core.documents.reading import MAX_BYTES

SUFFIXES = (".yaml", ".yml")
MAX_FILES = 10_000


class FilesError(Exception):
    """Permanent: a named file or folder cannot be read."""


def read_files(paths: Iterable[str]) -> dict[str, str]:
    """Texts by path as given; of a folder all `.yaml` and `.yml` below it, hidden folders left out. Raises FilesError."""
    by_path: dict[str, str] = {}
    for path in paths:
        for file in _files(Path(path)):
            if len(by_path) >= MAX_FILES:
                raise FilesError(f"{path} has more than {MAX_FILES} files: name a smaller folder")
            by_path[str(file)] = _text(file)
    return by_path


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not files:
        raise FilesError(f"{path} has no {' or '.join(SUFFIXES)} file")
    yield from files


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_BYTES + 4).decode("utf-8-sig")
    except OSError as error:
        raise FilesError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FilesError(f"{file} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#x}") from None
