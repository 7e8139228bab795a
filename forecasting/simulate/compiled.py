"""Compiles functions to machine code with numba.

The first call compiles, which takes seconds. The result is kept in `NUMBA_CACHE_DIR` where it is set, else in the user's cache
folder; where neither can be written to, each process compiles for itself. Never in the source tree. numba compares a cached
function with its own file alone, so the folder's name is a digest of all sources of this package.
"""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> str:
    """A folder that can be written to, or ""."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    given = os.environ.get("NUMBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "weir"
    folder = Path(given).expanduser() / f"simulate-{digest}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder) if os.access(folder, os.W_OK) else ""


_FOLDER = _cache_folder()


def compiled(function: F) -> F:
    """Compile without the interpreter's lock, so that it may run beside other threads. The function must check every index itself.

    It may not make an array: it is compiled without numba's reference counts, which took two thirds of the engine's time.
    """
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if _FOLDER:
        numba.config.CACHE_DIR = _FOLDER  # type: ignore[attr-defined]  # read while the function is decorated
    try:
        options: dict[str, Any] = {"cache": bool(_FOLDER), "nogil": True, "_nrt": False}
        return cast(F, numba.njit(**options)(function))
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
