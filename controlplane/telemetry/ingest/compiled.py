"""Compiles functions to machine code with numba.

The first call compiles, which takes seconds, and keeps the result in a cache folder: `NUMBA_CACHE_DIR` where it is set, else the user's
cache folder, else `WEIR_HOME` where that cannot be written to. Never in the source tree.
"""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def _user_folder() -> Path:
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "weir"
    try:
        user.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(os.environ.get("WEIR_HOME", ".weir")).expanduser().absolute() / "cache"
    return user


def _sources_digest() -> str:
    """numba compares a cached function with the file that defines it, and not with the files whose functions and constants it uses."""
    here = Path(__file__)
    sources = [here, *sorted((here.parent / "otlp" / "decode" / "kernel").glob("*.py"))]
    return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _cache_folder() -> Path:
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or _user_folder())
    name = f"kernel-{_sources_digest()}"
    if folder.name == name:  # this process has it from the one that started it
        return folder
    return folder / name


os.environ["NUMBA_CACHE_DIR"] = str(_cache_folder())  # read when numba is imported

import numba  # noqa: E402


def compiled(function: F) -> F:
    """Compile without the interpreter's lock, so that it may run beside other threads. The function must check every index itself."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
